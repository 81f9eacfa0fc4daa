"""Reasons why Postgres refuses a connection: one sentence with the problem of the connection string and its fix.

libpq describes a failed connection only as text, in the server's language. Its trace of the same attempt has the
SQLSTATE and shows the last step reached. An unavailable server has no such reason: a worker waits for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import time
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from worker.adapters.postgres import connections
from worker.adapters.redis_refusals import SURROUNDED, UNKNOWN_NAMES, is_surrounded, unknown_host

if TYPE_CHECKING:
    from collections.abc import Iterator

_SENTENCES = {
    "28P01": "Postgres refuses this role or password. Check both; ALTER ROLE … PASSWORD sets another one",
    "28000": "Postgres does not let this role in: there is no such role, it may not log in (ALTER ROLE … LOGIN), or "
    "pg_hba.conf has no line for it with this database, host and encryption",
    "3D000": "Postgres has no such database. Name another one, or CREATE DATABASE",
    "42501": "the role may not connect to this database. GRANT CONNECT ON DATABASE … TO …",
}
_NO_PASSWORD = "Postgres asks for a password, and there is none in it. Write it, or set PGPASSWORD or PGPASSFILE"  # noqa: S105 -- a sentence
_NO_TLS = "its sslmode asks for TLS, and Postgres offers none. Switch ssl on there, or choose another sslmode"
_TLS_FAILED = (
    "the TLS handshake with Postgres failed. Check that sslrootcert names the authority that signed its certificate, "
    "and that the certificate names this host"
)
_NOT_POSTGRES = "what answers there is no Postgres. Check the host and the port"

_EXAMPLE = "postgresql://role:password@host:5432/database"
_LEFT_OUT = {
    "3D000": ("dbname", f"it names no database, and PGDATABASE or the role's name is none. Write {_EXAMPLE}"),
    "28000": ("user", f"it names no role, and PGUSER or the system's user is not let in. Write {_EXAMPLE}"),
}
"""SQLSTATE → what libpq chose itself, and the sentence."""

_BUSY = {
    "53300": "Postgres answers, and no connection is left for this role: pg_stat_activity shows them. ALTER ROLE "
    "{role} CONNECTION LIMIT -1. Or it is the limit of the database, or max_connections",
    "57P03": "Postgres answers, and is starting or recovering: wait for it",
}
_PASSING = ("08", "53", "57P", "58", "40", "25006")
_ENCODED = "percent-encoded / # ? @ : and % in a password of a URI (@ is written %40)"
_PARAMETER = re.compile(r"[a-z_]{1,40}")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_SQLSTATE = re.compile(rb'^B\t\d+\tErrorResponse\t S "[^"]*"(?: V "[^"]*")? C "(\w{5})"', re.MULTILINE)
_SSL_REQUEST = bytes.fromhex("0000000804d2162f")
_SECONDS = 5.0
_PROBE_SECONDS = 2.0
_OUTCOME_SECONDS = 60.0


def string_problem(dsn: str) -> str | None:
    """Return the problem of a connection string or of the hosts in it; None if there is none."""
    try:
        parameters = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return SURROUNDED if is_surrounded(dsn) else _unknown_parameter(dsn) or _malformed(dsn)
    if any(is_surrounded(str(parameters.get(name) or "")) for name in ("dbname", "user")):
        return SURROUNDED
    ports = [port for port in str(parameters.get("port") or "").split(",") if port]
    if not all(port.isdecimal() for port in ports):
        return f"expected a number as the port, and {_ENCODED}"
    if parameters.get("sslmode") and parameters["sslmode"] not in _SSL_MODES:
        return f"expected one of {', '.join(_SSL_MODES)} as sslmode"
    names = [name for name in str(parameters.get("host") or "").split(",") if name and not name.startswith(("/", "@"))]
    unknown_hosts = [] if parameters.get("hostaddr") else [name for name in names if not _is_known(name)]
    if not unknown_hosts or len(unknown_hosts) < len(names):
        return None
    return unknown_host(unknown_hosts[0]) if _is_behind_the_password(unknown_hosts[0], dsn) else f"expected {_ENCODED}"


def _malformed(dsn: str) -> str:
    return f"expected a libpq connection string or URI, like {_EXAMPLE}" + (f", and {_ENCODED}" if "://" in dsn else "")


def _is_behind_the_password(name: str, dsn: str) -> bool:
    """Return whether a name that libpq read may be shown: text before the last @ may be part of a password."""
    return "@" not in name and dsn.rfind(name) > dsn.rfind("@")


def _unknown_parameter(dsn: str) -> str | None:
    """Return the problem of a URI's parameter that libpq does not know; None if it knows all."""
    _, _, query = dsn.rpartition("@")[2].partition("?")
    names = [name for name, is_pair, _ in (pair.partition("=") for pair in query.split("&")) if is_pair]
    known_names = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} | {"ssl"}
    unknown_names = [name for name in names if name not in known_names and _PARAMETER.fullmatch(name)]
    return (
        f"{unknown_names[0]} is no parameter of libpq. Leave it out, or write it as its documentation does"
        if unknown_names
        else None
    )


