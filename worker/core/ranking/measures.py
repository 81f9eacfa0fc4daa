"""How good a ranked list is, by what was judged relevant; and how much of several lists is the same.

A measure is ``None`` where it is not defined (nothing was relevant, nothing was found); `mean` leaves those out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence


def recall(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float | None:
    """Share of what is relevant that stands among the first ``k``, 0-1; ``None`` if nothing is.

    >>> recall(["a", "b", "c"], {"a", "c"}, 2)
    0.5
    """
    wanted = set(relevant)
    return len(wanted & set(ranked[:k])) / len(wanted) if wanted else None


def ndcg(ranked: Sequence[Hashable], gains: Mapping[Hashable, float], k: int) -> float | None:
    """Normalised discounted cumulative gain of the first ``k``, 0-1; ``None`` if nothing has a gain.

    The sum of gain / log2(1 + rank), ranks from 1, over that sum for the judged in their best order. Järvelin,
    Kekäläinen: "Cumulated Gain-Based Evaluation of IR Techniques", TOIS 2002, with the discount of trec_eval.

    Args:
        ranked: best first, each once.
        gains: of what was judged, 0 or more (1 where judgements are yes and no); what was not judged has none.
        k: how far to look, 1 or more.

    >>> ndcg(["b", "a"], {"a": 2.0, "b": 1.0}, 2)
    0.8597186998521972
    """
    ideal = _discounted(sorted(gains.values(), reverse=True)[:k])
    return _discounted([gains.get(item, 0.0) for item in ranked[:k]]) / ideal if ideal > 0 else None


def duplicate_rate(found: int, distinct: int) -> float:
    """Share of what several lists found that another had found already, 0-1; 0 if nothing was found."""
    return (found - distinct) / found if found else 0.0


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are defined, exactly summed; ``None`` if none is.

    >>> mean([0.5, None, 1.0]), mean([None])
    (0.75, None)
    """
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


def _discounted(gains: Iterable[float]) -> float:
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, 1))
