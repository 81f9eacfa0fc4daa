"""The page of evaluations: the figures of reports that `retrieval-worker evaluate` wrote, and no query of theirs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.command_line import command_line
from tests.integration.inspecting import served, settings_of, visitor

from worker.core.ranking.measures import measure_title
from worker.inspector.view.evaluation import evaluation_view
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from worker.settings import Settings

    Serve = Callable[[Path], Any]


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A report that compares two rankings of twelve queries."""
    qrels, first, second = (tmp_path / name for name in ("qrels", "first", "second"))
    qrels.write_text("".join(f"secret{i} 0 d{i} 1\n" for i in range(12)))
    for file, places in ((first, (3, 1, 2)), (second, (1, 1, 2))):
        lines = (
            f"secret{i} Q0 {f'd{i}' if rank == places[i % 3] else f'x{rank}'} {rank} {9 - rank} s\n"
            for i in range(12)
            for rank in (1, 2, 3)
        )
        file.write_text("".join(lines))
    folder = tmp_path / "reports"
    folder.mkdir()
    files = ("--run", str(first), "--run", str(second), "--qrels", str(qrels))
    done = command_line(capsys, dict(os.environ))("evaluate", *files, "--report", str(folder / "first.json"))
    assert done.returncode == 0, done.stderr
    return folder / "first.json"


@pytest.fixture
def serve(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> Serve:
    """Serves the pages with reports of a place."""

    @contextlib.contextmanager
    def serving(place: Path | None) -> Iterator[str]:
        settings = settings_of(make_settings, database, tmp_path)
        shown = settings.inspector.model_copy(update={"evaluations": "" if place is None else str(place)})
        settings = settings.model_copy(update={"inspector": shown})
        with (
            contextlib.closing(Engine(settings, time.perf_counter)) as engine,
            served(engine, settings) as url,
        ):
            yield url

    return serving


def test_all_figures_of_a_report_are_shown_and_no_query(report: Path, serve: Serve) -> None:
    """Each measure of each system with its interval, each comparison; whose queries they were is nobody's to read."""
    whole = json.loads(report.read_text())
    with serve(report.parent) as url, visitor(url, "bob") as bob:
        text = bob.get("/evaluate").text
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", text)
    shown = [(name, re.findall(r'title="([^"]+)"', cells)) for name, cells in rows]
    expected = [
        (measure_title(one), [repr(system["figures"][one]["mean"]) for system in whole["systems"]])
        for one in whole["measures"]
    ]
    assert shown[: len(expected)] == expected
    (comparison,) = whole["comparisons"]
    found = {name: (repr(one["mean"]), repr(one["p"])) for name, one in comparison["differences"].items()}
    assert {name: tuple(values) for name, values in shown[len(expected) :]} == {
        measure_title(name): values for name, values in found.items()
    }
    for one in comparison["differences"].values():
        assert f"{one['low']:+.3f} to {one['high']:+.3f}" in text
    assert all(f"{one['low']:.2f}–{one['high']:.2f}" in text for one in whole["systems"][0]["figures"].values())
    assert "secret" not in text


def test_the_newest_of_a_folder_is_shown_and_others_by_name(report: Path, serve: Serve) -> None:
    """A name leads to no other file."""
    other = report.with_name("other.json")
    other.write_text(json.dumps(json.loads(report.read_text()) | {"source": "/home/me/older-queries.jsonl"}))
    os.utime(other, (1, 1))
    report.parent.parent.joinpath("outside.json").write_bytes(report.read_bytes())
    with serve(report.parent) as url, visitor(url) as alice:
        assert "older-queries" not in alice.get("/evaluate").text
        shown = alice.get("/evaluate", params={"report": "other.json"}).text
        assert "older-queries.jsonl" in shown
        assert "/home/me" not in shown
        for name in ("../outside.json", "no-such.json", str(report)):
            assert alice.get("/evaluate", params={"report": name}).status_code == 404


def test_without_a_report_a_sentence_says_how_to_get_one(tmp_path: Path, serve: Serve) -> None:
    """Without the setting, without the file, in an empty folder; a file that is none is no stack trace."""
    wrong = tmp_path / "wrong.json"
    for content in ("[]", "{", '{"report": "evaluation"}', "[" * 100_000, '{"report": NaN}'):
        wrong.write_text(content)
        with pytest.raises(ValueError, match="not a report"):
            evaluation_view(wrong.read_bytes())
    for place, status, said in (
        (None, 200, "inspector.evaluations"),
        (tmp_path / "none.json", 200, "evaluate --report"),
        (wrong, 503, "can&#39;t be read"),
    ):
        with serve(place) as url:
            assert httpx.get(f"{url}/evaluate").headers["location"] == "/sign-in?next=%2Fevaluate"
            with visitor(url) as alice:
                response = alice.get("/evaluate")
        assert (response.status_code, said in response.text) == (status, True), response.text
