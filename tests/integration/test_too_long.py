"""Messages that are longer than any may be: only an excerpt of them leaves Redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import redis

from worker.cli.devstack.redis import redis_server
from worker.queue.transport import keys
from worker.queue.transport.claim import Claim
from worker.queue.transport.dead_letters import every
from worker.queue.transport.inspection import Rules

from .claims import OTHER, QUEUE, Worker, envelope, places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.cli.devstack.redis import Redis
    from worker.cli.devstack.stack import Stack

RULES = Rules(tasks=("retrieve_top_k",), max_bytes=65_536)
MEGABYTES = 40
LONG = envelope("long")[:-1] + b', "more": "' + b"x" * (MEGABYTES << 20) + b'"}'


@pytest.fixture(scope="module")
def open_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis that takes messages of any length, which is not how it is shipped."""
    with redis_server(tmp_path_factory.mktemp("open"), settings={"proto-max-bulk-len": "512mb"}) as server:
        yield server


@pytest.fixture
def url(open_redis: Redis) -> str:
    return open_redis.url(0)


@pytest.fixture
def broker(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield client


def test_redis_as_it_is_shipped_takes_none(stack: Stack) -> None:
    """It is refused before it has cost memory."""
    with redis.Redis.from_url(stack.redis.url(0)) as client, pytest.raises(redis.RedisError):
        client.lpush("long", LONG)


def sent_megabytes(client: redis.Redis) -> float:
    """How much Redis has sent to anybody."""
    return float(client.info("stats")["total_net_output_bytes"]) / (1 << 20)


def assert_dead(broker: redis.Redis, worker: Worker) -> None:
    """The long message is one dead letter, and its sender knows."""
    (letter,) = every(broker, QUEUE)
    assert (letter.reason, letter.bytes, letter.task_id, letter.kept) == ("malformed", len(LONG), "long", "start")
    assert worker.failures["long"].message == "expected a message of at most 65536 bytes"
    assert places(broker) == {"dead": 1}


def finish(worker: Worker, count: int) -> None:
    worker.take(count)
    for message in worker.got:
        message.ack()
    worker.drain(lambda: bool(worker.failures))


def test_one_that_a_worker_waits_for(url: str, broker: redis.Redis) -> None:
    """Its length comes first, and the rest of it is not read; the jobs behind it are."""
    with Worker(url, rules=RULES) as worker:
        worker.drain(lambda: worker.claim.since is not None)
        before = sent_megabytes(broker)
        broker.lpush(QUEUE, LONG)
        worker.drain(lambda: bool(worker.failures))
        broker.lpush(QUEUE, envelope("good"))
        assert worker.take(1) == ["good"]
        worker.got[0].ack()
        assert sent_megabytes(broker) - before < MEGABYTES / 2
        assert_dead(broker, worker)


def test_one_of_several_queues(url: str, broker: redis.Redis) -> None:
    """It is looked at inside Redis, before it is taken."""
    before = sent_megabytes(broker)
    broker.lpush(QUEUE, LONG, envelope("good"))
    with Worker(url, QUEUE, OTHER, rules=RULES) as worker:
        finish(worker, 1)
        assert worker.ids == ["good"]
        assert sent_megabytes(broker) - before < 1
        assert_dead(broker, worker)


def test_one_that_comes_with_an_acknowledgement(url: str, broker: redis.Redis) -> None:
    """The same: its excerpt is delivered, and refused."""
    broker.lpush(QUEUE, envelope("good"))
    with Worker(url, prefetch=1, rules=RULES) as worker:
        worker.take(1)
        before = sent_megabytes(broker)
        broker.lpush(QUEUE, LONG)
        worker.got[0].ack()
        assert worker.channel.on_hand == 1
        worker.drain(lambda: bool(worker.failures))
        assert sent_megabytes(broker) - before < 1
        assert_dead(broker, worker)


def test_one_whose_worker_dies_goes_the_same_way(
    url: str, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages in a dead worker's list are taken by the next one, and end there."""
    died = []

    def die(claim: Claim) -> None:
        died.append(claim.owner)
        claim.drop()

    with monkeypatch.context() as patched, Worker(url, rules=RULES) as worker:
        patched.setattr(Claim, "_refuse_too_long", die)
        worker.drain(lambda: worker.claim.since is not None)
        broker.lpush(QUEUE, LONG)
        worker.drain(lambda: bool(died))
    assert places(broker) == {"inflight": 1}
    for key in broker.keys("retrieval-worker.owner.*"):
        broker.delete(key)
    with Worker(url, rules=RULES) as worker:
        worker.drain(lambda: bool(worker.failures))
        assert_dead(broker, worker)


def test_who_writes_an_excerpt_deceives_nobody(url: str, broker: redis.Redis) -> None:
    """It is a malformed message like any other."""
    forged: Any = b"too long: 5 bytes\n" + envelope("forged")
    broker.lpush(QUEUE, forged, b"too long: 99999999999 bytes\n{}")
    with Worker(url, rules=RULES) as worker:
        worker.drain(lambda: broker.xlen(keys.dead(QUEUE)) == 2)
        assert list(worker.failures) == ["forged"]
        assert not worker.got
        assert json.dumps([letter.as_json() for letter in every(broker, QUEUE)])
