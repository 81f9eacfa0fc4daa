"""A delivered job as the queue hands it to what answers it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.model import Principal

    Report = Callable[[str, int, int], None]


class JobContext:
    """The caller, the task id, and where progress is reported.

    Args:
        identify: finds the caller; called at most once, and only if the job asks; None: a job without a caller.
        task_id: Celery's id: the same when the message is delivered again.
        report: takes a stage, how much of it is done, and of how much.
    """

    def __init__(
        self, identify: Callable[[], Principal | None], task_id: str = "", report: Report = lambda *_: None
    ) -> None:
        self._identify = identify
        self.task_id = task_id
        self.report = report

    @cached_property
    def caller(self) -> Principal | None:
        """Who the caller is.

        Raises:
            NotAuthorised: the token is missing or invalid, or the queue is not trusted.
        """
        return self._identify()
