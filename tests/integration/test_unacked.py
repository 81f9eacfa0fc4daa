"""Deliveries of workers of older versions, during a rolling change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.queue.transport import keys, unacked

if TYPE_CHECKING:
    import redis

QUEUE = "retrieval"


def deliver(broker: redis.Redis, owner: str, *messages: str, waited: tuple[str, ...] = ()) -> None:
    """As a worker of an older version does: messages, by tags that name their owner, each counted."""
    for number, message in enumerate(messages):
        tag = keys.tag(owner, number)
        broker.hset(keys.UNACKED, tag, f'[{message},"","{QUEUE}"]')
        broker.zadd(keys.UNACKED_INDEX, {tag: number})
        broker.hincrby(keys.deliveries(QUEUE), keys.digest(message.encode()), 1)
        if message in waited:
            broker.sadd(keys.WAITING, tag)


def test_what_a_worker_of_an_older_version_held_is_requeued(broker: redis.Redis) -> None:
    """Byte for byte, in its order, before what waits; what had not begun is not counted; what others hold stays."""
    broker.lpush(QUEUE, '"waits"')
    broker.set(keys.owner_key("alive"), "")
    deliver(broker, "dead", '{"a":  1}', '{"b": "\\u0000"}', waited=('{"b": "\\u0000"}',))
    deliver(broker, "alive", '{"c": 1}')
    assert unacked.requeue_of_dead_owners(broker) == 2
    assert unacked.requeue_of_dead_owners(broker) == 0
    assert broker.lrange(QUEUE, 0, -1) == [b'"waits"', b'{"b": "\\u0000"}', b'{"a":  1}']
    assert broker.hgetall(keys.deliveries(QUEUE)) == {
        keys.digest(b'{"a":  1}').encode(): b"1",
        keys.digest(b'{"c": 1}').encode(): b"1",
    }
    assert (broker.hkeys(keys.UNACKED), broker.zrange(keys.UNACKED_INDEX, 0, -1)) == ([b"alive:0"], [b"alive:0"])
    assert not broker.exists(keys.WAITING)


def test_what_is_no_delivery_stays(broker: redis.Redis) -> None:
    """A tag without an entry, and a stock worker's, which has no owner and no message byte for byte."""
    broker.zadd(keys.UNACKED_INDEX, {"gone:0": 1, "0d4c": 2})
    broker.hset(keys.UNACKED, "0d4c", f'[{{}}, "", "{QUEUE}"]')
    assert unacked.requeue_of_dead_owners(broker) == 0
    assert not broker.exists(QUEUE)
