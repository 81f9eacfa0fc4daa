"""Tables with vectors, as Postgres describes them and as their first rows show."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from psycopg import sql

from worker.adapters.postgres.column_types import TEXTS
from worker.adapters.postgres.ownership import foreign_owner, vector_schema
from worker.adapters.postgres.sql import blocks
from worker.adapters.postgres.statements import estimated_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import psycopg


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its name.
        quoted: its name as SQL.
        type: its type without a length; of a domain, its base type. Of pgvector's types, without their schema.
        modifier: dimensions of a vector; -1 without any.
    """

    name: str
    quoted: str
    type: str
    modifier: int = -1


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of LangChain's `PGVector`, which keeps all of them in one table."""

    id: str
    name: str
    dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        schema: its schema.
        name: its name.
        quoted: both as SQL.
        columns: its columns, in their order.
        key: columns of its primary key, or of a unique index without NULL.
        row_security: True if row-level security is on.
        policies: number of policies of reads that bind the worker's role.
        partitioned: True if its rows are in partitions.
        states: column that may say whether a row is hidden → values in the first rows, of texts.
    """

    schema: str
    name: str
    quoted: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    row_security: bool = False
    policies: int = 0
    partitioned: bool = False
    states: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key of one column."""

    column: str
    table: Table
    target: str


@dataclass(frozen=True, slots=True)
class VectorTable:
    """A table with vectors.

    Attributes:
        table: the table.
        rows: its rows, as Postgres estimates them; counted, up to `COUNTED`, where it was never analysed.
        references: the tables that its columns refer to.
        indexes: type (``vector``, ``halfvec``) of each HNSW index by cosine distance.
        keys: JSON column → keys of its objects in the first rows, the most frequent first.
        dimensions: column of vectors → dimensions that its type or its first rows have.
        collections: of LangChain's `PGVector`.
        lengths: column of text → mean length in the first rows.
        pgvector: schema of pgvector's types, operators and functions, as SQL.
        granted: True if every role may use that schema.
        not_read: why nothing of it was read, or ``''``: this role may not read all of it, or another one owns it.
    """

    table: Table
    rows: int
    references: tuple[Reference, ...]
    indexes: tuple[str, ...]
    keys: Mapping[str, tuple[str, ...]]
    dimensions: Mapping[str, tuple[int, ...]]
    collections: tuple[Collection, ...] = ()
    lengths: Mapping[str, float] = field(default_factory=dict)
    pgvector: str = "public"
    granted: bool = True
    not_read: str = ""

    @property
    def columns(self) -> dict[str, Column]:
        """Return its columns by name."""
        return {column.name: column for column in self.table.columns}


VECTORS = ("vector", "halfvec")
JSON = ("json", "jsonb")
_SAMPLED = 1000
COUNTED = 100_000
"""Most rows that are counted."""

STATES = ("status", "state", "visibility", "access", "access_level", "classification")
"""Columns of text that may say whether a row is hidden."""

_SQL = blocks("adoption")
_VECTOR_TABLES = _SQL["vector_tables"]
_TABLE = _SQL["table"]
_COLUMNS = _SQL["columns"]
_REFERENCES = _SQL["references"]
_INDEXES = _SQL["indexes"]
_IS_HIDDEN = _SQL["is_hidden"]
_ORDINARY = _SQL["ordinary"]
_STORAGE = _SQL["storage"]
_NEVER_ANALYSED = _SQL["never_analysed"]
_IS_GRANTED = _SQL["is_granted"]

_KEYS = """
SELECT key FROM (SELECT {column}::jsonb AS value FROM {table} WHERE {column} IS NOT NULL LIMIT {limit}) AS first,
       LATERAL jsonb_object_keys(CASE WHEN jsonb_typeof(value) = 'object' THEN value ELSE '{{}}' END) AS key
 GROUP BY key ORDER BY count(*) DESC, key
"""

_DIMENSIONS = """
SELECT DISTINCT {pgvector}.vector_dims({column}) FROM (
  SELECT {column} FROM {table} AS c WHERE {column} IS NOT NULL AND {where} LIMIT {limit}) AS first ORDER BY 1
"""


