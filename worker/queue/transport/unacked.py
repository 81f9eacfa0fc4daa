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
    from collections.abc import Sequence

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
    if ARGV[4] == 'alone' then redis.call('HSET', KEYS[5], digest .. ':alone', '1') end
end
return 1
"""

# Marks only an existing delivery: any other mark would never be removed.
_MARK_WAITING = (
    keys.WHEN_FULL
    + """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('SADD', KEYS[2], ARGV[1]) end
"""
)

# A message that was in a bundle when its process died is marked: it runs alone from then on. That delivery did not
# count, because one of the others may have killed the process; once a message has killed one alone too, it does.
_COUNT = """
local function count_delivery(place, digest)
    local count = redis.call('HINCRBY', place, digest, 1)
    local mark = redis.call('HGET', place, digest .. ':alone')
    if mark == '1' and count == 2 then
        count = redis.call('HINCRBY', place, digest, 1)
        redis.call('HSET', place, digest .. ':alone', '2')
    end
    return count, mark and 1 or 0
end
"""

# Records only a message that is still in its owner's list: a client that missed the reply sends the command again and
# must get the same reply.
_RECORD = (
    NOW
    + keys.WHEN_FULL
    + _COUNT
    + """
local function record(places, tag, message, ending, digest)
    if redis.call('LREM', places[1], 1, message) == 0 then
        if redis.call('HEXISTS', places[2], tag) == 0 then return {0, 0} end
        local count = tonumber(redis.call('HGET', places[4], digest) or 1)
        return {count, redis.call('HEXISTS', places[4], digest .. ':alone')}
    end
    redis.call('HSET', places[2], tag, '[' .. message .. ending)
    redis.call('ZADD', places[3], now, tag)
    return {count_delivery(places[4], digest)}
end
"""
)

# Only existing entries: a late acknowledgement must not delete the count of a message that another worker has now.
_ACKNOWLEDGE = """
local function acknowledge(first, done)
    for number = 0, done - 1 do
        local tag, digest = ARGV[first + 2 * number], ARGV[first + 2 * number + 1]
        if redis.call('HDEL', KEYS[1], tag) == 1 then
            redis.call('ZREM', KEYS[2], tag)
            redis.call('HDEL', KEYS[6 + number], digest, digest .. ':alone')
        end
    end
end
"""

# Takes at most half of those that wait, because other workers may be idle. Removes each from the queue last: a script
# that fails earlier has not taken it.
_TAKE = (
    excerpts.SHORTEN
    + """
local function take(most, longest, budget, ending, tags)
    local taken, bytes = {}, 0
    most = math.min(most, math.ceil(redis.call('LLEN', KEYS[4]) / 2))
    for number = 1, most do
        if bytes > budget then break end
        local message = shorten(redis.call('LINDEX', KEYS[4], -1), longest)
        local tag = ARGV[tags + number - 1]
        redis.call('HSET', KEYS[1], tag, '[' .. message .. ending)
        redis.call('ZADD', KEYS[2], now, tag)
        local count, alone = count_delivery(KEYS[5], redis.sha1hex(message))
        redis.call('RPOP', KEYS[4])
        taken[number] = {message, count, alone}
        bytes = bytes + #message
    end
    return taken
end
"""
)

_RECORD_ONE = _RECORD + "return record(KEYS, ARGV[1], ARGV[2], ARGV[3], ARGV[4])"
_ACKNOWLEDGE_ALL = _ACKNOWLEDGE + "acknowledge(1, #ARGV / 2)"
_ACKNOWLEDGE_AND_TAKE = (
    _RECORD
    + _ACKNOWLEDGE
    + _TAKE
    + """
local done, most = tonumber(ARGV[1]), tonumber(ARGV[2])
acknowledge(7 + most, done)
local first = {}
if ARGV[6] ~= '' then
    first = record({KEYS[3], KEYS[1], KEYS[2], KEYS[5]}, ARGV[7], ARGV[6], ARGV[5], redis.sha1hex(ARGV[6]))
    if first[1] == 0 then return {first, {}} end
    return {first, take(most - 1, tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], 8)}
end
return {first, take(most, tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], 7)}
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


class RecordedDelivery(NamedTuple):
    """Recorded delivery.

    Attributes:
        number: number of the message's deliveries, this one included; 0: it was no longer in its owner's list, which
            counted as dead, so it was requeued and must not be delivered by that owner.
        alone: True: it was in a bundle when its process died.
    """

    number: int
    alone: bool


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


def record(client: redis.Redis, tag: str, claimed: UnackedMessage, place: str) -> RecordedDelivery:
    """Record a message of an owner's list as unacknowledged; atomic and safe to repeat.

    Args:
        client: client of the broker.
        tag: delivery tag.
        claimed: the message.
        place: the owner's list.
    """
    places = (place, keys.UNACKED, keys.UNACKED_INDEX, keys.deliveries(claimed.queue))
    arguments = (tag, claimed.raw, end(claimed.queue), keys.digest(claimed.raw))
    count, alone = client.eval(_RECORD_ONE, len(places), *places, *arguments)
    return RecordedDelivery(int(count), bool(alone))


def held(client: redis.Redis, tag: str) -> UnackedMessage | None:
    """Return an unacknowledged message by its tag; None if it is gone, or a stock worker's."""
    entry: Any = client.hget(keys.UNACKED, tag)
    return unpack(entry) if entry else None


