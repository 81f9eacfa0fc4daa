"""Events of jobs, for Flower, as Celery sends them; sent by a thread of the process that runs the jobs."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from celery.signals import task_postrun, task_prerun

from retrieval_client.errors import RetrievalError
from worker.adapters import logs
from worker.queue.summaries import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery import Celery

    from worker.queue.broker.inspection import DeliveredJob
    from worker.queue.outcome import Outcome
    from worker.queue.processes.table import Head

log = logs.logger("worker.events")

_SECONDS, _AT_ONCE = 0.25, 256
"""Time that an event waits for others, and most of them in a message: each alone would cost a round trip."""

_MOST_KEPT = 8192
"""Events that are kept while Redis takes none; the oldest are dropped."""

_LAST_SECONDS = 2.0
"""Time that a process waits at its end until its events are sent."""


class Events:
    """Events of a process of a worker, by the worker's name.

    A job's thread only keeps them: what keeps Redis from taking them keeps no job from its end.
    """

    def __init__(self, app: Celery, hostname: str, head: Head) -> None:
        self._app = app
        self._hostname = hostname
        self._head = head
        self._kept: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_MOST_KEPT)
        self._is_needed = threading.Event()
        self._is_ending = threading.Event()
        self._sender: threading.Thread | None = None
        self._dispatcher: Any = None
        self._is_failing = self._is_dropping = False

    def begun(self, jobs: Sequence[DeliveredJob]) -> None:
        """Tell that jobs were received, and begin."""
        for job in jobs if self._head.sends_events else ():
            headers = job.headers
            self._keep(
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
            self._keep("task-started", uuid=job.id)

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
            self._keep(kind, uuid=job.id, exception=type(outcome.result).__name__, traceback="")
        else:
            self._keep("task-succeeded", uuid=job.id, result=repr(outcome.result), runtime=seconds)

    def revoked(self, job: DeliveredJob) -> None:
        """Tell that a revoked job will not run."""
        if self._head.sends_events:
            self._keep("task-revoked", uuid=job.id, terminated=False, signum=None, expired=False)

    def _keep(self, kind: str, **fields: Any) -> None:
        """Keep an event of this moment for the thread that sends them, which begins with the first one."""
        if len(self._kept) == _MOST_KEPT and not self._is_dropping:
            self._is_dropping = True
            log.warning("events dropped", kept=_MOST_KEPT)
        self._kept.append((kind, fields | {"timestamp": time.time()}))
        if not self._is_needed.is_set():
            self._is_needed.set()
        if self._sender is None:
            self._sender = threading.Thread(target=self._send_until_end, name="events", daemon=True)
            self._sender.start()

    def _send_until_end(self) -> None:
        signal.pthread_sigmask(
            signal.SIG_BLOCK, signal.valid_signals()
        )  # they interrupt what the main thread waits for
        is_last = False
        while not is_last:
            self._is_needed.wait()
            self._is_needed.clear()  # before what it announces is looked at, else a last event may wait for ever
            is_last = self._is_ending.wait(_SECONDS)
            try:
                self._send_kept()
                self._is_failing = self._is_dropping = False
            except Exception as error:  # noqa: BLE001 -- of any broker
                if not self._is_failing:  # the first one of an outage
                    log.warning("events not sent", error=type(error).__name__)
                self._is_failing = True
                self._is_needed.set()

    def _send_kept(self) -> None:
        """Send all; what could not be sent is kept for the next time, before the others."""
        if self._dispatcher is None:
            self._dispatcher = self._app.events.Dispatcher(
                self._app.connection_for_write(),
                hostname=self._hostname,
                buffer_while_offline=False,
                buffer_group={"task"},
                buffer_limit=_AT_ONCE,
            )
        self._dispatcher.flush()
        while self._kept:
            kind, fields = self._kept.popleft()
            self._dispatcher.send(kind, **fields)
        self._dispatcher.flush()

    def close(self) -> None:
        """Send what is kept, if that is possible soon."""
        self._is_ending.set()
        self._is_needed.set()
        if self._sender is not None:
            self._sender.join(_LAST_SECONDS)
