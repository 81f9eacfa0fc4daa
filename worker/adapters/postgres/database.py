"""Connections, and the only way to read: a read-only transaction that states the caller."""

from __future__ import annotations

import contextlib
import re
import time
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus
from psycopg_pool import ConnectionPool, PoolTimeout

from retrieval_client.errors import InternalError, NotAuthorised, SettingsError, TimedOut, Unavailable
from worker.adapters.postgres import catalog, connections
from worker.adapters.postgres.connections import CHECK_SECONDS, PatientConnection
from worker.adapters.postgres.refusals import refusal, string_problem
from worker.adapters.postgres.row_security import OF_RECORDS, UNPROTECTED, Protection, protected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.model import Principal
    from worker.settings import Settings

    Statement = tuple[bytes, Mapping[str, Any]]
    Row = tuple[Any, ...]

# Transient SQLSTATE classes: connection lost, out of resources, query cancelled, the server shutting down or starting,
# serialization failure, a read-only standby, a session that was idle in a transaction.
_TRANSIENT_CLASSES = ("08", "53", "57P", "58", "40", "25006", "25P03")
_TIMED_OUT = ("57014", "55P03")
_SETTINGS_CLASSES = ("28", "3D", "42")

_CAST_FAILED = ("22P02", "22P05", "22003", "22007", "22008")
_UNREADABLE = (
    "Postgres can't read a stored value as the type that it is cast to (SQLSTATE {}): a view or a generated column "
    "casts it. Let it take any value (docs/schema.md)"
)
_REFUSED_CLAIM = (
    "a policy fails on the claims of this caller (SQLSTATE {}): a claim is missing or malformed, such as a text where "
    "the policy casts it to a uuid"
)
_OTHER_DIMENSIONS = (
    "a stored embedding has other dimensions than its corpus: 'retrieval-worker doctor' names the column that lets it"
)
# 22000 is pgvector's, raised where vectors of different lengths are compared. The worker's own statements cast only
# checked values.
_OF_VALUES = {"22000": _OTHER_DIMENSIONS, **{state: _UNREADABLE.format(state) for state in _CAST_FAILED}}
"""SQLSTATE → the problem with stored values."""

_VISIBLE = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT 1000) AS visible")
"""Reads no value of a table: what fails here is a policy, or the condition of a view."""

_UNKNOWN_SETTING = "42704"
_SETTING_NAME = re.compile(r'"([a-z_]\w{0,62}\.\w{1,63})"', re.ASCII | re.IGNORECASE)
_UNMAPPED = (
    "a policy reads the setting {0}, which the worker does not set: map a claim to it in principal.settings, or let "
    "the policy read current_setting('{0}', true)"
)

_BEHIND = "retrieval.min_lsn_is_not_replayed"
# As `row_security` does, by a setting that does not exist. A primary has replayed all that it has inserted.
_REPLAYED = f"""
SELECT CASE WHEN %(min_lsn)s::pg_lsn <= CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()
                                    ELSE pg_current_wal_insert_lsn() END
            THEN '' ELSE current_setting('{_BEHIND}') END
""".encode()

OWNER_SETTING = "retrieval.owner"
"""Setting with the owner whose records a transaction reads or writes; the policies in config/records.sql read it."""

_AUDIT_SETTING = "retrieval.audit"
"""Setting that allows the check of all owners' records; the same policies read it."""

_VARIABLE = "DATABASE_CONNECTION_STRING"
_CANCEL_SECONDS = 2.0
_LIFETIME_SECONDS = 3600.0
_QUESTION_SECONDS = 30.0
_QUESTION_LIMIT = b"SELECT set_config('statement_timeout', '%d', false)" % (1000 * _QUESTION_SECONDS)
_CONNECTION_SECONDS = 5.0
"""Time for which a job waits for a connection: its process has enough of them, so it waits for Postgres alone."""
_RECONNECT_SECONDS = 2.0
_READ_ONLY = ("transaction_read_only", "on")
_SELECT = sql.SQL("SELECT ")
_BEGIN_WRITE = sql.SQL("BEGIN READ WRITE")
_COMMIT = sql.SQL("COMMIT")
# What is answered must survive a crash. Any other value waits for the disk, and says which standbys to wait for, too.
_WAIT_FOR_DISK = b"""
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'
"""


class CallerRead(NamedTuple):
    """Statements of one caller, of several callers that are read together.

    Attributes:
        principal: the caller.
        statements: each with its parameters.
        corpora: names of the corpora read.
    """

    principal: Principal
    statements: Sequence[Statement]
    corpora: Collection[str]


