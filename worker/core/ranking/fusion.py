"""Fusion of several ranked lists into one, by one of three methods.

A leg lists its best chunks, and may also know its score of chunks that only other legs listed: `weighted` compares all
candidates by the scores of all legs.

Legs are in order of precedence: the first is the primary. Of two chunks with the same fused value, the one that an
earlier leg found is first; within one leg, the one it ranked higher. No two chunks share leg and rank, so every fused
order is total; the ranks themselves are total by `worker.core.ranking`.

Sums are exact before they are rounded (`math.fsum`), so the order of summation never decides a result.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from worker.core.ranking.total_order import descending
from worker.model import Candidate, LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    Fusion = Callable[[Sequence["RankedLeg"], Mapping[str, float], int], list[Candidate]]
    # Name of a leg, chunks, and what it adds to the sum of each before its weight.
    Contribution = tuple[str, Sequence["Key"], Sequence[float]]

RRF_K = 60
"""Constant of reciprocal rank fusion: the higher, the less the first ranks differ (60 in Cormack et al. 2009)."""

PRIMARY_WEIGHT, SPARSE_WEIGHT, OTHER_WEIGHT = 0.7, 0.3, 0.4
"""Default weights in a weighted sum of scores: of the query's own vector, of words, and of any other vector.

Measured on nine labelled sets: `benchmarks/results/fusion.md`."""

DEPTH = 50
"""Chunks that each leg lists by default for a weighted sum."""

WHOLE_QUERY = 4.0
"""Factor of the BM25 score of a chunk that the whole query matches, in a weighted sum; see `ScoreList.compared`."""

USUAL_WORDS = 1.35
"""Usual deviation of BM25 scores among a query's candidates; see `ScoreList`."""

MISREAD = 5.0
"""Factor of the usual deviation of similarities where the embedder does not know the language."""

_PLACES = 12
"""Decimal places of a convex sum: equal sums stay equal whatever the order of their terms."""

_OF_QUESTION, _OF_CONTEXT = frozenset({"primary", "dense"}), frozenset({"contextual", "context"})
FULL_FIT = 0.1
"""Similarity by which a context has to bring the query nearer to a chunk for its leg's whole default weight."""

Key = TypeVar("Key", bound="Hashable")
_NO_WEIGHTS: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class ScoreList(Generic[Key]):
    """Scores of one list of a leg, by any keys of the chunks.

    Attributes:
        name: the leg's name.
        listed: the listed chunks, best first, each once.
        scores: the score of each.
        unlisted: chunk → score, of chunks that only other legs list.
        coverage: chunk → how much of the query it has, 0-1; for full text.
        usual: usual standard deviation of the scores among a query's candidates, above 0; None where none is known.
    """

    name: str
    listed: Sequence[Key]
    scores: Sequence[float]
    unlisted: Mapping[Key, float] = field(default_factory=dict)
    coverage: Mapping[Key, float] = field(default_factory=dict)
    usual: float | None = None

    @property
    def known(self) -> dict[Key, float]:
        """All scores, the listed chunks' first."""
        return {**dict(zip(self.listed, self.scores, strict=True)), **self.unlisted}

    @property
    def compared(self) -> dict[Key, float]:
        """All scores, raised by the square of how much of the query the chunk has, up to `WHOLE_QUERY` times."""
        return {
            chunk: score * (1.0 + (WHOLE_QUERY - 1.0) * share * share)
            for chunk, score in self.known.items()
            for share in [self.coverage.get(chunk, 0.0)]
        }


