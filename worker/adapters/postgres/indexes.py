"""The HNSW indexes that Postgres has of a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

# pgvector's defaults are those of an index without options of its own.
_HNSW = """
SELECT i.indrelid, c.oid::regclass::text, o.opcname,
       coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions) WHERE option_name = 'm'), 16),
       coalesce((SELECT option_value::int FROM pg_options_to_table(c.reloptions)
                  WHERE option_name = 'ef_construction'), 64),
       pg_relation_size(c.oid)
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am a ON a.oid = c.relam AND a.amname = 'hnsw'
  JOIN pg_opclass o ON o.oid = i.indclass[0]
 WHERE i.indrelid = ANY (%s::oid[]) AND i.indisvalid AND i.indpred IS NULL
   AND o.opcname = ANY (ARRAY['vector_cosine_ops', 'halfvec_cosine_ops'])
 ORDER BY 1, 2
"""

# Without the indexes' sizes, for which Postgres would wait where one is locked.
_KINDS = """
SELECT DISTINCT CASE o.opcname WHEN 'vector_cosine_ops' THEN 'vector' ELSE 'halfvec' END
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am a ON a.oid = c.relam AND a.amname = 'hnsw'
  JOIN pg_opclass o ON o.oid = i.indclass[0]
 WHERE i.indrelid = ANY (%s::oid[]) AND i.indisvalid AND i.indpred IS NULL
   AND o.opcname = ANY (ARRAY['vector_cosine_ops', 'halfvec_cosine_ops'])
"""

# Also those that are being built: the worker's role does not see the builds of others.
_UNFINISHED = """
SELECT i.indexrelid::regclass::text
  FROM pg_index i
  JOIN pg_class c ON c.oid = i.indexrelid
  JOIN pg_am a ON a.oid = c.relam AND a.amname = 'hnsw'
 WHERE i.indrelid = ANY (%s::oid[]) AND NOT i.indisvalid
 ORDER BY 1
"""


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
