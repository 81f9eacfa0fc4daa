"""Weights of the legs, proposed from feedback: a grid search for those that put first what users went on to use.

What it finds is the best for these examples; whether it is taken is for a reader of before and after to decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from worker.core.ranking.fusion import CONTRIBUTIONS, weight_of, weighted_sums
from worker.core.ranking.measures import mean, ndcg, recall
from worker.core.ranking.total_order import descending

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class LegList:
    """What is kept of a leg of a recorded retrieval.

    Attributes:
        name: the leg's name.
        chunk_ids: best first, each once.
        scores: the leg's own score of each.
    """

    name: str
    chunk_ids: tuple[str, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One search of a recorded retrieval, over one corpus, and what was made of it.

    Attributes:
        legs: in order of precedence.
        used: ids of the chunks that were used; without any it is no evidence and counts for nothing.
    """

    legs: tuple[LegList, ...]
    used: frozenset[str]


@dataclass(frozen=True, slots=True)
class Quality:
    """Means over the examples, 0-1; ``None`` if no chunk was used in any.

    Attributes:
        ndcg: normalised discounted cumulative gain at k; a used chunk has gain 1.
        recall: share of the used chunks among the first k.
    """

    ndcg: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the examples speak for.

    Attributes:
        weights: by leg name; the current ones where none are better.
        before: with the current weights.
        after: with the proposed ones, never worse.
    """

    weights: Mapping[str, float]
    before: Quality
    after: Quality


def tune(
    examples: Sequence[Example], current: Mapping[str, float], *, method: str = "weighted", k: int = 5, steps: int = 20
) -> Proposal:
    """The weights with the highest mean nDCG at ``k``, of those the ones with the highest recall.

    Tried are the current weights and all that are multiples of 1 / ``steps`` and sum to 1: with n legs
    ``comb(steps + n - 1, n - 1)`` of them. Of equally good ones the nearest to the current ones are proposed (as
    shares of their sum), then the lowest, leg by leg in the order of their names. So nothing is proposed that is not
    better, and no order of examples or weights matters.

    Args:
        examples: the feedback.
        current: weights by leg name; the method's defaults where none is given.
        method: a weighted sum: ``weighted`` or ``rrf``.
        k: how far down a user looks, 1 or more.
        steps: how fine the grid is, 1 or more.
    """
    names = sorted({leg.name for example in examples for leg in example.legs})
    now = tuple(weight_of(method, name, current) for name in names)
    cases = [_Case.of(example, names, method) for example in examples]

    # The current weights first, the grid in ascending order: of equal ones `min` takes the first.
    options = {weights: _quality(cases, weights, k) for weights in (now, *_grid(len(names), steps))}

    def order(weights: tuple[float, ...]) -> tuple[float, float, float]:
        return descending(options[weights].ndcg), descending(options[weights].recall), _distance(weights, now)

    best = min(options, key=order)
    return Proposal(dict(zip(names, best, strict=True)), before=options[now], after=options[best])


@dataclass(frozen=True, slots=True)
class _Case:
    """An example made ready to be ranked again and again: (which weight, ids, what each adds) of each leg."""

    legs: tuple[tuple[int, tuple[str, ...], list[float]], ...]
    used: frozenset[str]

    @classmethod
    def of(cls, example: Example, names: Sequence[str], method: str) -> _Case:
        add = CONTRIBUTIONS[method]
        return cls(tuple((names.index(leg.name), leg.chunk_ids, add(leg.scores)) for leg in example.legs), example.used)

    def ranked(self, weights: Sequence[float]) -> list[str]:
        return [chunk_id for chunk_id, _ in weighted_sums((weights[i], ids, added) for i, ids, added in self.legs)]


def _quality(cases: Sequence[_Case], weights: Sequence[float], k: int) -> Quality:
    rankings = [(case.ranked(weights), case.used) for case in cases]
    return Quality(
        mean(ndcg(ranked, dict.fromkeys(used, 1.0), k) for ranked, used in rankings),
        mean(recall(ranked, used, k) for ranked, used in rankings),
    )


def _grid(legs: int, steps: int) -> Iterator[tuple[float, ...]]:
    """All weights in multiples of 1 / ``steps`` that sum to 1: bars that divide a row of ``steps`` stars.

    >>> list(_grid(2, 2))
    [(0.0, 1.0), (0.5, 0.5), (1.0, 0.0)]
    """
    if not legs:
        return
    end = steps + legs - 1
    for bars in combinations(range(end), legs - 1):
        yield tuple((right - left - 1) / steps for left, right in pairwise((-1, *bars, end)))


def _distance(weights: Sequence[float], others: Sequence[float]) -> float:
    """Squared distance of two sets of weights as shares; rounded, so that no rounding error chooses between equals."""
    pairs = zip(_shares(weights), _shares(others), strict=True)
    return round(math.fsum((one - other) ** 2 for one, other in pairs), 12)


def _shares(weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total if total else 0.0 for weight in weights]