@dataclass(frozen=True, slots=True)
class RankedLeg:
    """Ranked list of one leg.

    Attributes:
        name: the leg's name; legs over different corpora may share one.
        candidates: best first, each chunk once.
        scores: the leg's own score of each, finite, in its own unit; higher is better.
        unlisted: chunk → its score, likewise, of chunks that only other legs list.
        coverage: as of `ScoreList`, like ``usual``.

    Raises:
        ValueError: not one finite score per candidate, or a chunk is listed twice.
    """

    name: str
    candidates: tuple[Candidate, ...]
    scores: tuple[float, ...]
    unlisted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    coverage: Mapping[tuple[str, str], float] = field(default_factory=dict)
    usual: float | None = None

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.candidates) or not all(map(math.isfinite, self.scores)):
            raise ValueError(f"leg {self.name}: expected one finite score for each candidate")
        if len({*map(identity, self.candidates), *self.unlisted}) < len(self.candidates) + len(self.unlisted):
            raise ValueError(f"leg {self.name}: expected each chunk once")

    @property
    def score_list(self) -> ScoreList[tuple[str, str]]:
        """Its scores alone, by `identity`."""
        listed = [*map(identity, self.candidates)]
        return ScoreList(self.name, listed, self.scores, self.unlisted, self.coverage, self.usual)

    @classmethod
    def dense(cls, name: str, candidates: Iterable[Candidate], **leg_fields: Any) -> RankedLeg:
        """Make a leg of a vector search: its scores are the similarities; candidates without one are left out."""
        pairs = [(candidate, candidate.similarity) for candidate in candidates if candidate.similarity is not None]
        return cls(name, tuple(candidate for candidate, _ in pairs), tuple(score for _, score in pairs), **leg_fields)

    @classmethod
    def scored(
        cls, name: str, scored_candidates: Iterable[tuple[Candidate, float]], key: Callable[[str], Any]
    ) -> RankedLeg:
        """Make a leg in total order: by its own score, then by chunk id as ``key`` compares them (`ranking.id_key`)."""
        ranked = sorted(scored_candidates, key=lambda pair: (descending(pair[1]), key(pair[0].chunk.id)))
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
    merged, leg_scores = _merge(legs), _leg_scores(legs)
    ranked = sorted(merged.items(), key=lambda pair: descending(pair[1].similarity))
    return [_scored(candidate, leg_scores[chunk], candidate.similarity) for chunk, candidate in ranked]


def rrf(legs: Sequence[RankedLeg], weights: Mapping[str, float] = _NO_WEIGHTS, rrf_k: int = RRF_K) -> list[Candidate]:
    """Fuse by reciprocal rank: the sum of weight / (rrf_k + rank), ranks from 1; a leg without the chunk adds 0.

    Cormack, Clarke, Büttcher: "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
    SIGIR 2009.

    Args:
        legs: in order of precedence.
        weights: by leg name, 0 or more; 1 where none is given.
        rrf_k: 1 or more.
    """
    return _by_sum(legs, weights_used("rrf", legs, weights), partial(ranks_of, rrf_k=rrf_k))


def weighted(
    legs: Sequence[RankedLeg],
    weights: Mapping[str, float] = _NO_WEIGHTS,
    rrf_k: int = RRF_K,  # noqa: ARG001 -- one signature for all
) -> list[Candidate]:
    """Fuse by the weighted sum of `standardised` scores, each leg's over the candidates of all legs.

    Lists of one leg over several corpora are scaled together, so that a corpus with nothing near stays low. Why so:
    docs/quality.md.

    Args:
        legs: in order of precedence.
        weights: by leg name, 0 or more; where none is given, see `weight_of` and, for a leg of the context, `fit_of`.
        rrf_k: has no effect.
    """
    return _by_sum(legs, weights_used("weighted", legs, weights), standard_scores_of)


FUSIONS: Mapping[str, Fusion] = {"similarity": similarity, "rrf": rrf, "weighted": weighted}
"""Methods by their name in a job; each takes legs in order of precedence, weights and `RRF_K`'s value for this job, and
returns candidates best first."""


# --- parts of the methods -----------------------------------------------------------------------


def reciprocal_ranks(scores: Sequence[float], rrf_k: int = RRF_K) -> list[float]:
    """Return 1 / (rrf_k + rank) for each position of a list, ranks from 1; only the length of the list matters."""
    return [1.0 / (rrf_k + rank) for rank in range(1, len(scores) + 1)]


