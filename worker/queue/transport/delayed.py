"""Messages that wait for their time (``eta``, Celery's retries), or, if a process died of them, for their turn.

They are in Redis only, each queue's by themselves: no worker holds them, so none has to survive for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worker.queue.transport import keys, unacked
from worker.queue.transport.clock import NOW

if TYPE_CHECKING:
    import redis

AT_ONCE = 64
AT_ONCE_BYTES = 4_194_304
"""Most that goes back to its queue in one step; one message more than so many bytes."""

# As `unacked.give_back`, but for the place; that a message waits for its time is no delivery.
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

# Takes away first, because a full Redis refuses to begin with what adds.
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

_LET_BACK = """
local most = tonumber(ARGV[redis.call('LLEN', KEYS[2]) > 0 and 2 or 1])
for number = 1, most do
    local message = redis.call('RPOP', KEYS[1])
    if not message then return number - 1 end
    redis.call('LPUSH', KEYS[2], message)
end
return most
"""


def delay(client: redis.Redis, tag: str, queue: str, due: float) -> None:
    """Have a delivered message wait for its time, in one step that may be repeated.

    Args:
        client: of the broker.
        tag: the delivery, which does not count.
        queue: where its message is from.
        due: when it goes back there, by Redis' time (Unix).
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
    """Put messages whose time has come back on their queue, behind all that wait; whether more are due."""
    places = (keys.delayed(queue), keys.delayed_messages(queue), queue)
    return bool(client.eval(_PROMOTE, len(places), *places, AT_ONCE, AT_ONCE_BYTES))


def let_back(client: redis.Redis, queue: str, idle: int, busy: int) -> int:
    """Put messages that were put off back on their queue, behind all that wait; how many.

    Args:
        client: of the broker.
        queue: which.
        idle: how many, if nothing waits there: it costs nobody anything.
        busy: how many otherwise.
    """
    moved: Any = client.eval(_LET_BACK, 2, keys.put_off(queue), queue, idle, busy)
    return int(moved)


def depth(client: redis.Redis, queue: str) -> int:
    """How many messages of a queue wait for their time or their turn."""
    waiting: Any = client.zcard(keys.delayed(queue))
    put_off: Any = client.llen(keys.put_off(queue))
    return int(waiting + put_off)


def purge(client: redis.Redis, queue: str) -> int:
    """Delete all messages of a queue that wait for their time or their turn; how many."""
    with client.pipeline() as pipe:
        pipe.zcard(keys.delayed(queue))
        pipe.llen(keys.put_off(queue))
        pipe.delete(keys.delayed(queue), keys.delayed_messages(queue), keys.put_off(queue))
        waiting, put_off, _ = pipe.execute()
    return int(waiting + put_off)
