"""Fusion of several ranked lists into one, by one of three methods.

Legs are in order of precedence: the first is the primary. Of two chunks with the same fused value, the one that an
earlier leg found is first; within one leg, the one it ranked higher. No two chunks share leg and rank, so every fused
order is total; the ranks themselves are total by `worker.core.ranking`.

Sums are exact before they are rounded (`math.fsum`), so the order of summation never decides a result.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from worker.core.ranking.total_order import descending
from worker.model import LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from worker.model import Candidate

    Fusion = Callable[[Sequence["RankedLeg"], Mapping[str, float], int], list[Candidate]]

RRF_K = 60
"""Constant of reciprocal rank fusion: the higher, the less the first ranks differ (60 in Cormack et al. 2009)."""

PRIMARY_WEIGHT, SPARSE_WEIGHT, OTHER_WEIGHT = 0.8, 0.2, 0.4
"""Default weights in a weighted sum of scores: of the query's own vector, of words, and of any other vector.

Measured on three labelled sets: `benchmarks/results/quality.md`."""

_PLACES = 12
"""Decimal places of a convex sum: equal sums stay equal whatever the order of their terms."""

_OF_QUESTION, _OF_CONTEXT = frozenset({"primary", "dense"}), frozenset({"contextual", "context"})
FULL_FIT = 0.1
"""Similarity by which a context has to bring the query nearer to a chunk for its leg's whole default weight."""

Key = TypeVar("Key", bound="Hashable")
_NO_WEIGHTS: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class RankedLeg:
    """Ranked list of one leg.

    Attributes:
        name: the leg's name; legs over different corpora may share one.
        candidates: best first, each chunk once.
        scores: the leg's own score of each, finite, in its own unit; higher is better.

    Raises:
        ValueError: not one finite score per candidate, or a chunk is listed twice.
    """

    name: str
    candidates: tuple[Candidate, ...]
    scores: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.candidates) or not all(map(math.isfinite, self.scores)):
            raise ValueError(f"leg {self.name}: expected one finite score for each candidate")
        if len({*map(identity, self.candidates)}) < len(self.candidates):
            raise ValueError(f"leg {self.name}: expected each chunk once")

    @classmethod
    def dense(cls, name: str, candidates: Iterable[Candidate]) -> RankedLeg:
        """Make a leg of a vector search: its scores are the similarities; candidates without one are left out."""
        known = [(candidate, candidate.similarity) for candidate in candidates if candidate.similarity is not None]
        return cls(name, tuple(candidate for candidate, _ in known), tuple(score for _, score in known))

    @classmethod
    def scored(cls, name: str, found: Iterable[tuple[Candidate, float]], key: Callable[[str], Any]) -> RankedLeg:
        """Make a leg in total order: by its own score, then by chunk id as ``key`` compares them (`ranking.id_key`)."""
        ranked = sorted(found, key=lambda pair: (descending(pair[1]), key(pair[0].chunk.id)))
        return cls(name, tuple(candidate for candidate, _ in ranked), tuple(score for _, score in ranked))


def identity(candidate: Candidate) -> tuple[str, str]:
    """Return the identity of a chunk: its corpus and its id there."""
    return candidate.corpus, candidate.chunk.id


def relevance(candidate: Candidate) -> float | None:
    """Return a candidate's score by the last step that scored it; recency counts as none."""
    scores = candidate.scores
    return next((score for score in (scores.rerank, scores.fused, candidate.similarity) if score is not None), None)


# --- the methods --------------------------------------------------------------------------------


def similarity(
    legs: Sequence[RankedLeg],
    weights: Mapping[str, float] = _NO_WEIGHTS,  # noqa: ARG001 -- one signature for all
    rrf_k: int = RRF_K,  # noqa: ARG001 -- one signature for all
) -> list[Candidate]:
    """Fuse by similarity; for a chunk that several legs found, the earliest leg's similarity counts.

    Unknown similarities come last. Weights have no effect: the primary's share depends on how many chunks it fetches.
    """
    merged = _merge(legs).values()
    ranked = sorted(merged, key=lambda candidate: descending(candidate.similarity))
    return [_with_fused(candidate, candidate.similarity) for candidate in ranked]