class Reader(Protocol):
    """The reader of callers' statements: `Database`, or one in front of several."""

    def read(
        self,
        principal: Principal,
        statements: Sequence[Statement],
        timeout_seconds: float | None = None,
        *,
        searches: int = 1,
        corpora: Collection[str] | None = None,
    ) -> list[list[Row]]:
        """See `Database.read`."""

    def read_each(self, reads: Sequence[CallerRead], timeout_seconds: float) -> list[list[list[Row]] | None]:
        """See `Database.read_each`."""


class Database:
    """The worker's connections to Postgres, made after fork.

    Args:
        settings: the worker's settings.
        lifetime_seconds: maximum age of a connection.

    Raises:
        SettingsError: the role or a corpus is set up so that rows could leak; see `catalog.inspect`.
        Unavailable: Postgres does not answer.
    """

    def __init__(self, settings: Settings, lifetime_seconds: float = _LIFETIME_SECONDS) -> None:
        self._settings = settings
        self._timeout_seconds = settings.search.statement_timeout_seconds
        # On a connection of its own: the pool would hide why it can't connect behind a time-out.
        self.types: Mapping[str, CorpusTypes] = check(settings, try_reads=False)
        self._pool: ConnectionPool[PatientConnection] = ConnectionPool(
            connections.conninfo(settings.database_connection_string.get_secret_value()),
            connection_class=PatientConnection,
            min_size=1,
            max_size=settings.pool.max_size,
            timeout=_CONNECTION_SECONDS,
            max_lifetime=lifetime_seconds,
            num_workers=1,
            # Then the next job connects at once. The pool's own pauses would double for five minutes.
            reconnect_timeout=_RECONNECT_SECONDS,
            open=False,
            name="retrieval",
            configure=connections.configure,
            check=connections.check,
            kwargs={"autocommit": True},
        )
        self._pool.open()

    def types_now(self) -> Mapping[str, CorpusTypes]:
        """Inspect the corpora's types again; raises as `check` does."""
        return check(self._settings, try_reads=False)

    def read(
        self,
        principal: Principal,
        statements: Sequence[Statement],
        timeout_seconds: float | None = None,
        *,
        searches: int = 1,
        corpora: Collection[str] | None = None,
    ) -> list[list[Row]]:
        """Run statements for one caller in one read-only transaction, in one round trip.

        The transaction first checks that policies apply to what it reads, and fails if they do not.

        Args:
            principal: the caller.
            statements: each with its parameters.
            timeout_seconds: time limit of each statement, where it is below that of the settings.
            searches: number of statements that may each take that time; the total wait is their sum.
            corpora: names of the corpora read; default all.

        Returns:
            The rows of each statement.

        Raises:
            Unavailable: Postgres does not answer (a dead pooled connection is replaced and retried once), or has not
                replayed what the job asks for.
            TimedOut: the statement reached its time limit; a cancelled or lost one is `Unavailable`.
            SettingsError: a privilege, a table or a column is missing; or rows could leak, see `catalog.inspect`.
            InternalError: anything else; the message has the SQLSTATE, never a value.
        """
        seconds = self._timeout_seconds if timeout_seconds is None else min(timeout_seconds, self._timeout_seconds)
        limits = [] if timeout_seconds is None else [_timeout(seconds)]
        names = self.types if corpora is None else corpora
        settings = [_READ_ONLY, *principal.settings, *limits]
        replayed = _replayed(principal)
        rows = self._with_one_retry(settings, [*replayed, *statements], seconds * searches, names)
        return rows[len(replayed) :]

    def read_each(self, reads: Sequence[CallerRead], timeout_seconds: float) -> list[list[list[Row]] | None]:
        """Run the statements of several callers, each in a read-only transaction of its own, in one round trip.

        Args:
            reads: the statements of each caller.
            timeout_seconds: time limit of each statement, where it is below that of the settings.

        Returns:
            The rows of each statement of each caller; None for a caller whose transaction failed, or was not run:
            `read` then tells why.
        """
        seconds = min(timeout_seconds, self._timeout_seconds)
        try:
            with self._pool.connection() as connection:
                connection.patience = seconds * len(reads) + CHECK_SECONDS
                try:
                    return self._read_each(connection, reads, seconds)
                finally:
                    connection.patience = CHECK_SECONDS
        except (psycopg.Error, PoolTimeout):
            return [None] * len(reads)

    def _read_each(
        self, connection: PatientConnection, reads: Sequence[CallerRead], seconds: float
    ) -> list[list[list[Row]] | None]:
        cursor_lists: list[list[psycopg.Cursor[Row]]] = [[] for _ in reads]
        # An error that is raised may be of any statement so far: the cursors tell of which.
        with contextlib.suppress(psycopg.DatabaseError), connections.pipeline(connection) as pipeline:
            for caller_read, cursors in zip(reads, cursor_lists, strict=True):
                settings = dict([_READ_ONLY, *caller_read.principal.settings, _timeout(seconds)])
                first_query = _setting_and_check(tuple(settings), self._protections(caller_read.corpora))
                statements: list[tuple[bytes, Any]] = [
                    (first_query, [*settings.values()]),
                    *_replayed(caller_read.principal),
                    *caller_read.statements,
                ]
                for query, values in statements:
                    cursors.append(connection.cursor(binary=True))
                    with contextlib.suppress(psycopg.DatabaseError):
                        cursors[-1].execute(query, values, prepare=True)
                # Ends the transaction, and with it the caller's settings. `Pipeline.sync` would wait for the answer.
                pipeline._enqueue_sync()  # noqa: SLF001 -- psycopg has no public way
        connection.used_at = time.monotonic()
        rows = [
            [_rows(cursor) for cursor in cursors[-len(caller_read.statements) :]]
            if cursors and all(map(_has_rows, cursors))
            else None
            for caller_read, cursors in zip(reads, cursor_lists, strict=True)
        ]
        if None in rows:
            connections.forget_statements(connection)
        return rows

    def write(self, caller: Principal, statements: Sequence[Statement]) -> list[list[Row]]:
        """Run statements on the records that a caller owns in one transaction on the primary, in one round trip.

        Idempotent: an existing record is left unchanged. Raises as `read` does.
        """
        return self._on_records(caller, [], statements, write=True)

    def read_records(self, caller: Principal, statements: Sequence[Statement]) -> list[list[Row]]:
        """Read records that a caller owns; otherwise as `write`."""
        return self._on_records(caller, [_READ_ONLY], statements)

    def _on_records(
        self,
        caller: Principal,
        mode: Sequence[tuple[str, str]],
        statements: Sequence[Statement],
        *,
        write: bool = False,
    ) -> list[list[Row]]:
        settings = [*mode, (OWNER_SETTING, caller.owner)]
        replayed = _replayed(caller)
        rows = self._with_one_retry(settings, [*replayed, *statements], self._timeout_seconds, write=write)
        return rows[len(replayed) :]

    def audit(self, statements: Sequence[Statement], *, write: bool = False) -> list[list[Row]]:
        """Run statements on the records of all owners, for checks that reveal no record's content."""
        settings = [(_AUDIT_SETTING, "on")] if write else [_READ_ONLY, (_AUDIT_SETTING, "on")]
        return self._with_one_retry(settings, statements, self._timeout_seconds, write=write)

    def _with_one_retry(
        self,
        settings: Sequence[tuple[str, str]],
        statements: Sequence[Statement],
        patience: float,
        corpora: Collection[str] | None = None,
        *,
        write: bool = False,
    ) -> list[list[Row]]:
        """Run statements on corpora, or on the records if ``corpora`` is None."""
        with translated_errors():
            try:
                return self._run(settings, statements, patience, write, self._protections(corpora))
            except PoolTimeout:
                raise
            except psycopg.errors.UndefinedObject:
                # The database changed since the last full check: a new one names the problem or finds none.
                self.types = check(self._settings, try_reads=False)
            except (psycopg.DataError, psycopg.errors.RaiseException) as error:
                if corpora and self._policies_fail(settings, patience, corpora):
                    raise NotAuthorised(_REFUSED_CLAIM.format(error.sqlstate)) from None
                raise
            except psycopg.errors.ForeignKeyViolation:
                if not write:
                    raise
                # Its run was deleted at this moment (`retention`), and is made anew.
            except psycopg.OperationalError as error:
                if error.sqlstate is not None and not error.sqlstate.startswith(_TRANSIENT_CLASSES):
                    raise
                # Usually a pooled connection that died unnoticed (a restart, a failover).
                self._pool.check()
            return self._run(settings, statements, patience, write, self._protections(corpora))

    def _policies_fail(self, settings: Sequence[tuple[str, str]], patience: float, corpora: Collection[str]) -> bool:
        """Return whether a caller can't even count rows: then a policy fails on a claim."""
        corpus_settings = [self._settings.corpora[name] for name in corpora]
        tables = [corpus.table for corpus in corpus_settings] + [
            corpus.documents.table for corpus in corpus_settings if corpus.documents
        ]
        probes: list[Statement] = [(_VISIBLE.format(catalog.identifier(name)).as_bytes(None), {}) for name in tables]
        try:
            self._run(settings, probes, patience, False, self._protections(corpora))
        except (psycopg.DataError, psycopg.errors.RaiseException):
            return True
        return False

    def _protections(self, corpora: Collection[str] | None) -> tuple[Protection, ...]:
        return (OF_RECORDS,) if corpora is None else tuple(self.types[name].protection for name in corpora)

    def _run(
        self,
        settings: Sequence[tuple[str, str]],
        statements: Sequence[Statement],
        patience: float,
        write: bool,
        protections: tuple[Protection, ...],
    ) -> list[list[Row]]:
        with self._pool.connection() as connection:
            # The server ends the statement first, if the connection is alive.
            connection.patience, connection.interruption = patience + CHECK_SECONDS, None
            overdue = time.monotonic() + self._limit(settings)
            try:
                # A pipeline is one implicit transaction: reading needs no BEGIN and COMMIT.
                with connections.pipeline(connection):
                    if write:
                        connection.execute(_BEGIN_WRITE, prepare=True)
                        connection.execute(_WAIT_FOR_DISK, prepare=True)
                    for query, values in self._stating(settings, protections):
                        connection.execute(query, values, prepare=True)
                    cursors = [
                        connection.execute(query, values, prepare=True, binary=True) for query, values in statements
                    ]
                    if write:
                        connection.execute(_COMMIT, prepare=True)
            except psycopg.Error as error:
                if connection.interruption is not None:
                    _cancel(connection)
                    raise connection.interruption from None
                connections.forget_statements(connection)
                if isinstance(error, psycopg.errors.QueryCanceled) and time.monotonic() < overdue:
                    raise Unavailable("Postgres was told to cancel a query") from None
                if _BEHIND in (error.diag.message_primary or ""):
                    raise Unavailable("min_lsn: no server that has replayed it answers", behind=True) from None
                raise
            finally:
                connection.patience = CHECK_SECONDS
            connection.used_at = time.monotonic()
            return [_rows(cursor) for cursor in cursors]

    def _limit(self, settings: Sequence[tuple[str, str]]) -> float:
        """Return the time limit of each statement, in seconds."""
        name, default = _timeout(self._timeout_seconds)
        return int(dict(settings).get(name, default)) / 1000

    def _stating(
        self, settings: Iterable[tuple[str, str]], protections: tuple[Protection, ...]
    ) -> Iterator[tuple[bytes, Sequence[str] | None]]:
        """Yield the statements that set caller and mode of a transaction, and check that policies apply."""
        values = dict([_timeout(self._timeout_seconds), *settings])
        yield _setting(tuple(values)), [*values.values()]
        # A statement of its own: it may wait for a lock, and time limits hold from the next statement on.
        check_them = _check_of(protections)
        if check_them is not None:
            yield check_them, None

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


