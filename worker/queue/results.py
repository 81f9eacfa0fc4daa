"""Celery's Redis result backend, in the contract's terms.

A caller reads only errors of `worker.errors`, whatever Celery calls them, and no stack traces: it is told what to
do, and the worker's log says where it broke.
"""

from __future__ import annotations

import logging
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import redis
from celery._state import get_current_worker_task
from celery.backends.redis import RedisBackend
from celery.exceptions import BackendError, BackendStoreError, Retry, TaskRevokedError, TimeLimitExceeded
from celery.states import FAILURE, READY_STATES, REVOKED, SUCCESS

from worker.errors import DeadLettered, InternalError, RetrievalError, TimedOut, Unavailable
from worker.queue.liveness import probed
from worker.queue.unstored_outcomes import OwedOutcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OVERRIDES = {"redis": "worker.queue.results:Results", "rediss": "worker.queue.results:Results"}
"""For ``app.loader.override_backends``."""

logger = logging.getLogger("worker.results")

# A success stands, whatever comes after it. Records begin with their status, as Celery composes them.
_STORE = """
if string.find(redis.call('GETRANGE', KEYS[1], 0, 19), '^{"status": ?"SUCCESS"') then return 0 end
redis.call('SETEX', KEYS[1], ARGV[1], ARGV[2])
redis.call('PUBLISH', KEYS[1], ARGV[2])
return 1
"""


_ENDED = re.compile(rb'\{"status": ?"(?:SUCCESS|FAILURE|REVOKED)"')
_HEAD = 40
"""Bytes of a record that hold its status."""


