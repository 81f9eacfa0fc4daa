"""Links that die without a word, and servers that refuse for a while: the same worker is back at work after it.

The bounds are generous against a slow machine, and shorter than what the same fault takes without our settings.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import psycopg
import redis
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Client
from workbench.devstack.redis import redis_server
from workbench.devstack.workers import celery_worker

from .half_open import socket_link, tcp_link
from .jobs import JOB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.devstack.stack import Stack

    from .jobs import Start

    Environment = Callable[..., dict[str, str]]

SECONDS = 180.0


def logged(log: Path, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == event]


def assert_answered(client: Client, seconds: float = SECONDS, task_id: str | None = None) -> None:
    answer = client.result(task_id or client.enqueue(JOB), timeout=seconds)
    assert answer.status == "ok"  # type: ignore[union-attr] # one query


def test_a_silent_link_to_the_queue_is_given_up(
    stack: Stack, broker: redis.Redis, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """A worker that waits for jobs on a dead connection notices, and takes the next job on a new one."""
    with tcp_link(stack.redis.port) as link:
        environment = worker_environment() | {"CELERY_BROKER_URL": stack.redis.url(0, "worker", port=link.port)}
        with celery_worker(environment, worker_log, "--concurrency=1") as worker:
            assert_answered(client)
            link.go_silent()
            # Redis still hears the worker's last request for a job, and would answer it into the void.
            wait_for(lambda: broker.info("clients")["blocked_clients"] == 0)
            assert_answered(client)
            assert worker.poll() is None


def test_a_silent_link_to_the_results_is_given_up(
    stack: Stack, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """A result without an acknowledgement by Redis is stored again on a new connection."""
    with tcp_link(stack.redis.port) as link:
        environment = worker_environment() | {"CELERY_RESULT_BACKEND": stack.redis.url(1, "worker", port=link.port)}
        with celery_worker(environment, worker_log, "--concurrency=1"):
            assert_answered(client)
            link.go_silent()
            assert_answered(client)
    assert len(logged(worker_log, "job done")) == 2


def test_a_job_whose_result_can_not_be_stored_goes_back_to_its_queue(
    stack: Stack, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """The results' Redis is away for longer than the tries last: the job is run again, not lost."""
    with tcp_link(stack.redis.port) as link:
        environment = worker_environment() | {"CELERY_RESULT_BACKEND": stack.redis.url(1, "worker", port=link.port)}
        with celery_worker(environment, worker_log, "--concurrency=1") as worker:
            assert_answered(client)
            link.refuse(True)
            task_id = client.enqueue(JOB)
            wait_for(lambda: len(logged(worker_log, "outcomes not stored yet")) >= 1)
            link.refuse(False)
            assert_answered(client, task_id=task_id)
            assert_answered(client)
            assert worker.poll() is None


def through(link_port: int, dbname: str) -> dict[str, str]:
    return {"DATABASE_CONNECTION_STRING": f"postgresql://retrieval_worker@127.0.0.1:{link_port}/{dbname}"}


def test_a_silent_link_to_postgres_is_found_before_it_is_used(
    stack: Stack, client: Client, admin: psycopg.Connection[Any], worker_environment: Environment, worker_log: Path
) -> None:
    """A pooled connection that died unnoticed costs a check, not the job's whole time limit."""
    with socket_link(f"{stack.postgres.socket_dir}/.s.PGSQL.5432") as link:
        environment = worker_environment() | through(link.port, admin.info.dbname)
        with celery_worker(environment, worker_log, "--concurrency=1"):
            assert_answered(client)
            time.sleep(1.1)  # what was used a moment ago is not asked again
            link.go_silent()
            assert_answered(client, 15)
    assert [line["outcome"] for line in logged(worker_log, "job done")] == ["ok", "ok"]


def test_a_link_that_goes_silent_under_a_query_is_given_up(
    stack: Stack, client: Client, admin: psycopg.Connection[Any], worker_environment: Environment, worker_log: Path
) -> None:
    """An answer that can't come any more ends the wait soon after the statement's own time limit; then one retry."""
    with (
        socket_link(f"{stack.postgres.socket_dir}/.s.PGSQL.5432") as link,
        psycopg.connect(stack.postgres.dsn(admin.info.dbname)) as locking,
    ):
        environment = worker_environment(SEARCH__STATEMENT_TIMEOUT_SECONDS="3") | through(link.port, admin.info.dbname)
        with celery_worker(environment, worker_log, "--concurrency=1"):
            assert_answered(client)
            locking.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
            task_id = client.enqueue(JOB)
            wait_for(lambda: waiting_sessions(admin) == 1)
            link.go_silent()
            locking.rollback()
            assert_answered(client, 30, task_id)


def test_postgres_is_used_again_soon_after_it_was_away(
    client: Client, admin: psycopg.Connection[Any], start: Start, worker_log: Path
) -> None:
    """However long it was away, the pool's pauses do not outlast it."""
    name = admin.info.dbname
    with start("--concurrency=1"):
        assert_answered(client)
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
        waiting_job = client.enqueue(JOB)
        wait_for(lambda: len(logged(worker_log, "job delayed")) >= 4)
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
        assert_answered(client, 15)
        assert_answered(client, SECONDS, waiting_job)


def test_a_worker_outlives_a_primary_that_turns_read_only(
    tmp_path: Path, worker_environment: Environment, worker_log: Path
) -> None:
    """A failover that leaves the worker on a replica for a while: it waits, and works once it may write."""
    with (
        redis_server(tmp_path / "redis") as server,
        redis.Redis.from_url(server.url()) as operator,
    ):
        client = Client(*server.urls("producer"))
        environment = worker_environment() | server.environment("worker")
        with celery_worker(environment, worker_log, "--concurrency=1") as worker:
            assert_answered(client)
            operator.replicaof("127.0.0.1", "1")
            wait_for(lambda: "ReadOnlyError" in worker_log.read_text())
            operator.replicaof("NO", "ONE")
            assert_answered(client)
            assert worker.poll() is None
        client.close()
