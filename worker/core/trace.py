"""What a job did: its stages, how long each took, what each counted."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Tracer:
    """Collects the stages of one job.

    Args:
        clock: seconds, rising; ``time.perf_counter`` in a worker, anything in a test.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.stages: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[dict[str, int]]:
        """Time one stage; what is put into the yielded dictionary are its counts."""
        counts: dict[str, int] = {}
        start = self._clock()
        try:
            yield counts
        finally:
            duration = round((self._clock() - start) * 1000, 3)
            self.stages.append({"stage": name, "duration_ms": duration, "counts": counts})

    def add(self, name: str, seconds: float, counts: dict[str, int]) -> None:
        """A stage that was timed together with others."""
        self.stages.append({"stage": name, "duration_ms": round(seconds * 1000, 3), "counts": counts})
