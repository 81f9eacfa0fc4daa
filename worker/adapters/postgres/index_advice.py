"""Advice of `doctor` on how Postgres stores and indexes a corpus, from read-only queries.

Each piece of advice states its measured gain (docs/performance.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.adapters.durability import Finding
from worker.adapters.postgres.column_types import DIMENSION_BYTES, EMBEDDINGS, INDEXED_DIMENSIONS, fits_in_line
from worker.adapters.postgres.indexes import Hnsw, hnsw, unfinished
from worker.adapters.postgres.privileges import quoted_name, sources
from worker.adapters.postgres.sql import blocks
from worker.adapters.postgres.statements import estimated_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.settings import Settings
    from worker.settings.serving import CorpusSettings

M, EF_CONSTRUCTION = 32, 200
"""Recommended build parameters of an index."""

_OWN_M, _OWN_EF_CONSTRUCTION = 16, 64
"""pgvector's defaults, enough for a smaller corpus."""

_LARGE = 50_000
"""Rows from which the defaults are too low: at 20,000 they lost nothing, at 100,000 some queries found nothing."""

_MEASURED_ROWS = 300_000
"""Largest corpus for which the rule by size was measured (docs/performance.md)."""

_SQL = blocks("index_advice")
_BUFFERS = _SQL["buffers"]
_OUT_OF_LINE = _SQL["out_of_line"]
_IS_VIEW = _SQL["is_view"]
_TABLES = _SQL["tables"]

_INLINE_BYTES = 2000
"""Postgres stores a value out of line if its row would be longer than about this."""


@dataclass(frozen=True, slots=True)
class _Corpus:
    """A corpus as Postgres has it: its tables by oid (below a view, the leaves of a partitioned table).

    Attributes:
        tables: name and column of the embeddings, as SQL.
        pgvector: schema of pgvector's types and operators, as SQL.
    """

    name: str
    settings: CorpusSettings
    rows: int
    tables: Mapping[int, tuple[str, str]]
    indexes: Sequence[Hnsw]
    index: str
    pgvector: str

    def index_sql(self, table: int, kind: str = "") -> str:
        """Return the command that creates an index of a table, of the settings' kind unless another is given."""
        table_sql, column = self.tables[table]
        halved = f"({column}::{self.pgvector}.halfvec({self.settings.dimensions})) {self.pgvector}.halfvec_cosine_ops"
        indexed = {"vector": f"{column} {self.pgvector}.vector_cosine_ops", "halfvec": halved}
        return (
            f"CREATE INDEX CONCURRENTLY ON {table_sql} USING hnsw ({indexed[kind or self.index]}) "
            f"WITH (m = {M}, ef_construction = {EF_CONSTRUCTION})"
        )


def index_findings(
    connection: psycopg.Connection[Any], settings: Settings, name: str, types: CorpusTypes
) -> Iterator[Finding]:
    """Yield the findings on one corpus's nearest-neighbour index."""
    corpus, subject = settings.corpora[name], f"corpus {name}"
    row = connection.execute(estimated_rows(types.storage)).fetchone()
    tables = _tables(connection, corpus, types)
    indexes = hnsw(connection, [*(types.storage if tables is None else tables)])
    usable = [index for index in indexes if index.kind == types.index]
    if tables is None:
        if not usable:
            yield Finding("advice", subject, _unclear(corpus))
        return
    indexed = _Corpus(name, corpus, row[0] if row else 0, tables, usable, types.index, types.pgvector)
    for index in unfinished(connection, [*tables]):
        text = (
            f"the index {index} is not valid: unless it is being built now, its build was interrupted, and inserts pay"
        )
        yield Finding("advice", subject, f"{text} for it: DROP INDEX CONCURRENTLY {index}")
    kind, dimensions = types.columns[corpus.columns.embedding].embedding, corpus.dimensions
    if dimensions * DIMENSION_BYTES[kind] > _INLINE_BYTES and fits_in_line(kind, dimensions):
        outside = connection.execute(_OUT_OF_LINE, ([*tables],)).fetchall()
        yield from (Finding("advice", subject, _stored_outside(indexed, table)) for (table,) in outside)
    missing = tables.keys() - {index.table for index in usable}
    if missing:
        yield from (Finding("advice", subject, _missing(indexed, table, indexes)) for table in sorted(missing))
        return
    if indexed.rows <= settings.search.exact_rows:
        return  # never searched by an index
    (buffers,) = connection.execute(_BUFFERS).fetchone() or (0,)
    texts = [
        *_parameters(indexed),
        *_unused(indexed, indexes),
        *_smaller(indexed),
        *_size(indexed, buffers),
        *_width(settings, indexed),
    ]
    yield from (Finding("advice", subject, text) for text in texts)


def _tables(
    connection: psycopg.Connection[Any], corpus: CorpusSettings, types: CorpusTypes
) -> dict[int, tuple[str, str]] | None:
    """Return the tables that hold a corpus's embeddings; None where a view does not show them."""
    relation = quoted_name(connection, *corpus.table.split("."))
    (is_view,) = connection.execute(_IS_VIEW, (relation,)).fetchone() or (False,)
    if is_view:
        return sources(connection, relation, corpus.columns.embedding, EMBEDDINGS)
    column = quoted_name(connection, corpus.columns.embedding)
    rows = connection.execute(_TABLES, ([*types.storage],)).fetchall()
    return {oid: (table, column) for oid, table in rows}


