"""Redis' time, by which everything is judged that more than one worker looks at: their own clocks may differ."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

NOW = """
redis.replicate_commands()
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
"""
"""How a script begins that needs the time: Unix time, as a score. (Redis 6 wants to be told that it may write then.)"""

AGAIN_SECONDS = 2.0


class ServerClock:
    """Redis' time as a worker knows it, without asking for each message: never ahead, and never far behind.

    Between two questions it goes on with the machine's monotonic clock, which nobody sets.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._asked = float("-inf")
        self._ahead = 0.0

    def read(self, client: redis.Redis) -> datetime:
        """The time, with its zone."""
        if self._monotonic() - self._asked >= AGAIN_SECONDS:
            answer: Any = client.time()
            self._asked = self._monotonic()
            self._ahead = answer[0] + answer[1] / 1e6 - self._asked
        return datetime.fromtimestamp(self._monotonic() + self._ahead, UTC)
