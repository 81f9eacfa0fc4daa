"""Messages that workers hold, as Redis has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from worker.queue.broker import keys

if TYPE_CHECKING:
    from pathlib import Path

    import redis

_HELD = """
local held = 0
for _, place in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do held = held + redis.call('LLEN', place) end
for further = 2, #KEYS do held = held + redis.call('EXISTS', KEYS[further]) end
return held
"""


def count_held(broker: redis.Redis) -> int:
    """How many messages workers hold."""
    return int(broker.eval(_HELD, 1, keys.OWNERS))  # type: ignore[arg-type] # redis-py knows no replies


def has_begun(broker: redis.Redis, count: int) -> bool:
    """Whether so many messages are held."""
    return count_held(broker) == count


def holders(broker: redis.Redis) -> set[str]:
    """Which lists hold messages; their names have the id of the process that holds them."""
    places: Any = broker.zrange(keys.OWNERS, 0, -1)
    return {place.decode() for place in places if broker.llen(place)}


def is_clean(broker: redis.Redis, *further: str) -> bool:
    """Whether nothing is left of any job at one instant: none waits, is held or counted, and no further key exists."""
    names = (keys.OWNERS, "retrieval", keys.callers("retrieval"), keys.UNACKED, keys.deliveries("retrieval"), *further)
    return broker.eval(_HELD, len(names), *names) == 0  # a full Redis runs scripts, and no transactions


def jobs_of_lost_processes(log: Path) -> int:
    """How many jobs the processes had that a worker's log calls lost; a job of two such processes counts twice."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"process lost: the job is requeued"' in line]
    return sum(line["jobs"] for line in lines)
