"""Statistics of a corpus's words, for BM25: how many chunks hold each, and the mean length of a chunk.

They are counted by the role that migrates, over all rows: a statistic over what one caller sees would cost a scan of
the corpus in each search. Searches only read them (`worker.adapters.postgres.fulltext_sql`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from retrieval_client.errors import SettingsError
from worker.adapters.postgres.catalog import STATISTICS, identifier, tables_of
from worker.adapters.postgres.fulltext_sql import document
from worker.adapters.postgres.ownership import foreign_owner
from worker.adapters.postgres.sql import blocks
from worker.adapters.postgres.text_reading import text_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from worker.settings.serving import CorpusSettings

WHOLE = ""
"""The tenant whose statistics are of the whole corpus."""

_TENANTS = "SELECT DISTINCT c.{column}::text FROM {table} AS c WHERE c.{column}::text <> '' ORDER BY 1"

# `ts_stat` counts occurrences as `ts_rank` counts a document's length: each position, or one where there is none.
_REFRESH = """
WITH counted AS MATERIALIZED (SELECT word COLLATE "C" AS term, ndoc, nentry FROM ts_stat(%(documents)s)),
size AS MATERIALIZED (SELECT count(c.{counted}) AS chunks FROM {table} AS c WHERE {belongs}),
whole AS (
  INSERT INTO retrieval.text_statistics AS known (corpus, tenant, chunks, terms, mean_length, refreshed_at)
  SELECT %(corpus)s, %(tenant)s, chunks, count(term), coalesce(sum(nentry)::float8 / nullif(chunks, 0), 0), now()
    FROM size LEFT JOIN counted ON true GROUP BY chunks
      ON CONFLICT (corpus, tenant) DO UPDATE SET chunks = excluded.chunks, terms = excluded.terms,
         mean_length = excluded.mean_length, refreshed_at = excluded.refreshed_at
  RETURNING id, chunks, terms, mean_length
),
gone AS (
  DELETE FROM retrieval.term_statistics AS t USING whole
   WHERE t.statistics = whole.id AND NOT EXISTS (SELECT FROM counted WHERE counted.term = t.term)
),
kept AS (
  INSERT INTO retrieval.term_statistics AS t (statistics, term, chunks)
  SELECT id, term, ndoc FROM whole, counted
      ON CONFLICT (statistics, term) DO UPDATE SET chunks = excluded.chunks WHERE t.chunks <> excluded.chunks
)
SELECT chunks, terms, mean_length FROM whole
"""

_ONE_ROW = "SELECT c.* FROM {table} AS c LIMIT 0"

_LACKING = """
SELECT 1 FROM (SELECT {document} AS document, c.{signature} AS signature FROM {table} AS c LIMIT 1000) AS signed
 WHERE document IS NOT NULL
   AND (signature & retrieval.text_signature(document) = retrieval.text_signature(document)) IS NOT TRUE LIMIT 1
