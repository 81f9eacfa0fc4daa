"""Whatever crashes at whichever command boundary, no message is lost, answered twice or miscounted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import time, os

from .crashes import explore

if TYPE_CHECKING:
    import redis


def test_no_event_loses_a_message(url: str, broker: redis.Redis) -> None:
    t = time.time()
    explored = explore(url, broker, int(os.environ.get("EV","1")), every=int(os.environ.get("EVERY","1")))
    print(explored.schedules, explored.boundaries, time.time() - t)
    assert not explored.failed, explored.failed
