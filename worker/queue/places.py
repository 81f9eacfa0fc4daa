"""Places of a pool's processes: when the next one may be forked after one that died at its start."""

from __future__ import annotations

import logging

logger = logging.getLogger("worker.prefork")

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 60.0
"""Pause before the fork after the second process in a row that died at its start; it doubles with each further one."""

_PROVEN_SECONDS = 60.0
"""A process that has been ready for so long, or has begun a job, did not die at its start."""

_SLOW_SECONDS = 10.0
"""Time after which a process that is not ready is logged, and again each time that its age has doubled."""

_START_SECONDS = 600.0
"""Time after which a process that is not ready counts as stuck and is killed; doubles with each such death."""


class Place:
    """Place of one process after another in the pool.

    Attributes:
        ready_at: when its process became ready, by `time.monotonic`; None before.
        deaths: number of processes in a row that died at their start.
    """

    def __init__(self) -> None:
        self.ready_at: float | None = None
        self.deaths = 0
        self._next_fork = 0.0

    def begin(self, current_time: float) -> None:
        """Note a process that is forked next."""
        self.ready_at = None
        self._forked_at, self._slow_seconds = current_time, _SLOW_SECONDS

    def end(self, current_time: float, *, is_proven: bool) -> None:
        """Note the end of its process; one that is proven has begun a job, or left as it was asked to."""
        if is_proven or (self.ready_at is not None and current_time - self.ready_at > _PROVEN_SECONDS):
            self.deaths = 0
            return
        self.deaths += 1
        pause = 0.0 if self.deaths == 1 else min(_PAUSE_SECONDS * 2.0 ** (self.deaths - 2), _LONGEST_PAUSE_SECONDS)
        self._next_fork = current_time + pause
        logger.error("process died at its start", extra={"deaths": self.deaths, "pause_seconds": pause})

    def is_due(self, current_time: float) -> bool:
        """Return whether the next process may be forked; the last one has ended."""
        return current_time >= self._next_fork

    def is_slow(self, current_time: float) -> bool:
        """Return whether the process has not been ready for so long that it is logged now."""
        is_slow = self.ready_at is None and current_time - self._forked_at >= self._slow_seconds
        if is_slow:
            self._slow_seconds *= 2
        return is_slow

    def is_stuck(self, current_time: float) -> bool:
        """Return whether the process will probably never be ready."""
        return self.ready_at is None and current_time - self._forked_at >= _START_SECONDS * 2.0**self.deaths

    def seconds(self, current_time: float) -> float:
        """Return the age of the process."""
        return current_time - self._forked_at
