"""Celery's Redis result backend, in the contract's terms.

A caller reads only errors of `worker.errors`, whatever Celery calls them, and no stack traces: it is told what to
do, and the worker's log says where it broke.
"""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend
from celery.exceptions import Retry, TimeLimitExceeded

from worker.errors import DeadLettered, InternalError, RetrievalError, TimedOut, Unavailable

OVERRIDES = {"redis": "worker.results:Results", "rediss": "worker.results:Results"}
"""For ``app.loader.override_backends``."""


class Results(RedisBackend):
    """Results as the contract has them."""

    def prepare_exception(self, exc: BaseException, serializer: str | None = None) -> Any:
        """An error's record, of the class that the contract knows."""
        return super().prepare_exception(_ours(exc), serializer)

    def mark_as_revoked(self, task_id: str, reason: str = "", *args: Any, **options: Any) -> Any:
        """A job that expired is a failure to whoever reads the result."""
        if reason != "expired":
            return super().mark_as_revoked(task_id, reason, *args, **options)
        expired = DeadLettered("the job expired before a worker took it")
        return self.mark_as_failure(task_id, expired, request=options.get("request"))

    def _get_result_meta(self, result: Any, state: str, traceback: Any, request: Any, **options: Any) -> Any:
        """A result's record; the trace stays in the worker's log."""
        del traceback
        return super()._get_result_meta(result, state, None, request, **options)


def _ours(error: BaseException) -> BaseException:
    if isinstance(error, RetrievalError):
        return error
    if isinstance(error, TimeLimitExceeded):
        return TimedOut("the job ran longer than its time limit, and its process was ended")
    if isinstance(error, Retry):
        return Unavailable("the job was put back, to be tried again")
    return InternalError(f"unforeseen {type(error).__name__}; the worker's log has the details under this task id")
