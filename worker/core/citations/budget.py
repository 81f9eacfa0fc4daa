"""The work that searching for quotes may take, counted in steps and not in seconds: the same job, the same verdicts.

A step is about a tenth of a microsecond: looking at one character in Python. What searches, compares or splits a quote
says before it does so how many steps that takes. Making chunks ready (`forms`) is not counted: each is folded once.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS_PER_JOB = 100_000_000
"""Steps for the quotes of one job: about fifteen seconds of the slowest searches known, a quarter of its time limit."""


class BudgetSpentError(Exception):
    """A quote would take more steps than it may."""


class SearchBudget:
    """The steps of all quotes of one job.

    Each quote may take an equal share of what is left, so one that is hard to search for leaves enough for the others,
    and what an easy one does not take is theirs.

    Args:
        steps: of all quotes together.
        quotes: how many there are.
    """

    def __init__(self, steps: int, quotes: int) -> None:
        self._steps = steps
        self._quotes = quotes

    @contextmanager
    def share(self) -> Iterator[None]:
        """Let what is searched for inside be one quote of the job.

        Raises:
            BudgetSpentError: it takes more than its share.
        """
        share = _Share(self._steps // max(self._quotes, 1))
        self._steps -= share.left
        self._quotes -= 1
        token = _current.set(share)
        try:
            yield
        finally:
            _current.reset(token)
            self._steps += max(share.left, 0)


class _Share:
    """The steps that one quote may still take."""

    def __init__(self, steps: int) -> None:
        self.left = steps


_current: ContextVar[_Share | None] = ContextVar("quote_share", default=None)


def spend(steps: int) -> None:
    """Take steps of the quote that is searched for, if these are counted.

    Raises:
        BudgetSpentError: there are not so many.
    """
    share = _current.get()
    if share is not None:
        share.left -= steps
        if share.left < 0:
            raise BudgetSpentError
