"""A delivered job, checked, and its context, passed from the queue to the job's handler."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import Job
from worker.core.shape import check_shape
from worker.jobs.principal import identify

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieval_client.contract.base import JobT
    from worker.model import Principal
    from worker.settings import Settings

    Report = Callable[[str, int, int], None]


class JobContext:
    """Caller, task id and progress report of a job.

    Args:
        identify: returns the caller, None for a job without one; called at most once, on first use.
        task_id: Celery's id: the same when the message is redelivered.
        report: called with a stage, the amount done, and the total.
        min_lsn: see `Principal`; of a job without a caller, too.
    """

    def __init__(
        self,
        identify: Callable[[], Principal | None],
        task_id: str = "",
        report: Report = lambda *_: None,
        min_lsn: str | None = None,
    ) -> None:
        self._identify = identify
        self.task_id = task_id
        self.report = report
        self.min_lsn = min_lsn

    @cached_property
    def caller(self) -> Principal | None:
        """Caller of the job; None for a job without one.

        Raises:
            NotAuthorised: the token is missing or invalid, or the queue is not trusted.
        """
        caller = self._identify()
        return caller if caller is None else dataclasses.replace(caller, min_lsn=self.min_lsn)


def check_job(
    model: type[JobT], raw: Any, settings: Settings, task: str, task_id: str, report: Report = lambda *_: None
) -> tuple[JobT, JobContext]:
    """Check one job as it was sent; return it with its context, which has not identified the caller yet.

    Args:
        model: the type of job.
        raw: the job, as received.
        settings: the worker's settings.
        task: name of its task.
        task_id: see `JobContext`.
        report: see `JobContext`.

    Raises:
        InvalidJob: it is too large, or not as the contract has it.
    """
    check_shape(raw, settings.limits.bounds)
    job = parse_job(model, raw)

    def caller() -> Principal | None:
        if not isinstance(job, Job):  # sent by the schedule
            return None
        return identify(job, raw, task=task, task_id=task_id, settings=settings)

    return job, JobContext(caller, task_id, report, job.min_lsn if isinstance(job, Job) else None)
