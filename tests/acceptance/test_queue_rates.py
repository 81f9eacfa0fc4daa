"""Rates of the queues, of a real worker: what arrived and ended between looks is counted, job by job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.waiting import wait_for

from workbench.devstack.workers import celery_worker
from worker.queue.broker import keys
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

from .jobs import JOB

if TYPE_CHECKING:
    from pathlib import Path

    from retrieval_client import Client
    from workbench.devstack.stack import Stack

JOBS = 12


def counts(overview: Overview) -> dict[str, tuple[float, float]]:
    """Messages that arrived and ended in each queue, between the looks so far."""
    rates = overview.look(0).rates
    return {
        queue: (round(rate.arriving * rate.seconds / 60, 3), round(rate.ending * rate.seconds / 60, 3))
        for queue, rate in rates.items()
    }


def test_what_ends_is_counted_job_by_job(
    stack: Stack, broker: Any, client: Client, worker_environment: Any, worker_log: Path
) -> None:
    """By the worker's own user of Redis; a message that nobody takes has arrived and not ended."""
    overview = Overview(stack.redis.url(0, "worker"), QUEUES)
    with celery_worker(worker_environment(), worker_log, "--concurrency=1", queues="retrieval"):
        assert overview.look(0).rates == {}
        for answer in [client.enqueue(JOB) for _ in range(JOBS)]:
            client.result(answer, 180)
        broker.lpush("pipeline", b"nobody takes it")
        wait_for(lambda: counts(overview).get("retrieval") == (JOBS, JOBS), lambda: str(counts(overview)))
        assert counts(overview)["pipeline"] == (1, 0)
        values = [broker.get(key).decode() for key in broker.scan_iter(keys.owner_key("*"))]
    assert sum(keys.parse_owner_value(value).ended for value in values) == JOBS
