"""Commands whose answer is lost: what is repeated does no harm, and what would is not repeated."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import redis

from chaos.proxy import network, proxy
from worker.transport import keys, unacked
from worker.transport.claim import Claim
from worker.transport.owners import Heart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker import devstack

MESSAGE = b'{"body": "", "headers": {"id": "a"}}'
PLACE = keys.inflight("retrieval", "me")


def held(broker: redis.Redis) -> dict[bytes, bytes]:
    entries: Any = broker.hgetall(keys.UNACKED)
    return entries


def test_a_delivery_that_is_written_down_twice_is_there_once(broker: redis.Redis) -> None:
    """A client that missed the answer sends the whole again: the job is still held, and counted once."""
    broker.lpush(PLACE, MESSAGE)
    for _ in range(2):
        assert unacked.write_down(broker, "me:1", unacked.Held("retrieval", MESSAGE), PLACE, time.time()) == 1
    assert held(broker) == {b"me:1": unacked.pack("retrieval", MESSAGE)}
    assert broker.zcard(keys.UNACKED_INDEX) == 1
    assert broker.llen(PLACE) == 0


def test_what_was_taken_back_is_not_written_down(broker: redis.Redis) -> None:
    """Its owner counted as dead: the message is on its queue again, and somebody else's."""
    assert unacked.write_down(broker, "me:1", unacked.Held("retrieval", MESSAGE), PLACE, time.time()) == 0
    assert not held(broker)
    assert not broker.exists(keys.deliveries("retrieval"))


@pytest.fixture
def claim(stack: devstack.Stack, broker: redis.Redis) -> Iterator[tuple[Claim, Any]]:
    """A claim behind a proxy, with a client that repeats commands, as the worker's settings have it."""
    with (
        network() as loop,
        proxy(loop, stack.redis.port) as link,
        redis.Redis(port=link.port, socket_timeout=0.5) as client,
    ):
        heart = Heart(client, time.time, "test")
        made = Claim("retrieval", client, heart, time.monotonic)
        made.connect(broker)
        yield made, link
        heart.stop()
        made.drop()


def test_a_claim_whose_answer_is_lost_takes_no_second_message(claim: tuple[Claim, Any], broker: redis.Redis) -> None:
    """The first is a delivery of an owner who is abandoned with its connection, so it comes back."""
    broker.lpush("retrieval", "1", "2")
    claiming, link = claim
    tag = keys.tag(claiming.owner, 1)
    link.deafen()
    with pytest.raises(redis.TimeoutError):
        claiming.take_now(1)
    assert held(broker) == {tag.encode(): unacked.pack("retrieval", b"1")}
    assert broker.lrange("retrieval", 0, -1) == [b"2"]
    assert not claiming.owner