def _is_known(name: str) -> bool:
    """Return whether a host has an address; True also if the resolver is unavailable."""
    try:
        socket.getaddrinfo(name, None)
    except socket.gaierror as error:
        return error.errno not in UNKNOWN_NAMES
    except (OSError, UnicodeError):
        return False
    return True


_outcomes: dict[str, tuple[float, str | None]] = {}
"""Connection string → time and result of its last attempt: libpq frees a trace's file only with the process."""


def refusal(dsn: str) -> str | None:
    """Return why a failed connection would fail again; None if the server is unavailable or gives no reason."""
    current_time = time.monotonic()
    at, sentence = _outcomes.get(dsn, (-_OUTCOME_SECONDS, None))
    if current_time - at >= _OUTCOME_SECONDS:
        sentence = _judge(*_attempt(dsn)) or (_NOT_POSTGRES if _is_another_server(dsn) else None)
        sentence = _left_out(dsn, sentence) or sentence
        _outcomes[dsn] = current_time, sentence
    return sentence


def busy(dsn: str) -> str | None:
    """Return why a server that is there takes no connection for now; None if it is away."""
    states = _SQLSTATE.findall(_attempt(dsn)[0])
    role = conninfo_to_dict(dsn).get("user") or "…"
    return _BUSY.get(states[-1].decode(), "").format(role=role) or None if states else None


def _left_out(dsn: str, sentence: str | None) -> str | None:
    """Return the sentence for a part that libpq had to choose itself; None if Postgres refuses what is written."""
    parameters = conninfo_to_dict(dsn)
    for state, (name, ours) in _LEFT_OUT.items():
        if sentence == _SENTENCES[state] and not parameters.get(name):
            return ours
    return None


def _attempt(dsn: str) -> tuple[bytes, bool]:
    """Connect once more; return libpq's trace, and whether a password was missing."""
    file = os.memfd_create("trace") if hasattr(os, "memfd_create") else None
    if file is None:
        return b"", False
    try:
        link = pq.PGconn.connect_start(connections.conninfo(dsn).encode())
        try:
            link.trace(file)
            link.set_trace_flags(pq.Trace.SUPPRESS_TIMESTAMPS)
            for _ in _steps(link):
                pass
            link.untrace()
            size = os.lseek(file, 0, os.SEEK_END)
            return os.pread(file, size, 0), link.needs_password
        finally:
            link.finish()
    except psycopg.Error:  # no trace on this system
        return b"", False
    finally:
        os.close(file)


def _is_another_server(dsn: str) -> bool:
    """Return whether the server answers a TLS request, and a line after it, as no Postgres does."""
    parameters = conninfo_to_dict(dsn)
    host = str(parameters.get("hostaddr") or parameters.get("host") or "").split(",")[0]
    port = str(parameters.get("port") or "5432").split(",")[0]
    if not host or host.startswith(("/", "@")) or not port.isdecimal():
        return False
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), _PROBE_SECONDS) as link:
        link.sendall(_SSL_REQUEST + b"\r\n")
        return link.recv(1) not in {b"", b"S", b"N", b"E"}
    return False


def _steps(link: pq.abc.PGconn) -> Iterator[None]:
    """Continue a connection attempt until it succeeds, fails or times out."""
    end = time.monotonic() + _SECONDS
    while link.status != pq.ConnStatus.BAD and time.monotonic() < end:
        state = link.connect_poll()
        if state in {pq.PollingStatus.OK, pq.PollingStatus.FAILED}:
            return
        reading = state == pq.PollingStatus.READING
        waiting = [link.socket]
        select.select(waiting if reading else [], [] if reading else waiting, [], 0.5)
        yield


def _judge(trace: bytes, needs_password: bool) -> str | None:
    r"""Return the reason that a trace shows; None if it shows none.

    >>> _judge(b'B\t9\tErrorResponse\t S "FATAL" V "FATAL" C "57P03" M "starting"\n', False) is None
    True
    >>> _judge(b'F\t8\tSSLRequest\t 1234 5679\nB\t1\tSSLResponse\t N\n', False) == _NO_TLS
    True
    """
    states = _SQLSTATE.findall(trace)
    if states:
        state = states[-1].decode()
        if state.startswith(_PASSING):
            return None
        return _SENTENCES.get(state, f"Postgres refuses the connection (SQLSTATE {state}). Its log says more")
    if needs_password:
        return _NO_PASSWORD
    last_fields = trace.rstrip().rsplit(b"\n", 1)[-1].split(b"\t")
    if len(last_fields) > 2 and last_fields[2] == b"SSLResponse":  # noqa: PLR2004 -- direction, length, message
        answer = last_fields[3].strip()
        return {b"N": _NO_TLS, b"S": _TLS_FAILED}.get(answer)
    return None
