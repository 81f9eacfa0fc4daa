"""Events of jobs, for Flower, as Celery sends them; sent by the process that runs the jobs, some at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from celery.signals import task_postrun, task_prerun

from retrieval_client.errors import RetrievalError
from worker.adapters import logs
from worker.queue.summaries import summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from celery import Celery

    from worker.queue.outcome import DeliveredJob, Outcome
    from worker.queue.processes.table import Head

log = logs.logger("worker.events")

_SECONDS, _AT_ONCE = 0.25, 256
"""Longest time that events are kept, and most of them: each alone would cost a round trip."""


class Events:
    """Events of a process.

    Args:
        app: the Celery app.
        hostname: the worker's name.
        head: says whether events are sent.
    """

    def __init__(self, app: Celery, hostname: str, head: Head) -> None:
        self._app = app
        self._hostname = hostname
        self._head = head
        self._dispatcher: Any = None
        self._flushed = 0.0
        self._is_failing = False

    def begun(self, jobs: Sequence[DeliveredJob]) -> None:
        """Tell that jobs were received, and begin."""
        for job in jobs if self._head.sends_events else ():
            headers = job.headers
            self._send(
                "task-received",
                uuid=job.id,
                name=job.task,
                args=summarise(job.args),
                kwargs="{}",
                root_id=headers.get("root_id"),
                parent_id=headers.get("parent_id"),
                retries=job.retries,
                eta=None,
                expires=headers.get("expires"),
            )
            self._send("task-started", uuid=job.id)

    def starting(self, job: DeliveredJob) -> None:
        """Send Celery's signal before a job, for who listens to it in this process."""
        if task_prerun.receivers:
            task = self._app.tasks.get(job.task)
            task_prerun.send(sender=task, task_id=job.id, task=task, args=job.args, kwargs=job.kwargs)

    def ended(self, job: DeliveredJob, outcome: Outcome, seconds: float) -> None:
        """Tell that a try of a job ended, and send Celery's signal after it."""
        if task_postrun.receivers:
            retval = outcome.result
            task = self._app.tasks.get(job.task)
            options = {"task": task, "args": job.args, "kwargs": job.kwargs, "retval": retval, "state": outcome.state}
            task_postrun.send(sender=task, task_id=job.id, **options)
        if not self._head.sends_events:
            return
        if isinstance(outcome.result, RetrievalError):
            kind = "task-retried" if outcome.state == "RETRY" else "task-failed"
            self._send(kind, uuid=job.id, exception=type(outcome.result).__name__, traceback="")
        else:
            self._send("task-succeeded", uuid=job.id, result=repr(outcome.result), runtime=seconds)
        if time.monotonic() - self._flushed > _SECONDS:
            self.flush()

    def revoked(self, job: DeliveredJob) -> None:
        """Tell that a revoked job will not run."""
        if self._head.sends_events:
            self._send("task-revoked", uuid=job.id, terminated=False, signum=None, expired=False)

    def _send(self, kind: str, **fields: Any) -> None:
        self._try(lambda: self._connected().send(kind, **fields))

    def _try(self, send: Callable[[], object]) -> None:
        """Send; the first failure of an outage is logged, and jobs go on without events."""
        try:
            send()
            self._is_failing = False
        except Exception as error:  # noqa: BLE001 -- of any broker
            if not self._is_failing:
                log.warning("events not sent", error=type(error).__name__)
            self._is_failing = True

    def _connected(self) -> Any:
        if self._dispatcher is None:
            self._dispatcher = self._app.events.Dispatcher(
                self._app.connection_for_write(),
                hostname=self._hostname,
                buffer_group={"task"},
                buffer_limit=_AT_ONCE,
                on_send_buffered=None,
            )
            self._flushed = time.monotonic()
        return self._dispatcher

    def flush(self) -> None:
        """Send what is kept; what could not be sent is kept for the next time."""
        if self._dispatcher is None:
            return
        self._flushed = time.monotonic()
        self._try(lambda: self._dispatcher.flush(errors=True, groups=["task"]))
