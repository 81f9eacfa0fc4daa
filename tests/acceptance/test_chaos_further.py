"""The further runs of the chaos harness; it sees what stock Celery loses, and ends when it is asked to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.waiting import wait_for

from .chaos_runs import NO_FAULTS, assert_none, figure, run_chaos

if TYPE_CHECKING:
    from pathlib import Path


def test_the_harness_sees_what_stock_celery_loses() -> None:
    """A harness that can't see loss proves nothing. The first one ends the run; how soon it comes is chance."""
    kills = ("--worker-kills=200", *NO_FAULTS[1:])
    done = run_chaos(*kills, "--jobs=20000", "--transport=stock", "--stop-at-first-loss", seed=4, seconds=1500)
    assert figure(done, "lost") > 0
    assert done.returncode == 1


def test_messages_that_are_wrong_in_every_way_are_accounted_for() -> None:
    """Each is answered or dead-lettered; no worker ends by itself, and all end with 0."""
    done = run_chaos("fuzz", "--messages=10000", seed=3, seconds=900)
    assert figure(done, "messages") == 10_000
    assert_none(done, "unaccounted for", "workers that ended by themselves", "workers that did not end with 0")


def test_a_job_that_kills_its_process_is_given_up() -> None:
    """After five tries, with a `DeadLettered`; healthy jobs beside it are answered."""
    done = run_chaos("poison", "--jobs=1000", "--poison=10", seed=17, seconds=600)
    assert 1 < figure(done, "most executions of one") <= 5
    assert_none(done, "not dead-lettered", "healthy jobs lost", "healthy jobs failed")


def test_a_polite_stop_under_load_runs_nothing_twice() -> None:
    """Jobs sent to a pool process are finished and acknowledged, others go to another worker."""
    done = run_chaos("rolling", "--restarts=6", seed=9, seconds=600)
    assert_none(done, "lost", "run more often than once")
    assert done.returncode == 0


def test_a_wrong_option_is_one_sentence() -> None:
    done = run_chaos("--transport=carrier pigeon", seed=1, seconds=60)
    assert done.returncode == 2
    assert "expected reliable or stock" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_nothing_behind(how: signal.Signals, tmp_path: Path) -> None:
    """Servers, workers and their pools end with the harness, whatever it was doing."""
    command = [sys.executable, "-m", "chaos", "--seed=1", "--jobs=100000", *NO_FAULTS, f"--logs={tmp_path}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for(lambda: any(b" ready." in log.read_bytes() for log in tmp_path.glob("*.log")))
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) > 3
    os.kill(process.pid, how)
    assert process.wait(180) == 128 + how
    _, alive = psutil.wait_procs(started, timeout=180)
    assert not alive
