"""Both clients while connections are lost and the results' Redis restarts: no wrong answer, and no error but ours."""

from __future__ import annotations

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
from tests.clients import refuse
from tests.waiting import wait_for

from retrieval_client import Client, RetrieveTopK
from retrieval_client.connection import LOOK_SECONDS
from retrieval_client.errors import InvalidJob, TimedOut, Unavailable
from workbench.devstack.processes import free_port
from workbench.devstack.redis import Redis, redis_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from workbench.devstack.stack import Stack

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
            refuse(self.store, message["headers"]["id"], corpus)
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


@pytest.fixture
def client(connect: Callable[..., Any], stack: Stack, results: Results) -> Client:
    """A client, of either kind."""
    return connect(stack.redis.url(0), results.url)


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


@contextlib.contextmanager
def calling(client: Client, answers: Answers, timeout: float = 180) -> Iterator[list[Future[Any]]]:
    """Call many jobs at once, by a client that has been answered before; end when they have."""
    with answering(answers):
        seconds_of(client, 1)
    with ThreadPoolExecutor(CALLS) as threads:
        calls = [threads.submit(client.call, job(number), timeout=timeout) for number in range(CALLS)]
        wait_for(lambda: answers.broker.llen("retrieval") == CALLS)
        yield calls


def seconds_of(client: Client, count: int) -> list[float]:
    """How long calls take, one after another."""
    seconds = []
    for number in range(count):
        before = time.monotonic()
        with pytest.raises(InvalidJob, match=f"^c{number}$"):
            client.call(job(number))
        seconds.append(time.monotonic() - before)
    return sorted(seconds)


def test_calls_wait_lost_connections_and_restarts_out(client: Client, answers: Answers, results: Results) -> None:
    """Each call gets its own answer, and the next ones get theirs as soon as before."""
    with calling(client, answers) as calls:
        storm(answers, results)
        errors = [call.exception() for call in calls]
    assert [(type(error), str(error)) for error in errors] == [(InvalidJob, f"c{number}") for number in range(CALLS)]
    with answering(answers):
        seconds = seconds_of(client, 20)
    assert seconds[10] < LOOK_SECONDS / 2, seconds  # it is heard of, not looked for


def test_an_idle_client_that_lost_its_connections_answers_the_next_call(client: Client, answers: Answers) -> None:
    """However often, and it closes."""
    with answering(answers):
        for number in range(20):
            with pytest.raises(InvalidJob, match=f"^c{number}$"):
                client.call(job(number))
            for kind in ("pubsub", "normal"):
                answers.store.client_kill_filter(_type=kind, skipme=True)


def test_calls_wait_an_outage_out(client: Client, answers: Answers, results: Results) -> None:
    """Of a second, in which their jobs wait; each call gets its own answer."""
    with calling(client, answers) as calls:
        results.stop()
        time.sleep(1)  # longer than a command is retried
        results.start()
        wait_for(lambda: not answers.give(CALLS))
        assert [str(call.exception()) for call in calls] == [f"c{number}" for number in range(CALLS)]


def test_a_wait_that_ends_in_an_outage_gives_the_id(client: Client, answers: Answers, results: Results) -> None:
    """In the sentence and as `task_id`: the answer may be read once Redis is back."""
    with pytest.raises(TimedOut) as late:
        client.result("late", timeout=0.1)
    assert late.value.task_id == "late"
    with calling(client, answers, timeout=6) as calls:  # longer than it takes to begin them and to stop Redis
        results.stop()
        errors = [call.exception() for call in calls]
    with pytest.raises(Unavailable) as raised:
        [*client.watch("known", timeout=0.5)]
    (outcome,) = client.results(["known"], timeout=0.5)
    assert not outcome.ended
    for error in [*errors, raised.value, outcome.error]:
        assert isinstance(error, Unavailable)
        assert error.task_id
        assert error.message.endswith(f"under the task id {error.task_id}")
