"""Delayed messages, waiting for their due time (``eta``, Celery's retries), and deferred ones, waiting for their turn.

A message is deferred if a process died running it, or its delivery is overdue. They are in Redis only, per queue: no
worker holds them, so they survive any worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worker.queue.transport import keys, unacked
from worker.queue.transport.clock import NOW

if TYPE_CHECKING:
    import redis

AT_ONCE = 64
AT_ONCE_BYTES = 4_194_304
"""Limits of one step back to the queue; the message that exceeds the bytes is still included."""

# As `unacked._REQUEUE`, except for the place; a message that was not due does not count as delivered.
_DELAY = """
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry or string.sub(entry, -#ARGV[2]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
local message = string.sub(entry, 2, -#ARGV[2] - 1)
redis.call('HSET', KEYS[5], ARGV[1], message)
redis.call('ZADD', KEYS[4], ARGV[3], ARGV[1])
local digest = redis.sha1hex(message)
if redis.call('HINCRBY', KEYS[3], digest, -1) <= 0 then redis.call('HDEL', KEYS[3], digest) end
return 1
"""

# Removes first, because a full Redis refuses a script that begins with a write that adds.
_PROMOTE = (
    NOW
    + """
local due, bytes = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]), 0
for number, tag in ipairs(due) do
    redis.call('ZREM', KEYS[1], tag)
    local message = redis.call('HGET', KEYS[2], tag)
    if message then
        redis.call('HDEL', KEYS[2], tag)
        redis.call('LPUSH', KEYS[3], message)
        bytes = bytes + #message
        if bytes > tonumber(ARGV[2]) then break end
    end
end
return #redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)
"""
)

_REQUEUE_DEFERRED = """
local most = tonumber(ARGV[redis.call('LLEN', KEYS[2]) > 0 and 2 or 1])
for number = 1, most do
    local message = redis.call('RPOP', KEYS[1])
    if not message then return number - 1 end
    redis.call('LPUSH', KEYS[2], message)
end
return most
"""


def delay(client: redis.Redis, tag: str, queue: str, due: float) -> None:
    """Delay a delivered message until it is due; atomic and safe to repeat.

    Args:
        client: client of the broker.
        tag: delivery tag; the delivery does not count.
        queue: the message's queue.
        due: time of its requeueing, by Redis' clock (Unix).
    """
    places = (
        keys.UNACKED,
        keys.UNACKED_INDEX,
        keys.deliveries(queue),
        keys.delayed(queue),
        keys.delayed_messages(queue),
    )
    client.eval(_DELAY, len(places), *places, tag, unacked.end(queue), due)


def promote(client: redis.Redis, queue: str) -> bool:
    """Requeue due messages, behind all that wait; return whether more are due."""
    places = (keys.delayed(queue), keys.delayed_messages(queue), queue)
    return bool(client.eval(_PROMOTE, len(places), *places, AT_ONCE, AT_ONCE_BYTES))


def requeue_deferred(client: redis.Redis, queue: str, idle: int, busy: int) -> int:
    """Requeue deferred messages, behind all that wait; return their number.

    Args:
        client: client of the broker.
        queue: name of the queue.
        idle: number to requeue if the queue is empty, when they delay no other job.
        busy: number to requeue otherwise.
    """
    moved: Any = client.eval(_REQUEUE_DEFERRED, 2, keys.deferred(queue), queue, idle, busy)
    return int(moved)


def depth(client: redis.Redis, queue: str) -> int:
    """Return the number of a queue's delayed and deferred messages."""
    waiting: Any = client.zcard(keys.delayed(queue))
    deferred: Any = client.llen(keys.deferred(queue))
    return int(waiting + deferred)


def purge(client: redis.Redis, queue: str) -> int:
    """Delete all delayed and deferred messages of a queue; return their number."""
    with client.pipeline() as pipe:
        pipe.zcard(keys.delayed(queue))
        pipe.llen(keys.deferred(queue))
        pipe.delete(keys.delayed(queue), keys.delayed_messages(queue), keys.deferred(queue))
        waiting, deferred, _ = pipe.execute()
    return int(waiting + deferred)
