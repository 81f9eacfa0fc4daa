"""A watch on the main process' event loop: how long it stood still, where it stood still."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.adapters import logs

if TYPE_CHECKING:
    from collections.abc import Callable

log = logs.logger("worker.loop_watch")

BEAT_SECONDS = 0.25
NOTED_SECONDS = 0.1
"""Shorter stalls are not counted: a machine has other work."""

LOGGED_SECONDS = 1.0


class LoopWatch:
    """Called by an event loop at every beat; a beat that comes late tells for how long nothing else was called.

    Args:
        clock: monotonic seconds.
        note: is told of a stall, in seconds.
    """

    def __init__(self, clock: Callable[[], float], note: Callable[[float], object]) -> None:
        self._clock = clock
        self._note = note
        self._due = float("inf")  # the first beat begins

    def beat(self) -> None:
        """Note how late this is."""
        now = self._clock()
        late, self._due = now - self._due, now + BEAT_SECONDS
        if late < NOTED_SECONDS:
            return
        self._note(late)
        if late > LOGGED_SECONDS:
            log.warning("main loop stood still", seconds=round(late, 1))
