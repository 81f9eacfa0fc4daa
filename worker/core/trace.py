"""Trace of a job: its stages, with durations and counts."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def milliseconds(seconds: float) -> float:
    """Return a duration for a trace: of one digit, because Postgres also takes time for rows that a caller can't see.

    >>> milliseconds(0.0123), milliseconds(0.25), milliseconds(0.0)
    (10.0, 200.0, 0.0)
    """
    return float(f"{seconds * 1000:.1g}")


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
            self.add(name, self._clock() - start, counts)

    def add(self, name: str, seconds: float, counts: dict[str, int]) -> None:
        """Add a stage that was timed elsewhere."""
        self.stages.append({"stage": name, "duration_ms": milliseconds(seconds), "counts": counts})
