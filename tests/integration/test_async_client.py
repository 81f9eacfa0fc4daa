"""The client for asyncio against a real Redis: many wait at once, over a few connections."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import wait_for

from retrieval_client import AsyncClient, RetrieveTopK
from retrieval_client.errors import InvalidJob, SettingsError, TimedOut, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import redis

    from worker.cli.devstack.stack import Stack

JOB = RetrieveTopK(query_embedding=[0.5])


def run(stack: Stack, use: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    """Use a client in an event loop of its own."""

    async def used() -> Any:
        async with AsyncClient(stack.redis.url(0), stack.redis.url(1)) as client:
            return await use(client)

    return asyncio.run(used())


def refused(name: str) -> str:
    """Record of a job that was refused in its own name."""
    return json.dumps({"status": "FAILURE", "result": {"exc_type": "InvalidJob", "exc_message": [name]}})


def test_a_thousand_wait_at_once_and_each_gets_its_own(stack: Stack, store: redis.Redis) -> None:
    """Half of them are answered before they wait, half of them meanwhile."""
    names = [f"job-{number}" for number in range(1000)]
    of_earlier_tests = {connection["id"] for connection in store.client_list()}
    store.mset({f"celery-task-meta-{name}": refused(name) for name in names[::2]})

    def publish() -> None:
        wait_for(lambda: len(store.pubsub_channels("celery-task-meta-*")) == len(names) // 2)
        for name in names[1::2]:
            store.set(f"celery-task-meta-{name}", refused(name))
            store.publish(f"celery-task-meta-{name}", refused(name))

    async def use(client: AsyncClient) -> list[Any]:
        waiting = (client.result(name, timeout=180) for name in names)
        *found, _ = await asyncio.gather(*waiting, asyncio.to_thread(publish), return_exceptions=True)
        assert len({connection["id"] for connection in store.client_list()} - of_earlier_tests) < 40
        return found

    assert [str(one) for one in run(stack, use)] == names
    wait_for(lambda: store.pubsub_channels("celery-task-meta-*") == [])


def test_the_message_is_that_of_the_other_client(stack: Stack, broker: redis.Redis) -> None:
    """Headers and body; the id is the caller's own."""
    run(stack, lambda client: client.enqueue(JOB, task_id="id-1", expires=60))
    message = json.loads(broker.rpop("retrieval"))
    assert (message["headers"]["id"], message["headers"]["task"]) == ("id-1", "retrieve_top_k")
    assert message["headers"]["expires"]
    assert json.loads(message["body"])[0] == [{"query_embedding": [0.5]}]


def test_an_answer_whose_publication_is_lost_is_found(stack: Stack, store: redis.Redis) -> None:
    """It is stored, and nothing is published."""

    async def use(client: AsyncClient) -> None:
        waiting = asyncio.ensure_future(client.result("job", timeout=180))
        await asyncio.to_thread(wait_for, lambda: store.pubsub_channels("celery-task-meta-job") != [])
        store.set("celery-task-meta-job", refused("job"))
        with pytest.raises(InvalidJob):
            await waiting

    run(stack, use)


def test_two_wait_for_one_job(stack: Stack, store: redis.Redis) -> None:
    """The first to go leaves the other one subscribed."""

    async def use(client: AsyncClient) -> None:
        hasty, patient = (asyncio.ensure_future(client.result("job", timeout=seconds)) for seconds in (0.2, 180))
        with pytest.raises(TimedOut, match=r"no answer within 0\.2 s"):
            await hasty
        store.set("celery-task-meta-job", refused("job"))
        store.publish("celery-task-meta-job", refused("job"))
        with pytest.raises(InvalidJob):
            await patient

    run(stack, use)


def test_who_is_cancelled_leaves_nothing_behind(stack: Stack, store: redis.Redis) -> None:
    """As a request is whose browser has gone."""

    async def use(client: AsyncClient) -> None:
        waiting = [asyncio.ensure_future(client.result(f"job-{number}")) for number in range(20)]
        await asyncio.to_thread(wait_for, lambda: len(store.pubsub_channels("celery-task-meta-*")) == 20)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.to_thread(wait_for, lambda: store.pubsub_channels("celery-task-meta-*") == [])
        with pytest.raises(TimedOut):
            await client.result("another", timeout=0.1)

    run(stack, use)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks of Python 3.10 don't count their cancellations")
def test_who_is_cancelled_at_any_moment_ends(stack: Stack, store: redis.Redis) -> None:
    """Also as a message arrives: it must not take the place of the cancellation."""

    async def use(client: AsyncClient) -> None:
        for turns in range(300):
            waiting = [asyncio.ensure_future(client.result(f"job-{turns}-{number}")) for number in range(5)]
            for _ in range(turns % 100):
                await asyncio.sleep(0)
            for one in waiting:
                one.cancel()
            _, hanging = await asyncio.wait(waiting, timeout=30)
            assert not hanging
            assert all(one.cancelled() for one in waiting)
        await asyncio.to_thread(wait_for, lambda: store.pubsub_channels("celery-task-meta-*") == [])

    run(stack, use)


def test_a_lost_connection_is_made_again(stack: Stack, store: redis.Redis) -> None:
    """The subscription of who waits, too."""

    async def use(client: AsyncClient) -> None:
        waiting = asyncio.ensure_future(client.result("job", timeout=180))
        await asyncio.to_thread(wait_for, lambda: store.pubsub_channels("celery-task-meta-job") != [])
        store.client_kill_filter(_type="pubsub")
        await asyncio.to_thread(wait_for, lambda: store.pubsub_channels("celery-task-meta-job") != [])
        store.set("celery-task-meta-job", refused("job"))
        with pytest.raises(InvalidJob):
            await waiting

    run(stack, use)


@pytest.mark.parametrize("use", ["enqueue", "call", "result", "progress", "forget"])
def test_errors_are_those_of_the_other_client(stack: Stack, use: str) -> None:
    """A Redis that is away, a password that it refuses, and a client that is closed."""
    argument: Any = JOB if use in {"enqueue", "call"} else "job"

    async def used(urls: tuple[str, str], *, closed: bool = False) -> None:
        async with AsyncClient(*urls) as client:
            if closed:
                await client.close()
            await getattr(client, use)(argument)

    away = "redis://127.0.0.1:1/0"
    with pytest.raises(Unavailable, match=r"^result_backend .*: Redis is away"):
        asyncio.run(used((away, away)))
    with pytest.raises(RuntimeError, match="the client is closed"):
        asyncio.run(used((away, away), closed=True))
    if stack.redis.passwords:
        queues, results = stack.redis.urls("producer")
        with pytest.raises(SettingsError, match="Redis refuses this user or password"):
            asyncio.run(used((queues, results.replace("producer:", "producer:x"))))
