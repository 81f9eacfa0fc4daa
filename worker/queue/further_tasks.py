"""Tasks that a message names besides its own (callbacks, a chain, a chord), sent when its job has ended."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import redis
from celery.app.task import Context
from kombu.exceptions import OperationalError

from retrieval_client.errors import RetrievalError, as_error
from worker.adapters import logs
from worker.queue import records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from celery import Celery

    from worker.queue.broker.inspection import DeliveredJob
    from worker.queue.codec import JobResult
    from worker.queue.records import RecordStore

log = logs.logger("worker.tasks")

_OUTAGES = (redis.ConnectionError, redis.TimeoutError, redis.OutOfMemoryError, redis.ReadOnlyError, OSError)
"""Errors that pass; others, such as a queue that the worker's user may not write to, would come back each time."""


class FurtherTasks:
    """Sends them, as Celery does; stores the failures of those that will not run."""

    def __init__(self, app: Celery, store: RecordStore) -> None:
        self._app = app
        self._store = store

    def send(self, job: DeliveredJob, result: JobResult | RetrievalError, state: str) -> bool:
        """Send what a job names for its end, whose record is stored; what can't be understood is logged, not sent.

        By the record that stands: whoever stored it may have died, and a job that comes again ends as it did before.

        Result and state are those of a job whose sender wants no record.

        Returns:
            False: another process has claimed to end its chord, and may have died since; call again, after a pause.

        Raises:
            redis.ConnectionError: Redis is away; the job may be answered again.
        """
        if not job.further or not any(job.further.values()):
            return True
        request = Context(job.headers, delivery_info={}, **job.further)
        with self._logged(job.id):
            if not request.ignore_result and (record := self._store.get(job.id)):
                state, value = record["status"], record["result"]
                result = value if state == "SUCCESS" else as_error(value)
        with self._logged(job.id):
            if not self._end_chord(request, result, state):
                return False
        with self._logged(job.id):
            self._send(request, result, state)
        return True

    @contextlib.contextmanager
    def _logged(self, task_id: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 -- of any signature that a sender writes
            if isinstance(error.__cause__ if isinstance(error, OperationalError) else error, _OUTAGES):
                raise redis.ConnectionError("further tasks not sent") from None
            fields = {"error": type(error).__name__, "where": logs.where(error)}
            log.error("further tasks not sent", task_id=task_id, **fields)  # noqa: TRY400 -- a trace may quote the job

    def _end_chord(self, request: Any, result: Any, state: str) -> bool:
        """Tell the chords that a job, or the rest of its chain, is a part of; whoever completes one sends its body."""
        if isinstance(result, RetrievalError):
            options: dict[str, Any] = {"store_result": False, "call_errbacks": False, "state": state}
            self._app.backend.mark_as_failure(request.id, result, request=request, **options)
        else:
            self._app.backend.mark_as_done(request.id, result, request=request, store_result=False)
        chained = [options.get("group_id") for options in _chained(request.chain) if options.get("chord")]
        return not any(map(self._is_claimed, [request.group, *chained] if request.chord else chained))

    def _is_claimed(self, group: str) -> bool:
        """Whether a chord is complete, though not sent: a process claims that, in versions of Celery with the key d."""
        key, client = self._app.backend.get_key_for_group, self._app.backend.client
        with client.pipeline() as pipe:
            ended, size, total_difference = (
                pipe.scard(key(group, ".d")).get(key(group, ".s")).get(key(group, ".t")).execute()
            )
        return size is not None and ended == int(size) + int(total_difference or 0)

    def _send(self, request: Any, result: Any, state: str) -> None:
        """Send callbacks and the next task of a chain, or error callbacks; the rest of a chain fails with its job."""
        family = {"parent_id": request.id, "root_id": request.root_id or request.id}
        chain = [*(request.chain or [])]
        if isinstance(result, RetrievalError):
            ids = [options["task_id"] for options in _chained(chain) if options.get("task_id")]
            self._store.put([records.compose(task_id, state, result) for task_id in ids])
            for errback in request.errbacks or []:
                self._app.signature(errback).apply_async((request.id,), **family)
            return
        for callback in request.callbacks or []:
            self._app.signature(callback).apply_async((result,), **family)
        if chain:
            self._app.signature(chain.pop()).apply_async((result,), chain=chain, **family)


def _chained(chain: Sequence[Any] | None) -> Iterator[dict[str, Any]]:
    """Yield the options of a chain's tasks; a chord in it ends as its body does."""
    remaining = [*(chain or [])]
    while remaining:
        fields = remaining.pop()
        yield fields.get("options", {})
        if fields.get("subtask_type") == "chord" and (body := fields.get("kwargs", {}).get("body")):
            remaining.append(body)
