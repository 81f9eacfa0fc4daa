"""Checks of one corpus: its rows, policies, columns, indexes and word statistics."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from worker.adapters.durability import Finding
from worker.adapters.postgres.catalog import identifier, is_leakproof
from worker.adapters.postgres.index_advice import index_findings
from worker.adapters.postgres.privileges import quoted_name, sources
from worker.adapters.postgres.sql import blocks
from worker.adapters.postgres.statements import estimated_rows
from worker.adapters.postgres.text_reading import TextReading
from worker.cli.doctor.policies import policy_findings
from worker.cli.visibility import visible_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.settings import Settings
    from worker.settings.serving import CorpusSettings


_SQL = blocks("doctor_corpora")
_HAS_INDEX = _SQL["has_index"]
_IS_PARTITIONED = _SQL["is_partitioned"]
_NEVER_ANALYSED = _SQL["never_analysed"]
_UNINDEXED = _SQL["unindexed"]
_MADE_BY = _SQL["made_by"]
_HAVE_OWN = _SQL["have_own"]
_STOP_WORDS = _SQL["stop_words"]
_RELATION = _SQL["relation"]
_COUNTED = _SQL["counted"]

_ALL_ROWS = "EXPLAIN (FORMAT JSON) SELECT FROM {table}"
_WITHOUT = "EXPLAIN (FORMAT JSON) SELECT FROM {table} WHERE {column} IS NULL"
_TELLING_ROWS, _FEW = 20, 0.02
"""Estimated rows from which a share of them tells something, and the share that is worth a word."""


_CONFIGURATION = re.compile(r"(?:to_tsvector|text_vector)\('(?:pg_catalog\.|retrieval\.)?(\w+)'::regconfig")
_UNFOLDED = re.compile(r"to_tsvector\('(?:pg_catalog\.)?(\w+)'::regconfig")
_SETS_EXPRESSION = 17_0000
"""The first version of Postgres that can change the expression of a generated column."""

_NO_LANGUAGE = ("simple", "grams")
_FOREIGN = 0.25
"""Share of stop words from which texts are taken for another language: of English texts it is below 0.03."""

_JSON = ("json", "jsonb")

_HAVING = """
SELECT count(*), count(*) FILTER (WHERE metadata::jsonb ? %s)
  FROM (SELECT {column} AS metadata FROM {table} LIMIT 1000) AS first
"""


LEAKPROOF = "ALTER FUNCTION ts_match_vq(tsvector, tsquery) LEAKPROOF"
"""Allows the planner to evaluate ``@@`` before a policy and so use a GIN index; a superuser decides per database."""


_UNCOUNTED = "its words were never counted, so in full-text search common words weigh as much as rare ones"
_OLD_DAYS = 7
"""Age from which word statistics are called old."""


def corpus_findings(
    connection: psycopg.Connection[Any], settings: Settings, name: str, types: CorpusTypes
) -> Iterator[Finding]:
    """Check one corpus that `check` has found readable."""
    corpus, subject = settings.corpora[name], f"corpus {name}"
    quoted = identifier(corpus.table).as_string(connection)
    column = corpus.columns.embedding
    yield _rows(connection, subject, corpus, types)
    if not corpus.public:
        (rows,) = connection.execute(estimated_rows(types.storage)).fetchone() or (0,)
        yield visible_rows(connection, settings, name, rows)
    embedding = types.columns[column]
    if embedding.modifier == -1:
        yield Finding(
            "advice",
            subject,
            f"{column} is {embedding.full}, which lets a row have any number of dimensions, and one with others than "
            f"{corpus.dimensions} fails every search: ALTER the column's TYPE to "
            f"{embedding.embedding}({corpus.dimensions})",
        )
    is_view, table = connection.execute(_RELATION, (quoted,)).fetchone() or (False, corpus.table)
    yield from policy_findings(connection, settings, name, types, quoted)
    yield from _without_embedding(connection, subject, corpus)
    if not is_view:
        yield from _nullable(connection, subject, table, corpus, types)
        yield from _unindexed(connection, subject, table, corpus)
    yield from _metadata_fields(connection, subject, corpus, types)
    yield from index_findings(connection, settings, name, types)
    yield from _full_text(connection, subject, corpus, types, None if is_view else table)
    yield from _word_statistics(connection, name, types)
    yield from _other_language(connection, name, corpus, types, None if is_view else table)
    if corpus.columns.chunk_hash is None:
        yield Finding("advice", subject, "no hash column is mapped: replays find chunks by id only (docs/schema.md)")
    if corpus.documents is None and not corpus.public:
        yield Finding(
            "advice",
            subject,
            "no table of documents is mapped: callers who see few rows get slower searches (docs/schema.md)",
        )


def _rows(connection: psycopg.Connection[Any], subject: str, corpus: CorpusSettings, types: CorpusTypes) -> Finding:
    """Report the rows of a corpus as Postgres estimates them: policies may hide the rows themselves from the worker."""
    unanalysed = [table for (table,) in connection.execute(_NEVER_ANALYSED, ([*types.storage],)).fetchall()]
    if unanalysed:
        rest_note = f" and {len(unanalysed) - 1} more" if len(unanalysed) > 1 else ""
        text = (
            f"{unanalysed[0]}{rest_note} was never analysed, so plans rest on guesses of its rows: "
            f"ANALYZE {unanalysed[0]}"
        )
        return Finding("advice", subject, text)
    row = connection.execute(estimated_rows(types.storage)).fetchone()
    if row and row[0]:
        return Finding("ok", subject, f"about {row[0]:,} rows")
    return Finding("advice", subject, f"it seems empty: load it, or ANALYZE {corpus.table} where it is not")


def _metadata_fields(
    connection: psycopg.Connection[Any], subject: str, corpus: CorpusSettings, types: CorpusTypes
) -> Iterator[Finding]:
    """Report fields of `metadata` in the settings that no row has; rows are looked at where policies hide none."""
    column = corpus.columns.metadata
    for setting in ("path_field", "date"):
        field = getattr(corpus, setting)
        if field is None or field in corpus.metadata_columns:
            continue
        rows, having = 0, 0
        if corpus.public and column is not None and types.columns[column].name in _JSON:
            names = {"column": sql.Identifier(column), "table": identifier(corpus.table)}
            with contextlib.suppress(psycopg.Error):  # a policy that fails without a caller
                rows, having = connection.execute(sql.SQL(_HAVING).format(**names), (field,)).fetchone() or (0, 0)
        if column is None or (rows and not having):
            which = f"none of {rows:,} rows" if rows else "no row"
            text = f"{setting} is {field}, a field that the metadata of {which} has: name another one, or leave it out"
            yield Finding("advice", subject, text)


def _nullable(
    connection: psycopg.Connection[Any], subject: str, table: str, corpus: CorpusSettings, types: CorpusTypes
) -> Iterator[Finding]:
    """Report id columns that may be NULL: such a row fails the jobs that find it. A view's columns can't be checked."""
    for field in ("id", "document_id"):
        column = getattr(corpus.columns, field)
        if types.columns[column].nullable:
            quoted = quoted_name(connection, column)
            alter = f"ALTER TABLE {table} ALTER COLUMN {quoted} SET NOT NULL"
            yield Finding(
                "advice", subject, f"{column} may be NULL, and such a row fails the jobs that find it: {alter}"
            )


def _without_embedding(connection: psycopg.Connection[Any], subject: str, corpus: CorpusSettings) -> Iterator[Finding]:
    """Report rows without an embedding, which no search by meaning finds, as Postgres estimates them.

    Policies hide the rows, and their statistics; plans are made by these all the same.
    """
    names = {"table": identifier(corpus.table), "column": sql.Identifier(corpus.columns.embedding)}
    rows, without = 0, 0
    with contextlib.suppress(psycopg.Error):  # a policy that fails without a caller
        plans = (connection.execute(sql.SQL(text).format(**names)).fetchone() for text in (_ALL_ROWS, _WITHOUT))
        rows, without = (int(row[0][0]["Plan"]["Plan Rows"]) if row else 0 for row in plans)
    if rows >= _TELLING_ROWS and without > max(1, _FEW * rows):
        yield Finding(
            "advice",
            subject,
            f"about {without / rows:.0%} of its rows have no embedding, so that no search by meaning finds them: embed "
            f"those whose {corpus.columns.embedding} is NULL",
        )


def _unindexed(
    connection: psycopg.Connection[Any], subject: str, table: str, corpus: CorpusSettings
) -> Iterator[Finding]:
    """Report a column by which rows are looked up, and that no index starts with."""
    uses = {
        corpus.columns.id: "searches",
        corpus.columns.document_id: "searches of few documents",
        corpus.columns.chunk_hash: "replays",
    }
    for column, is_partitioned in connection.execute(_UNINDEXED, ([*filter(None, uses)], table)).fetchall():
        command = (
            f"CREATE INDEX {'' if is_partitioned else 'CONCURRENTLY '}ON {table} ({quoted_name(connection, column)})"
        )
        yield Finding(
            "advice", subject, f"no index starts with {column}, by which {uses[column]} look rows up: {command}"
        )


def _full_text(
    connection: psycopg.Connection[Any], subject: str, corpus: CorpusSettings, types: CorpusTypes, table: str | None
) -> Iterator[Finding]:
    """Report the findings on full-text search; a view (no table) has neither columns nor indexes of its own."""
    column = corpus.columns.text_search
    below = f", as its columns are called below the view {corpus.table}" if table is None else ""
    holders = _holders(connection, corpus, table, column or corpus.columns.text)
    if column is None:
        reading = types.reading or TextReading(corpus.language, corpus.language)
        commands = "; ".join(
            _added(holder, _words("text_search", reading.vector(sql.SQL(text)).as_string(connection)))
            for holder, text in holders
        )
        commands = commands or f"Add one to the table that holds the column {corpus.columns.text}"
        mapping_step = f"show it in the view {corpus.table} and map" if table is None else "map"
        yield Finding(
            "advice",
            subject,
            "no column for full-text search is mapped: the sparse leg parses every visible text again. "
            f"{commands}{below}; then {mapping_step} columns.text_search (docs/full-text.md)",
        )
        return
    signature = corpus.columns.text_signature
    signatures = {}
    if signature and signature in types.columns:
        signatures = dict(_holders(connection, corpus, table, signature))
    for holder, holder_column in holders:
        if not _has_index(connection, holder, "gin"):
            (kind,) = connection.execute(_IS_PARTITIONED, (holder,)).fetchone() or (False,)
            concurrently = "" if kind else "CONCURRENTLY "
            yield Finding(
                "advice",
                subject,
                f"no GIN index: CREATE INDEX {concurrently}ON {holder} USING gin ({holder_column}){below}",
            )
        made_by = _expression(connection, holder, holder_column)
        languages = sorted({*_CONFIGURATION.findall(made_by)})
        if languages and corpus.language not in languages:
            yield Finding(
                "advice",
                subject,
                f"{holder_column} is made by {' and '.join(languages)}, and queries are read by {corpus.language}, so "
                "that other forms of a word are not found: "
                f"{subject.replace(' ', '.').replace('corpus', 'corpora')}.language = "
                f'"{languages[0]}", or make the column by {corpus.language}',
            )
        yield from _unfolded(connection, subject, holder, corpus, holder_column, signatures.get(holder, ""))
    columns = {holder: (holder_column, signatures.get(holder, "")) for holder, holder_column in holders}
    yield from _signature_findings(connection, subject, corpus, types, columns, below)


@dataclass(frozen=True, slots=True)
class _GeneratedColumn:
    """A generated column of full-text search, as SQL.

    Attributes:
        name: its name in the table that holds it.
        kind: type and storage.
        expression: what it is made of.
        index: method and columns of its index.
    """

    name: str
    kind: str
    expression: str
    index: str


def _words(name: str, expression: str) -> _GeneratedColumn:
    return _GeneratedColumn(name, "tsvector STORAGE MAIN", expression, f"USING gin ({name})")


def _signature(
    connection: psycopg.Connection[Any], corpus: CorpusSettings, name: str, expression: str
) -> _GeneratedColumn:
    """Describe the signatures of words, in an index that begins with the column that most policies narrow by."""
    columns = corpus.columns
    narrowing, chunk_id = (
        quoted_name(connection, column) for column in (corpus.tenant_column or columns.document_id, columns.id)
    )
    index = f"({narrowing}) INCLUDE ({chunk_id}, {name})"
    return _GeneratedColumn(name, "bit(2048) STORAGE PLAIN", f"retrieval.text_signature({expression})", index)


def _added(holder: str, *columns: _GeneratedColumn) -> str:
    """Return the commands that add columns to a table."""
    actions = ", ".join(
        f"ADD COLUMN {column.name} {column.kind} GENERATED ALWAYS AS ({column.expression}) STORED" for column in columns
    )
    indexes = "".join(f"; CREATE INDEX ON {holder} {column.index}" for column in columns)
    return f"ALTER TABLE {holder} {actions}{indexes}"


def _remade(connection: psycopg.Connection[Any], holder: str, *columns: _GeneratedColumn) -> str:
    """Return the commands that make columns of a table again, and how they stop searches."""
    if connection.info.server_version >= _SETS_EXPRESSION:
        actions = ", ".join(f"ALTER COLUMN {column.name} SET EXPRESSION AS ({column.expression})" for column in columns)
        commands = f"ALTER TABLE {holder} {actions}"
    else:
        dropped = ", ".join(f"DROP COLUMN {column.name}" for column in columns)
        commands = f"ALTER TABLE {holder} {dropped}; {_added(holder, *columns)}"
    return f"{commands}. It {_REWRITES}; then run 'retrieval-worker statistics' and restart the workers ({_GUIDE})"


_GUIDE = "docs/full-text.md"
_REWRITES = "writes the table and its indexes again under an ACCESS EXCLUSIVE lock, for which its searches wait"


def _unfolded(
    connection: psycopg.Connection[Any], subject: str, holder: str, corpus: CorpusSettings, column: str, signature: str
) -> Iterator[Finding]:
    """Report a column of words that was made before `migrate` installed the folding of texts, or without it.

    Args:
        connection: the doctor's.
        subject: the corpus.
        holder: the table.
        corpus: the corpus's settings.
        column: its column of words.
        signature: its column of their signatures; empty without one.
    """
    made_by = _expression(connection, holder, column)
    names = sorted({*_UNFOLDED.findall(made_by)})
    if not names or connection.execute(_HAVE_OWN, {"names": names}).fetchone() != (True,):
        return
    expression = _UNFOLDED.sub(r"retrieval.text_vector('retrieval.\1'::regconfig", made_by)
    signatures = [_signature(connection, corpus, signature, expression)] if signature else []
    yield Finding(
        "advice",
        subject,
        f"{column} has words as they are written, accents and widths included, and none of texts without spaces: "
        + _remade(connection, holder, _words(column, expression), *signatures),
    )


def _signature_findings(
    connection: psycopg.Connection[Any],
    subject: str,
    corpus: CorpusSettings,
    types: CorpusTypes,
    holders: dict[str, tuple[str, str]],
    below: str,
) -> Iterator[Finding]:
    """Report signatures that are missing or of other words, and how else full-text search gets an index.

    Args:
        connection: the doctor's.
        subject: the corpus.
        corpus: its settings.
        types: its columns.
        holders: by the table that holds them, its columns of words and of signatures; an empty name without these.
        below: of a view: where its columns have these names.
    """
    mapped = corpus.columns.text_signature
    expressions = {holder: _expression(connection, holder, column) for holder, (column, _) in holders.items()}
    name = quoted_name(connection, mapped or "text_signature")
    columns = {
        holder: _signature(connection, corpus, holders[holder][1] or name, expression)
        for holder, expression in expressions.items()
        if expression
    }
    if types.reading is not None and not types.reading.signature_fits:
        commands = "; ".join(_remade(connection, holder, column) for holder, column in columns.items())
        yield Finding(
            "advice",
            subject,
            f"{mapped} was not made of the words of {corpus.columns.text_search}, and is not used: full-text search "
            f"reads all chunks: {commands + below if commands else _GUIDE}",
        )
    if corpus.public or is_leakproof(connection):
        return
    narrowed = f"The column {mapped} narrows it"
    if mapped not in types.columns:
        commands = "; ".join(_added(holder, column) for holder, column in columns.items())
        missing = f"The column {mapped}, which the settings map, is missing; it" if mapped else "A column of signatures"
        narrowed = f"{missing} would narrow it: {f'{commands}{below}, which {_REWRITES}' if commands else _GUIDE}"
    yield Finding(
        "advice",
        subject,
        "full-text search can't use its index under row-level security, because an error or the time that @@ takes "
        f"could in theory reveal rows that a caller may not see. {narrowed}. Where that is "
        f"acceptable, a superuser may run: {LEAKPROOF}; then restart the workers ({_GUIDE})",
    )


def _word_statistics(connection: psycopg.Connection[Any], name: str, types: CorpusTypes) -> Iterator[Finding]:
    """Report that a corpus has no word statistics, or old ones: full-text search then ranks worse."""
    count = f"run 'retrieval-worker statistics {name}'"
    if not types.has_statistics:
        advice = "run 'retrieval-worker migrate' (--records-only where the corpora are your own), restart the workers"
        yield Finding("advice", f"corpus {name}", f"{_UNCOUNTED}: {advice}, then {count}")
        return
    row = connection.execute(_COUNTED, (name,)).fetchone()
    if row is None:
        yield Finding("advice", f"corpus {name}", f"{_UNCOUNTED}: {count}, and once a day from cron")
    elif row[1] > _OLD_DAYS:
        old = f"its words were counted {row[1]} days ago: if it changed since then, {count}, and once a day from cron"
        yield Finding("advice", f"corpus {name}", old)
    else:
        yield Finding("ok", f"corpus {name}", f"full-text search ranks by the words of {row[0]:,} chunks")


def _other_language(
    connection: psycopg.Connection[Any], name: str, corpus: CorpusSettings, types: CorpusTypes, table: str | None
) -> Iterator[Finding]:
    """Report texts of another language than full-text search takes them for; `simple` takes them for none."""
    holders = _holders(connection, corpus, table, corpus.columns.text_search or corpus.columns.text)
    made_by = {language for holder in holders for language in _CONFIGURATION.findall(_expression(connection, *holder))}
    if not types.has_statistics or corpus.language in _NO_LANGUAGE or (made_by and corpus.language not in made_by):
        return
    language, share = connection.execute(_STOP_WORDS, {"corpus": name}).fetchone() or ("", None)
    if share is not None and share >= _FOREIGN and language != corpus.language:
        yield Finding(
            "advice",
            f"corpus {name}",
            f"{share:.0%} of its most frequent words are of {language}, whose full-text search leaves them out, and it "
            f"reads texts as {corpus.language}: make columns.text_search by {language}, and set "
            f'corpora.{name}.language = "{language}"; for several languages, simple',
        )


def _expression(connection: psycopg.Connection[Any], table: str, column: str) -> str:
    """Return the expression of a generated column; "" for another."""
    (expression,) = connection.execute(_MADE_BY, (table, column)).fetchone() or ("",)
    return str(expression)


def _holders(
    connection: psycopg.Connection[Any], corpus: CorpusSettings, table: str | None, column: str
) -> list[tuple[str, str]]:
    """Return the tables that hold a column, each with its name there, as SQL; none where a view does not show them."""
    if table is not None:
        return [(table, quoted_name(connection, column))]
    view = quoted_name(connection, *corpus.table.split("."))
    kinds = ("tsvector",) if column == corpus.columns.text_search else ()
    return [*(sources(connection, view, column, kinds) or {}).values()]


def _has_index(connection: psycopg.Connection[Any], table: str, method: str) -> bool:
    row = connection.execute(_HAS_INDEX, (table, method)).fetchone()
    return bool(row and row[0])
