"""Cache of values in Redis, limited in number and in time."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from retrieval_client.errors import SettingsError, Unavailable

if TYPE_CHECKING:
    from worker.settings import Settings
    from worker.settings.searching import CacheSettings

PREFIX = "retrieval-cache"
LARGEST = 1 << 20
"""Maximum bytes of a value. Longer ones are not stored, and no more is read of a value from another client."""

_PUT = resources.files(__package__).joinpath("redis_cache.lua").read_text(encoding="utf-8")


class Cache:
    """Values by digest. An unavailable or slow Redis fails at once: no job waits for an optional part.

    Args:
        settings: the worker's settings.

    Raises:
        SettingsError: the URL is not a Redis URL, or has options unknown to redis-py.
    """

    def __init__(self, settings: Settings) -> None:
        self._rules: CacheSettings = settings.cache
        url = settings.cache.url or settings.result_backend or settings.broker_url
        try:
            self._client = redis.Redis.from_url(
                url.get_secret_value(),
                socket_timeout=self._rules.timeout_seconds,
                socket_connect_timeout=self._rules.timeout_seconds,
                retry=Retry(NoBackoff(), 0),
            )
            pool = self._client.connection_pool
            pool.connection_class(**pool.connection_kwargs)  # does not connect: it checks the URL's options
        except (ValueError, TypeError, redis.RedisError):
            raise SettingsError("the setting cache.url: expected a URL of Redis, as redis-py reads it") from None
        self._put = self._client.register_script(_PUT)

    def get(self, digest: str) -> bytes | None:
        """Return the value under a digest; None if there is none.

        Raises:
            Unavailable: Redis is unavailable or slow, or refuses the command.
        """
        try:
            return cast("bytes", self._client.getrange(_key(digest), 0, LARGEST)) or None
        except redis.RedisError as error:
            raise _unavailable(error) from None

    def put(self, digest: str, value: bytes) -> None:
        """Store a value; the oldest ones beyond the limit are deleted.

        Raises:
            Unavailable: Redis is unavailable or slow, or refuses the command.
        """
        if len(value) > LARGEST:
            return
        rules = self._rules
        try:
            self._put(keys=[_key(digest), PREFIX], args=[value, rules.seconds, rules.entries])
        except redis.RedisError as error:
            raise _unavailable(error) from None

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def _key(digest: str) -> str:
    return f"{PREFIX}-{digest}"


def _unavailable(error: Exception) -> Unavailable:
    """Return the error with only the class: the text may name the server and its user."""
    return Unavailable(f"the cache's Redis failed ({type(error).__name__})")
