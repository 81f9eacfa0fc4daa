"""Bundles: several jobs that a pool process gets in one message, and begins, stores and reports together.

The main process writes the jobs that wait, at most `worker.bundle` for each idle process. The process runs their
searches in one round trip (see `worker.queue.together`), then each job as any other, and stores their results in one
round trip. What was not answered together (an error, a statement that took too long) then runs alone: so each job has
its own error, retry and time limit.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from billiard.common import pickle_loads
from billiard.compat import mem_rss
from billiard.einfo import ExceptionInfo
from billiard.pool import ACK, EX_RECYCLE, READY
from celery.exceptions import BackendStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

logger = logging.getLogger("worker.prefork")

LEAVING = 16
"""Message type from a pool process to the main one, besides billiard's and Celery's: its current job is its last."""

SEVERAL = 17
"""Message type from a pool process: several messages in one."""

BUNDLE = 18
"""Message type to a pool process: several jobs."""


class BundledJob(NamedTuple):
    """Job of a bundle.

    Attributes:
        task: name of its task.
        id: its task id.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """

    task: str
    id: str
    args: Any
    kwargs: Any


class Together(Protocol):
    """Answers jobs of a bundle together; see `worker.queue.together`."""

    def accepts(self, task: str, content: Any) -> bool:
        """Return whether a job may be in a bundle, by its task and its message's content."""

    def answer(self, jobs: Sequence[BundledJob]) -> Collection[str]:
        """Answer jobs, for the tasks that run next; return the ids of those answered."""

    def forget(self) -> None:
        """Drop the answers that are left at the end of a bundle."""


class Bundles(NamedTuple):
    """Bundles of an app.

    Attributes:
        greatest: largest number of jobs in a bundle; 1: none.
        seconds: longest time that a bundle may take, by the time that jobs took so far.
        together: answers its jobs.
    """

    greatest: int
    seconds: float
    together: Together


class Jobs:
    """Jobs of one pool process, from the main process's messages; and its reports to it.

    Args:
        receive: waits up to a second for a message of the main process; returns None if there was none.
        put: sends a message to the main process.
        app: the Celery app; with ``bundles``, if it has any.
        limits: jobs after which the process exits, and KiB of memory beyond which it does; None: no limit.
        report_fd: descriptor that billiard expects in reports of jobs that begin.
    """

    def __init__(
        self,
        receive: Callable[[], Any],
        put: Callable[[Any], None],
        app: Any,
        limits: tuple[int | None, int | None],
        report_fd: int | None,
    ) -> None:
        self._receive = receive
        self._put = put
        self._app = app
        self._most_jobs, self._most_memory = limits
        self._report_fd = report_fd
        self._together: deque[Any] = deque()
        self._alone: deque[Any] = deque()
        self._begun: set[int] = set()
        self._unsent: list[Any] | None = None
        self._ids: dict[int, str] = {}
        self._count = 0
        self._is_leaving = False

    def next(self) -> Any:
        """Return the next job's message: of the bundle, or of the main process; None if none came for a while."""
        if not self._together:
            self._send_together()
        for jobs in (self._together, self._alone):
            if jobs:
                return jobs.popleft()
        if self._is_leaving:
            sys.exit(EX_RECYCLE)
        message = self._receive()
        if not message or message[0] != BUNDLE:
            return message
        self._begin([pickle_loads(body) for body in message[1]])
        return self.next()

    def _begin(self, jobs: Sequence[Any]) -> None:
        """Report that jobs begin, and answer them together."""
        begun, pid = monotonic(), os.getpid()
        self._begun = {job[1][0] for job in jobs}
        self._send([(ACK, (number, None, begun, pid, self._report_fd)) for number in self._begun])
        self._ids = {job[1][0]: job[1][3][1] for job in jobs}
        answered = self._app.bundles.together.answer([_bundled(job) for job in jobs])
        for job in jobs:
            (self._together if self._ids[job[1][0]] in answered else self._alone).append(job)
        if self._together:
            self._unsent = []
            self._app.backend.collect()

    def _send_together(self) -> None:
        """Store the results of jobs that were answered together, and report them."""
        if self._unsent is None:
            return
        self._app.bundles.together.forget()
        lost = self._app.backend.store_collected()
        self._send([_unstored(one) if self._ids.get(one[1][0]) in lost else one for one in self._unsent])
        self._unsent = None

    @property
    def unsent(self) -> int:
        """Number of outcomes that are kept for the end of the bundle."""
        return len(self._unsent or ())

    def put(self, message: Any) -> None:
        """Send a message of billiard to the main process, or keep it for the end of the bundle."""
        kind, arguments = message
        if kind == ACK:
            self._count += 1
            if arguments[0] in self._begun:  # reported already
                return
        if kind == READY and self._unsent is not None:
            self._unsent.append(message)
            return
        self._send([message])

    def _send(self, messages: list[Any]) -> None:
        """Send messages; before the outcome of the last job, tell that this process exits."""
        if any(kind == READY for kind, _ in messages) and not self._is_leaving and self._is_spent():
            self._is_leaving = True
            if not self._is_done():
                logger.warning("the process exits: it has more memory than --max-memory-per-child")
            messages = [(LEAVING, (os.getpid(),)), *messages]
        self._put(messages[0] if len(messages) == 1 else (SEVERAL, messages))

    def _is_spent(self) -> bool:
        # Peak memory: too much now is too much later.
        return self._is_done() or (bool(self._most_memory) and mem_rss() > (self._most_memory or 0))

    def _is_done(self) -> bool:
        return self._most_jobs is not None and self._count >= self._most_jobs


def was_in_bundle(job: Any) -> bool:
    """Return whether a job of the pool was written to its process with others."""
    return getattr(job, "was_in_bundle", False)


def _bundled(message: Any) -> BundledJob:
    _, (_, _, _, (task, task_id, _, body, *_), _) = message
    return BundledJob(task, task_id, body[0], body[1])


def _unstored(message: Any) -> Any:
    """Return the report of a job whose result could not be stored: the main process requeues it."""
    kind, (number, i, _, fd) = message
    error = BackendStoreError("the results' Redis is away")
    return kind, (number, i, (True, (1, ExceptionInfo((type(error), error, None)), 0.0)), fd)
