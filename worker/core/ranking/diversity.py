"""Diversity of a ranked list: removes duplicates and near duplicates, orders by novelty, caps chunks of one document.

Each step keeps candidates in a stated order and gives the reason for each dropped one.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from worker.core.ranking.fusion import min_max, relevance
from worker.core.ranking.near_duplicates import NearDuplicates

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from worker.model import Candidate

_NO_BOUNDS: Mapping[str, int] = {}

Reason = Literal["empty", "duplicate", "near duplicate", "capped", "beyond k", "below threshold"]


@dataclass(frozen=True, slots=True)
class Removal:
    """Dropped candidate, with the reason.

    Attributes:
        candidate: the candidate.
        reason: ``empty`` (no text), ``duplicate`` (a better one has the same text), ``near duplicate`` (the same
            words), ``capped`` (enough of its document or corpus), ``beyond k``, ``below threshold`` (too far from the
            question).
    """

    candidate: Candidate
    reason: Reason


@dataclass(frozen=True, slots=True)
class Selection:
    """Result of one step.

    Attributes:
        candidates: the kept ones, best first.
        dropped: all others, in input order.
    """

    candidates: tuple[Candidate, ...]
    dropped: tuple[Removal, ...]


def diversified(
    candidates: Sequence[Candidate],
    lambda_: float,
    most_per_document: int | None,
    ahead: Sequence[Candidate] = (),
    k: float = math.inf,
    most_per_corpus: Mapping[str, int] = _NO_BOUNDS,
) -> Selection:
    """Remove duplicates and near ones, reorder by maximal marginal relevance, cap the chunks of each document.

    Once the first ``k`` are certain, the others follow as they came, without being looked at: they will be cut.

    Args:
        candidates: best first.
        lambda_: see `marginal_order`; 1: they stay in their order, and need no vectors.
        most_per_document: see `per_document`; None: no bound.
        ahead: candidates that stay before all others: of a duplicate of one of them, that one is kept.
        k: number that `cut` will keep.
        most_per_corpus: number of each corpus that `per_corpus` will keep before.
    """
    once = without_duplicates(candidates, ahead)
    seen = NearDuplicates()
    for earlier_candidate in ahead:
        seen.is_new(earlier_candidate.chunk.text)
    remaining = dict(enumerate(once.candidates))
    kept_candidates: list[Candidate] = []
    dropped: list[Removal] = []
    documents: Counter[Hashable] = Counter()
    corpora: Counter[str] = Counter()
    missing = k
    for place in _in_order(once.candidates, lambda_):
        if missing <= 0:
            break
        candidate = remaining.pop(place)
        document = candidate.corpus, candidate.chunk.document_id
        if not seen.is_new(candidate.chunk.text):
            dropped.append(Removal(candidate, "near duplicate"))
        elif most_per_document is not None and documents[document] >= most_per_document:
            dropped.append(Removal(candidate, "capped"))
        else:
            kept_candidates.append(candidate)
            documents[document] += 1
            corpora[candidate.corpus] += 1
            missing -= corpora[candidate.corpus] <= (most_per_corpus.get(candidate.corpus) or math.inf)
    return Selection((*kept_candidates, *remaining.values()), (*once.dropped, *dropped))


def _in_order(candidates: Sequence[Candidate], lambda_: float) -> Iterable[int]:
    """Return the indices of candidates in the order of `marginal_order`, each as it is asked for."""
    if lambda_ == 1:
        return range(len(candidates))
    relevances = min_max([relevance(candidate) or 0.0 for candidate in candidates])
    return marginal_order(np.asarray(relevances), stacked(candidates), lambda_)


def with_text(candidates: Sequence[Candidate]) -> Selection:
    """Keep the candidates whose text has more than white space."""
    empty = [Removal(candidate, "empty") for candidate in candidates if not candidate.chunk.text.strip()]
    return Selection(tuple(candidate for candidate in candidates if candidate.chunk.text.strip()), tuple(empty))


def without_duplicates(candidates: Sequence[Candidate], ahead: Sequence[Candidate] = ()) -> Selection:
    """Keep the first of those that share a chunk hash (texts that differ in white space only), none of ``ahead``."""
    hashes = {candidate.chunk.chunk_hash for candidate in ahead}
    return _at_most(
        lambda candidate: 0 if candidate.chunk.chunk_hash in hashes else 1,
        candidates,
        lambda candidate: candidate.chunk.chunk_hash,
        "duplicate",
    )


def per_document(candidates: Sequence[Candidate], limit: int) -> Selection:
    """Keep the first ``limit`` (1 or more) of each document."""
    return _at_most(
        lambda _: limit, candidates, lambda candidate: (candidate.corpus, candidate.chunk.document_id), "capped"
    )


def per_corpus(candidates: Sequence[Candidate], limits: Mapping[str, int]) -> Selection:
    """Keep the first of each corpus, as many as ``limits`` says; 0 means no bound."""
    return _at_most(
        lambda candidate: limits.get(candidate.corpus) or math.inf,
        candidates,
        lambda candidate: candidate.corpus,
        "capped",
    )


def cut(candidates: Sequence[Candidate], k: int) -> Selection:
    """Keep the first ``k`` (0 or more)."""
    return Selection(tuple(candidates[:k]), tuple(Removal(candidate, "beyond k") for candidate in candidates[k:]))


def stacked(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """Stack the candidates' vectors for `marginal_order`; zeros for a candidate without one.

    Returns:
        Shape (len(candidates), dimensions of the first vector), float64.
    """
    vectors = [candidate.embedding for candidate in candidates]
    length = next((len(vector) for vector in vectors if vector is not None), 0)
    missing = np.zeros(length)
    rows = [missing if vector is None else vector for vector in vectors]
    return np.array(rows, dtype=np.float64).reshape(len(rows), length)


def _at_most(
    limit_of: Callable[[Candidate], float],
    candidates: Sequence[Candidate],
    group: Callable[[Candidate], Hashable],
    reason: Reason,
) -> Selection:
    seen: Counter[Hashable] = Counter()
    kept_candidates: list[Candidate] = []
    dropped: list[Removal] = []
    for candidate in candidates:
        seen[group(candidate)] += 1
        if seen[group(candidate)] <= limit_of(candidate):
            kept_candidates.append(candidate)
        else:
            dropped.append(Removal(candidate, reason))
    return Selection(tuple(kept_candidates), tuple(dropped))


def marginal_order(
    relevance: NDArray[np.float64], embeddings: NDArray[np.floating[Any]], lambda_: float
) -> Iterator[int]:
    """Yield indices by maximal marginal relevance: again and again the most relevant one least similar to those before.

    Each choice has the highest ``lambda_ * relevance - (1 - lambda_) * (highest cosine to any chosen one)``; ties go to
    the first. The first choice has no similarity term. Carbonell, Goldstein: "The Use of MMR, Diversity-Based
    Reranking for Reordering Documents and Producing Summaries", SIGIR 1998. A choice compares the rest with the newest
    one only: O(n d).

    Args:
        relevance: shape (n,); preferably on the scale of cosines, so that ``lambda_`` balances both terms
            (similarities, or fused scores by `fusion.min_max`).
        embeddings: shape (n, dimensions), of any length within float32's range; a row of zeros is similar to nothing.
        lambda_: 1 for relevance alone, 0 for novelty alone.
    """
    unit = _unit(embeddings)
    chosen: list[int] = []
    nearest = np.full(len(relevance), -np.inf)
    marginal = lambda_ * relevance
    for _ in range(len(relevance)):
        marginal[chosen] = -np.inf
        best = int(np.argmax(marginal))  # of equal ones the first
        chosen.append(best)
        yield best
        # Multiplied and summed row by row: BLAS's last bit depends on the shape and the machine.
        nearest = np.maximum(nearest, (unit * unit[best]).sum(axis=1))
        marginal = lambda_ * relevance - (1.0 - lambda_) * nearest


def _unit(embeddings: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Scale rows to length 1, in float64, which holds the square of any float32; zeros stay zeros."""
    rows = np.asarray(embeddings, dtype=np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, 1.0)