"""

_SQL = blocks("text_statistics")
_DELETE_OTHER_TENANTS = _SQL["delete_other_tenants"]


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """Counts of one corpus, or of one tenant of it.

    Attributes:
        corpus: name of the corpus.
        tenant: value of its tenant column; "" for the whole corpus.
        chunks: number of chunks with a text.
        terms: number of different words.
        mean_length: mean number of words of a chunk.
    """

    corpus: str
    tenant: str
    chunks: int
    terms: int
    mean_length: float


def refresh(
    connection: psycopg.Connection[Any],
    name: str,
    corpus: CorpusSettings,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> list[TextStatistics]:
    """Count the words of a corpus again, and of each of its tenants, in one transaction; searches go on meanwhile.

    Args:
        connection: a connection, in autocommit mode, of a role that sees every row and writes the worker's tables.
        name: the corpus's name in the settings.
        corpus: its table and columns.
        progress: called with the number of counts made, and of how many.

    Returns:
        The whole corpus first, then its tenants by name.

    Raises:
        SettingsError: policies hide rows from the role, another role owns the table, or `migrate` has not installed
            the worker's tables.
    """
    try:
        with connection.transaction():
            return _refresh(connection, name, corpus, progress)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        raise SettingsError(
            f"corpus {name}: {corpus.table} or the table of statistics is not there: run 'retrieval-worker migrate'"
        ) from None
    except psycopg.errors.UndefinedColumn as error:
        raise SettingsError(f"corpus {name}: {corpus.table}: {error.diag.message_primary}") from None
    except psycopg.errors.InsufficientPrivilege:
        raise SettingsError(
            f"corpus {name}: the role of --dsn must read every row of {corpus.table}, whatever its policies: connect "
            "as its owner (not under FORCE ROW LEVEL SECURITY), or as a role with BYPASSRLS"
        ) from None


def _refresh(
    connection: psycopg.Connection[Any], name: str, corpus: CorpusSettings, progress: Callable[[int, int], None]
) -> list[TextStatistics]:
    # One refresh at a time, and one state of the corpus for all counts. Without row security, a read that a policy
    # would narrow is an error.
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    connection.execute(f"LOCK TABLE {', '.join(STATISTICS)} IN SHARE ROW EXCLUSIVE MODE".encode())
    connection.execute("SET LOCAL row_security = off")
    _check_owner(connection, name, corpus)
    tenants = [WHOLE, *_tenants(connection, corpus)]
    reading = text_reading(connection, corpus, tables_of(connection, corpus.table))
    if reading is None:
        raise SettingsError(f"corpora.{name}.language: the database has no text search configuration {corpus.language}")
    words = document(corpus, reading)
    _check_signatures(connection, name, corpus, words)
    statistics = []
    for done_count, tenant in enumerate(tenants):
        progress(done_count, len(tenants))
        statistics.append(_count(connection, name, corpus, tenant, words))
    connection.execute(_DELETE_OTHER_TENANTS, (name, tenants))
    progress(len(tenants), len(tenants))
    return statistics


def _check_owner(connection: psycopg.Connection[Any], name: str, corpus: CorpusSettings) -> None:
    """Check that no other role's code would run as this one."""
    table = identifier(corpus.table).as_string(connection)
    row = connection.execute("SELECT %s::regclass::oid", (table,)).fetchone()
    if row and (owner := foreign_owner(connection, row[0])):
        raise SettingsError(
            f"corpus {name}: {owner} owns {corpus.table}, and could run code as the role that reads it: connect as "
            f"{owner}, once a superuser has run: GRANT USAGE ON SCHEMA retrieval TO {owner}; GRANT SELECT, INSERT, "
            f"UPDATE, DELETE ON {', '.join(STATISTICS)} TO {owner}"
        )


def _check_signatures(
    connection: psycopg.Connection[Any], name: str, corpus: CorpusSettings, words: sql.Composable
) -> None:
    """Check that signatures have every word of their documents; chunks would be missing from answers in silence."""
    column = corpus.columns.text_signature
    fragments = {"document": words, "table": identifier(corpus.table)}
    if column is None or not _has_column(connection, sql.SQL(_ONE_ROW).format(**fragments), column):
        return
    lacking = sql.SQL(_LACKING).format(signature=sql.Identifier(column), **fragments)
    if connection.execute(lacking).fetchone():
        raise SettingsError(
            f"corpora.{name}.columns.text_signature: {corpus.table}.{column} lacks words of its chunk, which full-text "
            "search would miss: make it by retrieval.text_signature of the same tsvector (docs/full-text.md)"
        )


def _has_column(connection: psycopg.Connection[Any], query: sql.Composed, column: str) -> bool:
    return any(description.name == column for description in connection.execute(query).description or ())


def _tenants(connection: psycopg.Connection[Any], corpus: CorpusSettings) -> Sequence[str]:
    if corpus.tenant_column is None:
        return []
    fragments = {"column": sql.Identifier(corpus.tenant_column), "table": identifier(corpus.table)}
    return [tenant for (tenant,) in connection.execute(sql.SQL(_TENANTS).format(**fragments)).fetchall()]


def _count(
    connection: psycopg.Connection[Any], name: str, corpus: CorpusSettings, tenant: str, words: sql.Composable
) -> TextStatistics:
    columns = corpus.columns
    statement = sql.SQL(_REFRESH).format(
        counted=sql.Identifier(columns.text_search or columns.text),
        table=identifier(corpus.table),
        belongs=_belongs(corpus, tenant, sql.Placeholder("tenant")),
    )
    documents = sql.SQL("SELECT {document} FROM {table} AS c WHERE {belongs}").format(
        document=words,
        table=identifier(corpus.table),
        belongs=_belongs(corpus, tenant, sql.Literal(tenant)),
    )
    values = {"corpus": name, "tenant": tenant, "documents": documents.as_string(connection)}
    row = connection.execute(statement, values).fetchone()
    if row is None:
        raise SettingsError(f"corpus {name}: its statistics could not be stored: a trigger or a rule keeps them out")
    return TextStatistics(name, tenant, *row)


def _belongs(corpus: CorpusSettings, tenant: str, value: sql.Composable) -> sql.Composable:
    """Compose the condition that a chunk is of a tenant; all are of the whole corpus."""
    if tenant == WHOLE or corpus.tenant_column is None:
        return sql.SQL("true")
    return sql.SQL("c.{}::text = {}").format(sql.Identifier(corpus.tenant_column), value)
