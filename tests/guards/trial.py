"""Tries of guards in a copy of the project: one is removed, its tests are run, and it is restored."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.guards.table import taken_out
from tests.guards.watching import REPORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.guards.table import Guard

Verdict: TypeAlias = Literal["caught", "NOT CAUGHT", "the guard's text is gone", "fails with the guard, too"]

CAUGHT: Verdict = "caught"

_SECONDS = 600
"""For the tests of one guard: without it something may hang."""

_GOODBYE_SECONDS = 60

Outcomes: TypeAlias = dict[str, str]


@contextlib.contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """A copy of all that is or could be committed, as it is now; removed at the end."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        cwd=root,
    )
    with tempfile.TemporaryDirectory(prefix="guards-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder).resolve()
        for name in listed.stdout.decode().split("\0"):
            if name and (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        yield copy


def passing(copy: Path, tests: Sequence[str]) -> set[str]:
    """Those of some tests that pass with every guard in its place."""
    outcomes = _run(copy, tests, _SECONDS * (1 + len(tests) // 10))
    return {test for test in tests if {*_of(test, outcomes)} == {"passed"}}


def attempt(guard: Guard, copy: Path, good: set[str]) -> Verdict:
    """Take a guard out, run its tests, put it back.

    Args:
        guard: which.
        copy: of the project.
        good: the tests that pass with it.
    """
    changed = taken_out(guard, copy)
    if changed is None:
        return "the guard's text is gone"
    if not good.issuperset(guard.tests):
        return "fails with the guard, too"
    path = copy / guard.file
    original = path.read_bytes()
    path.write_text(changed)
    try:
        outcomes = _run(copy, guard.tests, _SECONDS, TEST_PATIENCE_SECONDS="20")
    finally:
        path.write_bytes(original)
    return CAUGHT if all("failed" in _of(test, outcomes) for test in guard.tests) else "NOT CAUGHT"


def _of(test: str, outcomes: Outcomes) -> list[str]:
    """Outcomes of a test, in all of its cases."""
    return [said for name, said in outcomes.items() if name == test or name.startswith(f"{test}[")]


def _run(copy: Path, tests: Sequence[str], seconds: float, **variables: str) -> Outcomes:
    """Run tests in the copy, with this interpreter; nothing is known of those that do not end in time."""
    report = copy / ".guards.json"
    report.unlink(missing_ok=True)
    first = ["-x"] if len(tests) == 1 else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.guards.watching", "-p", "no:cacheprovider"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",  # a file that changes twice in a second would be taken for its older self
        REPORT: str(report),
        **variables,
    }
    with (copy / ".guards.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, *first, *tests],
            cwd=copy,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C comes from here, once
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        finally:
            _end(process)
    return json.loads(report.read_text()) if report.is_file() else {}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End tests that still run, as Ctrl-C does: the session stops the servers that it has started."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GOODBYE_SECONDS)
        process.kill()
        process.wait()
