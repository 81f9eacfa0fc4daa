"""Containers killed and started again while jobs run: every job is answered, and as in quiet times."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis
from celery import Celery

from worker.client import Client, RetrieveTopK, TopK, encode_embedding
from worker.core.text import lexical
from worker.queue.transport import keys

from .site import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .site import Site

JOBS = 40
JOB = RetrieveTopK(
    query_embedding=encode_embedding(lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()),
    principal={"user_id": "bob"},
)


@pytest.fixture
def client(site: Site) -> Iterator[Client]:
    """A backend on this machine."""
    made = Client(site.redis_url(0, "producer"), site.redis_url(1, "producer"))
    yield made
    made.close()


@contextlib.contextmanager
def jobs_running(site: Site, client: Client, *, workers: int) -> Iterator[list[str]]:
    """More jobs than there are processes: every worker runs at least one, and none ends before this does."""
    with psycopg.connect(site.dsn()) as connection:
        connection.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        sent = [client.enqueue(JOB) for _ in range(JOBS)]
        wait_for(lambda: len(searching(site)) == workers)
        yield sent
        with contextlib.suppress(psycopg.OperationalError):  # Postgres was killed, and the lock with it
            connection.rollback()


def answering(site: Site) -> int:
    """How many workers answer a ping; the check of their health asks the same, at a new process of Python each."""
    app = Celery(set_as_current=False)
    # As an argument it would yield to the environment, which may name another Redis.
    app.conf.update(broker_read_url=site.redis_url(0), broker_write_url=site.redis_url(0))
    try:
        return len(app.control.ping(timeout=2, limit=3))
    finally:
        app.close()


def searching(site: Site) -> set[str]:
    """Addresses of the workers that have a search waiting for a lock."""
    with psycopg.connect(site.dsn()) as admin:
        rows = admin.execute(
            "SELECT DISTINCT host(client_addr) FROM pg_stat_activity"
            " WHERE usename = 'retrieval_worker' AND wait_event_type = 'Lock'"
        ).fetchall()
    return {row[0] for row in rows}


def assert_answered(site: Site, client: Client, sent: list[str]) -> None:
    """Every job has the answer that it has in quiet times, and nothing is left of it in Redis."""
    answers = [client.result(task_id, timeout=150) for task_id in sent]
    quiet = client.call(JOB, timeout=180)
    assert isinstance(quiet, TopK)
    assert quiet.status == "ok"
    assert [answer.chunks for answer in answers if isinstance(answer, TopK)] == [quiet.chunks] * JOBS
    with redis.Redis.from_url(site.redis_url(0)) as broker:
        wait_for(lambda: not broker.exists("retrieval", keys.UNACKED, keys.dead("retrieval")))


def test_killed_worker(site: Site, client: Client) -> None:
    """Three workers share the queue; one is killed with its jobs, and the others answer them."""
    site.compose("up", "--detach", "--no-deps", "--scale", "worker=3", "worker")
    wait_for(lambda: answering(site) == 3)
    with jobs_running(site, client, workers=3) as sent:
        site.kill(site.containers("worker")[-1])
    assert_answered(site, client, sent)
    site.compose("up", "--detach", "--no-deps", "--scale", "worker=1", "worker")


def test_killed_redis(site: Site, client: Client) -> None:
    """A job counts as sent once Redis has acknowledged it: it is there after a kill, running or waiting."""
    (container,) = site.containers("redis")
    with jobs_running(site, client, workers=1) as sent:
        site.kill(container)
    site.compose("start", "redis")
    site.wait_until_healthy("redis")
    assert_answered(site, client, sent)


def test_killed_postgres(site: Site, client: Client) -> None:
    """Jobs that run and jobs that come while Postgres is away wait until it is back."""
    (container,) = site.containers("postgres")
    with jobs_running(site, client, workers=1) as sent:
        site.kill(container)
    site.compose("start", "postgres")
    site.wait_until_healthy("postgres")
    assert_answered(site, client, sent)


def test_stopped_worker(site: Site, client: Client) -> None:
    """`docker compose stop` lets the running job finish, within its grace period; the rest waits for the next start."""
    (container,) = site.containers("worker")
    with jobs_running(site, client, workers=1) as sent:
        stopping = site.start_compose("stop", "worker")
        wait_for(lambda: "Warm shutdown" in site.compose("logs", "worker"))
    assert stopping.wait(120) == 0
    assert site.state(container)["ExitCode"] == 0
    with redis.Redis.from_url(site.redis_url(0)) as broker:
        assert broker.llen("retrieval")
    site.compose("start", "worker")
    assert_answered(site, client, sent)


def test_taken_down_and_up(site: Site, client: Client) -> None:
    """Jobs, corpora and roles are in volumes: `down` and `up` make other containers, which answer what was waiting."""
    site.compose("stop", "worker")
    sent = [client.enqueue(JOB) for _ in range(JOBS)]
    before = {*site.containers("redis"), *site.containers("postgres")}
    site.compose("down")
    site.compose("up", "--detach")
    site.wait_until_healthy("redis", "postgres")
    assert not before & {*site.containers("redis"), *site.containers("postgres")}
    assert_answered(site, client, sent)
