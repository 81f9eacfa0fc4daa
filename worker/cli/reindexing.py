"""New vector indexes for the reference tables, built while searches go on."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from worker.adapters.postgres.column_types import INDEXED_DIMENSIONS
from worker.adapters.postgres.index_advice import EF_CONSTRUCTION, M
from worker.adapters.postgres.indexes import Hnsw, hnsw
from worker.adapters.postgres.ownership import vector_schema
from worker.adapters.postgres.sql import blocks
from worker.cli.loader import REFERENCE_TABLES, dimensions_of
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMMANDS = {
    "vector": "CREATE INDEX CONCURRENTLY {} ON {} USING hnsw (embedding {pgvector}.vector_cosine_ops)",
    "halfvec": (
        "CREATE INDEX CONCURRENTLY {} ON {} USING hnsw"
        " ((embedding::{pgvector}.halfvec({size})) {pgvector}.halfvec_cosine_ops)"
    ),
}
_PARAMETERS = f" WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})"

_SQL = blocks("reindexing")
_PROGRESS = _SQL["progress"]
_END_WITH_CLIENT = _SQL["end_with_client"]
_IS_BUILT = _SQL["is_built"]

_TELL_SECONDS = 0.5


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


@dataclass(frozen=True, slots=True)
class Watch:
    """How a build is watched.

    Attributes:
        connection: another connection of the same role, in autocommit mode; nobody else uses it meanwhile.
        progress: called by a thread of its own twice a second, with the table, Postgres' name of the phase, and how
            many of how many blocks are done in it (0 of 0: not known).
    """

    connection: psycopg.Connection[Any]
    progress: Callable[[str, str, int, int], object]


def index_over(connection: psycopg.Connection[Any], kind: str, watch: Watch | None = None) -> list[BothIndexes]:
    """Build an HNSW index over a type for each reference table that has one over the other type only.

    Nobody waits: it is built concurrently, and the other one stays until somebody drops it.

    Args:
        connection: a connection of the tables' owner, in autocommit mode.
        kind: what the indexes are to be over: ``vector`` or ``halfvec``.
        watch: how to say how far a build is.

    Returns:
        The tables that have both indexes now.

    Raises:
        WrongUsage: no such index holds the table's dimensions, or its name is taken.
    """
    index_pairs = []
    for table in REFERENCE_TABLES:
        table_indexes = _indexes(connection, table)
        other_index = next((index for index in table_indexes if index.kind != kind), None)
        if other_index is None:
            continue
        built = all(index.kind != kind for index in table_indexes)
        if built:
            with _watched(connection, watch, table):
                _build(connection, table, kind)
        new = next(index for index in _indexes(connection, table) if index.kind == kind)
        index_pairs.append(BothIndexes(table, built, new.bytes, other_index.name, other_index.bytes))
    return index_pairs


def _indexes(connection: psycopg.Connection[Any], table: str) -> list[Hnsw]:
    (oid,) = connection.execute("SELECT to_regclass(%s)::oid", (table,)).fetchone() or (None,)
    return [] if oid is None else hnsw(connection, [oid])


def _build(connection: psycopg.Connection[Any], table: str, kind: str) -> None:
    size, size_limit = dimensions_of(connection, table) or 0, INDEXED_DIMENSIONS[kind]
    if size > size_limit:
        raise WrongUsage(f"--index {kind}: it holds at most {size_limit:,} dimensions, {table} has {size:,}")
    schema, name = table.split(".")
    index = f"{name}_embedding_{kind}_idx"
    if connection.execute(_IS_BUILT, (f"{schema}.{index}",)).fetchone():
        raise WrongUsage(f"--index {kind}: {schema}.{index} is an index of another kind: rename it")
    # What an interrupted build left is not valid, and has the name.
    connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(schema, index)))
    with suppress(psycopg.Error):
        connection.execute(_END_WITH_CLIENT)
    command = sql.SQL(_COMMANDS[kind] + _PARAMETERS)
    sql_parameters = {"size": sql.Literal(size), "pgvector": sql.SQL(vector_schema(connection) or "public")}
    connection.execute(command.format(sql.Identifier(index), sql.Identifier(schema, name), **sql_parameters))


@contextmanager
def _watched(connection: psycopg.Connection[Any], watch: Watch | None, table: str) -> Iterator[None]:
    """Say again and again how far the build on this connection is."""
    if watch is None:
        yield
        return
    ended, pid = Event(), connection.info.backend_pid

    def tell() -> None:
        with suppress(psycopg.Error):  # the build itself tells whether Postgres is gone
            while not ended.wait(_TELL_SECONDS):
                for phase, blocks_done, total in watch.connection.execute(_PROGRESS, (pid,)):
                    watch.progress(table, phase, blocks_done, total)

    telling = Thread(target=tell, name="progress of the build")
    telling.start()
    try:
        yield
    finally:
        ended.set()
        telling.join()