def rrf(legs: Sequence[RankedLeg], weights: Mapping[str, float] = _NO_WEIGHTS, rrf_k: int = RRF_K) -> list[Candidate]:
    """Fuse by reciprocal rank: the sum of weight / (rrf_k + rank), ranks from 1; a leg without the chunk adds 0.

    Cormack, Clarke, Büttcher: "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
    SIGIR 2009.

    Args:
        legs: in order of precedence.
        weights: by leg name, 0 or more; 1 where none is given.
        rrf_k: 1 or more.
    """
    return _by_sum("rrf", legs, weights, [reciprocal_ranks(leg.scores, rrf_k) for leg in legs])


def weighted(
    legs: Sequence[RankedLeg],
    weights: Mapping[str, float] = _NO_WEIGHTS,
    rrf_k: int = RRF_K,  # noqa: ARG001 -- one signature for all
) -> list[Candidate]:
    """Fuse by the weighted sum of scores scaled to 0-1 by `min_max`; a leg without the chunk adds 0.

    Lists of one leg over several corpora are scaled together, so that a corpus with nothing near stays low. Bruch, Gai,
    Ingber: "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023, compare this convex combination to RRF.

    Args:
        legs: in order of precedence.
        weights: by leg name, 0 or more; where none is given, see `weight_of` and, for a leg of the context, `fit_of`.
        rrf_k: has no effect.
    """
    return _by_sum("weighted", legs, weights_used("weighted", legs, weights), _scaled_by_leg(legs))


FUSIONS: Mapping[str, Fusion] = {"similarity": similarity, "rrf": rrf, "weighted": weighted}
"""Methods by their name in a job; each takes legs in order of precedence, weights and `RRF_K`'s value for this job, and
returns candidates best first."""


# --- parts of the methods -----------------------------------------------------------------------


def reciprocal_ranks(scores: Sequence[float], rrf_k: int = RRF_K) -> list[float]:
    """Return 1 / (rrf_k + rank) for each position of a list, ranks from 1; only the length of the list matters."""
    return [1.0 / (rrf_k + rank) for rank in range(1, len(scores) + 1)]


def min_max(scores: Sequence[float]) -> list[float]:
    """Scale the scores of one leg to 0 (lowest) to 1 (highest); a single score, or all-equal scores, become 1.

    >>> min_max([0.75, 0.5, 0.25]), min_max([0.3])
    ([1.0, 0.5, 0.0], [1.0])
    """
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if low < high else 1.0 for score in scores]


def convex(first: Sequence[float], second: Sequence[float], weight: float) -> list[float]:
    """Return (1 - weight) * first + weight * second, each scaled to 0-1 by `min_max`; at weight 1 the second unscaled.

    >>> convex([0.9, 0.8, 0.5], [0.0, 7.0, 7.0], 0.5), convex([0.9, 0.8, 0.5], [0.0, 7.0, 7.0], 1.0)
    ([0.5, 0.875, 0.5], [0.0, 7.0, 7.0])

    Args:
        first: one finite score per candidate, higher is better.
        second: as many, in its own unit.
        weight: of the second, 0-1.

    Returns:
        One score per candidate, rounded to twelve decimal places below weight 1.
    """
    if weight == 1:
        return [*second]
    pairs = zip(min_max(first), min_max(second), strict=True)
    return [round((1.0 - weight) * one + weight * other, _PLACES) for one, other in pairs]


CONTRIBUTIONS: Mapping[str, Callable[[Sequence[float]], list[float]]] = {"rrf": reciprocal_ranks, "weighted": min_max}
"""Contribution of each position of a leg before its weight, for the methods that are weighted sums."""


def weight_of(method: str, leg: str, weights: Mapping[str, float]) -> float:
    """Return a leg's weight in a weighted-sum method, with the method's default where none is given.

    >>> weight_of("weighted", "primary", {}), weight_of("weighted", "sparse", {}), weight_of("rrf", "sparse", {})
    (0.8, 0.2, 1.0)
    """
    return weights.get(leg, 1.0 if method == "rrf" else default_weight(leg))


def default_weight(leg: str) -> float:
    """Return a leg's weight in a weighted sum of scores, where neither job nor settings name one.

    >>> default_weight("dense"), default_weight("sparse_context"), default_weight("context")
    (0.8, 0.2, 0.4)
    """
    if leg.startswith("sparse"):
        return SPARSE_WEIGHT
    return PRIMARY_WEIGHT if leg in _OF_QUESTION else OTHER_WEIGHT