def _has_rows(cursor: psycopg.Cursor[Row]) -> bool:
    """Return whether a statement was answered: not failed, and not skipped because an earlier one failed."""
    return cursor.pgresult is not None and cursor.pgresult.status == ExecStatus.TUPLES_OK


def _rows(cursor: psycopg.Cursor[Row]) -> list[Row]:
    """Fetch a statement's rows, if it returns any; `description` would create an object for each column."""
    return cursor.fetchall() if cursor.pgresult is not None and cursor.pgresult.nfields else []


def _replayed(principal: Principal) -> list[Statement]:
    """Return the statement that fails the transaction on a server that has not replayed what a job asks for."""
    return [(_REPLAYED, {"min_lsn": principal.min_lsn})] if principal.min_lsn else []


def _timeout(seconds: float) -> tuple[str, str]:
    return "statement_timeout", str(max(1, int(seconds * 1000)))


@cache
def _setting(names: tuple[str, ...]) -> bytes:
    """Compose the statement that sets these for the transaction; the names come from the settings, so they are few."""
    calls = [sql.SQL("set_config({}, %s, true)").format(name) for name in names]
    return (_SELECT + sql.SQL(", ").join(calls)).as_bytes(None)


@cache
def _check_of(protections: tuple[Protection, ...]) -> bytes | None:
    """Compose the statement that fails the transaction where policies do not apply; None without any to check."""
    checked = tuple(protection for protection in protections if protection != UNPROTECTED)
    return (_SELECT + protected(checked)).as_bytes(None) if checked else None


