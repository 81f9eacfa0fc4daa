"""How long a job may take for something, and how much of that its optional parts get."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


OPTIONAL_SHARE = 0.5
"""Of the time left, what a job spends at most on what it can go on without, so that the rest is done in time."""


class TimeBudget:
    """Seconds that begin when it is made.

    >>> now = [0.0]
    >>> budget = TimeBudget(10, lambda: now[0])
    >>> now[0] = 4
    >>> budget.left(), budget.share()
    (6.0, 3.0)

    Args:
        seconds: how many.
        clock: seconds from any beginning.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Seconds until it is used up, never less than 0."""
        return max(0.0, self._end - self._clock())

    def share(self) -> float:
        """Seconds for what the job can go on without."""
        return self.left() * OPTIONAL_SHARE
