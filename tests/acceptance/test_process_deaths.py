"""Pool processes that die: their worker replaces them, and goes on, also without Redis or Postgres."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from celery import Celery
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Client
from retrieval_client.errors import TimedOut
from worker.queue.remote_control import NOT_READY

from .half_open import tcp_link
from .jobs import JOB, pool_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg
    import redis

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]


@contextlib.contextmanager
def worker_process(environment: dict[str, str], log: Path, processes: int = 2) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that need not answer before the block begins."""
    command = [sys.executable, "-m", "celery", "-A", "worker.app", "worker", f"-c{processes}", "-Q", "retrieval"]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(180)


def kill_one(worker: subprocess.Popen[bytes]) -> None:
    """Kill a pool process, and wait until it has ended, even if its exit code was not collected yet."""
    wait_for(lambda: len(psutil.Process(worker.pid).children()) == 2)
    victim = psutil.Process(worker.pid).children()[0]
    victim.kill()
    wait_for(lambda: not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE)


@contextlib.contextmanager
def silent_server() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def ping(broker_url: str) -> Any:
    """The only worker's answer to `inspect ping`; None without one."""
    with Celery(set_as_current=False) as app:
        app.conf.update(broker_read_url=broker_url, broker_write_url=broker_url)
        replies = app.control.ping(timeout=1, limit=1)
    return next(iter(replies[0].values())) if replies else None


def test_a_process_that_starts_slowly_is_not_killed(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """Postgres takes connections and never answers: the next process gets its time, and `ping` says what is ready."""
    del broker  # emptied
    url = stack.redis.url(0)
    with silent_server() as port:
        away = f"postgresql://retrieval_worker@127.0.0.1:{port}/x"
        environment = worker_environment() | {"DATABASE_CONNECTION_STRING": away}
        with worker_process(environment, worker_log) as worker:
            wait_for(lambda: ping(url) == {"ok": "pong"})
            victims = psutil.Process(worker.pid).children()
            for victim in victims:
                victim.kill()
            wait_for(lambda: ping(url) == {"error": NOT_READY})
            children = psutil.Process(worker.pid).children()
            wait_for(lambda: ping(url) == {"ok": "pong"})
            assert psutil.Process(worker.pid).children() == children
            assert len(children) == len(victims)


def test_a_process_that_dies_while_its_worker_waits_for_redis_ends_no_worker(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """At its start, and when it connects again: the worker answers once Redis is back."""
    del broker  # emptied
    url = stack.redis.url(0)
    client = Client(url, stack.redis.url(1))
    with tcp_link(stack.redis.port) as link, contextlib.closing(client):
        environment = {**worker_environment(), "CELERY_BROKER_URL": stack.redis.url(user="worker", port=link.port)}
        link.refuse(True)
        with worker_process(environment, worker_log) as worker:
            for lost in ("Cannot connect to", "Connection to broker lost"):
                wait_for(lambda lost=lost: lost in worker_log.read_text(errors="replace"))
                kill_one(worker)
                link.refuse(False)
                assert client.call(JOB, timeout=120).status == "ok"  # type: ignore[union-attr] # of a search
                wait_for(lambda: ping(url) == {"ok": "pong"})
                link.refuse(True)
            assert worker.poll() is None
            link.refuse(False)


def test_a_worker_that_is_stopped_while_redis_is_away_ends(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """Its processes hear of the stop in the pauses between their tries to connect."""
    del broker  # emptied
    url = stack.redis.url(0)
    with tcp_link(stack.redis.port) as link:
        environment = {**worker_environment(), "CELERY_BROKER_URL": stack.redis.url(user="worker", port=link.port)}
        with worker_process(environment, worker_log) as worker:
            wait_for(lambda: ping(url) == {"ok": "pong"})
            link.refuse(True)
            wait_for(lambda: "Connection to broker lost" in worker_log.read_text(errors="replace"))
            wait_for(lambda: worker_log.read_text(errors="replace").count('"Redis lost"') == 2)
            worker.terminate()
            worker.wait(45)  # less than the time limit of a job


def test_a_time_limit_is_kept_while_redis_is_away(
    stack: Stack, locked: psycopg.Connection[Any], worker_environment: Environment, worker_log: Path
) -> None:
    """Celery's main loop does nothing but connect then; the job's outcome is stored once Redis is back."""
    client = Client(stack.redis.url(0), stack.redis.url(1))
    limits = {"WORKER__SOFT_TIME_LIMIT_SECONDS": "4", "WORKER__TIME_LIMIT_SECONDS": "5"}
    with tcp_link(stack.redis.port) as link, contextlib.closing(client):
        environment = worker_environment(**limits)
        environment["CELERY_BROKER_URL"] = stack.redis.url(user="worker", port=link.port)
        with worker_process(environment, worker_log, processes=1) as worker:
            locked.rollback()
            client.call(JOB, timeout=60)
            locked.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
            task_id = client.enqueue(JOB)
            wait_for(lambda: waiting_sessions(locked) == 1)
            busy = pool_process(worker)
            busy.suspend()
            link.refuse(True)
            wait_for(lambda: not busy.is_running() or busy.status() == psutil.STATUS_ZOMBIE)
            link.refuse(False)
            locked.rollback()
            with pytest.raises(TimedOut, match="its process was ended"):
                client.result(task_id, timeout=60)
