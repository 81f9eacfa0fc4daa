"""A job's outcome is stored first, and its message is acknowledged after that, in every way a job can end.

The results are on a Redis of their own, whose traffic is swallowed at the moment when the job ends. The paths are those
of docs/acknowledgement.md.
"""

from __future__ import annotations

import contextlib
import json
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import redis
from celery import Celery
from tests.waiting import wait_for, waiting_sessions

from chaos.proxy import Proxy, network, proxy
from retrieval_client import Client
from workbench.devstack.redis import redis_server
from workbench.devstack.workers import celery_worker
from worker.queue.broker import dead_letters, keys

from .bad_input_worker import message
from .held import count_held, is_clean
from .jobs import JOB, pool_process

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]


@dataclass
class Place:
    """A worker's surroundings.

    Attributes:
        broker: the Redis of its queue.
        broker_url: the same, for the administrator.
        results: the Redis of its results, as clients reach it.
        link: the worker's way to its results.
        client: of both.
        environment: the worker's.
        log: what it writes.
        admin: a superuser's connection to its database.
    """

    broker: redis.Redis
    broker_url: str
    results: redis.Redis
    link: Proxy
    client: Client
    environment: dict[str, str]
    log: Path
    admin: psycopg.Connection[Any]

    def said(self, words: str) -> int:
        """How often the worker's log holds these words."""
        return self.log.read_text(errors="replace").count(words)

    def record(self, task_id: str) -> dict[str, Any] | None:
        """Return the stored record of a job."""
        stored = self.results.get(f"celery-task-meta-{task_id}")
        return None if stored is None else json.loads(stored)

    def waits(self) -> int:
        """How many of the worker's sessions wait for a lock."""
        return waiting_sessions(self.admin)

    @contextlib.contextmanager
    def worker(self, *options: str, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker with one process."""
        settings = {f"RETRIEVAL_WORKER_{name}": value for name, value in changes.items()}
        with celery_worker({**self.environment, **settings}, self.log, "--concurrency=1", *options) as worker:
            yield worker

    def expect_one_outcome(self, task_id: str, kind: str, said_before: int = 0) -> None:
        """The outcome is not there, and the message is; once results are stored again, it is the other way round."""
        wait_for(lambda: self.said("outcomes not stored yet") > said_before)
        assert self.record(task_id) is None
        assert count_held(self.broker) == 1
        self.link.blackhole(False)
        wait_for(lambda: self.record(task_id) is not None)
        record = self.record(task_id)
        assert record is not None
        assert kind in {record["status"], (record["result"] or {}).get("exc_type")}
        wait_for(lambda: is_clean(self.broker))


@pytest.fixture
def place(
    stack: Stack,
    broker: redis.Redis,
    admin: psycopg.Connection[Any],
    worker_environment: Environment,
    worker_log: Path,
) -> Iterator[Place]:
    """Results on a Redis of their own, behind a link that can be cut."""
    with (
        redis_server(worker_log.parent / "results") as kept,
        network() as loop,
        proxy(loop, kept.port) as link,
        redis.Redis.from_url(kept.url()) as results,
    ):
        client = Client(stack.redis.url(0), kept.url())
        environment = {
            **worker_environment(SEARCH__STATEMENT_TIMEOUT_SECONDS="50", WORKER__REMOTE_CONTROL='["revoke"]'),
            "CELERY_RESULT_BACKEND": kept.url(user="worker", port=link.port),
        }
        yield Place(broker, stack.redis.url(0), results, link, client, environment, worker_log, admin)
        link.blackhole(False)
        client.close()


def test_a_job_over_its_hard_time_limit_is_answered_when_results_can_be_stored(
    place: Place, locked: psycopg.Connection[Any]
) -> None:
    """Its process hangs and is ended, `TimedOut` can't be stored: the main process does so later, then acknowledges."""
    with place.worker(WORKER__SOFT_TIME_LIMIT_SECONDS="7", WORKER__TIME_LIMIT_SECONDS="8") as worker:
        task_id = place.client.enqueue(JOB)
        wait_for(lambda: place.waits() == 1)
        place.link.blackhole(True)
        pool_process(worker).suspend()  # else it ends the job itself, at the soft time limit
        wait_for(lambda: place.said("hard time limit"))
        locked.rollback()
        place.expect_one_outcome(task_id, "TimedOut")
        assert place.said("job done") == 0


@pytest.mark.usefixtures("locked")
def test_a_job_over_its_soft_time_limit_is_answered_when_results_can_be_stored(place: Place) -> None:
    """A process that can't store an outcome gives the job back, as often as it takes; it ends as one `TimedOut`."""
    with place.worker(WORKER__SOFT_TIME_LIMIT_SECONDS="2", WORKER__TIME_LIMIT_SECONDS="200"):
        task_id = place.client.enqueue(JOB)
        wait_for(lambda: place.waits() == 1)
        place.link.blackhole(True)
        wait_for(lambda: place.said("outcomes not stored yet") > 0)
        assert place.record(task_id) is None
        wait_for(lambda: place.broker.llen("retrieval") + count_held(place.broker) == 1)  # it goes to and fro
        place.link.blackhole(False)
        wait_for(lambda: (place.record(task_id) or {}).get("status") == "FAILURE")
        wait_for(lambda: count_held(place.broker) == 0)
    record = place.record(task_id)
    assert record is not None
    assert record["result"]["exc_type"] == "TimedOut"


def test_a_revoked_job_is_told_when_results_can_be_stored(place: Place, locked: psycopg.Connection[Any]) -> None:
    """Revoked while it waits in the worker: it is not run, and not acknowledged before its record says so."""
    with place.worker(), Celery(broker=place.broker_url) as app:
        first = place.client.enqueue(JOB)
        wait_for(lambda: place.waits() == 1)
        task_id = place.client.enqueue(JOB)
        wait_for(lambda: count_held(place.broker) == 1)
        assert app.control.revoke(task_id, reply=True, timeout=180, limit=1)
        locked.rollback()
        wait_for(lambda: (place.record(first) or {}).get("status") == "SUCCESS")
        wait_for(lambda: count_held(place.broker) == 0)
        record = place.record(task_id)
    assert record is not None
    assert record["status"] == "REVOKED"
    assert place.said("job done") == 1, "only the first was run"


def test_a_job_that_was_revoked_before_it_came_is_told_when_results_can_be_stored(place: Place) -> None:
    """It is not run, and not acknowledged before its record says so."""
    with place.worker(), Celery(broker=place.broker_url) as app:
        assert app.control.revoke("a-revoked-job", reply=True, timeout=180, limit=1)
        place.link.blackhole(True)
        said_before = place.said("outcomes not stored yet")
        task_id = place.client.enqueue(JOB, task_id="a-revoked-job")
        place.expect_one_outcome(task_id, "REVOKED", said_before)
        assert place.record(task_id)["result"] == {  # type: ignore[index] # it is there
            "exc_type": "DeadLettered",
            "exc_message": ["the job was revoked"],
            "exc_module": "worker.errors",
        }


def test_a_job_whose_process_is_ended_by_request_is_told_when_results_can_be_stored(
    place: Place, locked: psycopg.Connection[Any]
) -> None:
    """`revoke --terminate`: stored once the process is gone, acknowledged once that is stored."""
    with place.worker() as worker, Celery(broker=place.broker_url) as app:
        task_id = place.client.enqueue(JOB)
        wait_for(lambda: place.waits() == 1)
        process = pool_process(worker)
        place.link.blackhole(True)
        app.control.revoke(task_id, terminate=True, signal="SIGKILL", reply=True, timeout=180, limit=1)
        wait_for(lambda: not process.is_running())
        locked.rollback()
        place.expect_one_outcome(task_id, "REVOKED")


def test_a_job_that_expires_in_the_worker_is_told_when_results_can_be_stored(
    place: Place, locked: psycopg.Connection[Any]
) -> None:
    """It waited for a process for too long: a dead letter, but not before its record says so."""
    with place.worker():
        first = place.client.enqueue(JOB)
        wait_for(lambda: place.waits() == 1)
        task_id = place.client.enqueue(JOB, expires=2)
        wait_for(lambda: count_held(place.broker) == 1)
        time.sleep(2)  # it expires by the clock
        locked.rollback()
        wait_for(lambda: (place.record(first) or {}).get("status") == "SUCCESS")
        wait_for(lambda: (place.record(task_id) or {}).get("status") == "FAILURE")
        wait_for(lambda: count_held(place.broker) == 0)
    (letter,) = dead_letters.every(place.broker, "retrieval")
    assert (letter.reason, letter.task_id) == ("expired", task_id)


def test_a_job_that_is_refused_is_told_when_results_can_be_stored(place: Place) -> None:
    """A message that is no job stays in its queue until its failure can be stored; the worker goes on meanwhile."""
    with place.worker(), Celery(broker=place.broker_url) as app:
        place.link.blackhole(True)
        place.broker.lpush("retrieval", message("a-refused-job", b"[[{}], {}, {}]", {"task": "no_such_task"}))
        wait_for(lambda: place.said("outcomes not stored yet") > 0)
        assert app.control.ping(timeout=180, limit=1)
        assert place.record("a-refused-job") is None
        assert place.broker.xlen(keys.dead("retrieval")) == 0
        place.link.blackhole(False)
        wait_for(lambda: place.broker.xlen(keys.dead("retrieval")) == 1)
    record = place.record("a-refused-job")
    assert record is not None
    assert record["result"]["exc_type"] == "DeadLettered"


def test_a_job_whose_process_is_lost_is_not_acknowledged(place: Place, locked: psycopg.Connection[Any]) -> None:
    """It is requeued, whether results can be stored or not, and is answered."""
    with place.worker() as worker:
        task_id = place.client.enqueue(JOB)
        wait_for(lambda: place.waits() == 1)
        place.link.blackhole(True)
        pool_process(worker).kill()
        wait_for(lambda: place.said("process lost") == 1)
        assert place.record(task_id) is None
        place.link.blackhole(False)
        locked.rollback()
        wait_for(lambda: (place.record(task_id) or {}).get("status") == "SUCCESS")
        wait_for(lambda: count_held(place.broker) == 0)
    assert place.said("job done") == 1, "the run of the lost process is not counted as one"


def test_a_soft_time_limit_outside_the_job_makes_no_second_outcome(place: Place) -> None:
    """It comes while the process says that the job will be tried again: the job is tried again, and that is all."""
    name = place.admin.info.dbname
    with (
        place.worker() as worker,
        place.results.pubsub(ignore_subscribe_messages=True) as heard,
    ):
        heard.psubscribe("celery-task-meta-*")
        heard.get_message(timeout=180)  # that this is heard from now on
        place.admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
        place.admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
        place.link.blackhole(True)
        process = pool_process(worker)
        task_id = place.client.enqueue(JOB)
        wait_for(lambda: place.said("job delayed") == 1)
        process.send_signal(signal.SIGALRM)  # as the timer does
        wait_for(lambda: place.said("state not stored") + place.said("outcomes not stored yet") > 0)
        place.link.blackhole(False)
        place.admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
        wait_for(lambda: (place.record(task_id) or {}).get("status") == "SUCCESS")
        states = []
        while (reported := heard.get_message(timeout=1)) is not None:
            states.append(json.loads(reported["data"])["status"])
    assert {*states} <= {"RETRY", "SUCCESS"}
    assert states.count("SUCCESS") == 1
