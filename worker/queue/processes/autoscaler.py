"""Celery's `--autoscale`: as many processes as jobs run and wait; fewer once all were idle for a while."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from celery.worker.autoscale import AUTOSCALE_KEEPALIVE

from worker.adapters import logs

if TYPE_CHECKING:
    from worker.queue.processes.pool import Pool

log = logs.logger("worker.process")


class Autoscaler:
    """The autoscaler, as Celery's ``worker_autoscaler`` is called.

    Attributes:
        keepalive: seconds without a waiting job before processes leave; Celery's ``AUTOSCALE_KEEPALIVE``.
    """

    keepalive = AUTOSCALE_KEEPALIVE

    def __init__(self, pool: Pool, max_concurrency: int, min_concurrency: int = 0, **_: Any) -> None:
        self.pool = pool
        self.max_concurrency = max_concurrency
        self.min_concurrency = min_concurrency
        self._needed = float("-inf")

    def maybe_scale(self, *_: object) -> None:
        """Resize the pool by the number of jobs that run and wait."""
        if self.pool.waiting:
            self._needed = monotonic()
        jobs = self.pool.busy + self.pool.waiting
        process_count = min(max(jobs, self.min_concurrency), self.max_concurrency)
        is_idle = monotonic() - self._needed > self.keepalive
        if process_count > self.pool.limit or is_idle:
            self._resize(process_count)

    def update(self, max: int | None = None, min: int | None = None) -> tuple[int, int]:  # noqa: A002 -- Celery's names
        """Set the limits; keep the pool between them."""
        self.max_concurrency = self.max_concurrency if max is None else max
        self.min_concurrency = self.min_concurrency if min is None else min
        bounded = sorted((self.min_concurrency, self.pool.limit, self.max_concurrency))[1]
        self._resize(bounded)
        return self.max_concurrency, self.min_concurrency

    def _resize(self, process_count: int) -> None:
        further = process_count - self.pool.limit
        if further:
            log.info("pool resized", processes=process_count)
        if further > 0:
            self.pool.grow(further)
        elif further < 0:
            self.pool.shrink(-further)

    def info(self) -> dict[str, int]:
        """Return what `inspect stats` shows."""
        jobs = self.pool.busy + self.pool.waiting
        return {"max": self.max_concurrency, "min": self.min_concurrency, "current": self.pool.limit, "qty": jobs}
