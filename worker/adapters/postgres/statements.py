"""Nearest-neighbour search as SQL.

Two statements for a corpus:

- *nearest*: one statement that chooses, by the size of the corpus and of what the caller may see, between an iterative
  scan of the HNSW index (over-fetched by distance alone, then sorted exactly outside) and an exact search of the few
  relevant documents.
- *exact*: a comparison of every chunk that the caller may see.

Both end in ``ORDER BY distance + 0, id``. The ``+ 0`` matters: without it PostgreSQL 17 and later assume that the
over-fetch is already in that order (it is not, under ``relaxed_order``), and PostgreSQL 16 and later could use the
index where an exact answer is required. Identifiers come from settings and are quoted; values are always parameters.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from psycopg import sql

from retrieval_client.hashing import parse_hashes
from worker.adapters.postgres.catalog import identifier
from worker.adapters.postgres.column_types import TEXTS
from worker.adapters.postgres.filters import FilterSql, all_of, as_type, page_number
from worker.adapters.postgres.text_reading import TextReading

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.core.ranking.vectors import Vector
    from worker.model import FilterSet
    from worker.settings.serving import Calibration, CorpusSettings, SearchSettings


MAX_WIDTH = 1000
"""Greatest `hnsw.ef_search` of pgvector."""
LEAST_WIDTH = 100
"""Least `hnsw.ef_search`: with it real text reaches a recall of 0.9988 (benchmarks/results/real_text.md)."""
ROWS_PER_WIDTH = 1000
"""`hnsw.ef_search` is a corpus's rows divided by this: with 4,000 a graph of 300,000 rows lost a query (floors.md)."""
OVER_FETCH = 30
"""Candidates that the index returns before exact ordering; a job for more than half as many gets the next multiple.

Measured with 100,000 rows, of which 10 % are visible: 30 gave a recall of 0.9982 in 8.7 ms, 60 gave 0.9993 in 13.1 ms.
"""
NARROW_FACTOR = 15.0
"""Visible rows ÷ √(rows of the corpus) below which exact search is as fast as the index, and has all.

Measured with 100,000 rows: at 5 % visible the index takes 14.6 ms, exact search 22.9; at 2 % exact search takes 11.0.
"""
SCAN_TUPLES = 40_000
"""Least `hnsw.max_scan_tuples`: an iterative scan stops there, and exact search takes over."""
_SCAN_BYTES = 340
"""Memory of an iterative scan per scanned row: measured with m = 16; half of it with m = 32."""
_MOST_SCAN_MEMORY = 1000
"""Greatest `hnsw.scan_mem_multiplier` of pgvector, in units of `work_mem`."""
FEW_ROWS_SETTING = "retrieval.few_rows"
"""Setting that announces a statement of few rows; it changes how fast a policy may answer, never its result."""


