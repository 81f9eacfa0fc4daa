"""A Redis without room: jobs pile up until it refuses more, and workers empty it again by themselves."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
import redis
from tests.refusals import refusals
from tests.waiting import wait_for

from chaos.proxy import Proxy, network, proxy
from retrieval_client import Client
from retrieval_client.errors import Unavailable
from workbench.devstack.processes import free_port, running
from workbench.devstack.redis import Redis, redis_server
from workbench.devstack.workers import celery_worker, worker_program
from worker.queue.broker import keys

from .held import is_clean
from .jobs import JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]

ROOM = 1_048_576
"""Bytes for jobs: some hundred of them fill it."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Redis]:
    """Redis for the queues as it is shipped; a test takes its memory away."""
    # So little is left of it that the workers' own connections would be among the greedy ones.
    with redis_server(tmp_path / "redis", settings={"maxmemory-clients": "0"}) as server:
        yield server


@pytest.fixture(params=["results beside the jobs", "results elsewhere"])
def results(request: pytest.FixtureRequest, small: Redis, stack: Stack) -> Redis:
    """Server of the results."""
    return small if request.param == "results beside the jobs" else stack.redis


@pytest.fixture
def link(stack: Stack) -> Iterator[Proxy]:
    """The workers' way to Postgres."""
    with network() as loop, proxy(loop, str(stack.postgres.socket_dir / ".s.PGSQL.5432")) as way:
        yield way


def send_until_refused(client: Client) -> list[str]:
    """Send jobs until Redis refuses one; return the ids of those that it has taken."""
    ids: list[str] = []
    while True:
        try:
            ids.append(client.enqueue(JOB))
        except Unavailable:
            return ids


def states(results: Redis, ids: list[str]) -> list[str]:
    """States of the jobs that have a record."""
    with redis.Redis.from_url(results.url(1)) as admin:
        records = admin.mget([f"celery-task-meta-{task_id}" for task_id in ids])
    return [json.loads(record)["status"] for record in records if record]


def test_a_full_redis_is_emptied_by_its_workers(
    small: Redis, results: Redis, link: Proxy, worker_environment: Environment, tmp_path: Path
) -> None:
    """Postgres is away until Redis refuses jobs: all that it took are answered, also by a worker that starts then.

    It asks no other worker anything (Celery's mingle), for whose answers Redis would refuse the queue.
    """
    environment = worker_environment() | {
        "CELERY_BROKER_URL": small.url(0, "worker"),
        "CELERY_RESULT_BACKEND": results.url(1, "worker"),
    }
    database = environment["DATABASE_CONNECTION_STRING"].partition("?")[0].rpartition("/")[2]
    environment["DATABASE_CONNECTION_STRING"] = f"postgresql://retrieval_worker@127.0.0.1:{link.port}/{database}"
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    second = dataclasses.replace(worker_program(environment, logs[1], "--concurrency=1"), ready=lambda: True)
    client = Client(small.url(0, "producer"), results.url(1, "producer"))
    upstream, link.upstream = link.upstream, free_port()
    with redis.Redis.from_url(small.url()) as admin, celery_worker(environment, logs[0], "--concurrency=1"):
        admin.config_set("maxmemory", admin.info("memory")["used_memory"] + ROOM)
        ids = send_until_refused(client)
        with running(second):
            link.upstream = upstream
            wait_for(lambda: states(results, ids).count("SUCCESS") == len(ids), lambda: str(states(results, ids)))
            wait_for(lambda: is_clean(admin, keys.delayed("retrieval")))
    client.close()
    assert len(ids) > 100
    assert refusals(small) == []
    for log in logs:
        assert "onnection to broker lost" not in log.read_text()