def standardised(scores: Sequence[float | None], usual: Sequence[float] = ()) -> list[float]:
    """Return each score's distance from their mean, in standard deviations; None counts as the lowest score.

    The deviation is the usual one of each score, so that a leg whose scores tell little apart counts little; without
    these, that of the scores.

    >>> standardised([3.0, 1.0, None]), standardised([0.5, 0.5]), standardised([None])
    ([1.414213562373, -0.707106781187, -0.707106781187], [0.0, 0.0], [0.0])
    >>> standardised([0.3, 0.1], [0.1, 0.5])
    [1.0, -0.2]
    """
    lowest = min((score for score in scores if score is not None), default=0.0)
    filled_scores = [lowest if score is None else score for score in scores]
    if not filled_scores or min(filled_scores) == max(filled_scores):
        return [0.0] * len(filled_scores)
    mean = math.fsum(filled_scores) / len(filled_scores)
    standard_deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in filled_scores) / len(filled_scores))
    pairs = zip(filled_scores, usual or [standard_deviation] * len(filled_scores), strict=True)
    return [round((score - mean) / deviation, _PLACES) for score, deviation in pairs]


def min_max(scores: Sequence[float]) -> list[float]:
    """Scale the scores of one leg to 0 (lowest) to 1 (highest); a single score, or all-equal scores, become 1.

    >>> min_max([0.75, 0.5, 0.25]), min_max([0.3])
    ([1.0, 0.5, 0.0], [1.0])
    """
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return [(score - low) / (high - low) if low < high else 1.0 for score in scores]


def convex(first_scores: Sequence[float], second_scores: Sequence[float], weight: float) -> list[float]:
    """Return (1 - weight) * first + weight * second, each scaled to 0-1 by `min_max`; at weight 1 the second unscaled.

    >>> convex([0.9, 0.8, 0.5], [0.0, 7.0, 7.0], 0.5), convex([0.9, 0.8, 0.5], [0.0, 7.0, 7.0], 1.0)
    ([0.5, 0.875, 0.5], [0.0, 7.0, 7.0])

    Args:
        first_scores: one finite score per candidate, higher is better.
        second_scores: as many, in its own unit.
        weight: of the second, 0-1.

    Returns:
        One score per candidate, rounded to twelve decimal places below weight 1.
    """
    if weight == 1:
        return [*second_scores]
    pairs = zip(min_max(first_scores), min_max(second_scores), strict=True)
    return [round((1.0 - weight) * first_score + weight * second_score, _PLACES) for first_score, second_score in pairs]


def ranks_of(lists: Sequence[ScoreList[Key]], rrf_k: int = RRF_K) -> list[Contribution[Key]]:
    """Return what each list adds to a chunk's sum in reciprocal rank fusion: only the ranks of what it lists matter."""
    return [(score_list.name, score_list.listed, reciprocal_ranks(score_list.scores, rrf_k)) for score_list in lists]


def standard_scores_of(lists: Sequence[ScoreList[Key]]) -> list[Contribution[Key]]:
    """Return what each leg adds to a chunk's sum of `standardised` scores; lists of one name have one mean."""
    chunks = [*dict.fromkeys(chunk for score_list in lists for chunk in score_list.listed)]
    compared: dict[str, dict[Key, float]] = {}
    usual: dict[str, dict[Key, float | None]] = {}
    for score_list in lists:
        compared.setdefault(score_list.name, {}).update(score_list.compared)
        usual.setdefault(score_list.name, {}).update(dict.fromkeys(score_list.known, score_list.usual))
    return [
        (name, chunks, standardised([scores.get(chunk) for chunk in chunks], _deviations(chunks, usual[name])))
        for name, scores in compared.items()
    ]


def _deviations(chunks: Sequence[Key], usual: Mapping[Key, float | None]) -> list[float]:
    """Return the usual deviation of each chunk's score, the widest where it has none; empty where one is not known."""
    known_deviations = [deviation for deviation in usual.values() if deviation is not None]
    if not known_deviations or len(known_deviations) < len(usual):
        return []
    return [usual.get(chunk) or max(known_deviations) for chunk in chunks]


CONTRIBUTIONS: Mapping[str, Callable[[Sequence[ScoreList[Any]]], list[Contribution[Any]]]] = {
    "rrf": ranks_of,
    "weighted": standard_scores_of,
}
"""Addition of each list to a chunk's sum before weights, by method, for those that are weighted sums."""


def weight_of(method: str, leg: str, weights: Mapping[str, float]) -> float:
    """Return a leg's weight in a weighted-sum method, with the method's default where none is given.

    >>> weight_of("weighted", "primary", {}), weight_of("weighted", "sparse", {}), weight_of("rrf", "sparse", {})
    (0.7, 0.3, 1.0)
    """
    return weights.get(leg, 1.0 if method == "rrf" else default_weight(leg))


