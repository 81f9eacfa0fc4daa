"""The two ways of the queue, so that the same test holds in both; `TEST_PROCESS_CLAIMS=true` chooses the second one.

In the first way the main process claims jobs, in the second one each pool process does (`worker.process_claims`).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from worker.queue.transport import keys

if TYPE_CHECKING:
    from pathlib import Path

    import redis

PROCESSES_CLAIM = os.environ.get("TEST_PROCESS_CLAIMS") == "true"

NOT_STORED = "outcomes not stored yet" if PROCESSES_CLAIM else "result not stored: the job is requeued"
"""Log event; in the second way a process keeps its jobs until their outcomes are stored."""

RECORD_NOT_STORED = "outcomes not stored yet" if PROCESSES_CLAIM else "record not stored"
"""Log event; of the result backend in the first way."""

_HELD = """
local held = redis.call('HLEN', KEYS[1])
for _, place in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do held = held + redis.call('LLEN', place) end
return held
"""


NO_PROCESSES = "a worker without pool processes would claim nothing"
"""Reason to skip a test."""


def first_way_only(reason: str) -> pytest.MarkDecorator:
    """Skip a test where processes claim."""
    return pytest.mark.skipif(PROCESSES_CLAIM, reason=reason)


def second_way_only(reason: str) -> pytest.MarkDecorator:
    """Skip a test where the main process claims."""
    return pytest.mark.skipif(not PROCESSES_CLAIM, reason=reason)


def count_held(broker: redis.Redis) -> int:
    """How many messages workers hold: recorded as unacknowledged, or in lists of their own."""
    return int(broker.eval(_HELD, 2, keys.UNACKED, keys.OWNERS))  # type: ignore[arg-type] # redis-py knows no replies


def has_begun(broker: redis.Redis, count: int) -> bool:
    """Whether so many messages are held where they stay until they are answered."""
    return (count_held(broker) if PROCESSES_CLAIM else broker.hlen(keys.UNACKED)) == count


def holders(broker: redis.Redis) -> set[str]:
    """Which deliveries, and which lists, hold messages; their names have the id of the process that holds them."""
    places: Any = broker.zrange(keys.OWNERS, 0, -1)
    tags: Any = broker.hkeys(keys.UNACKED)
    return {name.decode() for name in [*tags, *(place for place in places if broker.llen(place))]}


def is_clean(broker: redis.Redis, *further: str) -> bool:
    """Whether nothing is left of any job at one instant: none waits, is held or counted, and no further key exists."""
    with broker.pipeline() as pipe:
        pipe.eval(_HELD, 2, keys.UNACKED, keys.OWNERS)
        pipe.exists("retrieval", keys.deliveries("retrieval"), *further)
        return pipe.execute() == [0, 0]


def jobs_of_lost_processes(log: Path) -> int:
    """How many jobs the processes had that a worker's log calls lost; a job of two such processes counts twice."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"process lost: the job is requeued"' in line]
    return sum(line.get("jobs", 1) for line in lines)  # in the first way a line for each job
