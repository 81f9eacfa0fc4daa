"""Both clients while connections are lost and the results' Redis restarts: no wrong answer, and no error but ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from tests.waiting import wait_for

from retrieval_client import AsyncClient, Client, RetrieveTopK
from retrieval_client.connection import LOOK_SECONDS
from retrieval_client.errors import InvalidJob, TimedOut, Unavailable
from worker.cli.devstack.processes import free_port
from worker.cli.devstack.redis import Redis, redis_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from worker.cli.devstack.stack import Stack

CALLS, LOSSES, RESTARTS = (
    int(os.environ.get(f"CLIENT_{name}", few)) for name, few in (("CALLS", 60), ("LOSSES", 8), ("RESTARTS", 2))
)
"""How many wait at once, and what happens meanwhile; in full: 1,000, 50 and 5."""


class Results:
    """A Redis of results that restarts at its port."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port, self._running = folder, free_port(), contextlib.ExitStack()

    def start(self) -> Redis:
        server = self._running.enter_context(redis_server(self._folder, port=self._port, users=False))
        self.url = server.url(1)
        return server

    def stop(self) -> None:
        self._running.close()


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Results]:
    """The results' Redis, which runs."""
    server = Results(tmp_path / "results")
    server.start()
    yield server
    server.stop()


def job(number: int) -> RetrieveTopK:
    return RetrieveTopK(query_embedding=[0.5], corpus=f"c{number}")


class Answers:
    """Workers' stand-in: it refuses each job in the name of its corpus, which no other job has."""

    def __init__(self, broker: redis.Redis, url: str) -> None:
        self.broker, self.url = broker, url
        self.store = redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.05), 100))

    def give(self, count: int) -> int:
        """Answer some of the jobs that wait."""
        taken: Any = self.broker.rpop("retrieval", count) or []
        for message in map(json.loads, taken):
            corpus = json.loads(message["body"])[0][0]["corpus"]
            place = f"celery-task-meta-{message['headers']['id']}"
            record = json.dumps({"status": "FAILURE", "result": {"exc_type": "InvalidJob", "exc_message": [corpus]}})
            self.store.set(place, record)
            self.store.publish(place, record)
        return len(taken)

    def give_all(self, ended: threading.Event) -> None:
        """Answer each job as it comes."""
        while not ended.is_set():
            if not self.give(1):
                time.sleep(0.001)


@pytest.fixture
def answers(broker: redis.Redis, results: Results) -> Iterator[Answers]:
    made = Answers(broker, results.url)
    yield made
    made.store.close()


@contextlib.contextmanager
def answering(answers: Answers) -> Iterator[None]:
    ended = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        giving = threads.submit(answers.give_all, ended)
        try:
            yield
        finally:
            ended.set()
        giving.result()


def storm(answers: Answers, results: Results) -> None:
    """Lose connections and restart the results' Redis, and answer some jobs after each."""
    for number in range(LOSSES):
        for kind in ("pubsub", "normal"):
            answers.store.client_kill_filter(_type=kind, skipme=True)
        if number % (LOSSES // RESTARTS) == 0:
            results.stop()
            results.start()
        answers.give(CALLS // (LOSSES + 1))
    wait_for(lambda: not answers.give(CALLS))


async def seconds_of(client: AsyncClient, count: int) -> list[float]:
    """How long calls take, one after another."""
    seconds = []
    for number in range(count):
        before = time.monotonic()
        with pytest.raises(InvalidJob, match=f"^c{number}$"):
            await client.call(job(number))
        seconds.append(time.monotonic() - before)
    return sorted(seconds)


def test_calls_wait_lost_connections_and_restarts_out(stack: Stack, answers: Answers, results: Results) -> None:
    """Each call of an `AsyncClient` gets its own answer, and the next ones get theirs as soon as before."""

    async def use() -> None:
        async with AsyncClient(stack.redis.url(0), results.url) as client:
            with answering(answers):
                before = await seconds_of(client, 20)
            waiting = [asyncio.ensure_future(client.call(job(number), timeout=180)) for number in range(CALLS)]
            await asyncio.to_thread(wait_for, lambda: answers.broker.llen("retrieval") == CALLS)
            await asyncio.to_thread(storm, answers, results)
            errors = await asyncio.gather(*waiting, return_exceptions=True)
            assert [(type(error), str(error)) for error in errors] == [(InvalidJob, f"c{n}") for n in range(CALLS)]
            with answering(answers):
                after = await seconds_of(client, 20)
            assert after[10] < LOOK_SECONDS / 2, (before, after)  # it is heard of, not looked for

    asyncio.run(use())


def test_an_idle_client_that_lost_its_connections_answers_the_next_call(stack: Stack, answers: Answers) -> None:
    """However often, and it closes."""

    async def use() -> None:
        async with AsyncClient(stack.redis.url(0), answers.url) as client:
            for number in range(20):
                with pytest.raises(InvalidJob, match=f"^c{number}$"):
                    await client.call(job(number))
                for kind in ("pubsub", "normal"):
                    await asyncio.to_thread(answers.store.client_kill_filter, _type=kind, skipme=True)

    with answering(answers):
        asyncio.run(use())


def test_threads_wait_an_outage_out(stack: Stack, answers: Answers, results: Results) -> None:
    """Of a second, in which their jobs wait; each call of a `Client` gets its own answer."""
    with Client(stack.redis.url(0), results.url) as client, ThreadPoolExecutor(CALLS) as threads:
        with answering(answers), pytest.raises(InvalidJob):
            client.call(job(0))
        waiting = [threads.submit(client.call, job(number), timeout=180) for number in range(CALLS)]
        wait_for(lambda: answers.broker.llen("retrieval") == CALLS)
        results.stop()
        time.sleep(1)  # longer than a command is retried
        results.start()
        wait_for(lambda: not answers.give(CALLS))
        assert [str(wait.exception()) for wait in waiting] == [f"c{number}" for number in range(CALLS)]


def test_a_wait_that_ends_in_an_outage_gives_the_id(stack: Stack, answers: Answers, results: Results) -> None:
    """Of both clients, in the sentence and as `task_id`: the answer may be read once Redis is back."""

    async def use() -> list[Unavailable]:
        async with AsyncClient(stack.redis.url(0), results.url) as client:
            with answering(answers), pytest.raises(InvalidJob):
                await client.call(job(0))
            waiting = [asyncio.ensure_future(client.call(job(number), timeout=2)) for number in range(50)]
            await asyncio.to_thread(wait_for, lambda: answers.broker.llen("retrieval") == 50)
            results.stop()
            errors = await asyncio.gather(*waiting, return_exceptions=True)
            (outcome,) = [outcome async for outcome in client.results(["known"], timeout=0.5)]
            assert (outcome.ended, type(outcome.error)) == (False, Unavailable)
            return errors  # type: ignore[return-value] # as asserted

    with Client(stack.redis.url(0), results.url) as client:
        with pytest.raises(TimedOut) as late:
            client.result("late", timeout=0.1)
        assert late.value.task_id == "late"
        errors = asyncio.run(use())
        for wait in (lambda: client.call(job(0), timeout=0.5), lambda: [*client.watch("known", timeout=0.5)]):
            with pytest.raises(Unavailable) as raised:
                wait()
            errors.append(raised.value)
        (outcome,) = client.results(["known"], timeout=0.5)
        assert (outcome.ended, type(outcome.error)) == (False, Unavailable)
    assert {type(error) for error in errors} == {Unavailable}
    for error in errors:
        assert error.task_id
        assert error.message.endswith(f"under the task id {error.task_id}")
