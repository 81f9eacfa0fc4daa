"""Celery's Redis result backend, with the contract's errors.

A caller gets only errors of the contract, whatever Celery calls them, and no stack traces: the error class implies what
to do, and the worker's log has the place of the failure.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
from celery._state import get_current_worker_task
from celery.backends.redis import RedisBackend
from celery.exceptions import BackendError, BackendStoreError, Retry, TaskRevokedError, TimeLimitExceeded
from celery.states import FAILURE, READY_STATES, REVOKED

from retrieval_client.errors import (
    ON_THE_WIRE,
    DeadLettered,
    InternalError,
    InvalidJob,
    RetrievalError,
    TimedOut,
    Unavailable,
)
from worker.queue import codec
from worker.queue.liveness import probed
from worker.queue.transport import keys
from worker.queue.unstored_outcomes import UnstoredOutcomes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OVERRIDES = {"redis": "worker.queue.results:Results", "rediss": "worker.queue.results:Results"}
"""For ``app.loader.override_backends``."""

logger = logging.getLogger("worker.results")

# A job has one outcome, also if it was delivered twice: a stored one is never overwritten. Only those after which the
# same id may be sent again are: from the dead letters, by an operator, or with a new token, by its sender. Records
# begin as Celery composes them.
_STORE = """
local again = {Unavailable = true, DeadLettered = true, NotAuthorised = true}
for number, key in ipairs(KEYS) do
  local head = redis.call('GETRANGE', key, 0, 63)
  local failure = string.match(head, '^{"status": ?"FAILURE", ?"result": ?{"exc_type": ?"(%a+)"')
  if not string.find(head, '^{"status": ?"SUCCESS"') and (not failure or again[failure]) then
    redis.call('SETEX', key, ARGV[2 * number - 1], ARGV[2 * number])
    redis.call('PUBLISH', key, ARGV[2 * number])
  end
end
"""

_ENDED = re.compile(rb'\{"status": ?"(?:SUCCESS|FAILURE|REVOKED)"')
_FINAL = re.compile(
    rb'\{"status": ?"(?:SUCCESS"|FAILURE", ?"result": ?\{"exc_type": ?"(?!Unavailable"|DeadLettered"|NotAuthorised"))'
)
"""As in the script, for users who may run none."""

_HEAD = 63
"""Last of a record's bytes that hold its status and the class of its error."""


class _Outcome(NamedTuple):
    """Outcome of a job: its encoded result, its state, and its request."""

    task_id: str
    result: Any
    state: str
    request: Any


