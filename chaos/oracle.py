"""The right answers, by brute force over the same rows with the caller's rights. Knows nothing of the worker."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chaos.corpus import TENANTS, Row

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chaos.corpus import Corpus, Vectors

TOLERANCE = 1e-5
"""Tolerated difference from the oracle's distance: Postgres computes in float32, the oracle in float64."""


@dataclass(frozen=True)
class ExpectedAnswer:
    """Expected answer: chunks in order, and their distances if it was a search.

    Attributes:
        user: who asked.
        chunks: the right rows, in the right order.
        distances: cosine distance of each; None for a replay.
        missing: pins that must be said to be missing: of rows of others.
    """

    user: str
    chunks: tuple[Row, ...]
    distances: tuple[float, ...] | None = None
    missing: tuple[str, ...] = ()


class Oracle:
    """Brute force over a corpus.

    Args:
        corpus: the rows.
        queries: how many vectors to search for are drawn.
    """

    def __init__(self, corpus: Corpus, queries: int = 200) -> None:
        self.corpus = corpus
        self.queries: Vectors = corpus.queries(queries)
        self._by_id = {row.chunk_id: row for row in corpus.chunks}
        self.visible = {
            user: np.array([row.number for row in corpus.chunks if row.visible_to(user)]) for user in TENANTS
        }

    @cached_property
    def _distances(self) -> NDArray[np.float64]:
        rows, queries = (self.corpus.vectors.astype(np.float64), self.queries.astype(np.float64))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        queries /= np.linalg.norm(queries, axis=1, keepdims=True)
        return 1.0 - queries @ rows.T

    @cache  # noqa: B019 -- one oracle a run
    def nearest(self, query: int, user: str, k: int) -> ExpectedAnswer:
        """The k nearest rows that a caller may see."""
        numbers = self.visible[user]
        order = numbers[np.argsort(self._distances[query, numbers], kind="stable")][:k]
        return ExpectedAnswer(
            user,
            tuple(self.corpus.chunks[number] for number in order),
            tuple(float(self._distances[query, number]) for number in order),
        )

    def is_clear(self, query: int, user: str, k: int) -> bool:
        """True if the first k + 1 distances are so far apart that float32 can't change their order."""
        nearest = self.nearest(query, user, k + 1).distances
        return nearest is not None and bool(np.all(np.diff(nearest) > 2 * TOLERANCE))

    def faults_of(self, expected: ExpectedAnswer, answer: dict[str, Any]) -> list[str]:
        """Return the problem of an answer; empty if it is right.

        A row that the caller may not see is called ``foreign``, everything else says where the answer differs.
        """
        chunks = answer.get("chunks")
        if not isinstance(chunks, list):
            return ["no chunks"]
        rows = [self._by_id.get(str(chunk.get("chunk_id"))) for chunk in chunks]
        wrong = ["foreign"] if any(row is None or not row.visible_to(expected.user) for row in rows) else []
        if [row and row.chunk_id for row in rows] != [row.chunk_id for row in expected.chunks]:
            return [*wrong, "other chunks, or in another order"]
        if [chunk["text"] for chunk in chunks] != [row.text for row in expected.chunks]:
            wrong.append("other text")
        if [chunk["chunk_hash"] for chunk in chunks] != [row.chunk_hash for row in expected.chunks]:
            wrong.append("other hash")
        if expected.distances is not None and not np.allclose(
            [chunk["distance"] for chunk in chunks], expected.distances, rtol=0, atol=TOLERANCE
        ):
            wrong.append("other distances")
        missing = [pin["chunk_hash"] for pin in answer.get("pins", []) if pin["verdict"] == "missing"]
        if missing != list(expected.missing):
            wrong.append("other pins are missing")
        return wrong