_COUNT = "SELECT count(*) FROM (SELECT FROM {table} LIMIT {limit}) AS first"

_STATE = """
SELECT DISTINCT value FROM (SELECT {column}::text AS value FROM {table} WHERE {column} IS NOT NULL LIMIT {limit})
    AS first ORDER BY value LIMIT 20
"""


_LENGTH = "SELECT coalesce(avg(length({column})), 0) FROM (SELECT {column} FROM {table} LIMIT {limit}) AS first"

_EVERY, _OF_COLLECTION = sql.SQL("true"), sql.SQL("c.collection_id = {}::uuid")

# Others may own tables and schemas here: no name is looked up in theirs, and no policy of theirs runs as this role.
_TRUSTING_NOBODY = "SET search_path = pg_catalog, pg_temp; SET row_security = off"

LANGCHAIN_COLLECTIONS = "langchain_pg_collection"
LANGCHAIN_EMBEDDINGS = "langchain_pg_embedding"


def vector_tables(
    connection: psycopg.Connection[Any], schemas: Sequence[str], progress: Callable[[int, int], None]
) -> Iterator[VectorTable]:
    """Yield the tables that have vectors.

    Args:
        connection: a connection of a role that may read the tables.
        schemas: names of schemas; none: all but Postgres' own and the worker's.
        progress: called with the number of tables read, and of all.
    """
    connection.execute(_TRUSTING_NOBODY)
    pgvector = vector_schema(connection)
    granted = connection.execute(_IS_GRANTED).fetchone() == (True,)
    oid_rows = connection.execute(_VECTOR_TABLES, {"schemas": [*schemas]}).fetchall() if pgvector else []
    for tables_read, (oid,) in enumerate(oid_rows):
        progress(tables_read, len(oid_rows))
        yield _vector_table(connection, oid, str(pgvector), granted)
    progress(len(oid_rows), len(oid_rows))


def _vector_table(connection: psycopg.Connection[Any], oid: int, pgvector: str, granted: bool) -> VectorTable:
    table = _table(connection, oid)
    if reason := _not_read(connection, oid):
        return VectorTable(table, 0, (), (), {}, {}, pgvector=pgvector, not_read=reason)
    references = [
        (column_name, referenced_oid, target)
        for column_name, referenced_oid, target in connection.execute(_REFERENCES, (oid,)).fetchall()
        if foreign_owner(connection, referenced_oid) is None  # who could also decide by it who sees what
    ]
    return VectorTable(
        table,
        _rows(connection, oid, table),
        tuple(
            Reference(column_name, _table(connection, referenced_oid), target)
            for column_name, referenced_oid, target in references
        ),
        tuple(kind for (kind,) in connection.execute(_INDEXES, (oid,)).fetchall()),
        {column.name: _keys(connection, table, column) for column in table.columns if column.type in JSON},
        {
            column.name: _dimensions(connection, table, column, pgvector)
            for column in table.columns
            if column.type in VECTORS
        },
        _collections(connection, table, pgvector),
        {column.name: _length(connection, table, column) for column in table.columns if column.type in TEXTS},
        pgvector,
        granted,
    )


def _rows(connection: psycopg.Connection[Any], oid: int, table: Table) -> int:
    """Return the number of rows: estimated, or counted where there is nothing to estimate by, up to one too many."""
    storage = [storage_oid for (storage_oid,) in connection.execute(_STORAGE, {"oid": oid}).fetchall()]
    if connection.execute(_NEVER_ANALYSED, (storage,)).fetchone() == (True,):
        name, limit = sql.Identifier(table.schema, table.name), sql.Literal(COUNTED + 1)
        row = connection.execute(sql.SQL(_COUNT).format(table=name, limit=limit)).fetchone()
    else:
        row = connection.execute(estimated_rows(storage)).fetchone()
    return int(row[0]) if row else 0


