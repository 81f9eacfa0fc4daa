"""Processes that are stopped, or whose output no one reads, and a job that kills: what comes back, and how soon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import wait_for

from retrieval_client.errors import DeadLettered, TimedOut
from workbench.devstack.workers import celery_worker
from worker.queue.broker import dead_letters, keys
from worker.queue.broker.owners import BEAT_SECONDS

from .held import count_held
from .jobs import JOB, pool_process
from .test_lost_connections import Held

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psutil
    import redis

    from retrieval_client import Client

    Environment = Callable[..., dict[str, str]]


JOBS = 600
"""Enough for more lines than a pipe holds, 64 KiB."""

IDLE_BOUND = 5 * BEAT_SECONDS + 3
"""Seconds until what an idle process was given is run by another: four heartbeats, and what a start takes."""


@pytest.fixture
def held(tmp_path: Path, client: Client) -> Held:
    return Held(tmp_path, client)


def replacement(worker: Any, process: psutil.Process) -> psutil.Process:
    """The process in another's place."""
    wait_for(lambda: not process.is_running())
    return pool_process(worker)


def test_a_process_that_is_stopped_in_its_job_is_ended_by_the_time_limit(
    client: Client, broker: redis.Redis, held: Held, worker_environment: Environment, worker_log: Path
) -> None:
    """The job fails then, and is not run again; the next one is answered."""
    limits = {"WORKER__SOFT_TIME_LIMIT_SECONDS": "4", "WORKER__TIME_LIMIT_SECONDS": "5"}
    environment = worker_environment(**limits) | held.environment
    with celery_worker(environment, worker_log, *held.options, "--concurrency=1") as worker:
        held.begin("held-1")
        process = pool_process(worker)
        process.suspend()
        later = client.enqueue(JOB)
        with pytest.raises(TimedOut):
            client.result("held-1", timeout=5 + 3)
        assert client.result(later, timeout=60).status == "ok"  # type: ignore[union-attr] # of a search
        assert replacement(worker, process).pid != process.pid
        wait_for(lambda: count_held(broker) == 0)
    assert held.runs("held-1") == 1


def test_a_message_that_an_idle_stopped_process_was_given_comes_back(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """Redis moves it to the list of a process that no longer runs; it is killed once, and the message not counted."""
    with celery_worker(worker_environment(), worker_log, "--concurrency=1", queues="retrieval") as worker:
        process = pool_process(worker)
        wait_for(lambda: any(one["cmd"] == "blmove" and int(one["idle"]) < 2 for one in broker.client_list()))
        process.suspend()
        task_id = client.enqueue(JOB)
        assert count_held(broker) == 1
        assert client.result(task_id, timeout=IDLE_BOUND).status == "ok"  # type: ignore[union-attr] # of a search
        wait_for(lambda: count_held(broker) == 0)
        assert pool_process(worker).is_running()
    assert worker_log.read_text().count("process gives no sign of life: killed") == 1
    assert not broker.exists(keys.deliveries("retrieval"), keys.dead("retrieval"))


@pytest.mark.parametrize("most", [1, 3])
def test_a_poison_s_dead_letter_counts_its_runs(
    client: Client, broker: redis.Redis, held: Held, worker_environment: Environment, worker_log: Path, most: int
) -> None:
    """It kills the process in each run; the dead letter, and its sender's error, say how often that was."""
    environment = worker_environment(WORKER__MAX_DELIVERIES=str(most)) | held.environment
    with celery_worker(environment, worker_log, *held.options, "--concurrency=2"):
        client.enqueue(JOB, task_id="held-poison")
        for run in range(1, most + 1):
            wait_for(lambda run=run: held.runs("held-poison") == run)
            held.tell("held-poison", "die", run)
        with pytest.raises(DeadLettered, match=f"delivered {most} times"):
            client.result("held-poison", timeout=60)
        wait_for(lambda: broker.xlen(keys.dead("retrieval")) == 1)
    (letter,) = dead_letters.every(broker, "retrieval")
    assert (letter.reason, letter.deliveries, held.runs("held-poison")) == ("max_deliveries", most, most)


def test_jobs_go_on_while_no_one_reads_the_output(
    client: Client, broker: redis.Redis, worker_environment: Environment
) -> None:
    """Lines that do not fit into the pipe are dropped; a process says how many, once its lines fit again."""
    environment = worker_environment()
    command = [sys.executable, "-m", "celery", "-A", "worker.app", "worker", "--concurrency=2", "-Q", "retrieval"]
    output = b""
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as worker:
        try:
            ids = [client.enqueue(JOB) for _ in range(JOBS)]
            for task_id in ids:
                assert client.result(task_id, timeout=60).status == "ok"  # type: ignore[union-attr] # of a search
            wait_for(lambda: count_held(broker) == 0)
            output = os.read(worker.stdout.fileno(), 2**17)  # type: ignore[union-attr] # a pipe
            assert client.call(JOB, timeout=60).status == "ok"  # type: ignore[union-attr] # of a search
        finally:
            worker.terminate()
            output += worker.communicate(timeout=180)[0]
    lines = [json.loads(line) for line in output.splitlines() if line.startswith(b"{")]
    dropped = [line["lines"] for line in lines if line["event"] == "log lines dropped"]
    assert sum(dropped) > 0
    assert sum(line["event"] == "job done" for line in lines) < JOBS
