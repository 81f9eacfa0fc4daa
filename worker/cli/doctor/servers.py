"""Checks of Postgres and its standby: connection, role, storage, records."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Literal

import psycopg

from retrieval_client.errors import RetrievalError, TimedOut, Unavailable
from worker.adapters.durability import Finding, redis_time, role_findings, storage_findings
from worker.adapters.postgres.database import check, connected, translated_errors
from worker.adapters.postgres.refusals import busy
from worker.adapters.postgres.replication import LAG, check_standby
from worker.adapters.postgres.row_security import RECORDS
from worker.adapters.postgres.sql import blocks
from worker.cli.doctor.corpora import corpus_findings
from worker.jobs.principal import LEEWAY_SECONDS
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from worker.settings import Settings


_SQL = blocks("doctor_servers")
_RECORDS = _SQL["records"]
_RECOVERY = _SQL["recovery"]
_LOCALE = _SQL["locale"]
_PGVECTOR = _SQL["pgvector"]
_OUTDATED_PGVECTOR = _SQL["outdated_pgvector"]
_NOW = _SQL["now"]

_WORDS = "SELECT to_tsvector('pg_catalog.simple', 'É—Я')::text"
_TWO_WORDS = "'é':1 'я':2"


def postgres_findings(settings: Settings) -> Iterator[Finding]:
    """Check the connection, the role, the server and each corpus."""
    try:
        types = check(settings, at_start=True)
    except Unavailable as error:
        dsn = settings.database_connection_string.get_secret_value()
        yield Finding(
            "problem",
            "Postgres",
            busy(dsn)
            or f"{error.message}: check that it runs, and the host and port of DATABASE_CONNECTION_STRING (in a URI, "
            "/ # ? @ : and % of a password are percent-encoded)",
        )
        return
    except RetrievalError as error:
        reasons = ": another session locks a table (pg_locks), or the role's time limit is too short: ALTER ROLE … SET "
        timed_out = f"{reasons}statement_timeout" if isinstance(error, TimedOut) else ""
        yield Finding("problem", "Postgres", f"{error.message}{timed_out}")
        return
    yield Finding("ok", "Postgres", "the worker's role can't see past row-level security, and reads every corpus")
    yield from role_findings(settings)
    yield from storage_findings(settings)
    with translated_errors(), connected(settings.database_connection_string.get_secret_value()) as connection:
        yield from _database(connection)
        yield from _records(connection)
        for name in settings.corpora:
            yield from corpus_findings(connection, settings, name, types[name])


def _database(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Report a database whose words are those of ASCII only, and a pgvector that was not updated in it."""
    name, encoding, ctype = connection.execute(_LOCALE).fetchone() or ("", "", "")
    words = ""
    with contextlib.suppress(psycopg.DataError):  # an encoding without these letters
        (words,) = connection.execute(_WORDS).fetchone() or ("",)
    if words != _TWO_WORDS:
        yield Finding(
            "advice",
            "Postgres",
            f"its words are those of ASCII only (encoding {encoding}, lc_ctype {ctype}): full-text search takes pump—a "
            "for one word, and does not find other letters in lower case. Move to another database: CREATE DATABASE "
            f"{name}_utf8 TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'; "
            f"pg_dump {name} | psql {name}_utf8",
        )
    version, kinds = connection.execute(_PGVECTOR).fetchone() or ("", ())
    if faults := index_faults(version, kinds):
        mend = (
            "Install its newest package on the server, restart it, then REINDEX INDEX CONCURRENTLY each of its indexes"
        )
        yield Finding("advice", "Postgres", f"{faults}. {mend}")
    for installed, offered in connection.execute(_OUTDATED_PGVECTOR).fetchall():
        yield Finding(
            "advice",
            "Postgres",
            f"the extension vector is {installed} in this database, and the server has {offered}: ALTER EXTENSION "
            "vector UPDATE",
        )


