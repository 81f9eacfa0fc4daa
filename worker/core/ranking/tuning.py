"""Leg weights proposed from feedback: a grid search for those that rank first the chunks that users used.

The proposal is the best for these examples; whether to adopt it is up to an operator who compares before and after.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from worker.core.ranking.fusion import CONTRIBUTIONS, ScoreList, fit_of, weight_of, weighted_sums
from worker.core.ranking.measures import mean, ndcg, recall
from worker.core.ranking.total_order import descending

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class LegList:
    """Recorded results of one leg of a retrieval.

    Attributes:
        name: the leg's name.
        chunk_ids: those that it listed, best first, each once; then those that only other legs listed.
        scores: the leg's own score of each.
        listed: number of those that it listed; None: all.
        coverage: `ScoreList.coverage` of each; empty if it is not known.
        usual: as of `ScoreList`.
    """

    name: str
    chunk_ids: tuple[str, ...]
    scores: tuple[float, ...]
    listed: int | None = None
    coverage: tuple[float, ...] = ()
    usual: float | None = None

    @property
    def score_list(self) -> ScoreList[str]:
        """The same as `fusion.weighted` and `fusion.rrf` take it."""
        ids, scores = self.chunk_ids, self.scores
        other_scores = {} if self.listed is None else dict(zip(ids[self.listed :], scores[self.listed :], strict=True))
        coverage = dict(zip(ids, self.coverage, strict=bool(self.coverage)))
        return ScoreList(self.name, ids[: self.listed], scores[: self.listed], other_scores, coverage, self.usual)


@dataclass(frozen=True, slots=True)
class Example:
    """Recorded search over one corpus, with the chunks that were used.

    Attributes:
        legs: in order of precedence.
        used: ids of the used chunks; an example without any is ignored.
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
    """Proposed weights, with their effect.

    Attributes:
        weights: by leg name; the current ones where none are better.
        before: quality with the current weights.
        after: quality with the proposed ones, never worse.
    """

    weights: Mapping[str, float]
    before: Quality
    after: Quality


def tune(
    examples: Sequence[Example],
    current: Mapping[str, float],
    *,
    method: str = "weighted",
    k: int = 5,
    steps: int = 20,
    fitted: Collection[str] = (),
) -> Proposal:
    """Find the weights with the highest mean nDCG at ``k``; ties by the highest recall.

    Candidates are the current weights and all multiples of 1 / ``steps`` that sum to 1: with n legs
    ``comb(steps + n - 1, n - 1)`` of them. Further ties go to the weights nearest to the current ones (as shares of
    their sum), then to the lowest, leg by leg in the order of their names. So only better weights are ever proposed,
    and the order of examples or weights does not matter.

    Args:
        examples: the feedback.
        current: weights by leg name; the method's defaults where none is given.
        method: a weighted sum: ``weighted`` or ``rrf``.
        k: number of results a user looks at, 1 or more.
        steps: resolution of the grid, 1 or more.
        fitted: legs whose current weight is a default of ``weighted``, of which each search used its `fit_of`.
    """
    names = sorted({leg.name for example in examples for leg in example.legs})
    current_weights = tuple(weight_of(method, name, current) for name in names)
    cases = [_Case.of(example, names, method) for example in examples]

    # The current weights first, then the grid in ascending order: `min` takes the first of equal ones.
    options = {weights: _quality(cases, weights, k) for weights in _grid(len(names), steps)}
    used = _quality(
        [case.fitted({names.index(leg) for leg in fitted if leg in names}) for case in cases], current_weights, k
    )
    options = {current_weights: used} | {
        weights: quality for weights, quality in options.items() if weights != current_weights
    }

    def order(weights: tuple[float, ...]) -> tuple[float, float, float]:
        return (
            descending(options[weights].ndcg),
            descending(options[weights].recall),
            _distance(weights, current_weights),
        )

    best = min(options, key=order)
    return Proposal(dict(zip(names, best, strict=True)), before=options[current_weights], after=options[best])


@dataclass(frozen=True, slots=True)
class _Case:
    """Example prepared for repeated ranking: (index of the weight, ids, contributions) of each leg."""

    legs: tuple[tuple[int, tuple[str, ...], list[float]], ...]
    used: frozenset[str]
    fits: tuple[float, ...]

    @classmethod
    def of(cls, example: Example, names: Sequence[str], method: str) -> _Case:
        lists = [leg.score_list for leg in example.legs]
        nearest = [(score_list.name, score_list.scores) for score_list in lists]
        added = CONTRIBUTIONS[method](lists)
        return cls(
            tuple((names.index(name), tuple(ids), [*values]) for name, ids, values in added),
            example.used,
            tuple(fit_of(name, nearest) for name, _, _ in added),
        )

    def fitted(self, indices: Collection[int]) -> _Case:
        """Return the case with contributions as the legs of these indices had them."""
        fits = [fit if i in indices else 1.0 for (i, _, _), fit in zip(self.legs, self.fits, strict=True)]
        scaled = [
            (i, ids, [fit * value for value in added]) for (i, ids, added), fit in zip(self.legs, fits, strict=True)
        ]
        return _Case(tuple(scaled), self.used, self.fits)

    def ranked(self, weights: Sequence[float]) -> list[str]:
        return [chunk_id for chunk_id, _ in weighted_sums((weights[i], ids, added) for i, ids, added in self.legs)]


def _quality(cases: Sequence[_Case], weights: Sequence[float], k: int) -> Quality:
    rankings = [(case.ranked(weights), case.used) for case in cases]
    return Quality(
        mean(ndcg(ranked, dict.fromkeys(used, 1.0), k) for ranked, used in rankings),
        mean(recall(ranked, used, k) for ranked, used in rankings),
    )


def _grid(legs: int, steps: int) -> Iterator[tuple[float, ...]]:
    """Yield all weights in multiples of 1 / ``steps`` that sum to 1 (stars and bars).

    >>> list(_grid(2, 2))
    [(0.0, 1.0), (0.5, 0.5), (1.0, 0.0)]
    """
    if not legs:
        return
    end = steps + legs - 1
    for bars in combinations(range(end), legs - 1):
        yield tuple((right_bar - left_bar - 1) / steps for left_bar, right_bar in pairwise((-1, *bars, end)))


def _distance(weights: Sequence[float], other_weights: Sequence[float]) -> float:
    """Return the squared distance of two sets of weights as shares; rounded, so that rounding errors break no ties."""
    pairs = zip(_shares(weights), _shares(other_weights), strict=True)
    return round(math.fsum((share - other_share) ** 2 for share, other_share in pairs), 12)


def _shares(weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights)
    return [weight / total if total else 0.0 for weight in weights]
