"""Stall detection for the main process's event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.adapters import logs

if TYPE_CHECKING:
    from collections.abc import Callable

log = logs.logger("worker.loop_watch")

BEAT_SECONDS = 0.25
NOTED_SECONDS = 0.1
"""Shortest stall that is counted; a machine has other work too."""

LOGGED_SECONDS = 1.0


class LoopWatch:
    """Stall detector, called by an event loop at every beat; the delay of a beat is the length of a stall.

    Args:
        clock: monotonic seconds.
        note: called with the length of a stall, in seconds.
    """

    def __init__(self, clock: Callable[[], float], note: Callable[[float], object]) -> None:
        self._clock = clock
        self._note = note
        self._due = float("inf")  # until the first beat

    def beat(self) -> None:
        """Measure the delay of this beat."""
        now = self._clock()
        late, self._due = now - self._due, now + BEAT_SECONDS
        if late < NOTED_SECONDS:
            return
        self._note(late)
        if late > LOGGED_SECONDS:
            log.warning("main loop stalled", seconds=round(late, 1))
