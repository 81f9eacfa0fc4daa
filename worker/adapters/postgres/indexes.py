"""The HNSW indexes that Postgres has of a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

_SQL = blocks("indexes")
_HNSW = _SQL["hnsw"]
_KINDS = _SQL["kinds"]
_UNFINISHED = _SQL["unfinished"]


@dataclass(frozen=True, slots=True)
class Hnsw:
    """A valid HNSW index by cosine distance over all rows of a table.

    Attributes:
        table: oid of the table.
        name: its name in Postgres.
        kind: type of its vectors: ``vector`` or ``halfvec``.
        m: maximum connections of a vertex.
        ef_construction: number of candidates during the build.
        bytes: its size in bytes.
    """

    table: int
    name: str
    kind: str
    m: int
    ef_construction: int
    bytes: int


def hnsw(connection: psycopg.Connection[Any], tables: Sequence[int]) -> list[Hnsw]:
    """Return the HNSW indexes of tables, given by oid (a partitioned corpus has one per partition)."""
    rows = connection.execute(_HNSW, ([*tables],)).fetchall()
    return [
        Hnsw(table, name, opclass.removesuffix("_cosine_ops"), m, construction, size)
        for table, name, opclass, m, construction, size in rows
    ]


def indexed_kinds(connection: psycopg.Connection[Any], tables: Sequence[int]) -> frozenset[str]:
    """Return which types of vectors (``vector``, ``halfvec``) the HNSW indexes of tables are over."""
    return frozenset(kind for (kind,) in connection.execute(_KINDS, ([*tables],)))


def unfinished(connection: psycopg.Connection[Any], tables: Sequence[int]) -> list[str]:
    """Return the names of the HNSW indexes that are not valid: being built, or left by a build that was interrupted."""
    return [name for (name,) in connection.execute(_UNFINISHED, ([*tables],))]
