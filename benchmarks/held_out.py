"""Rules tried beside the shipped settings, each chosen on two sets and judged on the third.

Signs that a question has no answer, and weights of the lexical reranker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.labelled_sets import K, by_group, quality, shallow

from worker.core.ranking import bm25
from worker.core.ranking.fusion import convex
from worker.core.text.terms import terms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.labelled_sets import Found

    Sign = Callable[[Found], float]

ANSWERED = 0.95
"""Share of the questions with an answer that a rule has to answer, on the sets that choose it."""

SHARES = (0.0, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Weights of a second sign beside the nearest similarity."""

RERANK_WEIGHTS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0)
RERANK_DEPTH = 30


# --- no answer ----------------------------------------------------------------------------------


def _similarities(found: Found) -> list[float]:
    return [one.similarity or -1.0 for one in found.legs["primary"].candidates]


def _fetched(found: Found) -> dict[str, set[str]]:
    """Chunk id → its distinct terms, of all that both legs fetched."""
    legs = (found.legs["primary"], found.legs["sparse"])
    return {one.chunk.id: {*terms(one.chunk.text)} for leg in legs for one in leg.candidates}


def _rarities(found: Found) -> Mapping[str, float]:
    """Inverse document frequency of the question's terms among the fetched chunks."""
    return bm25.idf(sorted({*terms(found.query.question)}), [*_fetched(found).values()])


def _nearest_words(found: Found) -> set[str]:
    fetched = _fetched(found)
    return {word for one in found.legs["primary"].candidates[:K] for word in fetched[one.chunk.id]}


def share_of_words(found: Found) -> float:
    """Share of the question's terms, weighted by rarity, in the five nearest chunks."""
    rarities, words = _rarities(found), _nearest_words(found)
    return sum(value for term, value in rarities.items() if term in words) / (sum(rarities.values()) or 1.0)


def rarest_missing(found: Found) -> float:
    """Rarity of the rarest term that the five nearest chunks lack, negative: the rarer, the less of an answer."""
    words = _nearest_words(found)
    return -max((value for term, value in _rarities(found).items() if term not in words), default=0.0)


def agreement(found: Found) -> float:
    """1 if both legs have the same first chunk."""
    first = [leg.candidates[0].chunk.id for leg in (found.legs["primary"], found.legs["sparse"]) if leg.candidates]
    return float(len(first) > 1 and first[0] == first[1])


def best_bm25(found: Found) -> float:
    """BM25 of the best chunk."""
    return max(found.legs["sparse"].scores, default=0.0)


def lead(found: Found) -> float:
    """Similarity of the nearest chunk less that of the fifth."""
    nearest = _similarities(found)[:K]
    return nearest[0] - nearest[-1]


def z_score(found: Found) -> float:
    """Similarity of the nearest chunk in standard deviations above the mean of those fetched."""
    every = _similarities(found)
    return float((every[0] - np.mean(every)) / (np.std(every) or 1.0))


def of_five(found: Found) -> float:
    """Mean similarity of the five nearest chunks."""
    return float(np.mean(_similarities(found)[:K]))


SIGNS: Mapping[str, Sign] = {
    "mean of the five nearest": of_five,
    "lead over the fifth": lead,
    "z-score among those fetched": z_score,
    "best BM25 score": best_bm25,
    "share of the words in the five nearest": share_of_words,
    "rarest word missing in the five nearest": rarest_missing,
    "both legs agree on the first": agreement,
}


@dataclass(frozen=True)
class Refusing:
    """A rule that refuses questions, judged on sets that did not choose it.

    Attributes:
        answered: of the questions with an answer, whether each is answered.
        refused: of those without, whether each is refused; one list for each set.
    """

    answered: Sequence[bool]
    refused: Sequence[Sequence[bool]]


def refusing(sets: Sequence[tuple[Sequence[Found], Sequence[Found]]], sign: Sign | None) -> Refusing:
    """Judge the nearest similarity plus a weighted sign, with weight and threshold from the other sets.

    Args:
        sets: of each, the questions with an answer and those without.
        sign: the second sign; None: the similarity alone.
    """
    answered, refused = list[bool](), list[list[bool]]()
    near = [tuple(np.array([one.nearest for one in part]) for part in one) for one in sets]
    added = [tuple(np.array([sign(one) if sign else 0.0 for one in part]) for part in one) for one in sets]
    for held in range(len(sets)):
        options = [_threshold(near, added, share, held) for share in (SHARES if sign else (0.0,))]
        _, share, least = max(options, key=lambda option: option[0])
        with_answer, without = (near[held][i] + share * added[held][i] for i in (0, 1))
        answered += [bool(value >= least) for value in with_answer]
        refused.append([bool(value < least) for value in without])
    return Refusing(answered, refused)


def _threshold(
    near: Sequence[Sequence[np.ndarray]], added: Sequence[Sequence[np.ndarray]], share: float, held: int
) -> tuple[float, float, float]:
    """Return (share refused, weight, threshold) on all sets but one, at the threshold that answers enough there."""
    others = [i for i in range(len(near)) if i != held]
    with_answer, without = ([near[i][part] + share * added[i][part] for i in others] for part in (0, 1))
    every = np.sort(np.concatenate(with_answer))
    least = float(every[int((1 - ANSWERED) * every.size)])
    return float(np.mean([(values < least).mean() for values in without])), share, least


# --- reranking ----------------------------------------------------------------------------------


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
