"""Measures of a ranked list against relevance judgements, and of the overlap of several lists.

A measure is ``None`` where it is undefined (nothing relevant, nothing found); `mean` leaves those out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence


def recall(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float | None:
    """Return the share of relevant items among the first ``k``, 0-1; ``None`` if nothing is relevant.

    >>> recall(["a", "b", "c"], {"a", "c"}, 2)
    0.5
    """
    wanted = set(relevant)
    return len(wanted & set(ranked[:k])) / len(wanted) if wanted else None


def ndcg(ranked: Sequence[Hashable], gains: Mapping[Hashable, float], k: int) -> float | None:
    """Return the normalised discounted cumulative gain of the first ``k``, 0-1; ``None`` if nothing has a gain.

    The sum of gain / log2(1 + rank), ranks from 1, over the same sum for the judged items in ideal order. Järvelin,
    Kekäläinen: "Cumulated Gain-Based Evaluation of IR Techniques", TOIS 2002, with the discount of trec_eval.

    Args:
        ranked: best first, each once.
        gains: gain of each judged item, 0 or more (1 for yes/no judgements); unjudged items have none.
        k: cut-off rank, 1 or more.

    >>> ndcg(["b", "a"], {"a": 2.0, "b": 1.0}, 2)
    0.8597186998521972
    """
    ideal = _discounted(sorted(gains.values(), reverse=True)[:k])
    return _discounted([gains.get(item, 0.0) for item in ranked[:k]]) / ideal if ideal > 0 else None


def duplicate_rate(found: int, distinct: int) -> float:
    """Return the share of several lists' hits that are duplicates, 0-1; 0 if nothing was found."""
    return (found - distinct) / found if found else 0.0


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the defined values, exactly summed; ``None`` if none is defined.

    >>> mean([0.5, None, 1.0]), mean([None])
    (0.75, None)
    """
    defined = [value for value in values if value is not None]
    return math.fsum(defined) / len(defined) if defined else None


def _discounted(gains: Iterable[float]) -> float:
    return math.fsum(gain / math.log2(1 + rank) for rank, gain in enumerate(gains, 1))