class Results(RedisBackend):
    """Result backend with the contract's errors."""

    _collected: list[tuple[_Outcome, bytes]] | None = None

    def _get_pool(self, **parameters: Any) -> Any:
        """Return a pool of probed connections; see `worker.queue.liveness`."""
        parameters["connection_class"] = probed(parameters.get("connection_class", redis.Connection))
        return super()._get_pool(**parameters)

    def prepare_exception(self, exc: BaseException, serializer: str | None = None) -> Any:
        """Return an error's record, converted to an error class of the contract; for pickle, that error."""
        prepared = super().prepare_exception(_contract_error(exc), serializer)
        return {**prepared, "exc_module": ON_THE_WIRE} if isinstance(prepared, dict) else prepared

    def mark_as_revoked(self, task_id: str, reason: str = "", *args: Any, **options: Any) -> None:
        """Store a revocation by remote control in the background: the main process must not wait for it."""
        del args, options
        self.store_later(task_id, TaskRevokedError(reason), lambda: None)

    def store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **options: Any
    ) -> Any:
        """Store a job's outcome; if that can't be done in time, raise an error that requeues the job.

        A job acknowledged without a record would be lost to its caller. The state of a job that is still running is
        written in one attempt, and failures are ignored.

        Raises:
            celery.exceptions.BackendStoreError: in a pool process; see `QuietRequest.on_failure`.
            redis.ConnectionError: elsewhere. The main process stores outcomes with `store_later` instead.
        """
        if self._collected is not None and state in READY_STATES:
            result = self.encode_result(result, state)
            outcome = _Outcome(task_id, result, state, request)
            self._collected.append((outcome, self._record(outcome)))
            return result
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
            raise _requeue_error() from None

    def collect(self) -> None:
        """Collect the outcomes of the jobs that end from now on, until `store_collected`."""
        self._collected = []

    def store_collected(self) -> set[str]:
        """Store the collected outcomes in one round trip; return the ids of the jobs whose outcome was not stored."""
        collected, self._collected = self._collected or [], None
        lost: set[str] = set()
        try:
            self._put([(one.task_id, record, self._seconds(one.state)) for one, record in collected])
        except redis.RedisError:
            for one, _ in collected:
                # After one that all retries could not store, more retries for the others would only take time.
                if lost or not self._store_alone(one):
                    lost.add(one.task_id)
        return lost

    def _store_alone(self, one: _Outcome) -> bool:
        """Store an outcome as `store_result` does, with its retries; return whether that succeeded."""
        try:
            super().store_result(one.task_id, one.result, one.state, None, one.request)
        except (BackendStoreError, redis.RedisError) as error:
            logger.warning("record not stored", extra=_said(one.task_id, one.state, error))
            return False
        return True

    def _record(self, one: _Outcome) -> bytes:
        meta = self._get_result_meta(one.result, one.state, None, one.request)
        return codec.dumps({**meta, "task_id": one.task_id})

    def _seconds(self, state: str) -> int:
        return int(self.failure_expires if state == FAILURE else self.expires)

    def _store_result(
        self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **options: Any
    ) -> Any:
        """Store and publish a record, unless the job has a final one: one round trip, not Celery's two."""
        record = self._record(_Outcome(task_id, result, state, request))
        try:
            self._put([(task_id, record, self._seconds(state))])
        except redis.ResponseError:
            # No scripts for this user; or Redis is read-only or full, which older versions report as a script error.
            if _FINAL.match(self._head(task_id)):
                return result
            return super()._store_result(task_id, result, state, traceback, request, **options)
        return result

    def mark_as_failure(self, task_id: str, exc: BaseException, *args: Any, **options: Any) -> Any:
        """Store a job's failure; re-raise an error of storing its result, so that the job is requeued."""
        if isinstance(exc, BackendError | redis.RedisError):
            raise exc
        return super().mark_as_failure(task_id, exc, *args, **options)

    @cached_property
    def _owed(self) -> UnstoredOutcomes:
        return UnstoredOutcomes(self.app._get_backend().store_failures)  # noqa: SLF001 -- its thread shares no connection

    def store_later(self, task_id: str, error: Exception, stored: Callable[[], object]) -> None:
        """Store a failure in the background, retrying until it is stored; for the main process, which must not wait.

        Args:
            task_id: id of the job.
            error: the error for the job's caller.
            stored: called in another thread once it is stored.
        """
        self._owed.add(task_id, error, stored)

    def answer(self, failures: Sequence[tuple[str, Exception]]) -> None:
        """Store failures now, for the main process; fails at once while Redis is known to be unavailable.

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
        """Return whether a job has ended, by its record; fails at once while Redis is known to be unavailable.

        Raises:
            redis.RedisError: the result backend's Redis is unavailable.
        """
        if self._owed.is_away:
            raise redis.ConnectionError("the results' Redis is away")
        try:
            return _ENDED.match(self._head(task_id)) is not None
        except redis.RedisError:
            self._owed.note_away()
            raise

    def _head(self, task_id: str) -> bytes:
        head: bytes = self.client.getrange(self.get_key_for_task(task_id), 0, _HEAD)
        return head

    def store_failures(self, failures: Sequence[tuple[str, Exception]]) -> None:
        """Store failures in one attempt, unless their jobs have a final record.

        Args:
            failures: id and error of each job; empty: only check that Redis is available.

        Raises:
            redis.RedisError: one could not be stored; others may be.
        """
        if not failures:
            self.client.ping()
            return
        records = [(task_id, self._failure(task_id, error), self.failure_expires) for task_id, error in failures]
        try:
            self._put(records)
        except redis.ResponseError:  # as in `_store_result`
            for task_id, record, _ in records:
                if not _FINAL.match(self._head(task_id)):
                    self._set(self.get_key_for_task(task_id), record)

    def _failure(self, task_id: str, error: Exception) -> bytes:
        state = REVOKED if isinstance(error, TaskRevokedError) else FAILURE
        meta = self._get_result_meta(self.encode_result(error, state), state, None, None)
        if isinstance(error, InvalidJob):
            # Here that is a refused message's, whose id anybody may have written on it. It begins otherwise than a
            # final record, so that the job of that id replaces it.
            meta = {"result": meta.pop("result"), **meta}
        return codec.dumps({**meta, "task_id": task_id})

    def _put(self, records: Sequence[tuple[str, bytes, int]]) -> None:
        """Store and publish records for some seconds, in one step, but those of jobs that have a final one."""
        script = keys.WHEN_FULL + _STORE if self._is_on_broker else _STORE
        names = [self.get_key_for_task(task_id) for task_id, *_ in records]
        values = [value for _, record, seconds in records for value in (seconds, record)]
        self.client.eval(script, len(names), *names, *values)

    @cached_property
    def _is_on_broker(self) -> bool:
        """True if the broker's server stores the results: however full it is, an answered job makes room there."""
        broker, results = self.app.connection_for_read(), self.connparams
        return (broker.hostname, broker.port) == (results.get("host"), results.get("port"))

    def _get_result_meta(self, result: Any, state: str, traceback: Any, request: Any, **options: Any) -> Any:
        """Return a result's record as Celery has it, without the stack trace, which stays in the worker's log."""
        del traceback, options
        of_request = {"group_id": getattr(request, "group", None), "parent_id": getattr(request, "parent_id", None)}
        return {
            "status": state,
            "result": result,
            "traceback": None,
            # The main process, which stores what no pool process can, runs no task and so knows of no children.
            "children": self.current_task_children(request) or [],
            "date_done": datetime.now(UTC).isoformat() if state in READY_STATES else None,
            **{name: value for name, value in of_request.items() if value},
        }


def _requeue_error() -> Exception:
    """Return the error that keeps the message: a pool process passes it to the main one, which requeues the message."""
    away = "the results' Redis is away"
    return redis.ConnectionError(away) if get_current_worker_task() is None else BackendStoreError(away)


def _said(task_id: str, state: str, error: Exception) -> dict[str, str]:
    return {"task_id": task_id, "state": state, "error": type(error).__name__}


def _contract_error(error: BaseException) -> BaseException:
    if isinstance(error, RetrievalError):
        return error
    if isinstance(error, TimeLimitExceeded):
        return TimedOut("the job ran longer than its time limit, and its process was ended")
    if isinstance(error, TaskRevokedError):
        return DeadLettered("the job was revoked")
    if isinstance(error, Retry):
        return Unavailable("the job was requeued, to be retried")
    return InternalError(f"unforeseen {type(error).__name__}; the worker's log has the details under this task id")