def _unclear(corpus: CorpusSettings) -> str:
    return (
        f"no HNSW index: make one in the table below the view {corpus.table} that holds its column "
        f"{corpus.columns.embedding} (docs/schema.md)"
    )


def _stored_outside(corpus: _Corpus, table: int) -> str:
    name, column = corpus.tables[table]
    return (
        "embeddings are stored out of line: exact search of 100,000 chunks took 759 ms, in line 104 (7.3 times "
        f"faster). ALTER TABLE {name} ALTER COLUMN {column} SET STORAGE PLAIN; "
        f"VACUUM FULL {name}"
    )


def _missing(corpus: _Corpus, table: int, indexes: Sequence[Hnsw]) -> str:
    dimensions, cap = corpus.settings.dimensions, INDEXED_DIMENSIONS["halfvec"]
    if dimensions > cap:
        return (
            f"no HNSW index holds {dimensions:,} dimensions, at most {cap:,}: every search compares all visible rows. "
            "Choose an embedder with fewer"
        )
    other_kind = next((index.kind for index in indexes if index.table == table), None)
    if other_kind is None:
        return f"no HNSW index by cosine distance over all its rows: {corpus.index_sql(table)}"
    return f"a part of it has an index over {other_kind}, others over {corpus.index}: {corpus.index_sql(table)}"


def _unused(corpus: _Corpus, indexes: Sequence[Hnsw]) -> Iterator[str]:
    """Report an index that no search uses: every insert pays for it."""
    for index in indexes:
        if index.kind != corpus.index:
            yield (
                f"workers that start now use the index over {corpus.index}, not {index.name} of "
                f"{_megabytes(index.bytes)}: restart those that are older, and unless other programs use it, "
                f"DROP INDEX CONCURRENTLY {index.name}"
            )


def _smaller(corpus: _Corpus) -> Iterator[str]:
    """Report what an index over ``halfvec`` would save."""
    if corpus.index == "vector":
        size = sum(index.bytes for index in corpus.indexes)
        commands = "; ".join(corpus.index_sql(index.table, "halfvec") for index in corpus.indexes)
        yield (
            f"its index over vector has {_megabytes(size)}: over halfvec it has half the size, searches take less time "
            f"and are as exact (docs/vector-index.md). {commands}; then restart the workers and drop the old index. "
            "Of the reference tables, retrieval-worker migrate --index halfvec builds it"
        )


def _parameters(corpus: _Corpus) -> Iterator[str]:
    """Report an index built too sparse: it loses chunks that no search width finds."""
    large = corpus.rows >= _LARGE
    for index in corpus.indexes:
        if index.m < _OWN_M and not large:
            measured = "over 20,000 chunks m = 8 gave recall@15 0.995 and nothing for some queries, m = 16 gave 1.000"
        elif index.m < M and large:
            measured = "over 300,000 chunks m = 16 gave recall@15 0.990 and nothing for some queries, m = 32 0.997"
        elif index.ef_construction < (EF_CONSTRUCTION if large else _OWN_EF_CONSTRUCTION):
            measured = (
                "over 100,000 chunks ef_construction = 64 gave recall@15 0.995 and nothing for some queries, "
                "200 gave 1.000"
            )
        else:
            continue
        yield (
            f"{index.name} was built with m = {index.m}, ef_construction = {index.ef_construction}: {measured}. "
            f"{corpus.index_sql(index.table)}; DROP INDEX CONCURRENTLY {index.name}"
        )


def _size(corpus: _Corpus, buffers: int) -> Iterator[str]:
    """Report an index that does not fit into memory and is read from disk page by page."""
    size = sum(index.bytes for index in corpus.indexes)
    if size <= buffers:
        return
    yield (
        f"its index of {_megabytes(size)} does not fit into shared_buffers ({_megabytes(buffers)}): "
        f"ALTER SYSTEM SET shared_buffers = '{math.ceil(size * 1.25 / 2**20)}MB' and restart Postgres"
    )


def _width(settings: Settings, corpus: _Corpus) -> Iterator[str]:
    """Report a search width that was measured at another corpus size."""
    measured = settings.calibration.get(corpus.name)
    if measured is None and corpus.rows > _MEASURED_ROWS:
        yield (
            f"{corpus.rows:,} rows are more than the rule for ef_search was measured with ({_MEASURED_ROWS:,}): "
            f"retrieval-worker calibrate --corpus {corpus.name} --write"
        )
    if measured is not None and corpus.rows > 2 * measured.rows:
        yield (
            f"calibrated at {measured.rows:,} rows, now {corpus.rows:,}: "
            f"retrieval-worker calibrate --corpus {corpus.name} --write"
        )


def _megabytes(size: float) -> str:
    return f"{size / 2**20:,.0f} MB"
