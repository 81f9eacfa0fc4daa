"""A run of chaos writes a history that says whether a job was lost, to anyone who checks it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from chaos.check import judge_file

from .chaos_runs import figure, run_chaos

KILLS = ("--redis-kills=0", "--postgres-kills=0", "--blackholes=0", "--freezes=0", "--others=0")
PLANTED = Path(__file__).parent / "planted"


def test_a_history_of_a_run_without_violations_is_clean(tmp_path: Path) -> None:
    """It has each job, each fault twice, and no violation; the command says so too, and adds its numbers to others'."""
    runs = tmp_path / "runs.jsonl"
    runs.write_text('{"seed": 4, "transport": "reliable", "jobs": 5000, "lost": 1}\n')
    options = ("--jobs=300", "--worker-kills=4", *KILLS[1:], f"--histories={tmp_path}", f"--into={runs}")
    done = run_chaos(*options, seed=5, seconds=300)
    assert done.returncode == 0
    jobs = 5000 + figure(done, "jobs that Redis acknowledged")
    assert f"2 runs: jobs {jobs}, lost 1" in done.stdout
    history = tmp_path / "reliable-5.jsonl"
    lines: list[dict[str, Any]] = [json.loads(line) for line in history.read_text().splitlines()]
    faults = [line["event"] for line in lines if line["process"] == "nemesis"]
    assert faults == ["begin", "end"] * (len(faults) // 2)
    verdict = judge_file(str(history))
    assert verdict.clean, verdict.examples
    sent = figure(done, "jobs that Redis acknowledged") + figure(done, "sent, and neither acknowledged nor refused")
    assert (verdict.figures["jobs"], verdict.figures["faults"]) == (sent, len(faults) / 2)


@pytest.mark.parametrize(
    ("bug", "violation"),
    [("acknowledge first", "lost"), ("store twice", "second differs"), ("forget an owner", "lost")],
)
def test_a_planted_bug_is_found_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str, violation: str
) -> None:
    """The workers have the bug; the checker knows nothing of them."""
    monkeypatch.setenv("PLANTED_BUG", bug)
    monkeypatch.setenv("PYTHONPATH", f"{PLANTED}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    options = ("--jobs=240", "--worker-kills=8", "--stop-at-first-loss", f"--histories={tmp_path}")
    run_chaos(*options, *KILLS, seed=3, seconds=300)
    assert judge_file(str(tmp_path / "reliable-3.jsonl")).violations[violation]