def queues_of(client: redis.Redis, tags: Sequence[str]) -> list[str | None]:
    """Return the queues of deliveries by their tags; None for one that is gone, or a stock worker's."""
    ends: Any = client.eval(_ENDS, 1, keys.UNACKED, _END_BYTES, *tags) if tags else []
    return [json.loads(found[1]) if (found := _END.search(entry)) else None for entry in ends]


def acknowledge(client: redis.Redis, done: Sequence[Acknowledgement]) -> None:
    """Remove deliveries and their messages' counts; atomic and safe to repeat."""
    # `_ACKNOWLEDGE` expects the counts of the first from the sixth key on.
    places = (keys.UNACKED, keys.UNACKED_INDEX, *[keys.UNACKED] * 3, *(keys.deliveries(one.queue) for one in done))
    client.eval(_ACKNOWLEDGE_ALL, len(places), *places, *_named(done))


def taking(
    queue: str,
    tags: Sequence[str],
    done: Sequence[Acknowledgement] = (),
    *,
    first: bytes = b"",
    place: str = "",
    longest: int = 2**31,
    budget: int = 2**31,
) -> tuple[Any, ...]:
    """Return the command that acknowledges deliveries and takes a queue's next messages, which it records; atomic.

    It must not be repeated: each time it takes other messages. Messages taken by a late command belong to their owner
    and are requeued when that owner counts as dead.

    Args:
        queue: the queue to take from.
        tags: a delivery tag for each message; at most that many are taken, and at most half of those that wait.
        done: the deliveries to acknowledge.
        first: message of the owner's list, to be recorded with the first tag; or empty.
        place: the owner's list.
        longest: most bytes of a message; an excerpt of a longer one is delivered.
        budget: bytes after which no more is taken.

    Returns:
        The command. Its reply is (number, alone) of ``first``, as in `RecordedDelivery`, or nothing; and (message,
        number, alone) of each message taken: none if ``first`` was no longer there.
    """
    counts = keys.deliveries(queue)
    places = [keys.UNACKED, keys.UNACKED_INDEX, place or queue, queue, counts]
    arguments = (len(done), len(tags), longest, budget, end(queue), first, *tags, *_named(done))
    places += [keys.deliveries(one.queue) for one in done]
    return "EVAL", _ACKNOWLEDGE_AND_TAKE, len(places), *places, *arguments


def _named(done: Sequence[Acknowledgement]) -> list[str]:
    return [name for one in done for name in (one.tag, one.digest)]


def forget(pipe: redis.client.Pipeline, tag: str, queue: str, digest: str) -> None:
    """Do the same as part of a larger transaction, for a message that was dead-lettered or has a result."""
    pipe.zrem(keys.UNACKED_INDEX, tag)
    pipe.hdel(keys.UNACKED, tag)
    pipe.hdel(keys.deliveries(queue), digest, f"{digest}:alone")


def requeue(
    client: redis.Redis,
    tag: str,
    queue: str,
    side: Literal["RPUSH", "LPUSH"],
    *,
    uncounted: bool = False,
    alone: bool = False,
) -> bool:
    """Requeue a delivery if it still exists; atomic and safe to repeat.

    Args:
        client: client of the broker.
        tag: delivery tag.
        queue: the message's queue.
        side: ``RPUSH``: it is next; ``LPUSH``: after all that wait.
        uncounted: True: the delivery does not count. One that is marked as waiting never does.
        alone: True: the message must not be in a bundle again.

    Returns:
        True if it was requeued.
    """
    places = (keys.UNACKED, keys.UNACKED_INDEX, keys.WAITING, queue, keys.deliveries(queue))
    how = "alone" if alone else "uncounted" if uncounted else ""
    return bool(client.eval(_REQUEUE, len(places), *places, tag, end(queue), side, how))


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


def of_dead_owners(client: redis.Redis) -> list[str]:
    """Return the tags of deliveries whose owner is not alive, latest first; not a stock worker's, which has no owner.

    An owner's key exists before its first delivery: the deliveries are read first.
    """
    every: Any = client.zrange(keys.UNACKED_INDEX, 0, -1)
    tags = [tag.decode() for tag in reversed(every)]
    owners = [*{keys.owner_of(tag) for tag in tags} - {""}]
    with client.pipeline(transaction=False) as pipe:
        for owner in owners:
            pipe.exists(keys.owner_key(owner))
        dead = {owner for owner, is_alive in zip(owners, pipe.execute(), strict=True) if not is_alive}
    return [tag for tag in tags if keys.owner_of(tag) in dead]


def requeue_of_dead_owners(client: redis.Redis) -> int:
    """Requeue the deliveries of owners that are not alive, the next ones first; return their number."""
    tags = of_dead_owners(client)
    queues = queues_of(client, tags)
    return sum(
        queue is not None and requeue(client, tag, queue, "RPUSH") for tag, queue in zip(tags, queues, strict=True)
    )


def has_any(client: redis.Redis, owner: str) -> bool:
    """Return whether any delivery to an owner is unacknowledged."""
    every: Any = client.zrange(keys.UNACKED_INDEX, 0, -1)
    return any(keys.owner_of(tag.decode()) == owner for tag in every)


def overdue(client: redis.Redis, seconds: float, most: int) -> list[str]:
    """Return the tags of deliveries older than ``seconds``, oldest first."""
    late: Any = client.eval(_OVERDUE, 1, keys.UNACKED_INDEX, seconds, most)
    return [tag.decode() for tag in late]
