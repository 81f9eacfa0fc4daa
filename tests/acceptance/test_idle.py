"""A worker that has nothing to do leaves Redis alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis
from celery import Celery
from tests.waiting import PATIENCE

from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.devstack.stack import Stack


def calls(server: redis.Redis, command: str) -> int:
    """How often a command was sent to Redis."""
    return int(server.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"])  # type: ignore[union-attr] # not asynchronous


def test_remote_control_is_subscribed_to_once(
    stack: Stack, worker_environment: Callable[..., dict[str, str]], worker_log: Path
) -> None:
    """Else each iteration of the event loop would subscribe again, and the reply would begin the next."""
    with (
        celery_worker(worker_environment(), worker_log, "--concurrency=1"),
        redis.Redis.from_url(stack.redis.url()) as server,
        Celery(broker=stack.redis.url(), set_as_current=False) as app,
    ):
        assert app.control.ping(timeout=PATIENCE, limit=1)
        before = calls(server, "psubscribe")
        for _ in range(5):
            assert app.control.ping(timeout=PATIENCE, limit=1)
        assert calls(server, "psubscribe") == before
