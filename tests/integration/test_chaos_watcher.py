"""Redis' content in a run: no waiting job is called lost, and none is called a worker's that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chaos.jobs import QUEUE, envelope
from chaos.servers import RedisServer
from chaos.watcher import dead_letters, held_by, holdings

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

PID = 4711
OWNER = f"host-{PID}-ab"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def admin(server: RedisServer) -> Iterator[redis.Redis]:
    with server.client() as client:
        client.flushall()
        yield client


def name(number: int) -> str:
    return f"chaos-1-{number:07d}"


def message(number: int) -> bytes:
    return envelope(name(number), "retrieve_top_k", "[[{}], {}, {}]")


def test_a_message_is_found_wherever_it_waits(server: RedisServer, admin: redis.Redis) -> None:
    """In the queue, claimed, delivered, waiting for its time or for its turn."""
    admin.lpush(QUEUE, message(1))
    admin.lpush(f"{QUEUE}.inflight.{OWNER}", message(2))
    admin.hset("unacked", f"{OWNER}:1", b"[" + message(3) + b"]")
    admin.zadd(f"{QUEUE}.delayed", {f"{OWNER}:2": 1.0})
    admin.hset(f"{QUEUE}.delayed.messages", f"{OWNER}:2", message(4))
    admin.lpush(f"{QUEUE}.delayed.put_off", message(5))
    assert holdings(server) == ({name(1)}, {name(number) for number in range(2, 6)})


def test_what_waits_for_its_time_is_no_workers(server: RedisServer, admin: redis.Redis) -> None:
    """Its name is that of its last delivery; the worker that this was may end, and nothing waits for it."""
    admin.lpush(f"{QUEUE}.inflight.{OWNER}", message(1))
    admin.hset("unacked", mapping={f"{OWNER}:1": message(2), "host-9-cd:1": message(3)})
    admin.hset(f"{QUEUE}.delayed.messages", f"{OWNER}:2", message(4))
    assert held_by(server, PID) == {name(1), name(2)}


def test_dead_letters_are_found_by_their_jobs(server: RedisServer, admin: redis.Redis) -> None:
    """A dead letter that names its job, or that keeps the message whole; other streams hold no jobs."""
    admin.xadd(f"{QUEUE}.dead", {"task_id": name(1), "message": "cut"})
    admin.xadd(f"{QUEUE}.dead", {"task_id": "", "message": message(2)})
    assert dead_letters(server) == {name(1), name(2)}
