"""Context of a delivered job, passed from the queue to the job's handler."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.model import Principal

    Report = Callable[[str, int, int], None]


class JobContext:
    """Caller, task id and progress report of a job.

    Args:
        identify: returns the caller, None for a job without one; called at most once, on first use.
        task_id: Celery's id: the same when the message is redelivered.
        report: called with a stage, the amount done, and the total.
    """

    def __init__(
        self, identify: Callable[[], Principal | None], task_id: str = "", report: Report = lambda *_: None
    ) -> None:
        self._identify = identify
        self.task_id = task_id
        self.report = report

    @cached_property
    def caller(self) -> Principal | None:
        """Caller of the job; None for a job without one.

        Raises:
            NotAuthorised: the token is missing or invalid, or the queue is not trusted.
        """
        return self._identify()