_INDEX_FAULTS = (
    ((0, 8, 2), "hnsw", "a parallel build may overflow a buffer (CVE-2026-3172)"),
    ((0, 8, 3), "hnsw", "a vacuum may damage an index, which then misses rows"),
    ((0, 8, 4), "hnsw", "an insert during a vacuum may fail, and a vacuum end with 'hnsw graph not repaired'"),
    ((0, 8, 7), "ivfflat", "a build may overflow a buffer"),
)
"""Faults of pgvector's indexes that its changelog names: the version that mended each, the kind of index."""


def index_faults(version: str, kinds: Collection[str]) -> str:
    """Return a sentence about the faults that indexes of some kinds have in a version of pgvector; empty: none."""
    numbers = tuple(int(digits) for digits in version.split(".") if digits.isdecimal())
    faults = [
        f"{kind}: {fault} (mended in {'.'.join(map(str, mended))})"
        for mended, kind, fault in _INDEX_FAULTS
        if kind in kinds and numbers and numbers < mended
    ]
    return f"pgvector {version}: {'; '.join(faults)}" if faults else ""


def clock_findings(settings: Settings, clock: Callable[[], float]) -> Iterator[Finding]:
    """Compare this machine's clock with those of the servers, as far as they answer."""
    late: dict[str, float] = {}
    dsn = settings.database_connection_string.get_secret_value()
    with contextlib.suppress(RetrievalError), translated_errors(), connected(dsn) as connection:
        (server_time,) = connection.execute(_NOW).fetchone() or (clock(),)
        late["Postgres"] = server_time - clock()
    server_time = redis_time(settings.broker_url)
    if server_time is not None:
        late["Redis"] = server_time - clock()
    wrong = {name: seconds for name, seconds in late.items() if abs(seconds) > LEEWAY_SECONDS}
    if wrong:
        seconds = max(wrong.values(), key=abs)
        yield Finding(
            "advice",
            "clock",
            f"the clock of this machine is {abs(seconds):.0f} s {'behind' if seconds > 0 else 'ahead of'} "
            f"{'those' if len(wrong) > 1 else 'that'} of {' and '.join(wrong)}: tokens are refused, or live too long. "
            "Let NTP set the clocks (timedatectl set-ntp true)",
        )


def holding_findings(settings: Settings) -> Iterator[Finding]:
    """Tell what each worker holds; those that are gone can't be asked."""
    try:
        state = Overview(settings.broker_url.get_secret_value(), QUEUES).look(0)
    except Unavailable:  # the check of Redis says why
        return
    for worker in state.workers:
        level: Literal["ok", "advice"] = "ok" if worker.is_alive else "advice"
        yield Finding(level, "worker", f"{worker.name} {state.describe(worker)}")


def _records(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Report that runs can't be recorded: tables are missing, or the role lacks privileges that only such jobs need."""
    tables_exist, granted, role = connection.execute(_RECORDS, ([*RECORDS],)).fetchone() or (True, True, "")
    if not tables_exist:
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


def standby_findings(settings: Settings) -> Iterator[Finding]:
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


def _lag(connection: psycopg.Connection[Any], max_lag: float) -> Iterator[Finding]:
    (lag,) = connection.execute(*LAG).fetchone() or (None,)
    in_recovery, silence = connection.execute(_RECOVERY).fetchone() or (False, 0)
    if not in_recovery:
        yield Finding("advice", "standby", "DATABASE_READ_CONNECTION_STRING leads to a primary: no standby answers")
    elif lag is None or lag > max_lag:
        behind = "by an unknown time" if lag is None else f"{lag:.1f} s"
        yield Finding(
            "advice",
            "standby",
            f"it is behind its primary, {behind}: more than standby.max_lag_seconds ({max_lag:g}), so searches ask the "
            "primary",
        )
    else:
        yield Finding("ok", "standby", f"it answers searches, and is {lag:.1f} s behind its primary")
    if in_recovery and not 0 < silence <= max_lag:
        yield Finding(
            "advice",
            "standby",
            f"wal_receiver_timeout is {silence:g} s there: a dead connection to its primary is noticed only then, and "
            f"its answers may be as old. ALTER SYSTEM SET wal_receiver_timeout = '{max_lag * 1000:.0f}ms', and reload "
            "it",
        )