class Results(RedisBackend):
    """Results as the contract has them."""

    def _get_pool(self, **parameters: Any) -> Any:
        """Connections that are asked where they are in doubt."""
        parameters["connection_class"] = probed(parameters.get("connection_class", redis.Connection))
        return super()._get_pool(**parameters)

    def prepare_exception(self, exc: BaseException, serializer: str | None = None) -> Any:
        """An error's record, of the class that the contract knows."""
        return super().prepare_exception(_ours(exc), serializer)

    def mark_as_revoked(self, task_id: str, reason: str = "", *args: Any, **options: Any) -> None:
        """Have a revocation stored that remote control tells of: the main process does not wait for it."""
        del args, options
        self.owe(task_id, TaskRevokedError(reason), lambda: None)

    def store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **options: Any
    ) -> Any:
        """Store what became of a job; if that can't be done in time, the job goes back to its queue.

        A job that is acknowledged without its record would be lost to whoever waits for it. What is told of a job
        that still runs is worth one try and no failure.

        Raises:
            celery.exceptions.BackendStoreError: in a pool's process; see `QuietRequest.on_failure`.
            redis.ConnectionError: elsewhere. The main process stores outcomes with `owe` instead.
        """
        if state not in READY_STATES:
            result = self.encode_result(result, state)
            try:
                self._store_result(task_id, result, state, traceback, request=request)
            except redis.RedisError as error:
                logger.warning("state not stored", extra=_said(task_id, state, error))
            return result
        try:
            return super().store_result(task_id, result, state, traceback, request, **options)
        except (BackendStoreError, redis.RedisError) as error:
            logger.warning("record not stored", extra=_said(task_id, state, error))
            raise _back_to_the_queue() from None

    def _store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **options: Any
    ) -> Any:
        """Store a record and tell who waits for it, unless the job has succeeded: one round trip, not Celery's two."""
        meta = self._get_result_meta(result=result, state=state, traceback=traceback, request=request)
        record = self.encode({**meta, "task_id": task_id})
        seconds = self.failure_expires if state == FAILURE else self.expires
        try:
            self._put(task_id, record, seconds)
        except redis.ResponseError:
            # No scripts for this user; or Redis is read-only or full, which an older one words as the script's fault.
            return super()._store_result(task_id, result, state, traceback, request, **options)
        return result

    def mark_as_failure(self, task_id: str, exc: BaseException, *args: Any, **options: Any) -> Any:
        """Store a failure of a job; one of storing its result is none: the job goes back to its queue."""
        if isinstance(exc, BackendError | redis.RedisError):
            raise exc
        return super().mark_as_failure(task_id, exc, *args, **options)

    @cached_property
    def _owed(self) -> OwedOutcomes:
        return OwedOutcomes(self.app._get_backend().store_failures)  # noqa: SLF001 -- its thread shares no connection

    def owe(self, task_id: str, error: Exception, stored: Callable[[], object]) -> None:
        """Have a failure stored for as long as it takes, for the main process, which must not wait.

        Args:
            task_id: whose.
            error: what the job's caller is told.
            stored: called once it is stored, in another thread.
        """
        self._owed.add(task_id, error, stored)

    def answer(self, failures: Sequence[tuple[str, Exception]]) -> None:
        """Store failures now, for the main process: not tried while it is known that it would fail.

        Raises:
            redis.RedisError: one could not be stored; others may be.
        """
        if self._owed.is_away:
            raise redis.ConnectionError("the results' Redis is away")
        try:
            self.store_failures(failures)
        except redis.RedisError:
            self._owed.note_away()
            raise

    def is_answered(self, task_id: str) -> bool:
        """Whether a job has ended, by its record; not tried while it is known that it would fail.

        Raises:
            redis.RedisError: the results' Redis is away.
        """
        if self._owed.is_away:
            raise redis.ConnectionError("the results' Redis is away")
        try:
            head = self.client.getrange(self.get_key_for_task(task_id), 0, _HEAD)
        except redis.RedisError:
            self._owed.note_away()
            raise
        return _ENDED.match(head) is not None

    def store_failures(self, failures: Sequence[tuple[str, Exception]]) -> None:
        """Store failures in one try, unless their jobs have succeeded.

        Args:
            failures: of each job its id, and its error; none: find out whether Redis is there.

        Raises:
            redis.RedisError: one could not be stored; others may be.
        """
        if not failures:
            self.client.ping()
            return
        records = [(task_id, self._failure(task_id, error)) for task_id, error in failures]
        with self.client.pipeline(transaction=False) as pipe:
            for task_id, record in records:
                self._put(task_id, record, self.failure_expires, pipe)
            answers = pipe.execute(raise_on_error=False)
        for (task_id, record), answer in zip(records, answers, strict=True):
            if isinstance(answer, redis.ResponseError):  # as in `_store_result`
                if self._get_task_meta_for(task_id)["status"] != SUCCESS:
                    self._set(self.get_key_for_task(task_id), record)
            elif isinstance(answer, Exception):
                raise answer

    def _failure(self, task_id: str, error: Exception) -> str | bytes:
        state = REVOKED if isinstance(error, TaskRevokedError) else FAILURE
        meta = self._get_result_meta(self.encode_result(error, state), state, None, None)
        return self.encode({**meta, "task_id": task_id})  # type: ignore[no-any-return] # text, as results are JSON

    def _put(self, task_id: str, record: str | bytes, seconds: int, client: Any = None) -> None:
        (client or self.client).eval(_STORE, 1, self.get_key_for_task(task_id), seconds, record)

    def _get_result_meta(self, result: Any, state: str, traceback: Any, request: Any, **options: Any) -> Any:
        """A result's record; the trace stays in the worker's log."""
        del traceback
        meta = super()._get_result_meta(result, state, None, request, **options)
        # The main process, which stores what no job's process can, runs no task and so knows of no children.
        return {**meta, "children": meta.get("children") or []}


def _back_to_the_queue() -> Exception:
    """What has the message kept: a pool's process tells the main one, which gives it back."""
    away = "the results' Redis is away"
    return redis.ConnectionError(away) if get_current_worker_task() is None else BackendStoreError(away)


def _said(task_id: str, state: str, error: Exception) -> dict[str, str]:
    return {"task_id": task_id, "state": state, "error": type(error).__name__}


def _ours(error: BaseException) -> BaseException:
    if isinstance(error, RetrievalError):
        return error
    if isinstance(error, TimeLimitExceeded):
        return TimedOut("the job ran longer than its time limit, and its process was ended")
    if isinstance(error, TaskRevokedError):
        return DeadLettered("the job was revoked")
    if isinstance(error, Retry):
        return Unavailable("the job was put back, to be tried again")
    return InternalError(f"unforeseen {type(error).__name__}; the worker's log has the details under this task id")
