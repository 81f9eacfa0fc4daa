"""Depths of queues: waiting, delayed and dead messages, and how old the oldest are; as Redis has it now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from worker.queue.broker import dead_letters, delayed, keys, turns, waits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Depth:
    """Depth of a queue.

    Attributes:
        queue: its name.
        dead: dead letters.
        delayed: messages that wait for their due time or their turn after a process died of them.
        details: the rest; None: not read.
    """

    queue: str
    dead: int
    delayed: int
    details: Details | None = None


@dataclass(frozen=True, slots=True)
class Details:
    """The part of a queue's depth that not every user of Redis may read.

    Attributes:
        waiting: messages that no worker took.
        oldest_waiting_seconds: how long the first that waits has waited; 0 if none waits (`waits`).
        oldest_dead_seconds: age of the oldest dead letter; 0 without any.
    """

    waiting: int
    oldest_waiting_seconds: float
    oldest_dead_seconds: float


def depths(client: redis.Redis, queues: Sequence[str], *, details: bool = True) -> list[Depth]:
    """Return what each queue holds; without details for a user who may only count dead and delayed messages."""
    redis_time: Any = client.time() if details else (0, 0)
    return [
        Depth(
            queue,
            int(client.xlen(keys.dead(queue))),
            delayed.depth(client, queue),
            Details(
                turns.waiting(client, queue),
                waits.oldest_seconds(client, queue, redis_time[0] + redis_time[1] / 1e6),
                dead_letters.oldest_seconds(client, queue, redis_time[0]),
            )
            if details
            else None,
        )
        for queue in queues
    ]


def watcher(url: str, queues: Sequence[str], *, details: bool = True) -> Callable[[], list[Depth]]:
    """Return a function that reads what queues hold; it returns an empty list while Redis is unavailable."""

    def look() -> list[Depth]:
        try:
            with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as client:
                return depths(client, queues, details=details)
        except (redis.RedisError, ValueError):
            return []

    return look
