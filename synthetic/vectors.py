"""Vectors that behave like embeddings, and who may see them.

Everything follows from a `Dataset`: the same rows and seed give the same vectors, owners and queries on any
machine with the same NumPy, block by block, so that 300,000 vectors need not be held at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from retrieval_client.errors import SettingsError
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

Vectors = NDArray[np.float32]

BLOCK = 10_000
CHUNKS_PER_DOCUMENT = 10
FIELDS, TOPICS = 40, 2000
FIELD_SPREAD, TOPIC_SPREAD, DOCUMENT_SPREAD, CHUNK_SPREAD = 0.7, 0.7, 0.5, 0.5
"""Distances of fields from the origin, topics from their field, documents from their topic, chunks from their
document. Apart from its size, this decides how hard a corpus is: fewer and sharper topics are harder."""
QUERY_SPREAD = (0.2, 1.0)
"""Distances of queries from a chunk: from a rephrasing (cosine similarity 0.98) to a question about it (0.76)."""
VISIBLE_PERCENT = (1, 2, 5, 10, 20, 50)
"""For each of these a user owns this share of the documents, in percent; together they are fewer than 100."""

# Streams of random numbers that don't depend on one another: more queries must not change the vectors.
_OF_TOPICS, _OF_ROWS, _OF_QUERIES, _OF_OWNERS = range(4)


@dataclass(frozen=True)
class Dataset:
    """Clustered vectors of unit length, ten to a document.

    Fields have topics (few large ones, many small ones), topics have documents, documents have chunks; each
    lies near what it belongs to. Component i varies with standard deviation i ** -0.5, so that about 30
    directions carry most of the variance, and neighbourhoods have a dimension of 9 to 19, as text embeddings do.

    Attributes:
        rows: how many chunks; a multiple of 1,000, so that one percent of the documents is a whole number.
        seed: of everything that is random.
    """

    rows: int
    seed: int = 20

    def __post_init__(self) -> None:
        if self.rows < 1000 or self.rows % 1000:
            raise SettingsError(f"rows: expected a multiple of 1000, got {self.rows}")

    @property
    def documents(self) -> int:
        """Number of documents."""
        return self.rows // CHUNKS_PER_DOCUMENT

    @cached_property
    def owners(self) -> list[str]:
        """The owner of each document: exact shares, spread over the topics at random."""
        owners = np.full(self.documents, "nobody", dtype="<U16")
        order = self._random(_OF_OWNERS).permutation(self.documents)
        start = 0
        for percent in VISIBLE_PERCENT:
            end = start + self.documents * percent // 100
            owners[order[start:end]] = owner_of(percent)
            start = end
        return owners.tolist()

    def visible(self, percent: int) -> NDArray[np.bool_]:
        """Which rows the caller who sees ``percent`` of them sees, shape (rows,)."""
        if percent == 100:
            return np.ones(self.rows, dtype=np.bool_)
        owned = np.array([owner == owner_of(percent) for owner in self.owners])
        return owned.repeat(CHUNKS_PER_DOCUMENT)

    def blocks(self) -> Iterator[tuple[int, Vectors]]:
        """(first row, vectors of shape (n, 768)) until all rows are made."""
        for first_row in range(0, self.rows, BLOCK):
            yield first_row, _unit(self._raw_block(first_row // BLOCK)[: self.rows - first_row])

    def queries(self, count: int) -> Vectors:
        """``count`` vectors near rows, but not equal to any, shape (count, 768)."""
        random = self._random(_OF_QUERIES)
        near = np.sort(random.choice(self.rows, count, replace=count > self.rows))
        sources = np.concatenate(
            [
                self._raw_block(block)[near[near // BLOCK == block] - block * BLOCK]
                for block in np.unique(near // BLOCK).tolist()
            ]
        )
        spread = random.uniform(*QUERY_SPREAD, (count, 1)).astype(np.float32)
        queries = _unit(sources + spread * self._noise(random, count))
        # By row the first queries would be neighbours in the table, and a sample of them no sample.
        return random.permutation(queries)

    def _raw_block(self, block: int) -> Vectors:
        """One block before it is scaled to unit length; whole, so that a row does not depend on ``rows``."""
        random = self._random(_OF_ROWS, block)
        documents = BLOCK // CHUNKS_PER_DOCUMENT
        popularity = np.arange(1, TOPICS + 1) ** -0.7
        topics = self._topics[random.choice(TOPICS, documents, p=popularity / popularity.sum())]
        centres = topics + DOCUMENT_SPREAD * self._noise(random, documents)
        return centres.repeat(CHUNKS_PER_DOCUMENT, axis=0) + CHUNK_SPREAD * self._noise(random, BLOCK)

    @cached_property
    def _topics(self) -> Vectors:
        random = self._random(_OF_TOPICS)
        fields = FIELD_SPREAD * self._noise(random, FIELDS)
        return fields[random.integers(0, FIELDS, TOPICS)] + TOPIC_SPREAD * self._noise(random, TOPICS)

    @staticmethod
    def _noise(random: np.random.Generator, count: int) -> Vectors:
        spectrum = np.arange(1, DIMENSIONS + 1, dtype=np.float32) ** np.float32(-0.5)
        return random.standard_normal((count, DIMENSIONS), dtype=np.float32) * spectrum

    def _random(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stream])


def owner_of(percent: int) -> str:
    """The user who owns ``percent`` of the documents."""
    return f"owner-{percent}"


def chunk_id(row: int) -> str:
    """The id of a row's chunk."""
    return f"c{row:08d}"


def row_of(identifier: str) -> int:
    """The row of a chunk's id."""
    return int(identifier[1:])


def _unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
