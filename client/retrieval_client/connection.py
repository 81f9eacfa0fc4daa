"""Redis as the clients reach it: URLs, time limits, and its refusals in the contract's words."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import redis
from redis import asyncio as redis_asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ConstantBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, OutOfMemoryError, RedisError
from redis.retry import Retry

from retrieval_client.errors import NotAuthorised, RetrievalError, SettingsError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BROKER, RESULTS = "broker_url (CELERY_BROKER_URL)", "result_backend (CELERY_RESULT_BACKEND)"
"""Which Redis an error is about."""

OPTIONS: dict[str, Any] = {
    # A backend should learn soon that Redis is unavailable.
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    # `CLIENT SETINFO` is none of a producer's commands (config/redis/users.acl); redis-py 8 has another option for it.
    **({"driver_info": None} if find_spec("redis.driver_info") else {"lib_name": None, "lib_version": None}),
}
"""Options of every connection; `_options_of` has those of a URL."""

RETRIES, PAUSE_SECONDS = 2, 0.2
"""How often, and after which pause, a command is sent again whose connection was lost."""

CONNECTIONS = 16
"""Most connections of an event loop to each Redis; who needs another one waits for it."""

MOST_THREADS = 10_000
"""Most threads that may use a client at once."""

RECORDS_AT_ONCE = 100
"""Most records that are read by one command: an answer may be of a megabyte."""

LOOK_SECONDS = 1.0
"""Longest that an answer is late whose publication was lost: it is stored as well, and looked at so often."""

_LOST = (redis.ConnectionError, redis.TimeoutError)
_SOCKETS = ("redis+socket", "unix")
_SCHEMES = ("redis", "rediss", *_SOCKETS)


def check_urls(broker_url: str, result_backend: str | None) -> None:
    """Check both URLs of a client.

    Raises:
        ValueError: one is not a Redis URL; it is not repeated, because it may hold a password.
    """
    for name, url in (("broker_url", broker_url), ("result_backend", result_backend)):
        if url is not None and not _is_of_redis(url):
            raise ValueError(f"{name}: expected a URL like redis://user:password@host:6379/0, or rediss:// for TLS")


def _is_of_redis(url: str) -> bool:
    try:
        split_url = urlsplit(url)
        _ = split_url.port
    except ValueError:
        return False
    return split_url.scheme in _SCHEMES


def as_redis_reads(url: str) -> str:
    """Return a URL that Celery reads as the Redis library does.

    >>> as_redis_reads("redis+socket:///run/redis.sock?virtual_host=1")
    'unix:///run/redis.sock?db=1'
    >>> as_redis_reads("rediss://h/0?ssl_cert_reqs=CERT_REQUIRED")
    'rediss://h/0?ssl_cert_reqs=required'
    """
    split_url = urlsplit(url)
    scheme = "unix" if split_url.scheme == "redis+socket" else split_url.scheme
    names = {"virtual_host": "db"}
    query = [
        (names.get(name, name), value.removeprefix("CERT_").lower() if name == "ssl_cert_reqs" else value)
        for name, value in parse_qsl(split_url.query)
    ]
    return f"{scheme}://{split_url.netloc}{split_url.path}" + (f"?{urlencode(query, safe='/')}" if query else "")


class _Pool(redis.ConnectionPool):
    """A pool that keeps nothing once it is closed: a command that closing interrupts connects again."""

    _is_closed = False

    def disconnect(self, inuse_connections: bool = True) -> None:
        self._is_closed = True
        super().disconnect(inuse_connections)

    def release(self, connection: Any) -> None:
        super().release(connection)
        if self._is_closed:
            connection.disconnect()


class _AsyncPool(redis_asyncio.BlockingConnectionPool):
    """The same for asyncio."""

    _is_closed = False

    async def disconnect(self, inuse_connections: bool = True) -> None:
        self._is_closed = True
        await super().disconnect(inuse_connections)

    async def release(self, connection: Any) -> None:
        await super().release(connection)
        if self._is_closed:
            await connection.disconnect()


def connected(url: str, retries: int = RETRIES) -> redis.Redis:
    """Return Redis at a URL, which is connected to when it is first asked."""
    retry = Retry(ConstantBackoff(PAUSE_SECONDS), retries, _LOST if retries else ())
    # As many connections as threads wait; the library's own bound would be an error for who comes too late.
    pool = _Pool.from_url(as_redis_reads(url), **_options_of(url), retry=retry, max_connections=MOST_THREADS)
    return redis.Redis.from_pool(pool)


def aconnected(url: str, retries: int = RETRIES) -> redis_asyncio.Redis:
    """Return the same for asyncio."""
    retry = AsyncRetry(ConstantBackoff(PAUSE_SECONDS), retries, _LOST if retries else ())
    pool = _AsyncPool.from_url(as_redis_reads(url), **_options_of(url), retry=retry, max_connections=CONNECTIONS)
    return redis_asyncio.Redis.from_pool(pool)


def _options_of(url: str) -> dict[str, Any]:
    return OPTIONS if urlsplit(url).scheme in _SOCKETS else {**OPTIONS, "socket_keepalive": True}


def place_of(options: Mapping[str, Any]) -> str:
    """Return address and database of a connection, without user and password."""
    address = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
    return f"{address}, database {options.get('db', 0)}"


@contextlib.contextmanager
def translated(setting: str, place: str) -> Iterator[None]:
    """Translate errors of Redis; ``setting`` names the one that is spoken to, ``place`` says where it is."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise _failure(error, setting, place) from None


@contextlib.contextmanager
def refused(action: str) -> Iterator[None]:
    """Say that this user of Redis may not do this, and what to do instead."""
    try:
        yield
    except NoPermissionError:
        raise NotAuthorised(f"this user of Redis may not {action}") from None


def check_heard(listeners: int) -> None:
    """Check that somebody heard what was published.

    Raises:
        Unavailable: nobody listens.
    """
    if not listeners:
        raise Unavailable(f"{BROKER}: no worker listens")


def _failure(error: BaseException, setting: str, place: str) -> RetrievalError:
    """Return `Unavailable` if Redis does not answer, which is transient, else the error of its refusal."""
    causes = [*_chain(error)]
    if any(isinstance(cause, AuthenticationError) for cause in causes):
        return SettingsError(
            f"{setting}: Redis refuses this user or password. Check both against users.acl of that Redis"
        )
    if any(isinstance(cause, NoPermissionError) for cause in causes):
        return SettingsError(
            f"{setting}: this Redis user lacks a backend's permissions. Connect as a user with those of producer "
            "in config/redis/users.acl (docs/redis.md)"
        )
    is_full = any(isinstance(cause, OutOfMemoryError) for cause in causes)
    return Unavailable(f"{setting}: Redis is {'full (maxmemory)' if is_full else 'away'} ({place})")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
