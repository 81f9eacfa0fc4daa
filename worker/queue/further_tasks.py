"""Tasks that a message names besides its own (callbacks, a chain, a chord), sent when its job has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import redis
from celery.app.task import Context
from kombu.exceptions import OperationalError

from worker.adapters import logs
from worker.queue import codec, records
from worker.queue.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from celery import Celery

    from retrieval_client.errors import RetrievalError
    from worker.queue.outcome import DeliveredJob
    from worker.queue.records import RecordStore

log = logs.logger("worker.tasks")

_OUTAGES = (redis.ConnectionError, redis.TimeoutError, redis.OutOfMemoryError, redis.ReadOnlyError, OSError)
"""Errors that pass; others, such as a queue that the worker's user may not write to, would come back each time."""


class FurtherTasks:
    """Sends them, as Celery does.

    Args:
        app: the Celery app.
        store: stores the failures of those that will not run.
        seconds: time for which these are kept.
    """

    def __init__(self, app: Celery, store: RecordStore, seconds: int) -> None:
        self._app = app
        self._store = store
        self._seconds = seconds

    def send(self, job: DeliveredJob, result: codec.JobResult | RetrievalError, state: str) -> None:
        """Send what a job names for its end, whose record is stored; what can't be understood is logged, not sent.

        Args:
            job: the job.
            result: its answer or its error.
            state: its state, as Celery calls it.

        Raises:
            redis.ConnectionError: Redis is away; the job may be answered again.
        """
        if not job.further or not any(job.further.values()):
            return
        request = Context(job.headers, delivery_info={}, **job.further)
        try:
            if isinstance(result, codec.JobResult):
                self._succeed(request, result)
            else:
                self._fail(request, result, state)
        except Exception as error:  # noqa: BLE001 -- of any signature that a sender writes
            if isinstance(error.__cause__ if isinstance(error, OperationalError) else error, _OUTAGES):
                raise redis.ConnectionError("further tasks not sent") from None
            fields = {"error": type(error).__name__, "where": logs.where(error)}
            log.error("further tasks not sent", task_id=job.id, **fields)  # noqa: TRY400 -- a trace may quote the job

    def _succeed(self, request: Any, result: codec.JobResult) -> None:
        family = {"parent_id": request.id, "root_id": request.root_id or request.id}
        for callback in request.callbacks or []:
            self._signature(callback).apply_async((result,), **family)
        chain = [*(request.chain or [])]
        if chain:
            following = self._signature(chain.pop())
            following.apply_async((result,), chain=chain, **family)
        self._app.backend.mark_as_done(request.id, result, request=request, store_result=False)

    def _fail(self, request: Any, error: RetrievalError, state: str) -> None:
        """Tell a chord and error callbacks; the rest of a chain fails with its job."""
        try:
            self._app.backend.mark_as_failure(request.id, error, request=request, store_result=False, state=state)
        finally:
            value = records.failure(error)
            self._store.put(
                [
                    Record(id_, records.compose(id_, state, value), self._seconds)
                    for id_ in _chained(request.chain or [])
                ]
            )

    def _signature(self, fields: Mapping[str, Any]) -> Any:
        return self._app.signature(fields)


def _chained(chain: Sequence[Any]) -> Iterator[str]:
    """Yield the ids of a chain's tasks; a chord in it ends as its body does."""
    remaining = [*chain]
    while remaining:
        fields = remaining.pop()
        if task_id := fields.get("options", {}).get("task_id"):
            yield task_id
        if fields.get("subtask_type") == "chord" and (body := fields.get("kwargs", {}).get("body")):
            remaining.append(body)
