"""A small corpus whose rows belong to several callers: made from a seed, and loaded into the reference schema."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pgvector.psycopg import register_vector

from worker.cli.loader import migrate
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    import psycopg

Vectors = NDArray[np.float32]
PER_DOCUMENT = 10
USERS = tuple(f"user-{number:02d}" for number in range(63))
_TENANTS = ("north", "south", "east", "west", None)
TENANTS = {user: _TENANTS[number % len(_TENANTS)] for number, user in enumerate(USERS)} | {"nobody-else": None}
"""64 callers and their tenants; the last one owns nothing and sees public documents."""


@dataclass(frozen=True)
class Row:
    """A chunk, and who may see it."""

    number: int
    owner: str
    tenant: str | None
    visibility: str

    @property
    def chunk_id(self) -> str:
        """The chunk's id."""
        return f"c{self.number:06d}"

    @property
    def document_id(self) -> str:
        """The id of its document."""
        return f"d{self.number // PER_DOCUMENT:05d}"

    @property
    def text(self) -> str:
        """Text of the row; no two rows have the same."""
        return f"Row {self.number} of {self.owner}: levels were measured, and entry {self.number * 7919} was logged."

    @property
    def chunk_hash(self) -> str:
        """SHA-256 as the contract defines it; the text holds single spaces only."""
        return "sha256:" + hashlib.sha256(self.text.encode()).hexdigest()

    def visible_to(self, user: str) -> bool:
        """Return whether the policies of config/schema.sql show the row, implemented again by hand."""
        if self.visibility == "public" or self.owner == user:
            return True
        return self.visibility == "tenant" and self.tenant is not None and self.tenant == TENANTS[user]


@dataclass(frozen=True)
class Corpus:
    """``rows`` chunks, ten to a document, made from ``seed``."""

    rows: int = 500
    seed: int = 6

    @cached_property
    def chunks(self) -> tuple[Row, ...]:
        """Every row; owners and visibility go by document."""
        chance = np.random.default_rng([self.seed, 0])
        documents = -(-self.rows // PER_DOCUMENT)
        owners = chance.integers(0, len(USERS), documents)
        visibilities = chance.choice(["public", "tenant", "private"], documents, p=[0.1, 0.3, 0.6])
        return tuple(
            Row(number, owner, TENANTS[owner], str(visibilities[number // PER_DOCUMENT]))
            for number in range(self.rows)
            for owner in [USERS[owners[number // PER_DOCUMENT]]]
        )

    @cached_property
    def vectors(self) -> Vectors:
        """Embeddings of all rows, shape (rows, 768), of unit length."""
        return _unit(np.random.default_rng([self.seed, 1]).standard_normal((self.rows, DIMENSIONS), np.float32))

    def queries(self, count: int) -> Vectors:
        """Vectors to search for, shape (count, 768)."""
        return _unit(np.random.default_rng([self.seed, 2]).standard_normal((count, DIMENSIONS), np.float32))

    def load(self, connection: psycopg.Connection[Any]) -> None:
        """Install the reference schema and fill it; as a superuser, in autocommit mode."""
        migrate(connection)
        register_vector(connection)
        # The oracle is exact, so the worker is set to search exactly (`stage.SETTINGS`): no index would be used.
        connection.execute("DROP INDEX public.document_chunks_embedding_idx")
        with connection.cursor().copy(_DOCUMENTS) as copy:
            for row in self.chunks[::PER_DOCUMENT]:
                copy.write_row((row.document_id, row.owner, row.tenant, row.visibility))
        with connection.cursor().copy(_CHUNKS) as copy:
            copy.set_types(["text", "text", "text", "vector"])
            for row, vector in zip(self.chunks, self.vectors, strict=True):
                copy.write_row((row.chunk_id, row.document_id, row.text, vector))
        connection.execute("ANALYZE")


_DOCUMENTS = "COPY public.documents (id, owner_id, tenant_id, visibility) FROM STDIN"
_CHUNKS = "COPY public.document_chunks (id, document_id, text_content, embedding) FROM STDIN (FORMAT BINARY)"


def _unit(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled
