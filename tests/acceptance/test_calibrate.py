"""`retrieval-worker calibrate` as an operator types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.command_line import command_line

from synthetic.loading import Index
from synthetic.stage import Stage, stage
from synthetic.vectors import Dataset
from worker.settings import CONFIG_VARIABLE
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

COMMAND = [sys.executable, "-m", "workbench", "calibrate"]
QUICK = ("--queries", "20", "--mean", "0.97", "--worst", "0.4", "--steps", "15,100,1000")
POINT = "{ visible = 1.0, ef_search = 321, recall = 1.0, worst = 1.0 }"
OWNERS = ("--claims", '{"tenant_id": "everyone"}', "--as", "owner-50")


@pytest.fixture(scope="module")
def on() -> Iterator[Stage]:
    """3,000 rows under a sparse index."""
    with stage(Dataset(3000), Index(m=4, ef_construction=16), postgres_version=18, keep=None) as filled:
        yield filled


@pytest.fixture
def environment(on: Stage, tmp_path: Path) -> dict[str, str]:
    """Of a worker with a settings file of its own on that database."""
    file = tmp_path / "worker.toml"
    file.write_text((config_folder() / "worker.toml").read_text())
    dsn = on.settings.database_connection_string.get_secret_value()
    own = {"DATABASE_CONNECTION_STRING": dsn, "CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}
    return {**own, CONFIG_VARIABLE: str(file)}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in an environment."""
    typed = command_line(capsys, {})
    return lambda environment, *arguments: typed("calibrate", *arguments, **environment)


def said(stdout: str) -> dict[str, Any]:
    """The setting that stands below the table."""
    return tomllib.loads(stdout[stdout.index("[calibration") :])["calibration"]["documents"]


