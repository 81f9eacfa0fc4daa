"""Turns of callers: a lone job is answered while another caller's backlog still waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.waiting import wait_for

from retrieval_client.contract.message import compose
from retrieval_client.contract.registry import task_of
from retrieval_client.jobs import signed
from workbench.devstack.workers import celery_worker
from worker.queue.broker import turns

from .held import is_clean
from .jobs import JOB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from retrieval_client import Client

BACKLOG = 4000


def message(task_id: str, group: str | None = None) -> bytes:
    """The message of a job, with a name for its turns."""
    task = task_of(type(JOB))
    envelope = json.loads(compose(task, task_id, signed(JOB, None, None, task_id), None))
    envelope["headers"]["group"] = group
    return json.dumps(envelope).encode()


@pytest.mark.parametrize("fair", ["true", "false"])
def test_a_lone_job_waits_for_no_backlog_of_another_caller(
    client: Client,
    broker: redis.Redis,
    worker_environment: Callable[..., dict[str, str]],
    worker_log: Path,
    fair: str,
) -> None:
    """It is answered while most of the backlog waits; without turns, when nothing does."""
    broker.lpush("retrieval", *(message(f"flood-{number}", "flood") for number in range(BACKLOG)))
    broker.lpush("retrieval", message("lone"))
    with celery_worker(worker_environment(WORKER__FAIR=fair), worker_log, "--concurrency=2"):
        assert client.result("lone", timeout=120).status == "ok"  # type: ignore[union-attr] # one query
        waiting = turns.waiting(broker, "retrieval")
        assert waiting > BACKLOG / 2 if fair == "true" else waiting < 50
        wait_for(lambda: is_clean(broker))
        assert client.result(f"flood-{BACKLOG - 1}", timeout=60).status == "ok"  # type: ignore[union-attr] # as above