def _not_read(connection: psycopg.Connection[Any], oid: int) -> str:
    """Return why this role must not read a table, or ``''``."""
    if owner := foreign_owner(connection, oid):
        return f"its owner {owner} could run code as the role that reads it: adopt it as its owner"
    is_hidden = connection.execute(_IS_HIDDEN, {"oid": oid}).fetchone() == (True,)
    return "this role may not read all of its rows: adopt it as its owner" if is_hidden else ""


def _table(connection: psycopg.Connection[Any], oid: int) -> Table:
    row = connection.execute(_TABLE, (oid,)).fetchone()
    assert row is not None  # noqa: S101 -- for the type checker: the oid is of pg_class
    schema, name, quoted, row_security, policies, partitioned, key = row
    columns = tuple(Column(*column) for column in connection.execute(_COLUMNS, (oid,)).fetchall())
    table = Table(schema, name, quoted, columns, tuple(key), row_security, policies, partitioned)
    if _not_read(connection, oid):
        return table
    texts = [column for column in columns if column.type in TEXTS and snake_case(column.name) in STATES]
    return replace(table, states={column.name: _values(connection, table, column) for column in texts})


def snake_case(name: str) -> str:
    """Return a name as lists of names have it, however it is written.

    >>> snake_case("tenantId"), snake_case("Tenant ID"), snake_case("tenant_id")
    ('tenant_id', 'tenant_id', 'tenant_id')
    """
    return re.sub(r"[ -]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).lower()


def _values(connection: psycopg.Connection[Any], table: Table, column: Column) -> tuple[str, ...]:
    query = sql.SQL(_STATE).format(**_names(table, column))
    return tuple(value for (value,) in connection.execute(query).fetchall())


def _keys(connection: psycopg.Connection[Any], table: Table, column: Column) -> tuple[str, ...]:
    query = sql.SQL(_KEYS).format(**_names(table, column))
    return tuple(key for (key,) in connection.execute(query).fetchall())


def _dimensions(
    connection: psycopg.Connection[Any], table: Table, column: Column, pgvector: str, where: sql.Composable = _EVERY
) -> tuple[int, ...]:
    if column.modifier > 0:
        return (column.modifier,)
    query = sql.SQL(_DIMENSIONS).format(where=where, pgvector=sql.SQL(pgvector), **_names(table, column))
    return tuple(size for (size,) in connection.execute(query).fetchall())


def _length(connection: psycopg.Connection[Any], table: Table, column: Column) -> float:
    row = connection.execute(sql.SQL(_LENGTH).format(**_names(table, column))).fetchone()
    return float(row[0]) if row else 0.0


def _names(table: Table, column: Column) -> dict[str, sql.Composable]:
    return {
        "table": sql.Identifier(table.schema, table.name),
        "column": sql.Identifier(column.name),
        "limit": sql.Literal(_SAMPLED),
    }


def _collections(connection: psycopg.Connection[Any], table: Table, pgvector: str) -> tuple[Collection, ...]:
    """Return the collections of LangChain's older table; none of another table, or of columns of other types."""
    row = connection.execute(_ORDINARY, (table.schema, LANGCHAIN_COLLECTIONS)).fetchone()
    if table.name != LANGCHAIN_EMBEDDINGS or row is None or _not_read(connection, row[0]):
        return ()
    referring = next((column.type for column in table.columns if column.name == "collection_id"), None)
    types = {column.name: column.type for column in _table(connection, row[0]).columns}
    # Of other types, an owner could have written the cast.
    if (referring, types.get("uuid")) != ("uuid", "uuid") or types.get("name") not in TEXTS:
        return ()
    collections_query = sql.SQL("SELECT uuid::text, name FROM {} ORDER BY name").format(
        sql.Identifier(table.schema, LANGCHAIN_COLLECTIONS)
    )
    embedding = next(column for column in table.columns if column.type in VECTORS)
    return tuple(
        Collection(
            key,
            name,
            _dimensions(connection, table, embedding, pgvector, _OF_COLLECTION.format(sql.Literal(key))),
        )
        for key, name in connection.execute(collections_query).fetchall()
    )