def test_it_prints_a_table_and_the_setting_and_the_same_again(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    """Two callers, half and all of the rows: a line for each width that was tried, and a point for each."""
    first, again = (run(environment, *OWNERS, *QUICK) for _ in range(2))
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout == again.stdout
    found = said(first.stdout)
    assert [point["visible"] for point in found["points"]] == pytest.approx([1, 0.5], abs=0.02)
    assert {point["ef_search"] for point in found["points"]} <= {15, 100, 1000}
    assert all(point["recall"] >= 0.97 and point["worst"] >= 0.4 for point in found["points"])
    assert found["rows"] == pytest.approx(3000, rel=0.02)
    assert "owner-50" in first.stdout
    assert "Traceback" not in first.stderr
    assert not (tmp_path / "calibration.toml").exists()


def test_json_has_the_measurements_and_the_setting(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    """One document on standard output, whether or not a file is written, something is measured or the goal is met."""
    done = run(environment, *OWNERS, *QUICK, "--json", "--write")
    reported = json.loads(done.stdout)
    assert (reported["corpus"], reported["queries"]) == ("documents", 20)
    assert (
        reported["calibration"]
        == tomllib.loads((tmp_path / "calibration.toml").read_text())["calibration"]["documents"]
    )
    assert {one["caller"] for one in reported["measurements"]} == {OWNERS[1], "owner-50"}
    small = json.loads(run(environment, "--corpus", "docs", "--json").stdout)
    assert (small["measurements"], small["calibration"]) == ([], None)
    missed = run(environment, *OWNERS, "--queries", "30", "--mean", "1", "--worst", "1", "--steps", "15", "--json")
    assert (missed.returncode, json.loads(missed.stdout)["measurements"][0]["reached"]) == (1, False)


def test_it_writes_what_the_worker_reads(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    """Beside the settings file; those of other corpora stay."""
    file = tmp_path / "calibration.toml"
    file.write_text(
        "[calibration.docs]\nrows = 5\npoints = [{ visible = 1, ef_search = 321, recall = 1, worst = 1 }]\n"
    )
    done = run(environment, *OWNERS, *QUICK, "--write")
    assert done.returncode == 0, done.stdout + done.stderr
    written = tomllib.loads(file.read_text())["calibration"]
    assert written["docs"] == {"rows": 5, "points": [tomllib.loads(f"point = {POINT}")["point"]]}
    assert len(written["documents"]["points"]) == 2
    assert str(file) in done.stdout
    assert "restart" in done.stdout


def test_vectors_of_ones_own_are_asked(run: Run, on: Stage, environment: dict[str, str], tmp_path: Path) -> None:
    """From NumPy or JSON, the same answer."""
    queries = on.dataset.queries(12)
    array, listed = tmp_path / "queries.npy", tmp_path / "queries.json"
    np.save(array, queries)
    listed.write_text(json.dumps(queries.tolist()))
    first, other = (run(environment, *OWNERS, *QUICK, "--vectors", str(file)) for file in (array, listed))
    assert first.returncode == 0, first.stdout + first.stderr
    assert "12 queries" in first.stdout
    assert first.stdout == other.stdout


def test_a_goal_that_is_not_reached_is_said_and_nothing_is_written(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    """Exit code 1, who has too little, and what would help."""
    done = run(environment, *OWNERS, "--queries", "30", "--mean", "1", "--worst", "1", "--steps", "15", "--write")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Try wider --steps (up to 1000)" in done.stderr
    assert "everyone" in done.stderr
    assert "ef_construction" in done.stderr
    assert not (tmp_path / "calibration.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ((), 2, "--as, --claims or --token"),
        (("--as", "stranger"), 1, "stranger sees no chunk"),
        (("--as", "owner-1"), 0, "nothing to calibrate"),
        (("--claims", "no JSON"), 2, "JSON object"),
        (("--as", "owner-50", "--corpus", "nothing"), 2, "expected one of documents, docs, examples"),
        (("--corpus", "docs"), 0, "always searched exactly"),
        (("--corpus", "docs", "--claims", "no JSON"), 2, "JSON object"),
        (("--corpus", "docs", "--vectors", "/dev/null"), 2, "expected .npy"),
        (("--as", "owner-50", "--steps", "15,many"), 2, "--steps"),
        (("--as", "owner-50", "--steps", "5"), 2, "--steps"),
        (("--as", "owner-50", "--vectors", "/no/such/file.npy"), 2, "No such file"),
        (("--as", "owner-50", "--vectors", "/dev/null"), 2, "expected .npy"),
    ],
)
def test_a_mistake_is_one_line(
    run: Run, environment: dict[str, str], arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    """The message names the problem and who can solve it, without a stack trace."""
    done = run({**environment, "COLUMNS": "300"}, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert sentence in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr


def test_a_small_corpus_needs_no_index_to_be_told_so(run: Run, on: Stage, environment: dict[str, str]) -> None:
    """Nothing to calibrate, with the index or without it."""
    on.admin.execute("DROP INDEX IF EXISTS doc_embeddings_embedding_idx")
    done = run(environment, "--corpus", "docs")
    assert (done.returncode, "nothing to calibrate" in done.stdout) == (0, True), done.stderr


def test_without_a_settings_file_of_ones_own_nothing_is_written(run: Run, environment: dict[str, str]) -> None:
    """Said before anything is measured."""
    del environment[CONFIG_VARIABLE]
    done = run(environment, *OWNERS, *QUICK, "--write")
    assert (done.returncode, done.stdout) == (78, "")
    assert CONFIG_VARIABLE in done.stderr


def test_a_database_that_is_away(run: Run, environment: dict[str, str]) -> None:
    """Exit code 69."""
    environment["DATABASE_CONNECTION_STRING"] = "postgresql://nobody@127.0.0.1:1/x"
    done = run(environment, *OWNERS)
    assert (done.returncode, done.stdout) == (69, "")
    assert "Postgres is away" in done.stderr


def test_ctrl_c_ends_it_cleanly(on: Stage, environment: dict[str, str]) -> None:
    """In the middle of a search: exit code 130, no stack trace, no session left."""
    process = subprocess.Popen(
        [*COMMAND, *OWNERS, "--queries", "10000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )
    # The stage's own pool is there too, under the same name: only a session that searches is the command's.
    searching = "SELECT pid FROM pg_stat_activity WHERE usename = 'retrieval_worker' AND query LIKE '%%<=>%%'"
    deadline = time.monotonic() + 60
    while not (sessions := on.admin.execute(searching).fetchall()):
        assert time.monotonic() < deadline, process.communicate()[0]
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=180)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s)"
    while on.admin.execute(left, ([pid for (pid,) in sessions],)).fetchone() != (0,):
        assert time.monotonic() < deadline + 60
        time.sleep(0.01)
