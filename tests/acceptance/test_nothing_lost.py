"""Real workers on the reliable transport: killed under load, fed with rubbish, given jobs that kill."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import redis
from celery import Celery
from tests.waiting import wait_for

from retrieval_client import Client
from workbench.devstack.redis import redis_server
from workbench.devstack.workers import celery_worker
from worker.queue.broker import dead_letters, keys

from .bad_input_worker import message
from .held import count_held, holders, is_clean
from .jobs import JOB, kill_whole, searches_held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from workbench.devstack.stack import Stack

    from .jobs import Start

    Environment = Callable[..., dict[str, str]]

SEED = 20_261_121


@pytest.fixture
def results(stack: Stack) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(stack.redis.url(1)) as connection:
        yield connection


def answered(results: redis.Redis, ids: list[str]) -> list[str]:
    """Statuses of those that ended."""
    records = results.mget([f"celery-task-meta-{task_id}" for task_id in ids])
    statuses = [json.loads(record)["status"] for record in records if record]
    return [status for status in statuses if status in {"SUCCESS", "FAILURE"}]


def test_workers_killed_under_load_lose_nothing(
    client: Client, broker: redis.Redis, results: redis.Redis, worker_environment: Environment, tmp_path: Path
) -> None:
    """Kill -9 of whole workers at random moments: every job is answered once, and Redis holds nothing more of them."""
    chance = random.Random(SEED)
    environment = worker_environment()
    ids: list[str] = []
    over = threading.Event()

    def load() -> None:
        while not over.wait(0.02):
            ids.append(client.enqueue(JOB))

    sender = threading.Thread(target=load)
    sender.start()
    try:
        for number in range(6):
            log = tmp_path / f"worker-{number}.log"
            with celery_worker(environment, log, "--concurrency=2") as worker:
                seen = len(answered(results, ids))
                wait_for(lambda seen=seen: len(answered(results, ids)) > seen)
                time.sleep(chance.uniform(0, 0.3))  # the moment is the point
                worker.send_signal(signal.SIGKILL)
                worker.wait(180)
    finally:
        over.set()
        sender.join()
    with celery_worker(environment, tmp_path / "last.log", "--concurrency=2"):
        wait_for(lambda: len(answered(results, ids)) == len(ids))
        # At one instant: on its way back from a dead worker, a message is in the one place, then in the other.
        wait_for(lambda: is_clean(broker))
    assert {*answered(results, ids)} == {"SUCCESS"}
    assert broker.llen("retrieval") == 0
    assert broker.keys("*.inflight.*") == []
    assert not broker.exists(keys.deliveries("retrieval"), keys.dead("retrieval"))


def test_a_killed_worker_s_jobs_are_answered_by_another_soon(
    client: Client,
    broker: redis.Redis,
    results: redis.Redis,
    admin: psycopg.Connection[Any],
    worker_environment: Environment,
    tmp_path: Path,
) -> None:
    """Kill -9 of one of two workers that hold jobs: no job waits for the visibility timeout, which is 600 s."""
    environment = worker_environment()
    with (
        celery_worker(environment, tmp_path / "killed.log", "--concurrency=2") as killed,
        celery_worker(environment, tmp_path / "other.log", "--concurrency=2"),
    ):
        main = psutil.Process(killed.pid)
        with admin.transaction():
            admin.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
            ids = [client.enqueue(JOB) for _ in range(12)]
            of_killed = [f"-{process.pid}-" for process in (main, *main.children())]
            wait_for(lambda: {any(name in place for name in of_killed) for place in holders(broker)} == {True, False})
            kill_whole(killed)
        wait_for(lambda: len(answered(results, ids)) == len(ids))
        # At one instant: on its way back from a dead worker, a message is in the one place, then in the other.
        wait_for(lambda: is_clean(broker))
    assert {*answered(results, ids)} == {"SUCCESS"}


def rubbish(chance: random.Random, number: int) -> bytes:
    """An entry that is no job, of one of many kinds."""
    good = message(f"rubbish-{number}", b"[[{}], {}, {}]").encode()
    whole: dict[str, Any] = json.loads(good)
    part = chance.choice([*whole])
    odd: Any = chance.choice([None, 5, "canary", [1], {"canary": 1}, [[]], True, 1e308, "\ud800"])

    def headed(**headers: Any) -> bytes:
        return json.dumps({**whole, "headers": {**whole["headers"], **headers}}).encode()

    return chance.choice(
        [
            lambda: chance.randbytes(chance.randrange(200)),
            lambda: good[: chance.randrange(1, len(good) - 1)],
            lambda: b"[" * chance.randrange(1, 50_000),
            lambda: json.dumps(odd).encode(),
            lambda: json.dumps({**whole, "headers": odd}).encode(),
            lambda: json.dumps(
                {**whole, "headers": {**whole["headers"], "id": chance.choice([None, 5, [], {}])}}
            ).encode(),
            lambda: json.dumps({**whole, "headers": {**whole["headers"], "task": odd}}).encode(),
            lambda: json.dumps({**whole, "headers": {**whole["headers"], "expires": "canary"}}).encode(),
            lambda: json.dumps({**whole, "headers": {**whole["headers"], "eta": [odd]}}).encode(),
            lambda: json.dumps({**whole, "content-type": odd}).encode(),
            lambda: json.dumps({**whole, "body": [odd]}).encode(),
            lambda: json.dumps({**whole, "body": "a?", "properties": {"body_encoding": "base64"}}).encode(),
            lambda: (
                json.dumps({name: value for name, value in whole.items() if name != part}).encode()
                if part in {"body", "headers", "content-type"}
                else b"null"
            ),
        ]
    )()


def test_a_thousand_malformed_entries_end_as_dead_letters(
    client: Client, broker: redis.Redis, results: redis.Redis, start: Start, worker_log: Path
) -> None:
    """With its reason, and a failure stored where an id can be read; the worker lives, and answers between them."""
    chance = random.Random(SEED)
    entries = [rubbish(chance, number) for number in range(1000)]
    with start("--concurrency=2") as worker:
        good = []
        for first in range(0, 1000, 100):
            broker.lpush("retrieval", *entries[first : first + 100])
            good.append(client.enqueue(JOB))
        assert {client.result(task_id, timeout=180).status for task_id in good} == {"ok"}  # type: ignore[union-attr] # one
        wait_for(lambda: broker.xlen("retrieval.dead") == 1000)
        assert worker.poll() is None
        assert broker.llen("retrieval") == 0
        wait_for(lambda: count_held(broker) == 0)
    letters = [*dead_letters.every(broker, "retrieval")]
    assert {letter.reason for letter in letters} == {"malformed", "unknown_task"}
    reported = {letter.task_id: letter for letter in letters if letter.task_id}
    assert len(reported) > 100
    for task_id, letter in reported.items():
        record = json.loads(results.get(f"celery-task-meta-{task_id}"))
        assert (record["status"], record["result"]["exc_type"]) == ("FAILURE", letter.error)
        assert record["result"]["exc_message"] == [letter.message]
    assert "canary" not in worker_log.read_text(errors="replace")


def test_a_job_that_kills_its_worker_is_given_up(
    client: Client, broker: redis.Redis, results: redis.Redis, worker_environment: Environment, tmp_path: Path
) -> None:
    """The whole worker dies each time it takes it: after `max_deliveries` it is dead-lettered."""
    environment = worker_environment(WORKER__MAX_DELIVERIES="2")
    poison = str(uuid.uuid4())
    for number in range(2):
        log = tmp_path / f"{number}.log"
        with searches_held(environment), celery_worker(environment, log, "--concurrency=1") as worker:
            if number == 0:
                client.enqueue(JOB, task_id=poison)
            # Where processes claim, what a dead worker held is counted once it is found dead.
            deaths = number
            counts = [b"%d" % deaths] if deaths else []
            wait_for(
                lambda counts=counts: broker.hvals(keys.deliveries("retrieval")) == counts and count_held(broker) == 1
            )
            kill_whole(worker)
    with celery_worker(environment, tmp_path / "last.log", "--concurrency=1"):
        wait_for(lambda: answered(results, [poison]) != [])
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
    (letter,) = dead_letters.every(broker, "retrieval")
    assert (letter.reason, letter.task_id, letter.deliveries, letter.kept) == ("max_deliveries", poison, 2, "whole")
    record = json.loads(results.get(f"celery-task-meta-{poison}"))
    assert record["result"]["exc_type"] == "DeadLettered"


def test_retries_that_are_used_up_leave_a_dead_letter(
    client: Client, broker: redis.Redis, results: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """The sender has its `Unavailable`; an operator can send the job again once Postgres is back."""
    environment = worker_environment(WORKER__MAX_OUTAGE_SECONDS="0.1")
    away = {**environment, "DATABASE_CONNECTION_STRING": "postgresql://retrieval_worker@127.0.0.1:1/none"}
    with celery_worker(away, worker_log, "--concurrency=1"):
        task_id = client.enqueue(JOB)
        wait_for(lambda: broker.xlen("retrieval.dead") == 1)
    (letter,) = dead_letters.every(broker, "retrieval")
    assert (letter.reason, letter.error, letter.task_id, letter.kept) == (
        *("retries_exhausted", "Unavailable", task_id, "whole"),
    )
    assert json.loads(results.get(f"celery-task-meta-{task_id}"))["result"]["exc_type"] == "Unavailable"
    assert dead_letters.retry(broker, "retrieval", letter.entry)
    with celery_worker(environment, worker_log, "--concurrency=1"):
        wait_for(lambda: answered(results, [task_id]) == ["SUCCESS"])


def test_a_job_whose_result_can_not_be_stored_goes_back(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """A result Redis that is full: the job is not acknowledged, and is answered once there is room."""
    with redis_server(worker_log.parent / "results") as kept:
        environment = {**worker_environment(), "CELERY_RESULT_BACKEND": kept.url(0, "worker")}
        sender = Client(stack.redis.url(0, "producer"), kept.url(0, "producer"))
        with (
            celery_worker(environment, worker_log, "--concurrency=1"),
            redis.Redis.from_url(kept.url()) as full,
        ):
            full.config_set("maxmemory", "1")
            task_id = sender.enqueue(JOB)
            # None of these tries counts as a delivery: an outage does not use them up.
            wait_for(lambda: worker_log.read_text().count("outcomes not stored yet") > 0)
            wait_for(lambda: broker.llen("retrieval") + count_held(broker) == 1)  # it goes to and fro
            assert {*broker.hvals(keys.deliveries("retrieval"))} <= {b"1"}
            full.config_set("maxmemory", "0")
            assert sender.result(task_id, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        sender.close()


def test_celery_s_own_clients_work_as_ever(stack: Stack, client: Client, start: Start) -> None:
    """`inspect`, `ping`, revoke and events of a stock Celery app, beside a worker on this transport."""
    app = Celery(broker=stack.redis.url(0), backend=stack.redis.url(1), set_as_current=False)
    with start("--concurrency=1"), contextlib.closing(app):
        seen: list[str] = []
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": lambda event: seen.append(event["type"])})
            thread = threading.Thread(target=receiver.capture, kwargs={"limit": None, "timeout": 30, "wakeup": True})
            thread.start()
            wait_for(lambda: "worker-heartbeat" in seen)
            later = app.send_task(
                "retrieve_top_k", [JOB.model_dump(mode="json", exclude_unset=True)], queue="retrieval", countdown=1
            )
            inspect = app.control.inspect(timeout=5)
            assert [len(queues) for queues in inspect.active_queues().values()] == [2]
            assert next(iter(inspect.stats().values()))["broker"]["transport"] == "redis"
            assert later.get(timeout=180)["status"] == "ok"
            assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
            wait_for(lambda: seen.count("task-succeeded") == 2)
            receiver.should_stop = True
            thread.join()
