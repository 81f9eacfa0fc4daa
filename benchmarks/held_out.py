"""Weights of the lexical reranker beside the shipped one, each chosen on two sets and judged on the third."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.labelled_sets import by_group, quality, shallow

from worker.core.ranking import bm25
from worker.core.ranking.fusion import convex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.labelled_sets import Found

RERANK_WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0)
RERANK_DEPTH = 30


def reranked(found: Found, weight: float) -> list[str]:
    """Ids of the nearest chunks in the order of similarity and the lexical reranker, best first."""
    leg = shallow(found.legs["primary"], RERANK_DEPTH)
    scores = bm25.scores(found.query.question, [one.chunk.text for one in leg.candidates])
    combined = convex(leg.scores, scores, weight)
    order = sorted(range(len(combined)), key=lambda i: -combined[i])
    return [leg.candidates[i].chunk.id for i in order]


def by_rerank_weight(found: Sequence[Found]) -> dict[float, dict[str, float]]:
    """Weight → query → nDCG@5."""
    return {
        weight: {one.query.id: quality(reranked(one, weight), one.query) for one in found} for weight in RERANK_WEIGHTS
    }


def chosen_elsewhere(found: Sequence[Found], options: Mapping[float, Mapping[str, float]]) -> dict[str, float]:
    """Set → the weight that is best on the other sets."""
    groups = dict.fromkeys(one.group for one in found)
    return {
        held: max(options, key=lambda weight: by_group([one for one in found if one.group != held], options[weight]))
        for held in groups
    }
