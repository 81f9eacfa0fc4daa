"""How much of what exact search finds another search finds, and which search width is enough."""

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
"""The goal where nobody says another: recall of all queries, and of the one with the least."""

SPREAD = 0.6
"""How far a question may lie from the chunk it is about, in distances of chunks from their mean."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is enough.

    Attributes:
        mean: of the recall of all queries, 0-1.
        worst: of the query with the least, 0-1.
    """

    mean: float = MEAN
    worst: float = WORST


@dataclass(frozen=True, slots=True)
class Quality:
    """What a search brought.

    Attributes:
        mean: recall of all queries, 0-1.
        worst: that of the query with the least, 0-1.
        by_index: share of the queries that the index answered, 0-1; exact search answered the others.
    """

    mean: float
    worst: float
    by_index: float

    def reaches(self, goal: Goal) -> bool:
        """Whether it is enough."""
        return self.mean >= goal.mean and self.worst >= goal.worst


def quality(recalls: Sequence[float], methods: Iterable[str]) -> Quality:
    """What several queries brought: the recall of each, and the method that answered it.

    >>> quality([1.0, 0.5], ["index", "exact"])
    Quality(mean=0.75, worst=0.5, by_index=0.5)
    """
    by_index = sum(method == "index" for method in methods)
    return Quality(math.fsum(recalls) / len(recalls), min(recalls), by_index / len(recalls))


def recall_against(found: Sequence[Candidate], exact: Sequence[Candidate]) -> float:
    """Share of what exact search found that another search found, 0-1; 1 if there is nothing to find.

    A chunk as near as the last of the exact ones is as good as that.
    """
    if not exact:
        return 1.0
    ids = {candidate.chunk.id for candidate in exact}
    farthest = exact[-1].similarity or 0.0
    hits = sum(one.chunk.id in ids or (one.similarity or 0.0) >= farthest for one in found)
    return min(hits, len(exact)) / len(exact)


def questions(chunks: NDArray[np.float32], random: np.random.Generator) -> list[Vector]:
    """A vector near each of the chunks, of unit length, as questions are near the chunks that answer them.

    A stored vector itself would be too easy: the index finds it, and its neighbours from it. Each is moved the way
    that another chunk lies from the mean of all, so that the noise has the corpus's own spectrum.

    Args:
        chunks: embeddings, shape (n, 768), none of them zero.
        random: decides who is moved which way, and how far.
    """
    unit = _unit(chunks.astype(np.float64))
    ways = (unit - unit.mean(axis=0))[random.permutation(len(unit))]
    moved = unit + random.uniform(0, SPREAD, (len(unit), 1)) * ways
    return [*_unit(moved).astype(np.float32)]


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    scaled: NDArray[np.float64] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled
