"""Read-only checks of settings, Postgres and Redis: problems and advice."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from psycopg import sql

from retrieval_client.errors import RetrievalError, SettingsError, Unavailable
from worker.adapters.artifacts import Artifacts, try_folder
from worker.adapters.durability import Finding, redis_findings, role_findings, storage_findings
from worker.adapters.parts import lacking, needs_model
from worker.adapters.postgres.catalog import identifier, is_leakproof
from worker.adapters.postgres.database import check, connected, translated_errors
from worker.adapters.postgres.embedders import difference, foreign, identity, sample, stored
from worker.adapters.postgres.index_advice import index_findings
from worker.adapters.postgres.privileges import quoted_name, sources
from worker.adapters.postgres.replication import LAG, check_standby
from worker.adapters.postgres.row_security import RECORDS
from worker.adapters.postgres.statements import estimated_rows
from worker.adapters.providers.embedder import make as make_embedder
from worker.adapters.providers.language_model import Prompt
from worker.adapters.providers.language_model import make as make_model
from worker.adapters.providers.local_embedder import LocalEmbedder
from worker.adapters.providers.reranker import rerankers
from worker.cli.visibility import visible_rows
from worker.core.text.fingerprint import AGREE, agree, cosines, unrelated
from worker.jobs.drift import watcher
from worker.jobs.principal import check_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.adapters.postgres.embedders import StoredSample
    from worker.adapters.providers.embedder import Embedder
    from worker.core.text.fingerprint import EmbedderIdentity
    from worker.settings import Settings
    from worker.settings.serving import CorpusSettings


_INDEX = """
SELECT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
               WHERE i.indrelid = to_regclass(%s) AND a.amname = %s AND i.indisvalid)
"""

_NEVER_ANALYSED = """
SELECT oid::regclass::text FROM pg_class
 WHERE oid = ANY (%s::oid[]) AND reltuples < 0 AND pg_relation_size(oid) > 0 ORDER BY 1
"""

_SHOWS_NOTHING = """
SELECT relrowsecurity AND NOT EXISTS (
         SELECT FROM pg_policy
          WHERE polrelid = c.oid AND polpermissive AND polcmd IN ('r', '*')
            AND EXISTS (SELECT FROM unnest(polroles) role WHERE role = 0 OR pg_has_role(current_user, role, 'USAGE')))
  FROM pg_class c WHERE oid = to_regclass(%s)
"""

_READ_BY_POLICIES = r"""
SELECT DISTINCT lower(found[1]) FROM pg_policy,
       regexp_matches(pg_get_expr(polqual, polrelid), $$current_setting\('([A-Za-z_]\w*\.\w+)'$$, 'g') AS found
 WHERE polrelid = to_regclass(%s) AND NOT starts_with(lower(found[1]), 'retrieval.') ORDER BY 1
"""

_JSON = ("json", "jsonb")

_HAVING = """
SELECT count(*), count(*) FILTER (WHERE metadata::jsonb ? %s)
  FROM (SELECT {column} AS metadata FROM {table} LIMIT 1000) AS first
"""

_RELATION = "SELECT relkind = 'v', oid::regclass::text FROM pg_class WHERE oid = to_regclass(%s)"

_RECORDS = """
SELECT bool_and(oid IS NOT NULL),
       bool_and(has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')), quote_ident(current_user)
  FROM unnest(%s::text[]) AS name, LATERAL (SELECT to_regclass(name)::oid) AS found (oid)
"""

_RECOVERY = "SELECT pg_is_in_recovery(), setting::float8 / 1000 FROM pg_settings WHERE name = 'wal_receiver_timeout'"

LEAKPROOF = "ALTER FUNCTION ts_match_vq(tsvector, tsquery) LEAKPROOF"
"""Allows the planner to evaluate ``@@`` before a policy and so use a GIN index; a superuser decides per database."""

_INSTRUCTIONS, _WORD = "Answer with one word.", "hello"
"""Smallest possible prompt and text for checks of models."""

_COUNTED = """
SELECT chunks, extract(day FROM now() - refreshed_at)::bigint
  FROM retrieval.text_statistics WHERE corpus = %s AND tenant = ''
"""

_UNCOUNTED = "its words were never counted, so in full-text search common words weigh as much as rare ones"
_OLD_DAYS = 7
"""Age from which word statistics are called old."""


def examine(settings: Settings) -> list[Finding]:
    """Return all findings, in a fixed order."""
    return [
        *_postgres(settings),
        *_standby(settings),
        *redis_findings(settings),
        *_authorisation(settings),
        *_parts(settings),
        *_embedders(settings),
        *_default_searches(settings),
        *_drift_watch(settings),
        *_metrics(settings),
    ]


def _postgres(settings: Settings) -> Iterator[Finding]:
    try:
        types = check(settings, at_start=True)
    except Unavailable as error:
        yield Finding(
            "problem",
            "Postgres",
            f"{error.message}: check that it runs, and the host and port of DATABASE_CONNECTION_STRING (in a URI, "
            "/ # ? @ : and % of a password are percent-encoded)",
        )
        return
    except RetrievalError as error:
        yield Finding("problem", "Postgres", error.message)
        return
    yield Finding("ok", "Postgres", "the worker's role can't see past row-level security, and reads every corpus")
    yield from role_findings(settings)
    yield from storage_findings(settings)
    with translated_errors(), connected(settings.database_connection_string.get_secret_value()) as connection:
        yield from _records(connection)
        for name in settings.corpora:
            yield from _corpus(connection, settings, name, types[name])


def _records(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Report that runs can't be recorded: tables are missing, or the role lacks privileges that only such jobs need."""
    there, granted, role = connection.execute(_RECORDS, ([*RECORDS],)).fetchone() or (True, True, "")
    if not there:
        yield Finding(
            "advice",
            "records",
            "jobs that record a run fail: the worker's own tables are not there. Run 'retrieval-worker migrate' "
            "(--records-only where the corpora are your own)",
        )
    elif not granted:
        yield Finding(
            "advice",
            "records",
            "jobs that record a run fail: the worker's role may not read and write the worker's own tables. "
            f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA retrieval TO {role} (docs/schema.md has the rest)",
        )


def _standby(settings: Settings) -> Iterator[Finding]:
    """Check the standby that searches may read, and its lag."""
    standby = settings.of_the_standby
    if standby is None:
        return
    try:
        check_standby(standby, at_start=True)
    except Unavailable:
        yield Finding("advice", "standby", "it does not answer: searches ask the primary")
        return
    except RetrievalError as error:
        yield Finding("problem", "standby", error.message)
        return
    with translated_errors(), connected(standby.database_connection_string.get_secret_value()) as connection:
        yield from _lag(connection, standby.standby.max_lag_seconds)


def _lag(connection: psycopg.Connection[Any], most: float) -> Iterator[Finding]:
    (lag,) = connection.execute(*LAG).fetchone() or (None,)
    in_recovery, silence = connection.execute(_RECOVERY).fetchone() or (False, 0)
    if not in_recovery:
        yield Finding("advice", "standby", "DATABASE_READ_CONNECTION_STRING leads to a primary: no standby answers")
    elif lag is None or lag > most:
        behind = "by an unknown time" if lag is None else f"{lag:.1f} s"
        yield Finding(
            "advice",
            "standby",
            f"it is behind its primary, {behind}: more than standby.max_lag_seconds ({most:g}), so searches ask the "
            "primary",
        )
    else:
        yield Finding("ok", "standby", f"it answers searches, and is {lag:.1f} s behind its primary")
    if in_recovery and not 0 < silence <= most:
        yield Finding(
            "advice",
            "standby",
            f"wal_receiver_timeout is {silence:g} s there: a dead connection to its primary is noticed only then, and "
            f"its answers may be as old. ALTER SYSTEM SET wal_receiver_timeout = '{most * 1000:.0f}ms', and reload it",
        )


def _corpus(
    connection: psycopg.Connection[Any], settings: Settings, name: str, types: CorpusTypes
) -> Iterator[Finding]:
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
    (shows_nothing,) = connection.execute(_SHOWS_NOTHING, (quoted,)).fetchone() or (False,)
    if shows_nothing:
        yield Finding(
            "advice",
            subject,
            f"no policy of {table} lets this role SELECT, so every answer is empty: CREATE POLICY … ON {table} FOR "
            "SELECT (docs/schema.md)",
        )
    yield from _unmapped(connection, settings, subject, quoted, table)
    if not is_view:
        yield from _nullable(connection, subject, table, corpus, types)
    yield from _metadata_fields(connection, subject, corpus, types)
    yield from index_findings(connection, settings, name, types)
    yield from _full_text(connection, subject, corpus, None if is_view else table)
    yield from _word_statistics(connection, name, types)
    if corpus.columns.chunk_hash is None:
        yield Finding("advice", subject, "no hash column is mapped: replays find chunks by id only (docs/schema.md)")
    if corpus.documents is None and not corpus.public:
        yield Finding(
            "advice",
            subject,
            "no table of documents is mapped: callers who see few rows get slower searches (docs/schema.md)",
        )


def _unmapped(
    connection: psycopg.Connection[Any], settings: Settings, subject: str, quoted: str, table: str
) -> Iterator[Finding]:
    """Name the settings that a table's policies read and no claim sets: a slip shows nothing, or fails each job."""
    for (name,) in connection.execute(_READ_BY_POLICIES, (quoted,)).fetchall():
        if name not in settings.principal.settings.values():
            text = f"a policy of {table} reads the setting {name}, to which principal.settings maps no claim"
            yield Finding("advice", subject, text)


def _rows(connection: psycopg.Connection[Any], subject: str, corpus: CorpusSettings, types: CorpusTypes) -> Finding:
    """Report the rows of a corpus as Postgres estimates them: policies may hide the rows themselves from the worker."""
    unknown = [table for (table,) in connection.execute(_NEVER_ANALYSED, ([*types.storage],)).fetchall()]
    if unknown:
        others = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        text = f"{unknown[0]}{others} was never analysed, so plans rest on guesses of its rows: ANALYZE {unknown[0]}"
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


def _full_text(
    connection: psycopg.Connection[Any], subject: str, corpus: CorpusSettings, table: str | None
) -> Iterator[Finding]:
    """Report the findings on full-text search; a view (no table) has neither columns nor indexes of its own."""
    column = corpus.columns.text_search
    below = f", as its columns are called below the view {corpus.table}" if table is None else ""
    named = _holders(connection, corpus, table, column or corpus.columns.text)
    if column is None:
        commands = "; ".join(
            f"ALTER TABLE {holder} ADD COLUMN text_search tsvector STORAGE MAIN GENERATED ALWAYS AS "
            f"(to_tsvector('{corpus.language}'::regconfig, {text})) STORED; "
            f"CREATE INDEX ON {holder} USING gin (text_search)"
            for holder, text in named
        )
        commands = commands or f"Add one to the table that holds the column {corpus.columns.text}"
        shown = f"show it in the view {corpus.table} and map" if table is None else "map"
        yield Finding(
            "advice",
            subject,
            "no column for full-text search is mapped: the sparse leg parses every visible text again. "
            f"{commands}{below}; then {shown} columns.text_search (docs/full-text.md)",
        )
        return
    for holder, own in named:
        if not _has_index(connection, holder, "gin"):
            yield Finding("advice", subject, f"no GIN index: CREATE INDEX ON {holder} USING gin ({own}){below}")
    if not corpus.public and not is_leakproof(connection):
        yield Finding(
            "advice",
            subject,
            "full-text search can't use its index under row-level security, because an error or the time that @@ takes "
            "could in theory reveal rows that a caller may not see. A column of signatures narrows it. Where that is "
            f"acceptable, a superuser may run: {LEAKPROOF}; then restart the workers (docs/full-text.md)",
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
    found = connection.execute(_INDEX, (table, method)).fetchone()
    return bool(found and found[0])


def _parts(settings: Settings) -> Iterator[Finding]:
    """Check models and the store of files by using each once as a job would."""
    lacks = [*lacking(settings)]
    yield from (Finding("problem", lack.part, lack.problem) for lack in lacks)
    missing = {lack.part for lack in lacks}
    uses: dict[str, Callable[[], str]] = {
        "embedder": lambda: _embedder(settings),
        "language model": lambda: _language_model(settings),
        "reranker": lambda: _reranker(settings),
        "artifacts": lambda: _artifacts(settings),
    }
    for part, use in uses.items():
        if part not in missing:
            yield _used(part, use)
    idle = [name for name, profile in settings.profiles.items() if needs_model(profile)]
    if settings.language_model.kind == "none" and idle:
        advice = f"jobs that name the profile {' or '.join(idle)} are refused: each needs one (language_model.kind)"
        yield Finding("advice", "language model", advice)


_PLACES = {
    "embedder": ": check embedder.base_url and its key",
    "language model": ": check language_model.base_url and its key",
    "reranker": ": check reranker.url and its key",
}
"""Part → the settings that lead to its server."""


def _used(part: str, use: Callable[[], str]) -> Finding:
    try:
        return Finding("ok", part, use())
    except SettingsError as error:
        return Finding("problem", part, error.message)
    except RetrievalError as error:
        return Finding("advice", part, f"{error.message}. Jobs that need it wait for it{_PLACES.get(part, '')}")


def _embedder(settings: Settings) -> str:
    embedder = make_embedder(settings.embedder)
    before, start = _memory(), time.perf_counter()
    embedder.embed([_WORD])
    said = f"{embedder.name} {embedder.version} embeds"
    if not isinstance(embedder, LocalEmbedder):
        return said
    took, memory = time.perf_counter() - start, (_memory() - before) / 2**20
    return f"{said}: loaded in {took:.1f} s, {memory:.0f} MB in each worker process"


def _memory() -> int:
    """Return the resident memory of this process, in bytes; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _embedders(settings: Settings) -> Iterator[Finding]:
    """Compare the embedder of the settings with those that filled the corpora."""
    with contextlib.suppress(RetrievalError):  # reported with the parts, or with Postgres
        embedder, dsn = make_embedder(settings.embedder), settings.database_connection_string.get_secret_value()
        with translated_errors(), connected(dsn) as connection:
            recorded = stored(connection, settings.corpora)
            for name, corpus in settings.corpora.items():
                subject = f"corpus {name}"
                if not corpus.compare_embedder:
                    yield Finding("advice", subject, "compare_embedder is off: another embedder may have filled it")
                elif name in recorded:
                    yield _compared(subject, embedder, recorded[name])
                else:
                    yield _sampled(subject, embedder, sample(connection, corpus))


def _compared(subject: str, embedder: Embedder, recorded: EmbedderIdentity) -> Finding:
    if agree(identity(embedder, recorded.dimensions).fingerprint, recorded.fingerprint):
        return Finding("ok", subject, f"its vectors were made by {recorded}, with which the settings' embedder agrees")
    return Finding("problem", subject, f"jobs can't search it by text: {difference(embedder, recorded)}")


def _sampled(subject: str, embedder: Embedder, rows: StoredSample) -> Finding:
    """Compare stored vectors of a table that others filled with those that the settings' embedder makes."""
    named = f"{embedder.name} {embedder.version}"
    unknown = f"it is not recorded which embedder made its vectors, and {named} embeds queries"
    if not rows.texts:
        return Finding("advice", subject, f"{unknown}: no row with text and vector is visible without a caller")
    width = rows.vectors.shape[1]
    own = embedder.embed(rows.texts, dimensions=width)
    found = float(np.median(cosines(own, rows.vectors)))
    measured = f"median cosine {found:.2f} over {len(rows.texts)} stored texts"
    if found >= AGREE:
        return Finding("ok", subject, f"its vectors agree with {named}: {measured}")
    if unrelated(own, rows.vectors):
        reason = foreign(embedder, rows.vectors)
        return Finding("problem", subject, f"jobs can't search it by text: {reason} ({measured})")
    cure = "if other text was embedded, such as titles, name its columns in embed_with"
    return Finding("advice", subject, f"{unknown}, which does not agree with them ({measured}): {cure}")


def _language_model(settings: Settings) -> str:
    model = make_model(settings.language_model)
    if model is None:
        return "none: answers are extractive"
    model.complete(Prompt(_INSTRUCTIONS, _WORD))
    return f"{model.provider} {model.name} answers"


def _reranker(settings: Settings) -> str:
    made = rerankers(settings, None)
    for reranker in made.values():
        reranker.scores(_WORD, [_WORD])
    return ", ".join(reranker.name for reranker in made.values()) or "none is named by a profile"


def _artifacts(settings: Settings) -> str:
    Artifacts(settings.artifacts).check()
    url = settings.artifacts.url
    if "://" in url or Path(url).is_absolute():
        return f"files of runs are kept in {url}"
    return f"files of runs are kept in {Path(url).absolute()}: artifacts.url is relative to where each process starts"


def _default_searches(settings: Settings) -> Iterator[Finding]:
    """Advise where `run_pipeline` has no mode, or `retrieve_hybrid` asks a corpus that is not there by default."""
    if not settings.modes:
        yield Finding(
            "advice",
            "pipeline",
            "no mode of yours, and none of the shipped ones is for your corpora: each run_pipeline job fails. Write "
            "[modes.NAME] in modes.toml beside the settings file (docs/pipeline.md)",
        )
    if not settings.hybrid.searches:
        yield Finding(
            "advice",
            "hybrid",
            "hybrid.searches is empty: each retrieve_hybrid job without searches of its own fails. Name your corpora "
            "there",
        )
    missing = [search.corpus for search in settings.hybrid.searches if search.corpus not in settings.corpora]
    if missing:
        yield Finding(
            "advice",
            "hybrid",
            f"hybrid.searches: there is no corpus {missing[0]}: each retrieve_hybrid job without searches of its own "
            "fails. Name yours there",
        )
    stray = [name for name in settings.hybrid.extra if name not in settings.corpora]
    if stray and "extra" in settings.hybrid.model_fields_set:
        yield Finding("advice", "hybrid", f"hybrid.extra: there is no corpus {stray[0]}: name yours, or remove it")


def _drift_watch(settings: Settings) -> Iterator[Finding]:
    """Report a scheduled check of recorded runs without a valid principal."""
    if not settings.verify.every_minutes:
        return
    try:
        watcher(settings)
    except SettingsError as error:
        yield Finding("problem", "drift watch", error.message)


def _metrics(settings: Settings) -> Iterator[Finding]:
    """Report metrics that can't be stored or served; a running worker may use the port."""
    where = settings.metrics
    if where.folder:
        try:
            try_folder(Path(where.folder).absolute(), leave=False)
        except OSError as error:
            yield Finding("problem", "metrics", f"the setting metrics.folder, {where.folder}: {error.strerror}")
    if not where.port:
        return
    try:
        (family, kind, _, _, address), *_ = socket.getaddrinfo(where.address, where.port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            link.bind(address)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        text = f"the setting metrics.port: {where.address} port {where.port}: {error.strerror}"
        cure = ": unless a running worker serves it, choose another port"
        yield Finding("advice" if taken else "problem", "metrics", text + cure if taken else text)


def _authorisation(settings: Settings) -> Iterator[Finding]:
    if settings.principal.owner_claim:
        advice = (
            f'write owner_claims = ["{settings.principal.owner_claim}"] instead of owner_claim, or name the tenant, too'
        )
        yield Finding("advice", "principals", f"[principal] {advice} (docs/runs.md)")
    try:
        check_keys(settings)
    except SettingsError as error:
        yield Finding("problem", "principals", error.message)
        return
    if settings.trust_queue:
        yield Finding("advice", "principals", "trust_queue = true: a client that can write to Redis can be any caller")
    elif not settings.token_keys and not all(corpus.public for corpus in settings.corpora.values()):
        yield Finding(
            "problem",
            "principals",
            "no job can state its caller: set RETRIEVAL_WORKER_TOKEN_KEYS, or trust_queue = true where only your "
            "backend writes to Redis",
        )
    else:
        yield Finding("ok", "principals", f"{len(settings.token_keys)} key(s) for principal tokens")