class Statements:
    """The statements of one corpus.

    Args:
        name: its name in the settings.
        settings: its table and columns.
        search: the settings that trade time for recall.
        types: types of its key columns, and the tables that store its rows.
        calibration: its measured search widths, if any.

    Attributes:
        name: as given.
        settings: as given.
        search: as given.
        key_type: type of its id column, as Postgres names it.
        has_statistics: True if the statistics of its words can be read.
        reading: how full-text search reads its texts.
        signature: its column of signatures, if full-text search is to use it.
        index: type of the HNSW index's vectors: ``vector`` or ``halfvec``.
        filters: a job's filters as conditions.
    """

    def __init__(
        self,
        name: str,
        settings: CorpusSettings,
        search: SearchSettings,
        types: CorpusTypes,
        calibration: Calibration | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.search = search
        self._calibration = calibration
        self._types = types
        self.key_type = types.id
        self.has_statistics = types.has_statistics
        self.reading = types.reading or TextReading(settings.language, settings.language)
        mapped = settings.columns.text_signature
        signed = mapped in types.columns and not settings.public and not types.full_text_index
        self.signature = mapped if signed and self.reading.signature_fits else None
        self.index = types.index
        self.filters = FilterSql(name, settings, types)
        self._statements: dict[tuple[Any, ...], bytes] = {}

    def values(self, query: Vector | None, k: int, filters: FilterSet) -> dict[str, Any]:
        """Return the parameters of `exact` and `nearest`."""
        return {"query": query, "k": k, **self.filters.values(filters)}

    @cached_property
    def size(self) -> bytes:
        """Compose the size of the corpus; it also announces that `exact` reads every row until the transaction ends."""
        return render(
            "SELECT rows, set_config({few_rows}, '', true) FROM ({size}) AS size",
            few_rows=sql.Literal(FEW_ROWS_SETTING),
            size=estimated_rows(self._types.storage),
        )

    def _widths(self, filters: FilterSet) -> list[tuple[int, int, int]]:
        """Return the measured width, else that by size; with a filter, which no measurement covers, both."""
        measured = self._measured_width
        if measured is None:
            return [self._width_by_size]
        return [self._width_by_size, measured] if filters.given else [measured]

    @property
    def _width_by_size(self) -> tuple[int, int, int]:
        """(least `ef_search`, how much of it for how many rows)."""
        return LEAST_WIDTH, 1, ROWS_PER_WIDTH

    @property
    def _measured_width(self) -> tuple[int, int, int] | None:
        """Return the calibrated width: the measured one, growing in proportion to the number of rows."""
        measured = self._calibration
        return (measured.ef_search, measured.ef_search, measured.rows) if measured else None

    def _tuned(self, filters: FilterSet, widen: int) -> sql.Composable:
        """Compose the common table expression `tuned`: size of the corpus, and HNSW's settings by it.

        They apply until the end of the transaction, and to the rest of the statement once it has read `tuned`. The
        widest of the widths is set, up to pgvector's maximum. Postgres plans for the whole table where the index
        returns some dozens of rows: a policy
        may read `FEW_ROWS_SETTING` to choose the cheaper check (config/schema.sql). An iterative scan may look at as
        many rows as a caller needs who sees just too much for exact search, and has memory for them.
        """
        reach = OVER_FETCH / NARROW_FACTOR if self.settings.documents is not None else 0.0
        return sql.SQL(
            "tuned AS MATERIALIZED (SELECT rows,"
            " set_config('hnsw.ef_search', least({most}, {widen} * greatest({widths}))::text, true)::integer"
            " AS ef_search,"
            " set_config('hnsw.iterative_scan', 'relaxed_order', true),"
            " set_config('hnsw.max_scan_tuples', tuples::text, true),"
            " set_config('hnsw.scan_mem_multiplier', greatest(1, least({most_memory}, ceil("
            "tuples * {bytes}::float8 / pg_size_bytes(current_setting('work_mem')))))::text, true),"
            " set_config({few_rows}, 'on', true)"
            " FROM (SELECT rows, greatest({tuples}, least({most_tuples}, ceil({reach} * sqrt(rows))))::integer"
            " AS tuples FROM ({size}) AS size) AS scan)"
        ).format(
            widths=sql.SQL(", ").join(
                [sql.SQL("{}, rows * {} / {}").format(*map(sql.Literal, width)) for width in self._widths(filters)]
            ),
            most=sql.Literal(MAX_WIDTH),
            widen=sql.Literal(widen),
            tuples=sql.Literal(SCAN_TUPLES),
            most_tuples=sql.Literal(2**31 - 1),
            reach=sql.Literal(reach),
            bytes=sql.Literal(_SCAN_BYTES),
            most_memory=sql.Literal(_MOST_SCAN_MEMORY),
            few_rows=sql.Literal(FEW_ROWS_SETTING),
            size=estimated_rows(self._types.storage),
        )

    def exact(self, filters: FilterSet, vectors: bool = False, with_text: bool = False) -> bytes:
        """Compose a comparison of every visible chunk, in total order; see `nearest`.

        Where documents are mapped and not all public, it begins with the visible ones: a filter on chunks would be
        tried on hidden chunks before the policy is, and take longer where it meets some.
        """
        return self.cached(
            ("exact", vectors, with_text),
            filters,
            lambda: render(
                "SELECT * FROM (SELECT {columns} FROM {table} AS c WHERE {where}) AS compared"
                " ORDER BY distance + 0, id {collate} LIMIT %(k)s",
                where=all_of([*self._of_visible(filters), *([self.has_text] if with_text else [])]),
                columns=self.columns(vectors),
                **self.names,
            ),
        )

    def nearest(
        self, filters: FilterSet, k: int, vectors: bool = False, widen: int = 1, with_text: bool = False
    ) -> bytes:
        """Compose the search by index or exact, as the database's statistics and the caller's permissions decide.

        Args:
            filters: the filters of the search.
            k: number of chunks; it determines the number fetched, see `over_fetch`.
            vectors: also return the chunks' embeddings (else NULL).
            widen: how many times as wide as the settings say.
            with_text: leave out chunks without text; see `has_text`.
        """
        fetch = self.over_fetch(k)
        return self.cached(
            ("index", fetch, vectors, widen, with_text),
            filters,
            lambda: self._compose_nearest(filters, fetch, vectors, widen, with_text),
        )

    # --- scores of given chunks -----------------------------------------------------------------

    @cached_property
    def distances(self) -> bytes:
        """Compose the distances of given chunks: rows of (id as text, distance). See `given_values` and ``query``."""
        return render(
            "WITH {given} SELECT c.{key}::text, c.{embedding} OPERATOR({pgvector}.<=>) %(query)s"
            " FROM {table} AS c WHERE {is_given}",
            given=self.given(sql.SQL("")),
            key=sql.Identifier(self.settings.columns.id),
            is_given=self.is_given,
            **self.names,
        )

    def given(self, source: sql.Composable) -> sql.Composable:
        """Compose the common table expression `given` of chunk ids; ``source``: a FROM clause to be read before."""
        return sql.SQL(
            "given AS MATERIALIZED (SELECT {ids} AS ids, pg_catalog.set_config({few_rows}, 'on', true) {source})"
        ).format(
            ids=sql.SQL(_IDS).format(type=sql.SQL(self.key_type)),
            few_rows=sql.Literal(FEW_ROWS_SETTING),
            source=source,
        )

    @property
    def is_given(self) -> sql.Composable:
        """The condition that a chunk ``c`` is one of `given`."""
        return sql.SQL("c.{} = ANY ((SELECT ids FROM given)::{}[])").format(
            sql.Identifier(self.settings.columns.id), sql.SQL(self.key_type)
        )

    def given_values(self, ids: Collection[str]) -> dict[str, Any]:
        """Return the parameters of `given`; ids are those of chunks that this corpus returned."""
        return {"ids": json.dumps([*ids])}

    # --- the search by vectors ------------------------------------------------------------------

    def over_fetch(self, k: int) -> int:
        """Return the number that the index returns before the exact order and the cut: at least ``2 * k``.

        It is a multiple of `OVER_FETCH`, because it is a constant of the statement: with a parameter, Postgres would
        expect to read a tenth of the table and not use the index.
        """
        return OVER_FETCH * max(1, -(-2 * k // OVER_FETCH))

    # --- queries of `calibrate` -----------------------------------------------------------------

    @cached_property
    def embedded(self) -> bytes:
        """Compose the number of visible chunks that nearest-neighbour search can find."""
        return render("SELECT count(*) FROM {table} AS c WHERE {embedded}", embedded=self._embedded, **self.names)

    @cached_property
    def sample(self) -> bytes:
        """Compose the embeddings of visible chunks, in an order that depends only on ids and a seed."""
        return render(
            "SELECT c.{embedding} FROM {table} AS c WHERE {embedded}"
            ' ORDER BY hashtextextended(c.{key}::text, %(seed)s::bigint), c.{key}::text COLLATE "C" LIMIT %(limit)s',
            embedded=self._embedded,
            key=sql.Identifier(self.settings.columns.id),
            **self.names,
        )

    @property
    def _embedded(self) -> sql.Composable:
        norm = "c.{embedding} IS NOT NULL AND {pgvector}.vector_norm(c.{embedding}::{pgvector}.vector) > 0"
        return sql.SQL(norm).format(**self.names)

    # --- pins: by a chunk's hash, and by its id -------------------------------------------------

    @cached_property
    def pinned(self) -> bytes:
        """Compose every visible chunk with one of the hashes or ids: two index lookups, one statement."""
        by_hash = (
            sql.SQL("UNION ALL SELECT {fields} FROM {table} AS c WHERE c.{hash} = ANY ({hashes})").format(
                hash=sql.Identifier(self.settings.columns.chunk_hash), hashes=_HASHES, **self.names
            )
            if self.settings.columns.chunk_hash
            else sql.SQL("")
        )
        return render(
            "SELECT {fields} FROM {table} AS c WHERE c.{id} = ANY ({ids}) {by_hash}",
            id=sql.Identifier(self.settings.columns.id),
            ids=sql.SQL(_IDS).format(type=sql.SQL(self._types.id)),
            by_hash=by_hash,
            **self.names,
        )

    @cached_property
    def scan(self) -> bytes:
        """Compose chunks in the order of their ids, for bare hashes where no column holds hashes."""
        return render(
            "SELECT * FROM (SELECT {fields} FROM {table} AS c) AS visible ORDER BY id {collate} LIMIT %(limit)s",
            **self.names,
        )

    @cached_property
    def around(self) -> bytes:
        """Compose the visible chunks of a document that stand next to one of them, by page and id, and that one."""
        return render(
            """
            WITH placed AS MATERIALIZED (
              SELECT id, pg_catalog.row_number() OVER (
                     ORDER BY page, pg_catalog.length(id::text), id {collate}) AS place
                FROM (SELECT c.{id} AS id, {page} FROM {table} AS c
                       WHERE c.{document} = %(document)s::{document_type}) AS visible
            )
            SELECT {fields} FROM {table} AS c JOIN placed ON placed.id = c.{id}
             WHERE (SELECT place FROM placed WHERE id = %(chunk)s::{type})
                   BETWEEN placed.place - %(each_side)s AND placed.place + %(each_side)s
             ORDER BY placed.place LIMIT 2 * %(each_side)s + 1
            """,
            id=sql.Identifier(self.settings.columns.id),
            page=self._column_or_null(self.settings.columns.page, "page", "integer"),
            document=sql.Identifier(self.settings.columns.document_id),
            document_type=sql.SQL(self._types.document_id),
            type=sql.SQL(self._types.id),
            **self.names,
        )

    def fill(self, order: str) -> bytes:
        """Compose visible chunks in an order that needs no embedding: ``text`` or ``hash``."""
        sort_keys = {
            "text": 'document_id {document_collate}, text COLLATE "C", id {collate}',
            "hash": "chunk_hash, document_id {document_collate}, id {collate}",
        }[order]
        hashed = self.settings.columns.chunk_hash
        collate = sql.SQL('COLLATE "C"' if self._types.document_id in _COLLATABLE else "")
        return render(
            "SELECT * FROM (SELECT {fields} FROM {table} AS c WHERE {wanted}) AS visible ORDER BY {by} LIMIT %(limit)s",
            wanted=sql.SQL("c.{} NOT IN ({})").format(sql.Identifier(hashed), _EACH_HASH)
            if hashed
            else sql.SQL("true"),
            by=sql.SQL(sort_keys).format(document_collate=collate, collate=self.names["collate"]),
            **self.names,
        )

    def pins(self, hashes: Collection[str], ids: Iterable[str]) -> dict[str, Any]:
        """Return the parameters of `pinned` and `fill`; an id that does not fit the column's type names no chunk."""
        values = (as_type(text, self._types.id) for text in ids)
        return {
            "hashes": parse_hashes(hashes),
            "ids": json.dumps([str(value) for value in values if value is not None]),
        }

    def _compose_nearest(
        self, filters: FilterSet, over_fetch: int, vectors: bool, widen: int, with_text: bool
    ) -> bytes:
        on_chunks = [*self.filters.on_chunks(filters), *([self.has_text] if with_text else [])]
        return render(
            """
            WITH {tuned},
            {choice},
            few AS MATERIALIZED (
              SELECT * FROM (
                SELECT {columns} FROM {table} AS c WHERE (SELECT exact FROM choice) AND {where_few}
              ) AS compared ORDER BY distance + 0, id {collate} LIMIT %(k)s
            ),
            near AS MATERIALIZED (
              SELECT {columns} FROM {table} AS c
               WHERE NOT (SELECT exact FROM choice) AND {where_near}
               ORDER BY {nearness} LIMIT {over_fetch}
            ),
            hits AS (
              SELECT *, count(*) FILTER (WHERE distance < 'NaN') OVER () AS fetched,
                     max(distance) OVER () AS farthest
                FROM (SELECT * FROM few UNION ALL SELECT * FROM near) AS either
               ORDER BY distance + 0, id {collate} LIMIT %(k)s
            )
            SELECT rows, ef_search, exact, ({has_index}) AS indexed, coalesce(fetched, 0), farthest, {outputs}
              FROM tuned CROSS JOIN choice LEFT JOIN hits ON true
            """,
            tuned=self._tuned(filters, widen),
            choice=self.choice(filters, sql.SQL("tuned")),
            where_few=all_of([*on_chunks, *self.few_documents(filters)]),
            where_near=all_of([*on_chunks, *self.filters.on_chunk_paths(filters)]),
            nearness=sql.SQL(_NEARNESS[self.index]).format(
                dimensions=sql.Literal(self.settings.dimensions), **self.names
            ),
            over_fetch=sql.Literal(over_fetch),
            has_index=_has_index(self._types.storage, self.index),
            columns=self.columns(vectors),
            **self.names,
        )

    def choice(self, filters: FilterSet, sized: sql.Composable | None = None) -> sql.Composable:
        """Compose common table expressions that end in `choice (exact)`.

        The cost of the index grows with 1 / (visible share), that of exact search with visible rows: they are equal
        where visible rows = NARROW_FACTOR * sqrt(corpus rows). `counted` stops counting documents there.

        Args:
            filters: the filters of the search.
            sized: a relation with the corpus's size as ``rows``; default a query for it.
        """
        size = sized or sql.SQL("({})").format(estimated_rows(self._types.storage))
        exact_rows = sql.Literal(self.search.exact_rows)
        documents = self.settings.documents
        if documents is None:
            has_document_ids = sql.SQL("true" if filters.document_ids is not None else "false")
            return sql.SQL(
                "choice AS MATERIALIZED (SELECT rows <= {exact_rows} OR {given} AS exact FROM {size} AS size)"
            ).format(exact_rows=exact_rows, given=has_document_ids, size=size)
        return sql.SQL(
            """
            bound AS MATERIALIZED (
              SELECT CASE WHEN chunks.rows > {exact_rows} THEN
                       1 + ceil({factor} * sqrt(chunks.rows) * documents.rows / chunks.rows)::bigint
                     END AS documents
                FROM {size} AS chunks, ({documents_size}) AS documents
            ),
            counted AS MATERIALIZED (
              SELECT d.{id} AS id FROM {table} AS d WHERE {where} LIMIT (SELECT documents FROM bound)
            ),
            choice AS MATERIALIZED (
              SELECT documents IS NULL OR (SELECT count(*) FROM counted) < documents AS exact FROM bound
            )
            """
        ).format(
            exact_rows=exact_rows,
            factor=sql.Literal(NARROW_FACTOR),
            size=size,
            documents_size=estimated_rows(self._types.documents_storage),
            id=sql.Identifier(documents.id),
            table=identifier(documents.table),
            where=all_of(self._on_documents(filters)),
        )

    def _of_visible(self, filters: FilterSet) -> list[sql.Composable]:
        """Compose a job's conditions, as those for the chunks of visible documents where these are mapped."""
        documents, columns = self.settings.documents, self.settings.columns
        if documents is None or self.settings.public:
            return [*self.filters.on_chunks(filters), *self.filters.on_chunk_paths(filters)]
        visible = sql.SQL("c.{} = ANY (ARRAY(SELECT d.{} FROM {} AS d WHERE {}))").format(
            sql.Identifier(columns.document_id),
            sql.Identifier(documents.id),
            identifier(documents.table),
            all_of(self._on_documents(filters)),
        )
        return [visible, *self.filters.on_content(filters), *self._on_own_paths(filters)]

    def _on_documents(self, filters: FilterSet) -> list[sql.Composable]:
        """Compose the conditions that narrow documents; a path in the chunk table itself does not."""
        documents, columns = self.settings.documents, self.settings.columns
        ids = self.filters.ids_among(sql.Identifier("d", documents.id), filters) if documents else []
        return [*([] if columns.path else self.filters.on_paths(filters)), *ids]

    def _on_own_paths(self, filters: FilterSet) -> list[sql.Composable]:
        return self.filters.on_chunk_paths(filters) if self.settings.columns.path else []

    def few_documents(self, filters: FilterSet) -> list[sql.Composable]:
        """Compose the conditions for the chunks of the documents that `choice` counted, where it is ``exact``."""
        if self.settings.documents is None:
            return self.filters.on_chunk_paths(filters)
        return [
            sql.SQL("c.{} = ANY (ARRAY(SELECT id FROM counted))").format(
                sql.Identifier(self.settings.columns.document_id)
            ),
            *self._on_own_paths(filters),
        ]

    @cached_property
    def has_text(self) -> sql.Composable:
        """The condition that a chunk has more than white space; long texts count without being read."""
        return sql.SQL(_HAS_TEXT).format(
            text=sql.Identifier(self.settings.columns.text), long=sql.Literal(_LONG), spaces=sql.Literal(_SPACES)
        )

    # --- names ----------------------------------------------------------------------------------

    @cached_property
    def names(self) -> dict[str, sql.Composable]:
        """The parts of every statement from the corpus's settings."""
        columns = self.settings.columns
        optional = [
            self._column_or_null(getattr(columns, field), field, cast)
            for field, cast in {**_OPTIONAL, "chunk_hash": "bytea"}.items()
        ]
        extra = [
            sql.SQL("{} AS {}").format(self._in_json(column), sql.Identifier(f"extra_{i}"))
            for i, column in enumerate(self.settings.metadata_columns.values())
        ]
        mapped = {"id": columns.id, "document_id": columns.document_id, "text": columns.text}
        required = [
            sql.SQL("c.{} AS {}").format(sql.Identifier(column), sql.Identifier(field))
            for field, column in mapped.items()
        ]
        outputs = ["distance", "vector", *mapped, *_OPTIONAL, "chunk_hash", *(f"extra_{i}" for i in range(len(extra)))]
        return {
            "fields": sql.SQL(", ").join([*required, *optional, *extra]),
            "outputs": sql.SQL(", ").join([sql.Identifier(name) for name in outputs]),
            "table": identifier(self.settings.table),
            "pgvector": sql.SQL(self._types.pgvector),
            "embedding": sql.Identifier(columns.embedding),
            "collate": sql.SQL('COLLATE "C"' if self._types.id in _COLLATABLE else ""),
        }

    def _column_or_null(self, column: str | None, field: str, cast: str) -> sql.Composable:
        if column is None:
            return sql.SQL("NULL::{} AS {}").format(sql.SQL(cast), sql.Identifier(field))
        value = self._in_json(column) if cast == "jsonb" else sql.Identifier("c", column)
        if field == "page":
            value = page_number(value, self._types.columns.get(column))
        return sql.SQL("{} AS {}").format(value, sql.Identifier(field))

    def _in_json(self, column: str) -> sql.Composable:
        """Convert a column of any type to a JSON value; filters compare the same."""
        kind = self._types.columns.get(column)
        plain = kind is None or kind.is_json
        return sql.SQL("c.{}" if plain else "to_jsonb(c.{})").format(sql.Identifier(column))

    def columns(self, vectors: bool) -> sql.Composable:
        """Compose the columns that a search selects of each chunk."""
        compared = sql.SQL("c.{embedding} OPERATOR({pgvector}.<=>) %(query)s AS distance, {vector} AS vector, {fields}")
        vector = sql.SQL("c.{embedding}" if vectors else "NULL::integer").format(**self.names)
        return compared.format(vector=vector, **self.names)

    def cached(self, kind: tuple[Any, ...], filters: FilterSet, compose: Callable[[], bytes]) -> bytes:
        """Cache statements by the shape of their filters: values are parameters, so shapes are few."""
        shape = (*kind, *self.filters.shape(filters))
        if shape not in self._statements:
            self._statements[shape] = compose()
        return self._statements[shape]


_OPTIONAL = {"page": "integer", "section": "text", "coordinates": "jsonb", "metadata": "jsonb"}
# The order of the index; all its results are compared exactly.
_NEARNESS = {
    "vector": "c.{embedding} OPERATOR({pgvector}.<=>) %(query)s",
    "halfvec": (
        "(c.{embedding}::{pgvector}.halfvec({dimensions})) OPERATOR({pgvector}.<=>)"
        " %(query)s::{pgvector}.halfvec({dimensions})"
    ),
}
_COLLATABLE = frozenset(TEXTS)

# Mostly the length tells, which is known without reading a text that is stored out of line, or the first letter.
_HAS_TEXT = """
(octet_length(c.{text}::text) > {long} OR ascii(c.{text}::text) BETWEEN 33 AND 126
 OR btrim(c.{text}::text, {spaces}) <> '')
"""
_LONG = 256
_SPACES = "".join(filter(str.isspace, map(chr, range(0x3001))))

# Lists of a pin lookup as one value each, split by Postgres: psycopg would write arrays item by item. It also keeps the
# planner at its default estimate of few items, for which it checks policies row by row (config/schema.sql).
_EACH_HASH = sql.SQL(
    "SELECT substring(%(hashes)s::bytea FROM i FOR 32) FROM generate_series(1, length(%(hashes)s::bytea), 32) AS i"
)
_HASHES = sql.SQL("ARRAY({})").format(_EACH_HASH)
_IDS = "ARRAY(SELECT value::{type} FROM jsonb_array_elements_text(%(ids)s::jsonb) AS value)"

# As the planner estimates: rows per page when last analysed, times the current number of pages. Before the first
# ANALYZE, a row counts as 3,500 bytes (768 floats and some text).
_SIZE = """
SELECT coalesce(sum(CASE WHEN relpages > 0 AND reltuples >= 0
                         THEN reltuples / relpages * (pg_relation_size(oid) / current_setting('block_size')::int)
                         ELSE pg_relation_size(oid) / 3500.0 END), 0)::bigint AS rows
  FROM pg_class WHERE oid = ANY ({oids}::oid[])
"""


def estimated_rows(storage: Sequence[int]) -> sql.Composed:
    """Compose a query for Postgres' estimate of the rows of tables, given by oid."""
    return sql.SQL(_SIZE).format(oids=sql.Literal(list(storage)))


# Over all rows, and of the query's distance: Postgres uses no other.
_HAS_INDEX = """
SELECT EXISTS (SELECT FROM pg_index AS i JOIN pg_opclass AS o ON o.oid = i.indclass[0]
                WHERE i.indrelid = ANY ({oids}::oid[]) AND i.indisvalid AND i.indpred IS NULL
                  AND o.opcname = {operators})
"""


def _has_index(storage: Sequence[int], kind: str) -> sql.Composed:
    """Compose a query for the existence of a nearest-neighbour index of a kind (``vector``, ``halfvec``)."""
    return sql.SQL(_HAS_INDEX).format(oids=sql.Literal(list(storage)), operators=sql.Literal(f"{kind}_cosine_ops"))


def render(template: str, **fragments: sql.Composable) -> bytes:
    """Render a statement to bytes once: psycopg would repeat it for each execution."""
    return sql.SQL(template).format(**fragments).as_bytes(None)