@cache
def _setting_and_check(names: tuple[str, ...], protections: tuple[Protection, ...]) -> bytes:
    """Compose both as one statement, whose wait for a lock the session limits."""
    setting, check_them = _setting(names), _check_of(protections)
    if check_them is None:
        return setting
    return setting + b", " + check_them.removeprefix(_SELECT.as_bytes(None)).replace(b"%", b"%%")


def check(settings: Settings, *, at_start: bool = False, try_reads: bool = True) -> Mapping[str, CorpusTypes]:
    """Inspect the role and the corpora on a connection of its own.

    Args:
        settings: the worker's settings.
        at_start: treat an unknown host as an error in the settings; later it counts as a resolver's outage.
        try_reads: see `catalog.inspect`.

    Raises:
        SettingsError: rows could leak, see `catalog.inspect`; or Postgres refuses the connection.
        Unavailable: Postgres does not answer.
    """
    dsn = settings.database_connection_string.get_secret_value()
    if at_start and (problem := string_problem(dsn)):
        raise SettingsError(f"{_VARIABLE}: {problem}")
    with translated_errors(), connected(dsn) as connection:
        return catalog.inspect(connection, settings.corpora, try_reads=try_reads)


@contextlib.contextmanager
def connected(dsn: str) -> Iterator[PatientConnection]:
    """Open a connection of its own, in autocommit, for a few queries.

    Raises:
        SettingsError: Postgres refuses the connection.
        psycopg.Error: see `translated_errors`.
    """
    try:
        new_connection = PatientConnection.connect(connections.conninfo(dsn), autocommit=True)
    except psycopg.errors.ConnectionTimeout:
        raise
    except psycopg.OperationalError as error:
        raise _refused(dsn) or error from None
    with new_connection as connection:
        connection.patience = _QUESTION_SECONDS
        connections.limit_search_path(connection)
        connection.execute(_QUESTION_LIMIT)  # the role's own may be too low for a check of all corpora
        yield connection


