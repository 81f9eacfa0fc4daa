"""Recency of chunks, and its blend with relevance.

Times are seconds since one common epoch (Unix time, say), for the clock and the dates alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from worker.core.ranking.fusion import min_max

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")

UNDATED = 0.5
"""Recency of a chunk without a date: as if it were one half-life old, neither new nor outdated."""

_PLACES, _LEAST = 12, 1e-12
"""Decimal places of a recency, and its minimum: the last bit of a power may differ between machines."""


def recency(date: float | None, current_time: float, half_life: float) -> float:
    """Return the recency of a date: 0.5 ** (age / half_life).

    >>> recency(100.0, 100.0, 10.0), recency(80.0, 100.0, 10.0), recency(None, 100.0, 10.0)
    (1.0, 0.25, 0.5)

    Args:
        date: in seconds. A future one counts as now; ``None`` is `UNDATED`. Infinities are valid: Postgres has them.
        current_time: in seconds, finite.
        half_life: in seconds, greater than 0.

    Returns:
        In (0, 1], rounded to twelve decimal places, at least 1e-12.

    Raises:
        ValueError: the date is NaN, the clock not finite, or the half-life not a positive, finite number.
    """
    if not math.isfinite(current_time) or not 0 < half_life < math.inf:
        raise ValueError("expected a finite clock and a positive half-life")
    if date is None:
        return UNDATED
    if math.isnan(date):
        raise ValueError("a date is not a number")
    age = max(current_time - date, 0.0)
    return max(round(math.pow(0.5, age / half_life), _PLACES), _LEAST)


def blended(relevance: Sequence[float], recencies: Sequence[float], weight: float) -> list[float]:
    """Blend relevance and recency into one score: (1 - weight) * relevance + weight * recency.

    Relevance is first scaled to 0 (the lowest given) to 1 (the highest), so that a weight means the same for cosines,
    fused ranks and a reranker's logits.

    >>> blended([0.9, 0.8, 0.7], [0.25, 1.0, 0.5], 0.5)
    [0.625, 0.75, 0.25]

    Args:
        relevance: one finite number per candidate, higher is better.
        recencies: as `recency` returns them, one per candidate.
        weight: in [0, 1]: 0 is relevance alone, 1 recency alone.

    Returns:
        One number in [0, 1] per candidate, in their order.

    Raises:
        ValueError: the weight is not in [0, 1], or the lists differ in length.
    """
    if not 0 <= weight <= 1:
        raise ValueError("expected a weight in [0, 1]")
    pairs = zip(min_max(relevance), recencies, strict=True)
    return [round((1.0 - weight) * relevant + weight * recent, _PLACES) for relevant, recent in pairs]


def reordered(items: Sequence[Item], scores: Sequence[float]) -> list[Item]:
    """Sort items by descending score; ties keep their input order, so that a total order remains total."""
    ranked = sorted(zip(scores, items, strict=True), key=lambda pair: -pair[0])
    return [item for _, item in ranked]
