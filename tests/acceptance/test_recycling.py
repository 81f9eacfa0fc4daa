"""Processes of the pool that end by design: none of their jobs is lost, run twice or blamed."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from tests.waiting import wait_for, waiting_sessions

from retrieval_client.errors import DeadLettered
from worker.queue.broker import keys

from .held import count_held, jobs_of_lost_processes
from .jobs import JOB, kill_whole, pool_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg
    import redis

    from retrieval_client import Client
    from workbench.devstack.stack import Stack

    from .jobs import Start


@pytest.fixture
def control(stack: Stack) -> Iterator[Any]:
    """Celery's remote control."""
    with contextlib.closing(Celery(broker=stack.redis.url(0), set_as_current=False)) as app:
        yield app.control


def said(log: Path, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == event]


def expect_each_once(client: Client, broker: redis.Redis, log: Path, ids: list[str]) -> None:
    """All are answered, each after one run that was counted once."""
    assert {client.result(task_id, timeout=300).status for task_id in ids} == {"ok"}  # type: ignore[union-attr] # of a search
    wait_for(lambda: count_held(broker) == 0)
    assert sorted(line["task_id"] for line in said(log, "job done")) == sorted(ids)
    assert jobs_of_lost_processes(log) == 0
    assert not broker.exists(keys.dead("retrieval"), keys.deliveries("retrieval"))


@pytest.mark.parametrize(
    ("option", "jobs"),
    [("--max-tasks-per-child=20", 260), ("--max-tasks-per-child=1", 40), ("--max-memory-per-child=1000", 40)],
    ids=["20 jobs each", "one job each", "more memory than allowed"],
)
def test_a_process_that_is_recycled_gets_no_job(
    client: Client, broker: redis.Redis, start: Start, worker_log: Path, option: str, jobs: int
) -> None:
    """It ends after its last job, and every job runs once; none waits for a process to be found dead."""
    with start("--concurrency=2", option):
        ids = [client.enqueue(JOB) for _ in range(jobs)]
        expect_each_once(client, broker, worker_log, ids)


def test_a_pool_that_shrinks_and_grows_under_load_loses_no_job(
    client: Client, broker: redis.Redis, control: Any, start: Start, worker_log: Path
) -> None:
    """Only processes that have no job are ended, and none of those gets one."""
    with start("--concurrency=3"):
        ids = []
        for _ in range(10):
            for change in (control.pool_shrink, control.pool_grow):
                ids += [client.enqueue(JOB) for _ in range(13)]
                with control.app.connection_for_write() as connection:  # a kept one may be closed meanwhile
                    assert len(change(2, reply=True, timeout=180, limit=1, connection=connection)) == 1
        expect_each_once(client, broker, worker_log, ids)


def test_a_job_that_its_process_never_began_is_not_counted(
    client: Client, broker: redis.Redis, control: Any, start: Start, worker_log: Path
) -> None:
    """It was written to a process that died before it read it: another process runs it, as its first delivery."""
    with start("--concurrency=1") as worker:
        process = pool_process(worker)
        first = client.enqueue(JOB)  # a process that has not said that it is up is not written to, but replaced
        client.result(first, timeout=180)
        wait_for(lambda: count_held(broker) == 0)
        wait_for(lambda: any(one["cmd"] == "blmove" for one in broker.client_list()))
        process.suspend()
        later = client.enqueue(JOB)
        wait_for(lambda: count_held(broker) == 1)
        assert control.ping(timeout=180, limit=1)  # so the turn in which it was written is over
        process.kill()
        expect_each_once(client, broker, worker_log, [first, later])
    assert "deliveries requeued" not in worker_log.read_text(errors="replace")


def test_a_job_that_waits_for_a_process_is_not_counted_when_its_worker_dies(
    client: Client, broker: redis.Redis, locked: psycopg.Connection[Any], control: Any, start: Start
) -> None:
    """Only the job that had begun when the whole worker was killed is counted."""
    changes = {"SEARCH__STATEMENT_TIMEOUT_SECONDS": "50", "WORKER__MAX_DELIVERIES": "1"}
    with start("--concurrency=1", **changes) as worker:
        begun = client.enqueue(JOB)
        wait_for(lambda: waiting_sessions(locked) == 1)
        waiting = [client.enqueue(JOB) for _ in range(3)]
        wait_for(lambda: count_held(broker) == 1)
        assert control.ping(timeout=180, limit=1)  # so they are marked
        kill_whole(worker)
    locked.rollback()
    with start("--concurrency=1", **changes):
        for task_id in waiting:
            assert client.result(task_id, timeout=120).status == "ok"  # type: ignore[union-attr] # of a search
        with pytest.raises(DeadLettered, match="delivered 1 times"):
            client.result(begun, timeout=120)
