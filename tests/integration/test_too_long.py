"""Messages that are longer than any may be: only an excerpt of them leaves Redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import redis

from workbench.devstack.redis import redis_server
from worker.queue.broker import keys
from worker.queue.broker.dead_letters import every
from worker.queue.broker.inspection import Rules

from .claims import QUEUE, Worker, envelope, places, stored_failures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.devstack.redis import Redis
    from workbench.devstack.stack import Stack

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
    return open_redis.url(0, "worker")


@pytest.fixture
def broker(open_redis: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(open_redis.url(0)) as client:
        client.flushdb()
        yield client


def test_redis_as_it_is_shipped_takes_none(stack: Stack) -> None:
    """It is refused before it has cost memory."""
    with redis.Redis.from_url(stack.redis.url(0)) as client, pytest.raises(redis.RedisError):
        client.lpush("long", LONG)


def sent_megabytes(client: redis.Redis) -> float:
    """How much Redis has sent to anybody."""
    return float(client.info("stats")["total_net_output_bytes"]) / (1 << 20)


def assert_dead(broker: redis.Redis) -> None:
    """The long message is one dead letter, and its sender knows."""
    (letter,) = every(broker, QUEUE)
    assert (letter.reason, letter.bytes, letter.task_id, letter.kept) == ("malformed", len(LONG), "long", "nothing")
    assert stored_failures(broker)["long"].message == "expected a message of at most 65536 bytes"
    assert places(broker) == {"dead": 1}


def test_one_that_a_worker_waits_for(url: str, broker: redis.Redis) -> None:
    """Its length comes first, and the rest of it is not read; the jobs behind it are."""

    def push_once_blocked() -> bool:
        if not sent and broker.info("clients")["blocked_clients"]:
            sent.append(sent_megabytes(broker))
            broker.lpush(QUEUE, LONG)
            broker.lpush(QUEUE, envelope("good"))
        return worker.ids == ["good"]

    sent: list[float] = []
    with Worker(url, rules=RULES) as worker:
        worker.run(push_once_blocked)
        assert sent_megabytes(broker) - sent[0] < MEGABYTES / 2
        assert_dead(broker)


@pytest.mark.parametrize("place", [QUEUE, keys.inflight(QUEUE, "dead-1")])
def test_one_that_waits_or_that_a_dead_worker_held(url: str, broker: redis.Redis, place: str) -> None:
    """It is looked at inside Redis, and its excerpt is delivered, and refused."""
    before = sent_megabytes(broker)
    broker.lpush(place, LONG)
    broker.zadd(keys.OWNERS, {keys.inflight(QUEUE, "dead-1"): 1})
    broker.lpush(QUEUE, envelope("good"))
    with Worker(url, rules=RULES) as worker:
        worker.maintain()
        worker.run(lambda: places(broker) == {"dead": 1} and worker.ids)
        assert sent_megabytes(broker) - before < 1
        assert_dead(broker)


def test_who_writes_an_excerpt_deceives_nobody(url: str, broker: redis.Redis) -> None:
    """It is a malformed message like any other."""
    forged: Any = b"too long: 5 bytes\n" + envelope("forged")
    broker.lpush(QUEUE, forged, b"too long: 99999999999 bytes\n{}")
    with Worker(url, rules=RULES) as worker:
        worker.run(lambda: places(broker) == {"dead": 2})
        assert list(stored_failures(broker)) == ["forged"]
        assert worker.ids == []
        assert json.dumps([letter.as_json() for letter in every(broker, QUEUE)])
