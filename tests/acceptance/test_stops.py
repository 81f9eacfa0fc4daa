"""Signals that stop a worker: what it ends, what it requeues, and that no process of it is left."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.waiting import wait_for, waiting_sessions

from .held import count_held, is_clean
from .jobs import JOB

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    import redis

    from retrieval_client import Client

    from .jobs import Start


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGQUIT],
        [signal.SIGTERM, signal.SIGQUIT],
        [signal.SIGINT, signal.SIGINT],
        [signal.SIGINT, signal.SIGINT, signal.SIGINT],
        [signal.SIGQUIT, signal.SIGQUIT, signal.SIGQUIT],
    ],
    ids=lambda signals: " ".join(number.name for number in signals),
)
def test_a_worker_that_must_stop_soon_requeues_what_it_runs(
    signals: list[int],
    client: Client,
    broker: redis.Redis,
    locked: psycopg.Connection[Any],
    start: Start,
    worker_log: Path,
) -> None:
    """After half of a time limit, or at once if it is asked again; uncounted, and nothing of it goes on."""
    with start("--concurrency=2", WORKER__SOFT_TIME_LIMIT_SECONDS="10") as worker:
        ids = [client.enqueue(JOB) for _ in range(2)]
        wait_for(lambda: waiting_sessions(locked) == 2)
        processes = psutil.Process(worker.pid).children()
        for number in signals:
            said = worker_log.read_bytes().count(b"worker: ")
            worker.send_signal(number)  # until it is heard
            wait_for(lambda said=said: worker.poll() is not None or worker_log.read_bytes().count(b"worker: ") > said)
        worker.wait(30)
        assert not any(process.is_running() for process in processes)
        assert (broker.llen("retrieval"), count_held(broker)) == (2, 0)
        assert "Unrecoverable" not in worker_log.read_text(errors="replace")
    locked.rollback()
    with start("--concurrency=1"):
        assert [client.result(task_id, timeout=60).status for task_id in ids] == ["ok", "ok"]  # type: ignore[union-attr] # one
        wait_for(lambda: is_clean(broker))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_job_that_ends_in_time_is_answered(
    number: int, client: Client, broker: redis.Redis, locked: psycopg.Connection[Any], start: Start, worker_log: Path
) -> None:
    """SIGTERM waits for it, SIGQUIT half of its time limit."""
    with start("--concurrency=1") as worker:
        task_id = client.enqueue(JOB)
        wait_for(lambda: waiting_sessions(locked) == 1)
        worker.send_signal(number)
        wait_for(lambda: "shutdown" in worker_log.read_text(errors="replace"))
        locked.rollback()
        assert client.result(task_id, timeout=60).status == "ok"  # type: ignore[union-attr] # one query
        assert worker.wait(30) == 0
    assert is_clean(broker)
