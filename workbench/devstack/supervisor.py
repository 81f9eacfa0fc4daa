"""Supervision of child processes: reports each that exits and restarts programs, with growing pauses."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.devstack.processes import stop, wait_until
from worker.cli.signals import interruptible

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.processes import Program

STEADY_SECONDS = 30.0
"""Seconds after which a program's start counts as successful."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0


@dataclass
class _SupervisedProgram:
    """A program and its current process."""

    program: Program
    process: subprocess.Popen[bytes]
    started: float
    pause: float = 0.0
    due: float | None = None
    """Time of the next start; None while it runs."""


@dataclass(frozen=True)
class _Server:
    """A server that is watched but not restarted."""

    name: str
    log: Path


class Supervisor:
    """A supervisor that restarts programs that exit, and gives up when a server below them exits.

    All processes are started by the thread that calls `keep` and `run`: the kernel ends a child with the thread that
    started it (see `processes`). The threads here only wait.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._programs: list[_SupervisedProgram] = []
        self._ended: queue.SimpleQueue[tuple[_SupervisedProgram | _Server, int]] = queue.SimpleQueue()

    def watch(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        """Watch a server that runs already."""
        self._watch(_Server(name, log), process)

    def keep(self, program: Program) -> None:
        """Start a program, wait until it is ready, and watch it.

        Raises:
            SettingsError: it did not become ready.
        """
        child = _SupervisedProgram(program, program.spawn(), time.monotonic())
        self._programs.append(child)
        wait_until(program.ready, child.process, program.name, program.log)
        self._watch(child, child.process)

    def run(self) -> None:
        """Start programs again as they end; return when a server has ended."""
        while True:
            with contextlib.suppress(queue.Empty):
                with interruptible():
                    child, code = self._ended.get(timeout=self._seconds_to_next_start())
                if isinstance(child, _Server):
                    self._report(f"{child.name} ended ({how_it_ended(code)}), stopping all; its log: {child.log}")
                    return
                self._plan_start(child, code)
            self._start_what_is_due()

    def stop(self) -> None:
        """Stop the programs, the last first."""
        for child in reversed(self._programs):
            stop(child.process, signal.SIGTERM)

    def _watch(self, child: _SupervisedProgram | _Server, process: subprocess.Popen[bytes]) -> None:
        threading.Thread(target=lambda: self._ended.put((child, process.wait())), daemon=True).start()

    def _plan_start(self, child: _SupervisedProgram, code: int) -> None:
        current_time = time.monotonic()
        child.pause = next_pause(child.pause, current_time - child.started)
        child.due = current_time + child.pause
        when = f"in {child.pause:.0f} s" if child.pause else "now"
        name, log = child.program.name, child.program.log
        self._report(f"{name} ended ({how_it_ended(code)}), starting it again {when}; its log: {log}")

    def _seconds_to_next_start(self) -> float | None:
        due = [child.due for child in self._programs if child.due is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _start_what_is_due(self) -> None:
        current_time = time.monotonic()
        for child in self._programs:
            if child.due is not None and child.due <= current_time:
                child.process, child.started, child.due = child.program.spawn(), current_time, None
                self._watch(child, child.process)


@contextlib.contextmanager
def supervised(report: Callable[[str], None]) -> Iterator[Supervisor]:
    """Yield a supervisor; stop its programs at the end.

    Args:
        report: called with one sentence for each process that exited.
    """
    supervisor = Supervisor(report)
    try:
        yield supervisor
    finally:
        supervisor.stop()


def next_pause(last_pause: float, lived: float) -> float:
    """Return the pause before the next start, in seconds.

    Args:
        last_pause: the last pause.
        lived: seconds that the program ran.

    >>> [next_pause(last_pause, lived=2) for last_pause in (0, 1, 2, 16, 30)]
    [1.0, 2, 4, 30.0, 30.0]
    >>> next_pause(16, lived=3600)
    0.0
    """
    if lived >= STEADY_SECONDS:
        return 0.0
    return min(max(FIRST_PAUSE_SECONDS, 2 * last_pause), LONGEST_PAUSE_SECONDS)


def how_it_ended(code: int) -> str:
    """Name an exit code as `subprocess` returns it: negative for a signal.

    >>> how_it_ended(3), how_it_ended(-9)
    ('exit code 3', 'signal SIGKILL')
    """
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):  # real-time signals have no names
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
