"""Values kept in Redis for a while: bounded in number and in time."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker.errors import SettingsError, Unavailable

if TYPE_CHECKING:
    from worker.settings import CacheSettings, Settings

PREFIX = "retrieval-cache"
LARGEST = 1 << 20
"""Bytes of a value. Longer ones are not kept, and of one that somebody else put there no more is read."""

# The key into a sorted set by time, the value under the key; then those beyond the bound leave, the oldest first.
_PUT = """
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] + time[2] / 1000000, KEYS[1])
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
local excess = redis.call('ZCARD', KEYS[2]) - ARGV[3]
if excess > 0 then
  for i, item in ipairs(redis.call('ZPOPMIN', KEYS[2], excess)) do
    if i % 2 == 1 then redis.call('DEL', item) end
  end
end
"""


class Cache:
    """Values by digest. A Redis that is away or slow fails at once: no job should wait for what it can do without.

    Args:
        settings: the worker's settings.

    Raises:
        SettingsError: the URL is none of Redis, or has options that redis-py does not know.
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
            pool.connection_class(**pool.connection_kwargs)  # not connected: it looks at the URL's options
        except (ValueError, TypeError, redis.RedisError):
            raise SettingsError("the setting cache.url: expected a URL of Redis, as redis-py reads it") from None
        self._put = self._client.register_script(_PUT)

    def get(self, digest: str) -> bytes | None:
        """The value kept under a digest; None where there is none.

        Raises:
            Unavailable: Redis is away, slow, or refuses.
        """
        try:
            return cast("bytes", self._client.getrange(_key(digest), 0, LARGEST)) or None
        except redis.RedisError as error:
            raise _unavailable(error) from None

    def put(self, digest: str, value: bytes) -> None:
        """Keep a value; the oldest leave where there are too many.

        Raises:
            Unavailable: Redis is away, slow, or refuses.
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
    """Only the class is told: the text may name the server, and who logs in there."""
    return Unavailable(f"the cache's Redis failed ({type(error).__name__})")
