"""Calibration: recall of a search against exact search, and which search width is enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from worker.core.ranking.vectors import Vector
    from worker.model import Candidate

MEAN, WORST = 0.995, 0.80
"""Default goal: mean recall of all queries, and recall of the worst one."""

SPREAD = 0.6
"""Largest distance of a question from its chunk, in units of the chunks' distances from their mean."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Required recall.

    Attributes:
        mean: mean recall of all queries, 0-1.
        worst: recall of the worst query, 0-1.
    """

    mean: float = MEAN
    worst: float = WORST


@dataclass(frozen=True, slots=True)
class Quality:
    """Measured recall of a search.

    Attributes:
        mean: mean recall of all queries, 0-1.
        worst: recall of the worst query, 0-1.
        by_index: share of the queries that the index answered, 0-1; exact search answered the others.
    """

    mean: float
    worst: float
    by_index: float

    def reaches(self, goal: Goal) -> bool:
        """Return whether both recalls reach the goal."""
        return self.mean >= goal.mean and self.worst >= goal.worst


def quality(recalls: Sequence[float], methods: Iterable[str]) -> Quality:
    """Summarise several queries, given the recall of each and the method that answered it.

    >>> quality([1.0, 0.5], ["index", "exact"])
    Quality(mean=0.75, worst=0.5, by_index=0.5)
    """
    by_index = sum(method == "index" for method in methods)
    return Quality(math.fsum(recalls) / len(recalls), min(recalls), by_index / len(recalls))


def recall_against(retrieved: Sequence[Candidate], exact: Sequence[Candidate]) -> float:
    """Return the share of exact search's results that another search found, 0-1; 1 if there are none.

    A chunk at least as near as the last exact result counts as found.
    """
    if not exact:
        return 1.0
    ids = {candidate.chunk.id for candidate in exact}
    farthest = exact[-1].similarity or 0.0
    hits = sum(candidate.chunk.id in ids or (candidate.similarity or 0.0) >= farthest for candidate in retrieved)
    return min(hits, len(exact)) / len(exact)


def questions(chunks: NDArray[np.float32], random: np.random.Generator) -> list[Vector]:
    """Return a unit vector near each chunk, as questions are near the chunks that answer them.

    A stored vector itself would be too easy: the index finds it, and its neighbours from it. Each vector is moved along
    another chunk's offset from the mean of all, so that the noise has the corpus's own spectrum.

    Args:
        chunks: embeddings, shape (n, dimensions), none of them zero.
        random: decides direction and distance of each move.
    """
    unit = _unit(chunks.astype(np.float64))
    ways = (unit - unit.mean(axis=0))[random.permutation(len(unit))]
    moved = unit + random.uniform(0, SPREAD, (len(unit), 1)) * ways
    return [*_unit(moved).astype(np.float32)]


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled
