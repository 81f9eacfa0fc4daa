"""Celery's request and consumer, without job content in logs, events and inspection.

Stock Celery puts a producer's `argsrepr` into events and logs, shows arguments in `inspect active`, and logs the body
of any message it can't run. Here all of these show the names of a job's fields only.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
import warnings
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from billiard.common import TERM_SIGNAME
from billiard.einfo import ExceptionWithTraceback
from celery.app.events import Events
from celery.events.dispatcher import EventDispatcher
from celery.exceptions import (
    BackendError,
    CPendingDeprecationWarning,
    Ignore,
    Reject,
    Retry,
    TaskRevokedError,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.platforms import signals
from celery.signals import worker_shutting_down
from celery.worker import state
from celery.worker.consumer import Consumer
from celery.worker.request import Request
from celery.worker.state import task_ready, task_reserved
from kombu.asynchronous import set_event_loop
from kombu.exceptions import OperationalError
from redis import RedisError

from retrieval_client.errors import DeadLettered, InternalError, InvalidJob, NotAuthorised, Unavailable
from worker.queue.bundles import was_in_bundle
from worker.queue.loop_watch import BEAT_SECONDS, LoopWatch
from worker.queue.summaries import summarise
from worker.queue.transport.inspection import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.queue.transport.qos import QoS

_LONGEST_ID = 64

EVENT_SECONDS = 0.25
"""Longest time that events are buffered: Celery would send each separately, which was a third of the main process's
work."""

_EVENTS_AT_ONCE = 256

logger = logging.getLogger("worker.quiet")


class QuietRequest(Request):
    """Request that shows field names in place of arguments, and sends the pool its data once."""

    content_type = None
    """None: `body` is decoded already."""

    _was_terminated = False
    """True if termination of the process that runs it was requested."""

    _is_waiting = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._argsrepr = self._request_dict["argsrepr"] = summarise(self._args)
        self._kwargsrepr = self._request_dict["kwargsrepr"] = "{}"
        # A shadow name is free text of the producer, shown in logs and events.
        self.name = self._type
        # A sender's time limits are refused by the task; until then they must have no effect.
        self.time_limits = (None, None)
        self._request_dict["shadow"] = None
        self.may_be_bundled = not self._message.properties.get("alone", True)
        if self._expires is not None:  # by Redis' clock; Celery compares it with this machine's clock
            self._expires -= timedelta(seconds=self._message.properties.get("clock_ahead", 0.0))

    @property
    def body(self) -> Any:
        """Decoded body, which the pool process gets, so that it need not decode the same bytes again."""
        return self._payload

    @property
    def request_dict(self) -> dict[str, Any]:
        """Headers for the pool process, without the arguments, which are in the body already."""
        return {**self._request_dict, "args": None, "kwargs": None}

    def wait_for_process(self) -> None:
        """Record, also in the transport, that the job has not begun because no process is idle."""
        self._is_waiting = True
        self._tell_transport("mark_waiting")

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """Record that a process begins the job."""
        if self._is_waiting:
            self._is_waiting = False
            self._tell_transport("mark_begun")
        super().on_accepted(pid, time_accepted)

    @property
    def has_waited(self) -> bool:
        """True if no process was idle for the job: it may have expired meanwhile."""
        return self._is_waiting

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Handle an exceeded time limit; at the hard one the process was ended, and this one reports to the caller."""
        if soft:
            super().on_timeout(soft, timeout)
            return
        task_ready(self)
        if state.should_terminate:  # the worker exits at once: the message is redelivered
            return
        logger.error("hard time limit: the process was killed", extra={"task_id": self.id, "seconds": timeout})
        self._store_later(TimeLimitExceeded(timeout))
        self.send_event("task-failed", exception="TimeLimitExceeded", traceback="")

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        """Handle a failed job: requeue it if its result could not be stored, dead-letter it if the message is at fault.

        The message is at fault if its retries are exhausted, or its token was never valid for it.

        Args:
            exc_info: the error.
            send_failed_event: True: send an event.
            return_ok: True if the pool process has stored the outcome; otherwise it is stored here, then acknowledged.
        """
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):  # as a pool process sends it
            error = error.exc
        if isinstance(error, BackendError | RedisError | OperationalError):
            task_ready(self)
            logger.warning("result not stored: the job is requeued", extra={"task_id": self.id})
            return self.reject(requeue=True)
        if isinstance(error, TimeLimitExceeded):  # `on_timeout` is called next
            return None
        if isinstance(error, Terminated):
            return self._on_terminated(error)
        if isinstance(error, WorkerLostError | SystemExit | KeyboardInterrupt):
            return self._on_lost()
        if not return_ok and not isinstance(error, Reject | Ignore | Retry):
            return self._on_unforeseen(error)
        if isinstance(error, Unavailable):
            self._dead_letter_on_ack(Refusal("retries_exhausted", error, self.id, self._type))
        if isinstance(error, NotAuthorised) and error.forged:
            self._dead_letter_on_ack(Refusal("bad_signature", error, self.id, self._type))
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def _on_lost(self) -> Any:
        """Requeue a job whose process died unrequested while running it; the delivery counts."""
        task_ready(self)
        if self._already_revoked or self._already_cancelled:
            return None
        logger.error("process lost: the job is requeued", extra={"task_id": self.id})
        if state.should_stop is None and not state.should_terminate:
            job = self._apply_result() if self._apply_result is not None else None
            self._tell_transport("set_apart" if was_in_bundle(job) else "blame")
        return self.reject(requeue=True)

    def _on_terminated(self, error: Terminated) -> Any:
        """Handle a process that was terminated by request, for this job or for an earlier one that it had survived."""
        task_ready(self)
        if self._already_revoked or self._already_cancelled:
            return None
        if self._was_terminated or self.id in state.revoked:
            return self._announce_revoked("terminated", True, str(error), False)
        return self.reject(requeue=True)

    def _on_unforeseen(self, error: BaseException) -> None:
        """Store a failure outside the job's code, for which the pool process stored no outcome."""
        task_ready(self)
        logger.error("failed outside the job", extra={"task_id": self.id, "error": type(error).__name__})
        self._store_later(error if isinstance(error, Exception) else InternalError(type(error).__name__))
        self.send_event("task-failed", exception=type(error).__name__, traceback="")

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """Terminate the process. The revocation is stored once it has ended: until then the job may still succeed."""
        signum = signals.signum(signal or TERM_SIGNAME)
        self._was_terminated = True
        if self.time_start:
            pool.terminate_job(self.worker_pid, signum)
        else:
            self._terminate_on_ack = pool, signum
        handed_over = self._apply_result() if self._apply_result is not None else None
        if handed_over is not None:
            handed_over.terminate(signum)

    def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
        task_ready(self)
        self.send_event("task-revoked", terminated=terminated, signum=signum, expired=expired)
        self._already_revoked = True
        if expired:
            error = DeadLettered("the job expired before a worker ran it")
            self._dead_letter_on_ack(Refusal("expired", error, self.id, self._type))
            self._store_later(error)
        else:
            self._store_later(TaskRevokedError(reason))

    def _success_was_stored(self) -> Any:
        """Return False: a query would block the event loop on Redis. The job runs again; its first result is kept."""
        return False

    def _store_later(self, error: Exception) -> None:
        """Store a failure that only this process knows of, in the background, then acknowledge the message."""
        if not self.store_errors:
            self.acknowledge()
            return
        context = self._context

        def acknowledge() -> None:
            if context.chain or context.chord or context.errbacks:  # callbacks, where these are allowed
                try:
                    self.task.backend.mark_as_failure(self.id, error, request=context, store_result=False)
                except Exception as failed:  # noqa: BLE001 -- of any task that a sender names
                    logger.warning("callbacks not sent", extra={"task_id": self.id, "error": type(failed).__name__})
            self.acknowledge()

        self.task.backend.store_later(self.id, error, acknowledge)

    def _dead_letter_on_ack(self, refusal: Refusal) -> None:
        """Dead-letter the message when it is acknowledged."""
        self._tell_transport("dead_letter_on_ack", refusal)

    def _tell_transport(self, what: str, *more: Any) -> None:
        """Call a method of our own transport's QoS for this message; do nothing with another transport."""
        tell = getattr(self._message.channel.qos, what, None)
        if tell is not None:
            tell(self._message.delivery_tag, *more)

    def info(self, safe: bool = True) -> dict[str, Any]:
        """Return the safe form for `inspect active` and the like, whatever they request."""
        del safe
        return {**super().info(safe=True)}


class _Dispatcher(EventDispatcher):
    """Event dispatcher that does not retry: waiting for a lost connection in the event loop would block all jobs."""

    def _publish(self, event: Any, producer: Any, routing_key: str, **options: Any) -> None:
        super()._publish(event, producer, routing_key, **{**options, "retry": False})


class QuietEvents(Events):
    """App events without retries; events that could not be sent are kept for the next connection."""

    dispatcher_cls = _Dispatcher


class QuietConsumer(Consumer):
    """Consumer that logs what is wrong with a message without its content, and sends events in batches."""

    _flush_at = float("-inf")
    _settles = False
    _deliveries: QoS | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        self._acknowledgements: deque[Callable[[], object]] = deque()
        super().__init__(*args, **options)
        worker_shutting_down.connect(self._shorten_leases)

    def _shorten_leases(self, **_: Any) -> None:
        """Let other workers take the jobs over soon, if this one is killed before it has finished them."""
        transport = getattr(self.connection, "transport", None)
        heart = getattr(getattr(transport, "deliveries", self._deliveries), "heart", None)
        if heart is not None:
            heart.hurry()

    def connect(self) -> Any:
        """Connect, and let the transport report refused messages to their senders through the result backend."""
        if self.hub is not None:
            set_event_loop(self.hub)  # kombu drops it with each lost connection
        connection = super().connect()
        if hasattr(connection.transport, "answer"):
            connection.transport.answer = self.app.backend.answer
            connection.transport.is_answered = self.app.backend.is_answered
            connection.transport.deliveries = self._deliveries
            self._connect_pool(connection.transport)
        return connection

    def _connect_pool(self, transport: Any) -> None:
        """Let the transport claim as many jobs as the pool can begin, and settle together what ends together."""
        pool: Any = getattr(self.pool, "_pool", None)
        if hasattr(pool, "settle_together"):
            transport.pool = pool
            pool.settle_together = functools.partial(self._settle_together, transport)

    @contextlib.contextmanager
    def _settle_together(self, transport: Any) -> Iterator[None]:
        """Acknowledge at once, in one step, the jobs that end meanwhile; Celery would do so one by one, later."""
        deliveries = transport.deliveries
        self._settles = deliveries is not None
        try:
            with deliveries.together() if self._settles else contextlib.nullcontext():
                yield
        finally:
            self._settles = False

    def call_soon_ack(self, p: Any, *args: Any, **kwargs: Any) -> Any:
        """Acknowledge a message soon; now, if others end at the same time. Not from another thread.

        A callback of the event loop that fails with the connection takes along those behind it: they are kept here.
        """
        if self._settles and threading.current_thread() is threading.main_thread():
            return p(*args, **kwargs)
        if self.hub is None:
            return super().call_soon_ack(p, *args, **kwargs)
        self._acknowledgements.append(functools.partial(p, *args, **kwargs))
        return self.hub.call_soon(self._acknowledge)

    def _acknowledge(self) -> None:
        while self._acknowledgements:
            self._acknowledgements.popleft()()

    def register_with_event_loop(self, hub: Any) -> None:
        """Watch the event loop; again after each connection, because its timers end with the connection."""
        super().register_with_event_loop(hub)
        watch = LoopWatch(time.monotonic, getattr(self.app, "note_stall", lambda _: None))
        hub.call_soon(watch.beat)  # the loop's first iteration, from which on it is watched
        hub.call_repeatedly(BEAT_SECONDS, watch.beat)

    def on_send_event_buffered(self) -> None:
        """Delay buffered events so that they are sent in batches, unless the worker is stopping."""
        if self.hub is None or self.event_dispatcher is None:
            return
        if state.should_stop is not None:  # the loop will not run again
            self._flush_events()
            return
        self.event_dispatcher.buffer_limit = _EVENTS_AT_ONCE
        now = time.monotonic()
        if now >= self._flush_at:  # also if a timer was lost with its connection
            self._flush_at = now + EVENT_SECONDS
            self.hub.call_later(EVENT_SECONDS, self._flush_events)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Keep deliveries: jobs continue, and are acknowledged over the next connection."""
        leave = getattr(self.connection.transport, "leave", None)
        if leave is not None:
            self._deliveries = leave()
        self._acknowledge()
        with warnings.catch_warnings(action="ignore", category=CPendingDeprecationWarning):  # of Celery's next default
            super().on_connection_error_after_connected(exc)

    def on_close(self) -> None:
        """Drop jobs that the pool has not begun; requeue them if a connection was lost."""
        if state.should_stop is not None:
            self._flush_events()  # no timer will do it any more
        jobs, waiting = self._jobs(), [*state.scheduled_requests]
        super().on_close()
        at_work = self._jobs()
        for job in at_work.values():  # Celery has dropped those that no process has accepted yet
            task_reserved(_request_of(job))
        if state.should_stop is None and self._deliveries is not None:
            waiting += [_request_of(job) for number, job in jobs.items() if number not in at_work and not job.ready()]
            self._deliveries.requeue(request.message.delivery_tag for request in waiting)

    def _jobs(self) -> dict[int, Any]:
        """Return the pool's jobs by number; empty for a pool without a job cache."""
        return {**getattr(getattr(self.pool, "_pool", None), "_cache", {})}

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Refuse a body that can't be decoded at all.

        Celery calls this for remote control messages as well: their senders must not be able to write a job's result.
        """
        jobs = getattr(self, "task_consumer", None)
        if jobs is not None and message.channel is not jobs.channel:
            logger.warning("control message ignored: undecodable")
            return
        logger.error("message refused: undecodable", extra=safe(message, exc))
        headers = message.headers if isinstance(message.headers, dict) else {}
        known = headers.get("task") in self.app.tasks
        problem = InvalidJob("the body could not be decoded as JSON (and must not be compressed)")
        self._refuse(message, problem if known else None)

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Refuse a message that is not a task message."""
        del body
        logger.error("message refused: not a task message", extra=safe(message))
        self._refuse(message, None)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Refuse a task that this worker does not have."""
        del body, exc
        logger.error("message refused: unknown task", extra=safe(message))
        self._refuse(message, DeadLettered("this worker has no such task"))

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """Refuse a task message with an invalid envelope."""
        del body
        logger.error("message refused: invalid envelope", extra=safe(message, exc))
        self._refuse(message, InvalidJob("the message's headers are not those of a task"))

    def _refuse(self, message: Any, problem: Exception | None) -> None:
        """Discard a message; its sender gets the error first, if the task id can be read."""
        forget = functools.partial(message.reject_log_error, logger, self.connection_errors)
        task_id = safe(message)["task_id"]
        if problem is None or not task_id:
            forget()
        else:
            self.app.backend.store_later(task_id, problem, lambda: self.call_soon_ack(forget))


def _request_of(job: Any) -> QuietRequest:
    return job._accept_callback.__self__  # type: ignore[no-any-return] # noqa: SLF001 -- no public API


def safe(message: Any, exc: Exception | None = None) -> dict[str, Any]:
    """Return what may be logged of a message: a well-formed task id, its size, the class of the error."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    task_id = str(headers.get("id", ""))
    return {
        "task_id": task_id if len(task_id) <= _LONGEST_ID and task_id.replace("-", "").isalnum() else "",
        "bytes": len(message.body or b""),
        "error": type(exc).__name__ if exc else "",
    }
