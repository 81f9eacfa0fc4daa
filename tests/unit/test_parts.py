"""Packages that settings need and an installation lacks: found at the start, reported for the queues that need them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.artifacts import Artifacts
from worker.adapters.parts import check_parts, lacking
from worker.app import served_queues

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.settings import Settings

    Make = Callable[..., Settings]

LEGS = [{"kind": "dense"}]


def reranked(by: str, **reranker: str) -> dict[str, Any]:
    return {"profiles": {"p": {"legs": LEGS, "rerank": by}}, "reranker": reranker}


@pytest.mark.parametrize(
    ("changes", "part", "needed_by", "says"),
    [
        ({"embedder": {"kind": "openai"}}, "embedder", "retrieval", "RETRIEVAL_WORKER_EMBEDDER__API_KEY"),
        ({"language_model": {"kind": "openai"}}, "language model", "pipeline", "LANGUAGE_MODEL__API_KEY"),
        ({"language_model": {"tokenizer": "/no/such"}}, "language model", "pipeline", "language_model.tokenizer"),
        (reranked("http"), "reranker", "pipeline", "reranker.url is missing: profiles.p"),
        (reranked("cross_encoder"), "reranker", "pipeline", "reranker.model is missing: profiles.p"),
        (reranked("cross_encoder", model="m"), "reranker", "pipeline", r"retrieval-worker[rerank]"),
        ({"artifacts": {"url": "nosuchstore://x"}}, "artifacts", "retrieval", "artifacts.url"),
    ],
)
def test_a_part_that_can_not_be_had_stops_the_workers_that_need_it(
    make_settings: Make,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    part: str,
    needed_by: str,
    says: str,
) -> None:
    """A reranker is of the pipeline only: a worker of the other queue answers its jobs."""
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    settings = make_settings(**changes)
    (lack,) = lacking(settings)
    assert lack.part == part
    assert says in lack.problem
    with pytest.raises(SettingsError, match=r"\w"):
        check_parts(settings, ["pipeline"])
    if needed_by == "pipeline":
        check_parts(settings, ["retrieval"])
    else:
        with pytest.raises(SettingsError, match=r"\w"):
            check_parts(settings, ["retrieval"])


@pytest.mark.parametrize("needs", [{"rerank": "llm"}, {"transform": "llm"}, {"hyde": 1}, {"variants": 2}], ids=str)
def test_a_mode_whose_profile_needs_a_model_needs_it_at_the_start(make_settings: Make, needs: dict[str, Any]) -> None:
    """A profile that no mode names may stand there, as those that are shipped: a job that names it is refused."""
    of = [{"kind": "dense", "of": name} for name in ("hyde", "variants") if name in needs]
    changes = {"profiles": {"p": {"legs": LEGS + of, **needs}}}
    mode = {"m": {"corpora": {"documents": 0}, "profile": "p", "instructions": "Answer."}}
    assert [*lacking(make_settings(**changes))] == []
    (lack,) = lacking(make_settings(**changes, modes=mode))
    assert "modes.m: its profile p needs a language model" in lack.problem
    model = {"kind": "openai", "base_url": "http://localhost/v1"}
    assert [*lacking(make_settings(**changes, modes=mode, language_model=model))] == []


@pytest.mark.parametrize("url", ["/proc/nope", "/proc/version/runs"])
def test_a_folder_that_can_not_be_written_is_a_wrong_setting(make_settings: Make, url: str) -> None:
    """At the start and for `doctor`, also for root, whom no rights hold back; after the start it may come back."""
    settings = make_settings(artifacts={"url": url})
    files = Artifacts(settings.artifacts)
    for use in (lambda: check_parts(settings, ["retrieval"]), files.check):
        with pytest.raises(SettingsError, match=r"^artifacts\.url: files can't be kept there \(\w+Error\)"):
            use()
    for write in (files.write, files.replace):
        with pytest.raises(Unavailable, match="the artifact store failed"):
            write("o", "runs/s/r/citations.json", b"{}")


def test_a_folder_is_made_at_the_start_and_not_by_doctor(make_settings: Make, tmp_path: Path) -> None:
    """Nothing else is left of the trial; a folder that is there stays."""
    settings = make_settings(artifacts={"url": str(tmp_path / "of" / "runs")})
    Artifacts(settings.artifacts).check()
    assert [*tmp_path.iterdir()] == []
    check_parts(settings, ["retrieval"])
    Artifacts(settings.artifacts).check()
    assert [*(tmp_path / "of").rglob("*")] == [tmp_path / "of" / "runs"]


def test_the_shipped_settings_lack_nothing(make_settings: Make, tmp_path: Path) -> None:
    """They need no extra, no key and no model."""
    assert [*lacking(make_settings(artifacts={"url": str(tmp_path)}))] == []


@pytest.mark.parametrize(
    ("options", "queues"),
    [
        ({}, {"retrieval", "pipeline"}),
        ({"queues": "retrieval"}, {"retrieval"}),
        ({"queues": ["retrieval", "pipeline"]}, {"retrieval", "pipeline"}),
        ({"queues": None, "exclude_queues": ["pipeline"]}, {"retrieval"}),
    ],
)
def test_the_queues_of_a_worker_are_those_of_its_options(options: dict[str, Any], queues: set[str]) -> None:
    """As `celery worker` has them: a list or names with commas, all where none is given."""
    assert served_queues(options) == queues
