"""Unacknowledged messages in Redis: recording, acknowledging and requeueing them.

An entry is ``[message,"","queue"]``, as in kombu, but with the message byte for byte as sent. So a stock worker can
requeue what a reliable one held, and vice versa.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from worker.queue.transport import excerpts, keys
from worker.queue.transport.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import redis

_END = re.compile(rb',"",("(?:[^"\\]|\\.)*")\]$')
_END_BYTES = 2048

# Requeues only an entry that still exists: an acknowledgement, or another worker's requeue, may come first. A message
# marked as waiting had not begun, and so does not count. Removes first, because a full Redis refuses a script that
# begins with a write that adds.
_REQUEUE = """
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry or string.sub(entry, -#ARGV[2]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
local waited = redis.call('SREM', KEYS[3], ARGV[1])
local message = string.sub(entry, 2, -#ARGV[2] - 1)
redis.call(ARGV[3], KEYS[4], message)
if waited == 1 or ARGV[4] ~= '' then
    local digest = redis.sha1hex(message)
    if redis.call('HINCRBY', KEYS[5], digest, -1) <= 0 then redis.call('HDEL', KEYS[5], digest) end
end
return 1
"""

# Marks only an existing delivery: any other mark would never be removed.
_MARK_WAITING = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('SADD', KEYS[2], ARGV[1]) end
"""

# Records only a message that is still in its owner's list: a client that missed the reply sends the command again and
# must get the same reply.
_RECORD = (
    NOW
    + """
if redis.call('LREM', KEYS[1], 1, ARGV[2]) == 0 then
    if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then return 0 end
    return tonumber(redis.call('HGET', KEYS[4], ARGV[4]) or 1)
end
redis.call('HSET', KEYS[2], ARGV[1], '[' .. ARGV[2] .. ARGV[3])
redis.call('ZADD', KEYS[3], now, ARGV[1])
return redis.call('HINCRBY', KEYS[4], ARGV[4], 1)
"""
)

# Only an existing entry: a late acknowledgement must not delete the count of a message that another worker has now.
_ACKNOWLEDGE = """
if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
    redis.call('ZREM', KEYS[2], ARGV[1])
    redis.call('HDEL', KEYS[3], ARGV[2])
end
"""

# Removes from the queue last: a script that fails earlier has taken nothing.
_TAKE = (
    excerpts.SHORTEN
    + """
local message = redis.call('LINDEX', KEYS[4], -1)
if not message then return false end
message = shorten(message, tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], ARGV[3], '[' .. message .. ARGV[4])
redis.call('ZADD', KEYS[2], now, ARGV[3])
local count = redis.call('HINCRBY', KEYS[5], redis.sha1hex(message), 1)
redis.call('RPOP', KEYS[4])
return {message, count}
"""
)

_OVERDUE = (
    NOW
    + """
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. tonumber(now) - tonumber(ARGV[1]), 'LIMIT', 0, ARGV[2])
"""
)

# Returns the ends of entries: entries may be long, and their queue is at the end.
_ENDS = """
local ends = {}
for number = 2, #ARGV do
    ends[number - 1] = string.sub(redis.call('HGET', KEYS[1], ARGV[number]) or '', -tonumber(ARGV[1]))
end
return ends
"""


@dataclass(frozen=True, slots=True)
class UnackedMessage:
    """Unacknowledged message: its queue and its bytes."""

    queue: str
    raw: bytes


class Acknowledgement(NamedTuple):
    """Acknowledgement of a delivery whose result is stored: its tag, its message's queue and digest."""

    tag: str
    queue: str
    digest: str


NOTHING = Acknowledgement("", "", "")


def pack(queue: str, raw: bytes) -> bytes:
    """Return an entry of the hash.

    Args:
        queue: the message's queue.
        raw: the message; JSON.
    """
    return b"[" + raw + end(queue)


def end(queue: str) -> bytes:
    """Return the part of an entry after the message."""
    return b',"",' + json.dumps(queue).encode() + b"]"


def unpack(entry: bytes) -> UnackedMessage | None:
    """Return the message of an entry; None if a stock worker wrote it.

    >>> unpack(pack("retrieval", b'{"body": ""}'))
    UnackedMessage(queue='retrieval', raw=b'{"body": ""}')
    >>> unpack(b'[{"body": ""}, "", "retrieval"]')
    """
    end = _END.search(entry[-_END_BYTES:])
    if end is None:
        return None
    return UnackedMessage(json.loads(end[1]), entry[1 : -len(end[0])])


def record(client: redis.Redis, tag: str, claimed: UnackedMessage, place: str) -> int:
    """Record a message of an owner's list as unacknowledged; atomic and safe to repeat.

    Args:
        client: client of the broker.
        tag: delivery tag.
        claimed: the message.
        place: the owner's list.

    Returns:
        Number of the message's deliveries, this one included; 0 if it was no longer in the list: its owner counted as
        dead, so it was requeued and must not be delivered by that owner.
    """
    places = (place, keys.UNACKED, keys.UNACKED_INDEX, keys.deliveries(claimed.queue))
    arguments = (tag, claimed.raw, end(claimed.queue), keys.digest(claimed.raw))
    return int(client.eval(_RECORD, len(places), *places, *arguments))


def held(client: redis.Redis, tag: str) -> UnackedMessage | None:
    """Return an unacknowledged message by its tag; None if it is gone, or a stock worker's."""
    entry: Any = client.hget(keys.UNACKED, tag)
    return unpack(entry) if entry else None


def queues_of(client: redis.Redis, tags: Sequence[str]) -> list[str | None]:
    """Return the queues of deliveries by their tags; None for one that is gone, or a stock worker's."""
    ends: Any = client.eval(_ENDS, 1, keys.UNACKED, _END_BYTES, *tags) if tags else []
    return [json.loads(found[1]) if (found := _END.search(entry)) else None for entry in ends]


def acknowledge(client: redis.Redis, done: Acknowledgement) -> None:
    """Remove a delivery and its message's count; atomic and safe to repeat."""
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.deliveries(done.queue))
    client.eval(_ACKNOWLEDGE, len(places), *places, done.tag, done.digest)


def taking(queue: str, tag: str, done: Acknowledgement = NOTHING, *, longest: int = 2**31) -> tuple[Any, ...]:
    """Return the command that acknowledges a delivery and records a queue's next message as unacknowledged, atomically.

    It must not be repeated: each time it takes another message. A message taken by a late command belongs to its owner
    and is requeued when that owner counts as dead.

    Args:
        queue: the queue to take from.
        tag: delivery tag of the message.
        done: the delivery to acknowledge.
        longest: most bytes of a message; an excerpt of a longer one is delivered.

    Returns:
        The command. Its reply is the message and the number of its deliveries, this one included; None: the queue is
        empty.
    """
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.deliveries(done.queue or queue), queue, keys.deliveries(queue))
    script = NOW + _ACKNOWLEDGE + _TAKE
    return "EVAL", script, len(places), *places, done.tag, done.digest, tag, end(queue), longest


