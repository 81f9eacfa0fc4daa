"""Recency: how new a chunk is, and how much that counts beside how relevant it is.

Time comes in as seconds since any one moment (Unix time, say), the clock's and the dates' alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from worker.core.ranking.fusion import min_max

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")

UNDATED = 0.5
"""Recency of what has no date: as if it were one half-life old, neither new nor outdated."""

_PLACES, _LEAST = 12, 1e-12
"""Decimal places that count: a power's last bit may differ from machine to machine."""


def recency(date: float | None, now: float, half_life: float) -> float:
    """By how many half-lives a date has aged, as 0.5 ** (age / half_life).

    >>> recency(100.0, 100.0, 10.0), recency(80.0, 100.0, 10.0), recency(None, 100.0, 10.0)
    (1.0, 0.25, 0.5)

    Args:
        date: in seconds. One in the future counts as now; ``None`` is `UNDATED`. Infinities are dates: Postgres has
            them.
        now: in seconds, finite.
        half_life: in seconds, greater than 0.

    Returns:
        In (0, 1], to twelve decimal places and not under the smallest of them.

    Raises:
        ValueError: the date is NaN, the clock not finite, or the half-life not a positive, finite number.
    """
    if not math.isfinite(now) or not 0 < half_life < math.inf:
        raise ValueError("expected a finite clock and a positive half-life")
    if date is None:
        return UNDATED
    if math.isnan(date):
        raise ValueError("a date is not a number")
    age = max(now - date, 0.0)
    return max(round(math.pow(0.5, age / half_life), _PLACES), _LEAST)


def blended(relevance: Sequence[float], recencies: Sequence[float], weight: float) -> list[float]:
    """Relevance and recency as one score: (1 - weight) * relevance + weight * recency.

    Relevance is brought to 0 (the least relevant of these) to 1 (the most) first, whatever unit it has, so that
    a weight means the same for cosines, fused ranks and a reranker's logits.

    >>> blended([0.9, 0.8, 0.7], [0.25, 1.0, 0.5], 0.5)
    [0.625, 0.75, 0.25]

    Args:
        relevance: one finite number a candidate, higher is better.
        recencies: as `recency` gives them, one a candidate.
        weight: in [0, 1]: 0 is relevance alone, 1 recency alone.

    Returns:
        One number in [0, 1] a candidate, in their order.

    Raises:
        ValueError: the weight is not in [0, 1], or the lists differ in length.
    """
    if not 0 <= weight <= 1:
        raise ValueError("expected a weight in [0, 1]")
    pairs = zip(min_max(relevance), recencies, strict=True)
    return [round((1.0 - weight) * relevant + weight * recent, _PLACES) for relevant, recent in pairs]


def reordered(items: Sequence[Item], scores: Sequence[float]) -> list[Item]:
    """Items by falling score; equal ones stay in the order in which they came, so that a total order remains one."""
    ranked = sorted(zip(scores, items, strict=True), key=lambda pair: -pair[0])
    return [item for _, item in ranked]
