"""Ways to fuse the legs of a search, compared over the labelled sets by cross-validation over queries."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.labelled_sets import K, shallow

from worker.core.ranking.fusion import identity, min_max, reciprocal_ranks, weighted_sums
from worker.core.ranking.measures import mean, ndcg
from worker.core.ranking.significance import SEED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.labelled_sets import Found

    from worker.cli.evaluation.queries import LabelledQuery
    from worker.core.ranking.fusion import RankedLeg

    Scale = Callable[[Sequence[float]], Sequence[float]]

FOLDS = 5
WEIGHTS = tuple(i / 20 for i in range(8, 21))
"""Of the vectors; full text has the rest."""


def quality(ranked: Sequence[str], query: LabelledQuery) -> float:
    """nDCG@5 of a ranking, 0-1."""
    return ndcg(ranked, {chunk: float(grade) for chunk, grade in query.grades.items()}, K) or 0.0


def z_scores(scores: Sequence[float]) -> list[float]:
    """Distances above the lowest score in standard deviations; 1 for equal scores."""
    spread = float(np.std(scores)) if scores else 0.0
    return [(score - min(scores)) / spread if spread else 1.0 for score in scores]


def of_highest(scores: Sequence[float]) -> list[float]:
    """Shares of the highest score; below 0 is 0."""
    high = max(scores, default=0.0)
    return [max(score, 0.0) / high if high > 0 else 1.0 for score in scores]


SCALES: Mapping[str, Scale] = {
    "weighted, min-max": min_max,
    "weighted, z-score": z_scores,
    "weighted, share of the highest": of_highest,
    "rrf, k = 60": reciprocal_ranks,
    "rrf, k = 10": lambda scores: reciprocal_ranks(scores, 10),
}


@dataclass(frozen=True)
class Candidate:
    """A way to fuse the query's vector and its words.

    Attributes:
        method: name of the scale.
        weight: of the vectors.
        depth: chunks of each leg.
    """

    method: str
    weight: float
    depth: int

    def ranked(self, found: Found) -> list[str]:
        """Ids of the fused chunks, best first."""
        scale = SCALES[self.method]
        legs = [(self.weight, found.legs["primary"]), (1 - self.weight, found.legs["sparse"])]
        return fused([(weight, shallow(leg, self.depth), scale) for weight, leg in legs])


def fused(legs: Sequence[tuple[float, RankedLeg, Scale]]) -> list[str]:
    """Ids by the weighted sum of scaled scores, best first."""
    lists = [(weight, [*map(identity, leg.candidates)], scale(leg.scores)) for weight, leg, scale in legs]
    return [chunk for (_, chunk), _ in weighted_sums(lists)]


@dataclass(frozen=True)
class Validated:
    """A method whose weight was chosen on other queries than those it is judged on.

    Attributes:
        chosen: weight of the vectors in each fold.
        by_query: query → nDCG@5.
    """

    chosen: Sequence[float]
    by_query: Mapping[str, float]


def cross_validated(found: Sequence[Found], method: str, depth: int, weights: Sequence[float] = WEIGHTS) -> Validated:
    """Choose a weight on four fifths of each set's queries by the mean of the sets, and judge it on the last fifth."""
    options = {
        weight: {one.query.id: quality(Candidate(method, weight, depth).ranked(one), one.query) for one in found}
        for weight in weights
    }
    chosen = list[float]()
    judged = dict[str, float]()
    for held in folds(found):
        kept = [one for one in found if one.query.id not in held]
        weight = max(weights, key=lambda weight: (by_group(kept, options[weight]), weight))
        chosen.append(weight)
        judged |= {query: options[weight][query] for query in held}
    return Validated(chosen, judged)


def by_group(found: Sequence[Found], values: Mapping[str, float]) -> float:
    """Mean of the sets' means: each set counts the same."""
    groups = defaultdict(list)
    for one in found:
        groups[one.group].append(values[one.query.id])
    return mean(mean(group) for group in groups.values()) or 0.0


def folds(found: Sequence[Found]) -> list[set[str]]:
    """The queries in five parts, at random, each with a fifth of every set."""
    shuffled = random.Random(SEED).sample([*found], len(found))  # noqa: S311 -- the same parts every time
    ordered = sorted(shuffled, key=lambda one: one.group)
    return [{one.query.id for one in ordered[i::FOLDS]} for i in range(FOLDS)]
