"""Commands whose answer is lost: what is repeated does no harm, and what would is not repeated."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import redis

from chaos.proxy import network, proxy
from worker.queue.transport import dead_letters, keys, unacked
from worker.queue.transport.claim import Claim
from worker.queue.transport.inspection import Rules
from worker.queue.transport.owners import Heart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.cli.devstack.stack import Stack

MESSAGE = b'{"body": "", "headers": {"id": "a"}}'
PLACE = keys.inflight("retrieval", "me")


def held(broker: redis.Redis) -> dict[bytes, bytes]:
    entries: Any = broker.hgetall(keys.UNACKED)
    return entries


def test_a_delivery_that_is_written_down_twice_is_there_once(broker: redis.Redis) -> None:
    """A client that missed the answer sends the whole again: the job is still held, and counted once."""
    broker.lpush(PLACE, MESSAGE)
    for _ in range(2):
        assert unacked.record(broker, "me:1", unacked.UnackedMessage("retrieval", MESSAGE), PLACE).number == 1
    assert held(broker) == {b"me:1": unacked.pack("retrieval", MESSAGE)}
    assert broker.zcard(keys.UNACKED_INDEX) == 1
    assert broker.llen(PLACE) == 0


def test_what_was_taken_back_is_not_written_down(broker: redis.Redis) -> None:
    """Its owner counted as dead: the message is on its queue again, and somebody else's."""
    assert unacked.record(broker, "me:1", unacked.UnackedMessage("retrieval", MESSAGE), PLACE).number == 0
    assert not held(broker)
    assert not broker.exists(keys.deliveries("retrieval"))


def dead_lettered(broker: redis.Redis) -> Any:
    """Dead-letter the message; return the script's answer."""
    with broker.pipeline(transaction=False) as pipe:
        dead_letters.dead_letter(pipe, "retrieval", PLACE, MESSAGE, {"reason": "malformed"}, Rules())
        return pipe.execute()[0]


def test_a_message_that_is_buried_twice_is_one_dead_letter(broker: redis.Redis) -> None:
    """Nor is one dead-lettered that was requeued from an owner that counted as dead."""
    assert dead_lettered(broker) is None
    assert broker.xlen(keys.dead("retrieval")) == 0
    broker.lpush(PLACE, MESSAGE)
    broker.hset(keys.deliveries("retrieval"), keys.digest(MESSAGE), 2)
    assert [dead_lettered(broker), dead_lettered(broker)] == [2, None]
    ((_, letter),) = broker.xrange(keys.dead("retrieval"))
    assert letter == {b"deliveries": b"2", b"reason": b"malformed"}
    assert not broker.exists(PLACE, keys.deliveries("retrieval"))


def test_a_full_redis_has_room_for_a_dead_letter_in_place_of_its_message(broker: redis.Redis) -> None:
    """A message that cannot run must not stay in the way of what empties Redis."""
    broker.lpush(PLACE, MESSAGE)
    broker.config_set("maxmemory", "1")
    try:
        assert dead_lettered(broker) == 0  # deliveries
    finally:
        broker.config_set("maxmemory", "0")
    assert (broker.llen(PLACE), broker.xlen(keys.dead("retrieval"))) == (0, 1)


@pytest.fixture
def claim(stack: Stack, broker: redis.Redis) -> Iterator[tuple[Claim, Any]]:
    """A claim behind a proxy, with a client that repeats commands, as the worker's settings have it."""
    with (
        network() as loop,
        proxy(loop, stack.redis.port) as link,
        redis.Redis.from_url(stack.redis.url(port=link.port), socket_timeout=0.5) as client,
    ):
        heart = Heart(client, "test")
        made = Claim("retrieval", client, heart, time.monotonic)
        made.connect(broker)
        yield made, link
        heart.stop()
        made.drop()


def test_a_claim_whose_answer_is_lost_takes_no_second_message(claim: tuple[Claim, Any], broker: redis.Redis) -> None:
    """The first is in the list of an owner who is abandoned with its connection, so it comes back."""
    broker.lpush("retrieval", "1", "2")
    claiming, link = claim
    place = keys.inflight("retrieval", claiming.owner)
    link.deafen()
    with pytest.raises(redis.TimeoutError):
        claiming.take_now()
    assert broker.lrange(place, 0, -1) == [b"1"]
    assert broker.lrange("retrieval", 0, -1) == [b"2"]
    assert not claiming.owner


@pytest.mark.parametrize(("last", "order"), [(False, [b"4", b"3", b"2", b"1"]), (True, [b"3", b"2", b"4", b"1"])])
def test_what_is_given_back_twice_is_on_its_queue_once(
    claim: tuple[Claim, Any], broker: redis.Redis, last: bool, order: list[bytes]
) -> None:
    """A client that missed the answer sends the whole again. The first of several is the next again, or behind all."""
    broker.lpush("retrieval", "1", "2", "3", "4")
    claiming, _ = claim
    claiming.settled(taken=2, refused=2)
    assert claiming.take_now() == [b"1", b"2", b"3"]
    for _ in range(2):
        claiming.requeue(broker, [b"2", b"3"], last=last)
    assert broker.lrange(keys.inflight("retrieval", claiming.owner), 0, -1) == [b"1"]
    claiming.requeue(broker, [b"1"])
    assert broker.lrange("retrieval", 0, -1) == order
