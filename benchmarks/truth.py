"""The right answer, found without the project's own search, and how much of it an answer holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthetic.vectors import row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from synthetic.vectors import Dataset, Vectors
    from worker.model import Candidate

Distances = NDArray[np.float64]

# pgvector adds up in float32: its cosine distances are within about 1e-7 of float64's. Neighbouring ranks
# are some 1e-3 apart, so this forgives no wrong chunk, only which of two equal ones was taken.
TIE = 1e-6


def brute_force(dataset: Dataset, queries: Vectors) -> Distances:
    """Cosine distance of every query to every row, in float64, shape (queries, rows)."""
    unit_queries = _unit(queries)
    distances = np.empty((len(queries), dataset.rows))
    for first_row, vectors in dataset.blocks():
        distances[:, first_row : first_row + len(vectors)] = 1.0 - unit_queries @ _unit(vectors).T
    return distances


def _unit(vectors: Vectors) -> Distances:
    exact = vectors.astype(np.float64)
    return exact / np.linalg.norm(exact, axis=1, keepdims=True)


def recall_by_distance(
    candidates: Sequence[Candidate], distances: Distances, visible: NDArray[np.bool_], k: int
) -> float:
    """Share of the ``k`` nearest visible rows that was found; a chunk as near as the k-th counts as found.

    Args:
        candidates: the answer.
        distances: of the query to every row, as `brute_force` gives them.
        visible: rows that the caller may see; any other row in the answer is no hit.
        k: how many were wanted.
    """
    seen = distances[visible]
    k = min(k, len(seen))
    farthest = np.partition(seen, k - 1)[k - 1] + TIE
    rows = _rows(candidates)
    return sum(bool(visible[row]) and distances[row] <= farthest for row in rows) / k


def recall_against(candidates: Sequence[Candidate], exact: Sequence[Candidate]) -> float:
    """Share of the exact answer's chunks that the answer holds, by id; equal similarity at the cut counts too."""
    if not exact:
        return 1.0
    ids = {candidate.chunk.id for candidate in exact}
    lowest = exact[-1].similarity
    hits = sum(c.chunk.id in ids or c.similarity >= lowest for c in candidates)
    assert len(_rows(candidates)) == len(candidates), "a chunk was returned twice"
    return hits / len(exact)


def leaked(candidates: Iterable[Candidate], visible: NDArray[np.bool_]) -> int:
    """Return the number of chunks that the caller may not see."""
    return sum(not visible[row] for row in _rows(candidates))


def _rows(candidates: Iterable[Candidate]) -> set[int]:
    return {row_of(candidate.chunk.id) for candidate in candidates}