def fit_of(leg: str, legs: Iterable[tuple[str, Sequence[float]]]) -> float:
    """Return the share of its default weight that a leg has, 0-1; only a leg of the context can have less than 1.

    Its vector is the query's and the context's together. Where the context belongs to the query, some chunk is nearer
    to both than any is to the query alone; where the editor holds something else, none is. Measured beside other rules:
    `benchmarks/results/quality.md`.

    >>> similarities = [("primary", [0.5, 0.25]), ("contextual", [0.55, 0.125])]
    >>> fit_of("contextual", similarities), fit_of("primary", similarities)
    (0.5, 1.0)

    Args:
        leg: its name.
        legs: name and scores of each list; those of vectors are cosine similarities by one embedder.
    """
    if leg not in _OF_CONTEXT:
        return 1.0
    lists = [*legs]
    nearest = max((max(scores) for name, scores in lists if name in _OF_QUESTION and scores), default=None)
    best = max((max(scores) for name, scores in lists if name == leg and scores), default=None)
    if nearest is None or best is None:
        return 1.0
    return round(min(1.0, max(0.0, (best - nearest) / FULL_FIT)), _PLACES)


def weights_used(method: str, legs: Sequence[RankedLeg], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of each leg in a fusion, defaults included; empty for a method without weights."""
    if method not in CONTRIBUTIONS:
        return {}
    given = {**_fitted(legs, weights), **weights} if method == "weighted" else weights
    return {leg.name: weight_of(method, leg.name, given) for leg in legs}


def _fitted(legs: Sequence[RankedLeg], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights of the context's legs that have none."""
    lists = [(leg.name, leg.scores) for leg in legs]
    missing = {leg.name for leg in legs} & (_OF_CONTEXT - weights.keys())
    return {name: default_weight(name) * fit_of(name, lists) for name in missing}


def weighted_sums(lists: Iterable[tuple[float, Sequence[Key], Sequence[float]]]) -> list[tuple[Key, float]]:
    """Return keys with the weighted sum of their values, highest first; ties in order of first occurrence.

    Args:
        lists: (weight, keys, the value of each key).
    """
    terms: dict[Key, list[float]] = {}
    for weight, keys, values in lists:
        for key, value in zip(keys, values, strict=True):
            terms.setdefault(key, []).append(weight * value)
    totals = ((key, math.fsum(values)) for key, values in terms.items())
    return sorted(totals, key=lambda total: descending(total[1]))


def _scaled_by_leg(legs: Sequence[RankedLeg]) -> list[list[float]]:
    """Return each list's scores scaled by `min_max`, those of lists with the same name together."""
    names = dict.fromkeys(leg.name for leg in legs)
    scaled = {
        name: iter(min_max([score for leg in legs if leg.name == name for score in leg.scores])) for name in names
    }
    return [[next(scaled[leg.name]) for _ in leg.scores] for leg in legs]


def _by_sum(
    method: str,
    legs: Sequence[RankedLeg],
    weights: Mapping[str, float],
    contributions: Sequence[Sequence[float]],
) -> list[Candidate]:
    merged = _merge(legs)
    lists = [
        (
            weight_of(method, leg.name, weights),
            [identity(candidate) for candidate in leg.candidates],
            added,
        )
        for leg, added in zip(legs, contributions, strict=True)
    ]
    return [_with_fused(merged[key], fused) for key, fused in weighted_sums(lists)]


def _merge(legs: Sequence[RankedLeg]) -> dict[tuple[str, str], Candidate]:
    """Merge the legs: each chunk once, in order of precedence, with every leg's score and rank.

    The earliest leg's candidate is kept; its missing similarity or vector is filled in from a later leg.
    """
    merged: dict[tuple[str, str], Candidate] = {}
    for leg in legs:
        for rank, (candidate, score) in enumerate(zip(leg.candidates, leg.scores, strict=True), 1):
            first = merged.get(identity(candidate), candidate)
            seen = () if first is candidate else first.scores.legs
            merged[identity(candidate)] = dataclasses.replace(
                first,
                similarity=candidate.similarity if first.similarity is None else first.similarity,
                embedding=candidate.embedding if first.embedding is None else first.embedding,
                scores=ScoreBreakdown(legs=(*seen, LegScore(leg.name, score, rank))),
            )
    return merged


def _with_fused(candidate: Candidate, fused: float | None) -> Candidate:
    return dataclasses.replace(candidate, scores=dataclasses.replace(candidate.scores, fused=fused))