def default_weight(leg: str) -> float:
    """Return a leg's weight in a weighted sum of scores, where neither job nor settings name one.

    >>> default_weight("dense"), default_weight("sparse_context"), default_weight("context")
    (0.7, 0.3, 0.4)
    """
    if leg.startswith("sparse"):
        return SPARSE_WEIGHT
    return PRIMARY_WEIGHT if leg in _OF_QUESTION else OTHER_WEIGHT


def fit_of(leg: str, legs: Iterable[tuple[str, Sequence[float]]]) -> float:
    """Return the share of its default weight that a leg has, 0-1; only a leg of the context can have less than 1.

    Its vector is the query's and the context's together. Where the context belongs to the query, some chunk is nearer
    to both than any is to the query alone; where the editor holds something else, none is. Measured:
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
    """Return the weight of each leg in a fusion, defaults included; empty for a method without weights.

    Where those of all legs that list a chunk are 0, as where only the context had one and has no keywords, the method's
    defaults count.
    """
    if method not in CONTRIBUTIONS:
        return {}
    named_weights = {**_fitted(legs, weights), **weights} if method == "weighted" else weights
    used = {leg.name: weight_of(method, leg.name, named_weights) for leg in legs}
    listing = [used[leg.name] for leg in legs if leg.candidates]
    return {name: weight_of(method, name, {}) for name in used} if listing and not any(listing) else used


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


def _by_sum(
    legs: Sequence[RankedLeg],
    weights: Mapping[str, float],
    contributions: Callable[[Sequence[ScoreList[tuple[str, str]]]], list[Contribution[tuple[str, str]]]],
) -> list[Candidate]:
    merged, leg_scores = _merge(legs), _leg_scores(legs)
    added = contributions([leg.score_list for leg in legs])
    totals = weighted_sums((weights[name], chunks, values) for name, chunks, values in added)
    return [_scored(merged[chunk], leg_scores[chunk], fused) for chunk, fused in totals]


def _merge(legs: Sequence[RankedLeg]) -> dict[tuple[str, str], Candidate]:
    """Merge the legs: each chunk once, in order of precedence.

    The earliest leg's candidate is kept; its missing similarity or vector is filled in from a later leg.
    """
    merged: dict[tuple[str, str], Candidate] = {}
    for candidate in (candidate for leg in legs for candidate in leg.candidates):
        merged_candidate = merged.setdefault(identity(candidate), candidate)
        lacks_similarity = merged_candidate.similarity is None and candidate.similarity is not None
        if lacks_similarity or (merged_candidate.embedding is None and candidate.embedding is not None):
            merged[identity(candidate)] = dataclasses.replace(
                merged_candidate,
                similarity=candidate.similarity if merged_candidate.similarity is None else merged_candidate.similarity,
                embedding=candidate.embedding if merged_candidate.embedding is None else merged_candidate.embedding,
            )
    return merged


def _leg_scores(legs: Sequence[RankedLeg]) -> dict[tuple[str, str], list[LegScore]]:
    """Return the score and rank of each listed chunk in every leg that knows it.

    Chunks that a leg only knows the score of rank after those that it lists.
    """
    scores_by_chunk: dict[tuple[str, str], list[LegScore]] = {
        identity(candidate): [] for leg in legs for candidate in leg.candidates
    }
    for leg in legs:
        listed = zip(map(identity, leg.candidates), leg.scores, strict=True)
        unlisted_scores = [(chunk, leg.unlisted[chunk]) for chunk in scores_by_chunk if chunk in leg.unlisted]
        unlisted_scores.sort(key=lambda pair: descending(pair[1]))
        for rank, (chunk, score) in enumerate((*listed, *unlisted_scores), 1):
            scores_by_chunk[chunk].append(LegScore(leg.name, score, rank))
    return scores_by_chunk


def _scored(candidate: Candidate, legs: Sequence[LegScore], fused: float | None) -> Candidate:
    scores = ScoreBreakdown(tuple(legs), fused)
    return Candidate(candidate.chunk, candidate.similarity, scores, candidate.corpus, candidate.embedding)
