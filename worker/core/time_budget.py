"""Time budget of a job, and the share of it for optional steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


OPTIONAL_SHARE = 0.5
"""Largest share of the remaining time for optional steps, so that the rest is done in time."""


class TimeBudget:
    """Countdown of seconds that starts when it is created.

    >>> now = [0.0]
    >>> budget = TimeBudget(10, lambda: now[0])
    >>> now[0] = 4
    >>> budget.left(), budget.share()
    (6.0, 3.0)

    Args:
        seconds: its length.
        clock: monotonic seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._end = clock() + seconds

    def left(self) -> float:
        """Return the seconds left, at least 0."""
        return max(0.0, self._end - self._clock())

    def share(self) -> float:
        """Return the seconds available for an optional step."""
        return self.left() * OPTIONAL_SHARE
