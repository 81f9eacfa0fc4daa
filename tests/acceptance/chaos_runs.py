"""Runs of the chaos harness as a process, and the figures of their reports."""

from __future__ import annotations

import re
import subprocess
import sys

NO_FAULTS = ("--worker-kills=0", "--redis-kills=0", "--postgres-kills=0", "--blackholes=0", "--freezes=0", "--others=0")


def run_chaos(*words: str, seed: int, seconds: float) -> subprocess.CompletedProcess[str]:
    """The harness as a process; its seed is shown if the test fails."""
    command = [sys.executable, "-m", "chaos", *words, f"--seed={seed}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    print(done.stderr[-3000:], done.stdout, sep="\n")  # noqa: T201 -- pytest shows it of a failed test
    return done


def figure(done: subprocess.CompletedProcess[str], name: str) -> int:
    """A figure of the report."""
    found = re.search(rf"^{re.escape(name)}: (\d+)", done.stdout, re.MULTILINE)
    assert found, f"no figure {name!r}"
    return int(found[1])


def assert_none(done: subprocess.CompletedProcess[str], *names: str) -> None:
    """These figures of the report are 0."""
    assert {name: figure(done, name) for name in names} == dict.fromkeys(names, 0)
