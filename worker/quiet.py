"""Celery's request and consumer, made to say nothing of what a job holds.

Stock Celery puts a producer's `argsrepr` into events and logs, prints arguments to `inspect active`, and logs
the body of whatever it can't run. Here all of these see the names of a job's fields only.
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from billiard.exceptions import WorkerLostError
from celery.exceptions import BackendError
from celery.worker import state
from celery.worker.consumer import Consumer
from celery.worker.request import Request
from celery.worker.state import task_ready
from kombu.exceptions import OperationalError
from redis import RedisError

from worker.contract import Job
from worker.errors import DeadLettered, InvalidJob, NotAuthorised, Unavailable
from worker.transport.inspection import Refusal

_LONGEST_ID = 64

EVENT_SECONDS = 0.25
"""How long an event may wait for others: Celery would send each by itself, which was a third of the main process's
work (docs/performance.md)."""

_EVENTS_AT_ONCE = 256

logger = logging.getLogger("worker.quiet")


@functools.cache
def _known_fields(cls: type[Job]) -> set[str]:
    return set(cls.model_fields).union(*(_known_fields(child) for child in cls.__subclasses__()))


def summarise(args: Any) -> str:
    """A job's arguments as the names of the fields it has, of those that the contract knows.

    >>> summarise([{"query_embedding": [0.1], "k": 12, "secret text": 1}])
    '(k, query_embedding, +1)'
    """
    job = args[0] if isinstance(args, list | tuple) and args else None
    if not isinstance(job, dict):
        return "(no job)"
    known = sorted(_known_fields(Job) & job.keys())
    unknown = len(job) - len(known)
    return f"({', '.join([*known, f'+{unknown}'] if unknown else known)})"


class QuietRequest(Request):
    """A request that shows field names in place of arguments, and hands its pool what it needs, once."""

    content_type = None
    """Says that `body` is decoded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._argsrepr = self._request_dict["argsrepr"] = summarise(self._args)
        self._kwargsrepr = self._request_dict["kwargsrepr"] = "{}"
        # A shadow name is a producer's free text, shown in logs and events.
        self.name = self._type
        # A sender's own time limits are refused by the task; until then they must not act.
        self.time_limits = (None, None)
        self._request_dict["shadow"] = None

    @property
    def body(self) -> Any:
        """The decoded body: what the pool's process gets, so that it need not decode the same bytes again."""
        return self._payload

    @property
    def request_dict(self) -> dict[str, Any]:
        """The headers for the pool's process. The arguments are in the body; beside it they would be sent twice."""
        return {**self._request_dict, "args": None, "kwargs": None}

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """A job that failed: put back if its result could not be stored, a dead letter if its failure is the message's.

        That is one whose retries are used up, or whose token was never good for it.
        """
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):  # how a pool process hands it over
            error = error.exc
        if isinstance(error, BackendError | RedisError | OperationalError):
            task_ready(self)
            logger.warning("result not stored: the job goes back", extra={"task_id": self.id})
            return self.reject(requeue=True)
        if isinstance(error, WorkerLostError | SystemExit | KeyboardInterrupt):  # the last two: it exits, and says so
            self._tell_transport("blame")
        if isinstance(error, Unavailable):
            self._condemn(Refusal("retries_exhausted", error, self.id, self._type))
        if isinstance(error, NotAuthorised) and error.forged:
            self._condemn(Refusal("bad_signature", error, self.id, self._type))
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        if expired:
            error = DeadLettered("the job expired before a worker ran it")
            self._condemn(Refusal("expired", error, self.id, self._type))
        super()._announce_revoked(reason, terminated, signum, expired)

    def _condemn(self, refusal: Refusal) -> None:
        """Have the message end as a dead letter."""
        self._tell_transport("condemn", refusal)

    def _tell_transport(self, what: str, *more: Any) -> None:
        """Say of this message what only our own transport understands."""
        tell = getattr(self._message.channel.qos, what, None)
        if tell is not None:
            tell(self._message.delivery_tag, *more)

    def info(self, safe: bool = True) -> dict[str, Any]:
        """What `inspect active` and its like show, whatever they ask for."""
        del safe
        return {**super().info(safe=True)}


class QuietConsumer(Consumer):
    """A consumer that names what is wrong with a message without printing it, and sends events together."""

    _flush_at = float("-inf")

    def connect(self) -> Any:
        """Connect; the transport tells senders of what it refuses through the result backend."""
        connection = super().connect()
        if hasattr(connection.transport, "answer"):
            connection.transport.answer = self.app.backend.store_failures
        return connection

    def on_send_event_buffered(self) -> None:
        """Have what waits to be sent wait for others, unless the worker is ending."""
        if self.hub is None or self.event_dispatcher is None:
            return
        if state.should_stop is not None:  # nobody will turn the loop again
            self._flush_events()
            return
        self.event_dispatcher.buffer_limit = _EVENTS_AT_ONCE
        now = time.monotonic()
        if now >= self._flush_at:  # also where a timer was lost with its connection
            self._flush_at = now + EVENT_SECONDS
            self.hub.call_later(EVENT_SECONDS, self._flush_events)

    def on_close(self) -> None:
        """Forget what the pool has not begun; but what was sent to a pool's process is waited for, when it ends.

        Celery forgets this, too, until the process has said that it accepts it. The process runs it all the same: it
        would wait 30 s for its result to be read, and the job would run twice.
        """
        if state.should_stop is not None:
            jobs: dict[int, Any] = getattr(getattr(self.pool, "_pool", None), "_cache", {})
            for job in jobs.values():
                job._accepted = job._accepted or job._write_to is not None  # noqa: SLF001 -- nothing public tells it
            self._flush_events()  # a timer will not come to it any more
        super().on_close()

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """A body that can't be decoded at all.

        Celery hands those of remote control over as well: who writes these may not write a job's result.
        """
        jobs = getattr(self, "task_consumer", None)
        if jobs is not None and message.channel is not jobs.channel:
            logger.warning("control message ignored: undecodable")
            return
        logger.error("message refused: undecodable", extra=safe(message, exc))
        headers = message.headers if isinstance(message.headers, dict) else {}
        if isinstance(headers.get("id"), str) and headers.get("task") in self.app.tasks:
            problem = InvalidJob("the body could not be decoded as JSON (and must not be compressed)")
            self.app.backend.mark_as_failure(headers["id"], problem)
        message.ack()

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Not a task message."""
        del body
        logger.error("message refused: not a task message", extra=safe(message))
        message.reject_log_error(logger, self.connection_errors)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task that this worker does not have."""
        del body, exc
        logger.error("message refused: unknown task", extra=safe(message))
        message.reject_log_error(logger, self.connection_errors)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task message whose envelope is wrong."""
        del body
        logger.error("message refused: invalid envelope", extra=safe(message, exc))
        message.reject_log_error(logger, self.connection_errors)


def safe(message: Any, exc: Exception | None = None) -> dict[str, Any]:
    """What may be logged of a message: its id if it is one, its size, the kind of error."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    task_id = str(headers.get("id", ""))
    return {
        "task_id": task_id if len(task_id) <= _LONGEST_ID and task_id.replace("-", "").isalnum() else "",
        "bytes": len(message.body or b""),
        "error": type(exc).__name__ if exc else "",
    }
