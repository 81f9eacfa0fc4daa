"""What was delivered and is not answered yet, and how it goes back to its queue.

An entry is ``[message,"","queue"]``: what kombu writes, but with the message byte for byte as it was sent. So a stock
worker can give back what a reliable one held, and the other way round.
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

# Gives back only what is still there: an acknowledgement, or somebody else who gives it back, may come between. What
# was marked as waiting had not begun, and so does not count. Takes away first, because a full Redis refuses to begin
# with what adds.
_GIVE_BACK = """
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

# Marks only what is delivered: a mark of what has gone would stay.
_MARK_WAITING = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('SADD', KEYS[2], ARGV[1]) end
"""

# Writes down only what is still in its owner's list: a client that missed the answer sends the whole again, and must be
# told the same.
_WRITE_DOWN = (
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

# Only of what is still there: a late one must not forget the count of a message that somebody else has now.
_ACKNOWLEDGE = """
if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
    redis.call('ZREM', KEYS[2], ARGV[1])
    redis.call('HDEL', KEYS[3], ARGV[2])
end
"""

# Leaves the queue last: a step that fails before has taken nothing.
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

# The ends of entries: these may be long, and where they are from stands last.
_ENDS = """
local ends = {}
for number = 2, #ARGV do
    ends[number - 1] = string.sub(redis.call('HGET', KEYS[1], ARGV[number]) or '', -tonumber(ARGV[1]))
end
return ends
"""


@dataclass(frozen=True, slots=True)
class UnackedMessage:
    """A delivered message: the queue it is from, and its bytes."""

    queue: str
    raw: bytes


class Acknowledgement(NamedTuple):
    """A delivery whose result is stored: its tag, its message's queue and digest."""

    tag: str
    queue: str
    digest: str


NOTHING = Acknowledgement("", "", "")


def pack(queue: str, raw: bytes) -> bytes:
    """An entry of the hash.

    Args:
        queue: where the message is from.
        raw: the message; JSON.
    """
    return b"[" + raw + end(queue)


def end(queue: str) -> bytes:
    """What follows the message in an entry."""
    return b',"",' + json.dumps(queue).encode() + b"]"


def unpack(entry: bytes) -> UnackedMessage | None:
    """The message of an entry; None if a stock worker wrote it.

    >>> unpack(pack("retrieval", b'{"body": ""}'))
    UnackedMessage(queue='retrieval', raw=b'{"body": ""}')
    >>> unpack(b'[{"body": ""}, "", "retrieval"]')
    """
    end = _END.search(entry[-_END_BYTES:])
    if end is None:
        return None
    return UnackedMessage(json.loads(end[1]), entry[1 : -len(end[0])])


def write_down(client: redis.Redis, tag: str, claimed: UnackedMessage, place: str) -> int:
    """From an owner's list to the unacknowledged, in one step that may be repeated.

    Args:
        client: of the broker.
        tag: the delivery.
        claimed: the message.
        place: the owner's list.

    Returns:
        How often the message was delivered, with this time; 0 if it was not in the list any more: it was taken back
        from its owner, which counted as dead, and so must not be delivered by it.
    """
    places = (place, keys.UNACKED, keys.UNACKED_INDEX, keys.deliveries(claimed.queue))
    arguments = (tag, claimed.raw, end(claimed.queue), keys.digest(claimed.raw))
    return int(client.eval(_WRITE_DOWN, len(places), *places, *arguments))


def held(client: redis.Redis, tag: str) -> UnackedMessage | None:
    """A delivered message by its tag; None if it is gone, or a stock worker's."""
    entry: Any = client.hget(keys.UNACKED, tag)
    return unpack(entry) if entry else None


def queues_of(client: redis.Redis, tags: Sequence[str]) -> list[str | None]:
    """Where deliveries are from, by their tags; None of one that is gone, or a stock worker's."""
    ends: Any = client.eval(_ENDS, 1, keys.UNACKED, _END_BYTES, *tags) if tags else []
    return [json.loads(found[1]) if (found := _END.search(entry)) else None for entry in ends]


def acknowledge(client: redis.Redis, done: Acknowledgement) -> None:
    """Remove a delivery and its message's count, in one step that may be repeated."""
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.deliveries(done.queue))
    client.eval(_ACKNOWLEDGE, len(places), *places, done.tag, done.digest)


def taking(queue: str, tag: str, done: Acknowledgement = NOTHING, *, longest: int = 2**31) -> tuple[Any, ...]:
    """The command that moves a queue's next message to the unacknowledged, and forgets a delivery before, in one step.

    It must not be repeated: each time it takes another message. What a late one took is its owner's, and goes back
    when that owner counts as dead.

    Args:
        queue: where the message is from.
        tag: of its delivery.
        done: the delivery to forget.
        longest: bytes of a message; of a longer one an excerpt is delivered.

    Returns:
        The command. Its answer is the message and how often it was delivered, with this time; None: the queue is empty.
    """
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.deliveries(done.queue or queue), queue, keys.deliveries(queue))
    script = NOW + _ACKNOWLEDGE + _TAKE
    return "EVAL", script, len(places), *places, done.tag, done.digest, tag, end(queue), longest


def forget(pipe: redis.client.Pipeline, tag: str, queue: str, digest: str) -> None:
    """The same as a part of a larger step: it is a dead letter now, or was answered."""
    pipe.zrem(keys.UNACKED_INDEX, tag)
    pipe.hdel(keys.UNACKED, tag)
    pipe.hdel(keys.deliveries(queue), digest)


def requeue(
    client: redis.Redis, tag: str, queue: str, side: Literal["RPUSH", "LPUSH"], *, uncounted: bool = False
) -> bool:
    """Put a delivery back on its queue, in one step that may be repeated, if it is still there.

    Args:
        client: of the broker.
        tag: the delivery.
        queue: where its message is from.
        side: ``RPUSH``: it comes next; ``LPUSH``: after all that wait.
        uncounted: the delivery is not to count. One that is marked as waiting never does.

    Returns:
        Whether it was put back.
    """
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.WAITING, queue, keys.deliveries(queue))
    return bool(client.eval(_GIVE_BACK, len(places), *places, tag, end(queue), side, "uncounted" if uncounted else ""))


def mark_waiting(client: redis.Redis, tag: str) -> None:
    """Note that no process could take a delivery yet: if its worker dies, it does not count."""
    client.eval(_MARK_WAITING, 2, keys.UNACKED, keys.WAITING, tag)


def mark_begun(client: redis.Redis, tag: str) -> None:
    """Take such a mark away."""
    client.srem(keys.WAITING, tag)


def delay(client: redis.Redis, tag: str, queue: str) -> bool:
    """Have a delivered message go back to its queue when it is its turn (`delayed.let_back`), in one step as above."""
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.WAITING, keys.put_off(queue), keys.deliveries(queue))
    return bool(client.eval(_GIVE_BACK, len(places), *places, tag, end(queue), "LPUSH", ""))


def of_owners(client: redis.Redis, owners: Collection[str]) -> list[str]:
    """Tags of the deliveries to some owners, the latest first."""
    every: Any = client.zrange(keys.UNACKED_INDEX, 0, -1) if owners else []
    return [tag for tag in (tag.decode() for tag in reversed(every)) if keys.owner_of(tag) in owners]


def overdue(client: redis.Redis, seconds: float, most: int) -> list[str]:
    """Tags of the deliveries of more than so many seconds ago, the oldest first."""
    late: Any = client.eval(_OVERDUE, 1, keys.UNACKED_INDEX, seconds, most)
    return [tag.decode() for tag in late]
