"""What is left out of a ranked list so that the rest says more: duplicates, too much of one document, near repetition.

Every step keeps what it keeps in a stated order and says of every other candidate why it left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from worker.model import Candidate

Reason = Literal["duplicate", "capped", "beyond k", "below threshold"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that left, and why.

    Attributes:
        candidate: the candidate.
        reason: ``duplicate`` (a better one says the same), ``capped`` (enough of its document or corpus), ``beyond k``,
            ``below threshold`` (too far from the question).
    """

    candidate: Candidate
    reason: Reason


@dataclass(frozen=True, slots=True)
class Selection:
    """What a step made of a list.

    Attributes:
        kept: what goes on, best first.
        dropped: everything else, in the order in which it came.
    """

    kept: tuple[Candidate, ...]
    dropped: tuple[Dropped, ...]


def without_duplicates(candidates: Sequence[Candidate]) -> Selection:
    """Of candidates whose texts differ in nothing that the chunk hash sees (white space), the first."""
    return _at_most(1, candidates, lambda candidate: candidate.chunk.chunk_hash, "duplicate")


def per_document(candidates: Sequence[Candidate], most: int) -> Selection:
    """The first ``most`` (1 or more) of each document."""
    return _at_most(most, candidates, lambda candidate: (candidate.corpus, candidate.chunk.document_id), "capped")


def cut(candidates: Sequence[Candidate], k: int) -> Selection:
    """The first ``k`` (0 or more)."""
    return Selection(tuple(candidates[:k]), tuple(Dropped(candidate, "beyond k") for candidate in candidates[k:]))


def mmr(
    candidates: Sequence[Candidate],
    relevance: Sequence[float],
    embeddings: NDArray[np.floating[Any]],
    k: int,
    lambda_: float,
) -> Selection:
    """Maximal marginal relevance: one after another, what is most relevant and least like what was chosen before.

    Chosen is the highest ``lambda_ * relevance - (1 - lambda_) * (highest cosine to any that was chosen)``, of equal
    ones the first. Before the first choice there is nothing to be like, so that the most relevant one is first (with
    ``lambda_`` 0 just the first). Carbonell, Goldstein: "The Use of MMR, Diversity-Based Reranking for Reordering
    Documents and Producing Summaries", SIGIR 1998.

    Args:
        candidates: best first.
        relevance: of each; best on the scale of cosines, so that ``lambda_`` means what it says (similarities, or
            fused scores by `fusion.min_max`).
        embeddings: of each, shape (len(candidates), dimensions), of any length within float32's range; a row of
            zeros is like nothing.
        k: how many to choose, 0 or more.
        lambda_: 1 for relevance alone, 0 for novelty alone.

    Returns:
        The chosen in the order of choice.

    Raises:
        ValueError: not one relevance and one embedding a candidate.
    """
    if not len(candidates) == len(relevance) == len(embeddings):
        raise ValueError("expected one relevance and one embedding for each candidate")
    chosen = _most_marginal(np.asarray(relevance, dtype=np.float64), _unit(embeddings), k, lambda_)
    left = sorted(set(range(len(candidates))) - set(chosen))
    return Selection(tuple(candidates[i] for i in chosen), tuple(Dropped(candidates[i], "beyond k") for i in left))


def stacked(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """The candidates' vectors as `mmr` takes them; zeros for one without.

    Returns:
        Shape (len(candidates), dimensions of the first vector), float64.
    """
    vectors = [candidate.embedding for candidate in candidates]
    length = next((len(vector) for vector in vectors if vector is not None), 0)
    missing = np.zeros(length)
    rows = [missing if vector is None else vector for vector in vectors]
    return np.array(rows, dtype=np.float64).reshape(len(rows), length)


def _at_most(
    most: int, candidates: Sequence[Candidate], group: Callable[[Candidate], Hashable], reason: Reason
) -> Selection:
    seen: Counter[Hashable] = Counter()
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    for candidate in candidates:
        seen[group(candidate)] += 1
        if seen[group(candidate)] <= most:
            kept.append(candidate)
        else:
            dropped.append(Dropped(candidate, reason))
    return Selection(tuple(kept), tuple(dropped))


def _most_marginal(relevance: NDArray[np.float64], unit: NDArray[np.float64], k: int, lambda_: float) -> list[int]:
    """Indices in the order of choice. Each choice compares the rest with the newest one only: O(k n d)."""
    chosen: list[int] = []
    nearest = np.full(len(relevance), -np.inf)
    marginal = lambda_ * relevance
    for _ in range(min(k, len(relevance))):
        marginal[chosen] = -np.inf
        best = int(np.argmax(marginal))  # of equal ones the first
        chosen.append(best)
        # Multiplied and summed row by row, not by BLAS, whose last bit depends on the shape and the machine.
        nearest = np.maximum(nearest, (unit * unit[best]).sum(axis=1))
        marginal = lambda_ * relevance - (1.0 - lambda_) * nearest
    return chosen


def _unit(embeddings: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Rows of length 1, in float64, which holds the square of any float32; zeros stay zeros."""
    rows = np.asarray(embeddings, dtype=np.float64)
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, 1.0)
