"""Trace of a job: its stages, with durations and counts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Tracer:
    """Recorder of the stages of one job.

    Args:
        clock: monotonic seconds; ``time.perf_counter`` in a worker, anything in a test.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.stages: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[dict[str, int]]:
        """Time one stage; entries added to the yielded dictionary become its counts."""
        counts: dict[str, int] = {}
        start = self._clock()
        try:
            yield counts
        finally:
            duration = round((self._clock() - start) * 1000, 3)
            self.stages.append({"stage": name, "duration_ms": duration, "counts": counts})

    def add(self, name: str, seconds: float, counts: dict[str, int]) -> None:
        """Add a stage that was timed elsewhere."""
        self.stages.append({"stage": name, "duration_ms": round(seconds * 1000, 3), "counts": counts})
