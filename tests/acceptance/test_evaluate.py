"""`retrieval-worker evaluate` as a user types it, with a real worker."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "evaluate.md"
LABELLED = ROOT / "benchmarks" / "labelled" / "queries.jsonl"
COMMAND = [sys.executable, "-m", "workbench"]


@pytest.fixture
def environment(broker: redis.Redis, worker_environment: Callable[..., Any]) -> dict[str, str]:
    """Of a worker that trusts its queue, and of the command."""
    broker.flushall()
    return {**os.environ, **worker_environment()}


def test_the_commands_of_the_page_measure_its_queries(
    environment: dict[str, str], worker_log: Path, tmp_path: Path
) -> None:
    """All end with exit code 0; the two ways to measure the whole agree; the plot and the report are there."""
    page = PAGE.read_text()
    (tmp_path / "queries.jsonl").write_text("".join(re.findall(r"```json\n(.*?)```", page, re.DOTALL)))
    typed = re.findall(r"^retrieval-worker (evaluate .*)$", page, flags=re.MULTILINE)
    assert len(typed) >= 5
    shown = {}
    with celery_worker(environment, worker_log, "--concurrency=1"):
        for line in typed:
            command = [*COMMAND, *shlex.split(line)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            shown[line] = done.stdout
    first = shown["evaluate queries.jsonl --as alice"]
    assert [name in first for name in ("dense", "sparse", "whole", "nDCG@10", "MRR")] == [True] * 5
    (of_files,) = (text for line, text in shown.items() if "--qrels qrels.txt" in line and "--run" in line)
    assert re.findall(r"MRR .*", of_files)[0].split("│")[1] == re.findall(r"MRR .*", first)[0].split("│")[-2]
    assert (tmp_path / "figures.svg").read_text().startswith("<svg ")
    report = json.loads((tmp_path / "report.json").read_text())
    assert [system["name"] for system in report["systems"]] == ["dense", "hybrid_rrf"]
    assert "rrf" in report["comparisons"][0]["sentence"]


def test_a_worker_answers_as_this_process_does(environment: dict[str, str], worker_log: Path, tmp_path: Path) -> None:
    """The same report, but for when it was made; progress is for people, on standard error."""
    few = tmp_path / "few.jsonl"
    few.write_text("".join(LABELLED.read_text().splitlines(keepends=True)[::10]))
    command = [*COMMAND, "evaluate", str(few), "--k", "3,5", "--fusion", "rrf", "--json"]
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(few.read_text() + 2 * '{"question": "hum", "relevant": ["c"], "corpus": "nowhere"}\n')
    with celery_worker(environment, worker_log, "--concurrency=2"):
        there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        refused = subprocess.run(
            [*COMMAND, "evaluate", str(wrong)], capture_output=True, text=True, check=False, env=environment
        )
    assert (refused.returncode, "2 of 13 lines are wrong" in refused.stderr) == (2, True), refused.stderr
    here = subprocess.run([*command, "--here"], capture_output=True, text=True, check=True, env=environment)
    of_worker, of_process = ({**json.loads(one.stdout), "made_at": ""} for one in (there, here))
    assert of_worker == of_process
    assert "queries" in there.stderr
    assert len(of_worker["queries"]) == 11


def test_an_interruption_says_what_was_measured(environment: dict[str, str], worker_log: Path, tmp_path: Path) -> None:
    """Ctrl-C: exit code 130, the figures of what was asked so far on standard error, and no file that looks whole."""
    lines = [json.loads(line) for line in LABELLED.read_text().splitlines()]
    many = tmp_path / "many.jsonl"
    many.write_text("".join(f"{json.dumps({**line, 'id': str(i)})}\n" for i, line in enumerate(60 * lines)))
    run = tmp_path / "run.txt"
    with celery_worker(environment, worker_log, "--concurrency=2"):
        process = subprocess.Popen(
            [*COMMAND, "evaluate", str(many), "--write-run", str(run)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        deadline = time.monotonic() + 60
        while worker_log.read_text().count("retrieve_hybrid") < 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert re.search(r"stopped after \d+ of 6180 queries", err), err
    assert "nDCG@10" in err
    assert "Traceback" not in err
    assert not run.exists()


def test_without_a_worker_or_with_wrong_settings_it_says_so(environment: dict[str, str], tmp_path: Path) -> None:
    """Exit codes as everywhere: 69, 78, 2."""
    file = tmp_path / "queries.jsonl"
    file.write_text('{"question": "hum", "relevant": ["c1"], "caller": "alice"}\n')

    def code(*options: str, **variables: str) -> tuple[int, str]:
        command = [*COMMAND, "evaluate", str(file), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**environment, **variables})
        assert (done.stdout, "Traceback" in done.stderr) == ("", False)
        return done.returncode, done.stderr.splitlines()[-1]

    assert code("--timeout", "1")[0] == 69
    assert code("--here", DATABASE_CONNECTION_STRING="postgresql://x@127.0.0.1:1/x")[0] == 69
    assert code("--here", RETRIEVAL_WORKER_TRUST_QUEUE="perhaps")[0] == 78
    assert code("--broker", "redis://[::1")[0] == 78
    assert code("--run", str(file))[0] == 2
    file.write_text("{}\n")
    assert code("--here") == (2, f"retrieval-worker: {file}: line 1: question: expected this field")
