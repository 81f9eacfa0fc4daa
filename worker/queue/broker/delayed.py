"""Delayed messages, waiting for their due time (``eta``, Celery's retries), and deferred ones, waiting for their turn.

A message is deferred if a process died running it. They are in Redis only, per queue: no
worker holds them, so they survive any worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worker.queue.broker import keys
from worker.queue.broker.clock import NOW
from worker.queue.lua import Script

if TYPE_CHECKING:
    import redis

AT_ONCE = 64
AT_ONCE_BYTES = 4_194_304
"""Limits of one step back to the queue; the message that exceeds the bytes is still included."""

_PROMOTE, _REQUEUE_DEFERRED = Script("promote", NOW), Script("requeue_deferred")


def promote(client: redis.Redis, queue: str) -> bool:
    """Requeue due messages, behind all that wait; return whether more are due."""
    places = (keys.delayed(queue), keys.delayed_messages(queue), queue)
    return bool(_PROMOTE.run(client.execute_command, places, AT_ONCE, AT_ONCE_BYTES))


def requeue_deferred(client: redis.Redis, queue: str, limit: int) -> int:
    """Requeue some deferred messages if the queue is empty, when they delay no other job; return their number."""
    return int(_REQUEUE_DEFERRED.run(client.execute_command, [keys.deferred(queue), queue], limit))


def depth(client: redis.Redis, queue: str) -> int:
    """Return the number of a queue's delayed and deferred messages."""
    waiting: Any = client.zcard(keys.delayed(queue))
    deferred: Any = client.llen(keys.deferred(queue))
    return int(waiting + deferred)


def purge(client: redis.Redis, queue: str) -> int:
    """Delete all delayed and deferred messages of a queue; return their number."""
    count = depth(client, queue)
    client.delete(keys.delayed(queue), keys.delayed_messages(queue), keys.deferred(queue))
    return count
