"""The client for asyncio against a real Redis: many wait at once, over a few connections, and may be cancelled."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.clients import refusal, refuse
from tests.waiting import wait_for

from retrieval_client import AsyncClient
from retrieval_client.errors import TimedOut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import redis

    from workbench.devstack.stack import Stack


def run(stack: Stack, use: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    """Use a client in an event loop of its own."""

    async def used() -> Any:
        async with AsyncClient(stack.redis.url(0), stack.redis.url(1)) as client:
            return await use(client)

    return asyncio.run(used())


def test_a_thousand_wait_at_once_and_each_gets_its_own(stack: Stack, store: redis.Redis) -> None:
    """Half of them are answered before they wait, half of them meanwhile."""
    names = [f"job-{number}" for number in range(1000)]
    of_earlier_tests = {connection["id"] for connection in store.client_list()}
    store.mset({f"celery-task-meta-{name}": refusal(name) for name in names[::2]})

    def publish() -> None:
        wait_for(lambda: len(store.pubsub_channels("celery-task-meta-*")) == len(names) // 2)
        for name in names[1::2]:
            refuse(store, name)

    async def use(client: AsyncClient) -> list[Any]:
        waiting = (client.result(name, timeout=180) for name in names)
        *found, _ = await asyncio.gather(*waiting, asyncio.to_thread(publish), return_exceptions=True)
        assert len({connection["id"] for connection in store.client_list()} - of_earlier_tests) < 40
        return found

    assert [str(one) for one in run(stack, use)] == names
    wait_for(lambda: store.pubsub_channels("celery-task-meta-*") == [])


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