def forget(pipe: redis.client.Pipeline, tag: str, queue: str, digest: str) -> None:
    """Do the same as part of a larger transaction, for a message that was dead-lettered or has a result."""
    pipe.zrem(keys.UNACKED_INDEX, tag)
    pipe.hdel(keys.UNACKED, tag)
    pipe.hdel(keys.deliveries(queue), digest)


def requeue(
    client: redis.Redis, tag: str, queue: str, side: Literal["RPUSH", "LPUSH"], *, uncounted: bool = False
) -> bool:
    """Requeue a delivery if it still exists; atomic and safe to repeat.

    Args:
        client: client of the broker.
        tag: delivery tag.
        queue: the message's queue.
        side: ``RPUSH``: it is next; ``LPUSH``: after all that wait.
        uncounted: True: the delivery does not count. One that is marked as waiting never does.

    Returns:
        True if it was requeued.
    """
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.WAITING, queue, keys.deliveries(queue))
    return bool(client.eval(_REQUEUE, len(places), *places, tag, end(queue), side, "uncounted" if uncounted else ""))


def mark_waiting(client: redis.Redis, tag: str) -> None:
    """Mark a delivery as waiting for a process: if its worker dies, it does not count."""
    client.eval(_MARK_WAITING, 2, keys.UNACKED, keys.WAITING, tag)


def mark_begun(client: redis.Redis, tag: str) -> None:
    """Remove the mark of a waiting delivery."""
    client.srem(keys.WAITING, tag)


def delay(client: redis.Redis, tag: str, queue: str) -> bool:
    """Defer a delivered message until it is requeued by `delayed.requeue_deferred`; atomic and safe to repeat."""
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.WAITING, keys.deferred(queue), keys.deliveries(queue))
    return bool(client.eval(_REQUEUE, len(places), *places, tag, end(queue), "LPUSH", ""))


def of_owners(client: redis.Redis, owners: Collection[str]) -> list[str]:
    """Return the tags of the deliveries to some owners, latest first."""
    every: Any = client.zrange(keys.UNACKED_INDEX, 0, -1) if owners else []
    return [tag for tag in (tag.decode() for tag in reversed(every)) if keys.owner_of(tag) in owners]


def overdue(client: redis.Redis, seconds: float, most: int) -> list[str]:
    """Return the tags of deliveries older than ``seconds``, oldest first."""
    late: Any = client.eval(_OVERDUE, 1, keys.UNACKED_INDEX, seconds, most)
    return [tag.decode() for tag in late]
