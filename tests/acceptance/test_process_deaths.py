"""Pool processes that die while their worker has no Redis: it replaces them, and goes on."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
from tests.waiting import wait_for

from retrieval_client import Client

from .half_open import tcp_link
from .jobs import JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from worker.cli.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]


@contextlib.contextmanager
def worker_process(environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that need not answer before the block begins."""
    command = [sys.executable, "-m", "celery", "-A", "worker.app", "worker", "--concurrency=2", "-Q", "retrieval"]
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


def test_a_process_that_dies_while_its_worker_waits_for_redis_ends_no_worker(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """At its start, and when it connects again: the worker answers once Redis is back."""
    del broker  # emptied
    client = Client(stack.redis.url(0), stack.redis.url(1))
    with tcp_link(stack.redis.port) as link, contextlib.closing(client):
        environment = {**worker_environment(), "CELERY_BROKER_URL": stack.redis.url(user="worker", port=link.port)}
        link.refuse(True)
        with worker_process(environment, worker_log) as worker:
            for lost in ("Cannot connect to", "Connection to broker lost"):
                wait_for(lambda lost=lost: lost in worker_log.read_text(errors="replace"))
                kill_one(worker)
                link.refuse(False)
                assert client.call(JOB, timeout=120).status == "ok"  # type: ignore[union-attr] # of a search
                link.refuse(True)
            assert worker.poll() is None
            link.refuse(False)
