"""Connections to Postgres on which every wait has a limit, whatever fails: the network or the server.

A connection that dies silently (a cable, a firewall that drops it, a frozen server) looks like a slow answer. Three
things end the wait: TCP's own (`LINK`), which sees a peer that no longer acknowledges; the server's limits of a
statement, a lock and an idle transaction; and `PatientConnection`, for a peer that acknowledges and never answers.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
from pgvector.psycopg import register_vector
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import _WaitTimeout
from psycopg.pq import Format
from psycopg.types.json import set_json_loads

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.abc import RV, Buffer, PQGen

LINK = {
    "application_name": "retrieval-worker",
    "client_encoding": "UTF8",  # not what PGCLIENTENCODING says: texts of any language come and go
    "connect_timeout": "5",
    # Probes on a silent link: after 5 s, then every 2 s; three without an answer end the connection.
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    # Milliseconds that sent bytes may stay unacknowledged.
    "tcp_user_timeout": "10000",
}
"""libpq's settings of a connection, unless DATABASE_CONNECTION_STRING sets them."""

LIMITS = {"lock_timeout": "5s", "idle_in_transaction_session_timeout": "30s", "statement_timeout": "30s"}
"""Limits that a session sets where its role has none; `retrieval-worker migrate` sets the same on the role."""

CHECK_SECONDS = 2.0
"""Seconds that an idle connection may take to answer a liveness check."""

_FRESH_SECONDS = 1.0
_LIMIT = "set_config('{0}', CASE current_setting('{0}') WHEN '0' THEN '{1}' ELSE current_setting('{0}') END, false)"
_SET_LIMITS = ("SELECT " + ", ".join(_LIMIT.format(*limit) for limit in LIMITS.items())).encode()


_SQL = blocks("connections")
_SEARCH_PATH = _SQL["search_path"]


def conninfo(dsn: str) -> str:
    """Add `LINK` to a connection string; the string's own settings win.

    Raises:
        psycopg.ProgrammingError: not a libpq connection string or URI.
    """
    parameters = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    return make_conninfo(**{**LINK, **parameters})


class PatientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits a limited time for an answer.

    Attributes:
        patience: seconds for one answer; then the connection is closed, because a late answer could still arrive.
        used_at: time of its last answer to a job, by `time.monotonic`.
        interruption: exception of a signal handler (a time limit, Ctrl-C) that ended a wait; psycopg can't leave its
            pipeline then, and its own error says only that.
    """

    patience: float = CHECK_SECONDS
    used_at: float = 0.0
    interruption: BaseException | None = None

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for an answer of the server; see `psycopg.Connection.wait`.

        Raises:
            psycopg.OperationalError: no answer in time.
        """
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except _WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError("no answer in time") from None
        except psycopg.Error:
            raise
        except BaseException as interruption:
            self.interruption = interruption
            raise


@contextlib.contextmanager
def pipeline(connection: PatientConnection) -> Iterator[psycopg.Pipeline]:
    """A pipeline that is sent at its end, in one write; psycopg would send each statement, and look for answers.

    Raises:
        psycopg.Error: the first that a statement failed with.
    """
    try:
        with connection.pipeline() as statements:
            statements._communicate_gen = _later  # type: ignore[method-assign] # noqa: SLF001 -- psycopg has no public way
            try:
                yield statements
            finally:
                del statements._communicate_gen  # noqa: SLF001 -- the same
    except psycopg.errors.PipelineAborted as skipped:  # a statement after that one
        if isinstance(skipped.__context__, psycopg.Error):
            raise skipped.__context__ from None
        raise


def _later() -> PQGen[None]:
    """Leave to the pipeline's end what is to be sent."""
    yield from ()


def check(connection: PatientConnection) -> None:
    """Check that a connection that the pool is about to hand out is alive, unless it was just used.

    Raises:
        psycopg.OperationalError: it is dead.
    """
    if time.monotonic() - connection.used_at > _FRESH_SECONDS:
        connection.execute(b"")


def forget_statements(connection: PatientConnection) -> None:
    """Drop the prepared statements after a failed transaction, if the connection is alive.

    Those that failed remain in the session, up to 20 kB each, but psycopg forgets them and prepares them again.
    """
    with contextlib.suppress(psycopg.Error):
        connection.rollback()
        connection._prepared.clear()  # noqa: SLF001 -- psycopg notices the next statement only the first time
        connection.execute(b"DEALLOCATE ALL")


def configure(connection: PatientConnection) -> None:
    """Configure a new connection of the pool."""
    limit_search_path(connection)
    register_vector(connection)
    set_json_loads(orjson.loads, connection)
    connection.adapters.register_loader("jsonb", _Jsonb)
    connection.execute(_SET_LIMITS)


def limit_search_path(connection: psycopg.Connection[Any]) -> None:
    """Take the schema that is named as the role out of a connection's search path, and add pgvector's."""
    connection.execute(_SEARCH_PATH)


class _Jsonb(Loader):
    """A loader of jsonb; psycopg's own would copy each value twice."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        # The first byte is the version of the binary format, of which there is one.
        return orjson.loads(data[1:])