def _refused(dsn: str) -> SettingsError | None:
    problem = refusal(dsn)
    return SettingsError(f"{_VARIABLE}: {problem}") if problem else None


def _cancel(connection: PatientConnection) -> None:
    """Cancel what a connection runs; the pool replaces the connection."""
    with contextlib.suppress(psycopg.Error):
        connection.cancel_safe(timeout=_CANCEL_SECONDS)


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Translate psycopg's errors to the worker's. Their text may quote values, so only the SQLSTATE is passed on."""
    try:
        yield
    except PoolTimeout:
        raise Unavailable("Postgres gives no connection") from None
    except psycopg.Error as error:
        raise _translate(error) from None


def _translate(error: psycopg.Error) -> Exception:
    state = error.sqlstate
    if state is None:
        return _translate_from_the_driver(error)
    if state in _TIMED_OUT:
        return TimedOut("Postgres did not answer within the time limit")
    if state.startswith(_TRANSIENT_CLASSES):
        return Unavailable(f"Postgres is away (SQLSTATE {state})")
    if state.startswith(_SETTINGS_CLASSES):
        return SettingsError(_denied(state, error.diag.message_primary or ""))
    if state in _OF_VALUES:
        return SettingsError(_OF_VALUES[state])
    return InternalError(f"Postgres failed (SQLSTATE {state})")


def _denied(state: str, message: str) -> str:
    name_match = _SETTING_NAME.search(message) if state == _UNKNOWN_SETTING else None
    if name_match:
        return _UNMAPPED.format(name_match[1])
    return f"Postgres refused the worker's query (SQLSTATE {state}): run 'retrieval-worker doctor'"


def _translate_from_the_driver(error: psycopg.Error) -> Exception:
    """Translate an error without SQLSTATE, of libpq or psycopg. Operational errors are network failures."""
    if isinstance(error, psycopg.OperationalError):
        return Unavailable("Postgres is away")
    if isinstance(error, psycopg.ProgrammingError):
        return SettingsError(f"{_VARIABLE}: expected a libpq connection string or URI")
    return InternalError(f"the database driver failed ({type(error).__name__})")
