"""Redis' clock, used for all times that several workers compare: their own clocks may differ."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from worker.queue.lua import text

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

NOW = text("now")
"""Start of a Lua script that needs the time."""

AGAIN_SECONDS = 2.0


class ServerClock:
    """Estimate of Redis' time without a query per message: never ahead, and never far behind.

    Between queries it advances with the machine's monotonic clock, in seconds, which is never set.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._asked = float("-inf")
        self._ahead = 0.0

    def read(self, client: redis.Redis) -> datetime:
        """Return the time, with its zone."""
        if self._monotonic() - self._asked >= AGAIN_SECONDS:
            answer: Any = client.time()
            self._asked = self._monotonic()
            self._ahead = answer[0] + answer[1] / 1e6 - self._asked
        return datetime.fromtimestamp(self._monotonic() + self._ahead, UTC)
