"""New vector indexes for the reference tables, built while searches go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from worker.adapters.postgres.column_types import INDEXED_DIMENSIONS
from worker.adapters.postgres.index_advice import EF_CONSTRUCTION, M
from worker.adapters.postgres.indexes import Hnsw, hnsw
from worker.cli.loader import REFERENCE_TABLES, dimensions_of
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

_COMMANDS = {
    "vector": "CREATE INDEX CONCURRENTLY {} ON {} USING hnsw (embedding vector_cosine_ops)",
    "halfvec": "CREATE INDEX CONCURRENTLY {} ON {} USING hnsw ((embedding::halfvec({size})) halfvec_cosine_ops)",
}
_PARAMETERS = f" WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})"


_TAKEN = "SELECT true FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid"


@dataclass(frozen=True, slots=True)
class BothIndexes:
    """The index that was asked for, and the other one, which is still there.

    Attributes:
        table: their table.
        built: False if it was there already.
        bytes: its size.
        old: name of the other one, for ``DROP INDEX``.
        old_bytes: size of the other one.
    """

    table: str
    built: bool
    bytes: int
    old: str
    old_bytes: int


def index_over(
    connection: psycopg.Connection[Any], kind: str, progress: Callable[[str], object] = lambda _: None
) -> list[BothIndexes]:
    """Build an HNSW index over a type for each reference table that has one over the other type only.

    Nobody waits: it is built concurrently, and the other one stays until somebody drops it.

    Args:
        connection: a connection of the tables' owner, in autocommit mode.
        kind: what the indexes are to be over: ``vector`` or ``halfvec``.
        progress: called with the name of each table before its index is built.

    Returns:
        The tables that have both indexes now.

    Raises:
        WrongUsage: no such index holds the table's dimensions, or its name is taken.
    """
    both = []
    for table in REFERENCE_TABLES:
        found = _indexes(connection, table)
        other = next((one for one in found if one.kind != kind), None)
        if other is None:
            continue
        built = all(one.kind != kind for one in found)
        if built:
            progress(table)
            _build(connection, table, kind)
        new = next(one for one in _indexes(connection, table) if one.kind == kind)
        both.append(BothIndexes(table, built, new.bytes, other.name, other.bytes))
    return both


def _indexes(connection: psycopg.Connection[Any], table: str) -> list[Hnsw]:
    (oid,) = connection.execute("SELECT to_regclass(%s)::oid", (table,)).fetchone() or (None,)
    return [] if oid is None else hnsw(connection, [oid])


def _build(connection: psycopg.Connection[Any], table: str, kind: str) -> None:
    size, most = dimensions_of(connection, table) or 0, INDEXED_DIMENSIONS[kind]
    if size > most:
        raise WrongUsage(f"--index {kind}: it holds at most {most:,} dimensions, {table} has {size:,}")
    schema, name = table.split(".")
    index = f"{name}_embedding_{kind}_idx"
    if connection.execute(_TAKEN, (f"{schema}.{index}",)).fetchone():
        raise WrongUsage(f"--index {kind}: {schema}.{index} is an index of another kind: rename it")
    # What an interrupted build left is not valid, and has the name.
    connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(schema, index)))
    command = sql.SQL(_COMMANDS[kind] + _PARAMETERS)
    connection.execute(command.format(sql.Identifier(index), sql.Identifier(schema, name), size=sql.Literal(size)))
