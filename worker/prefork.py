"""Celery's prefork pool, with less work for each job.

Its event loop turns several times for a job, and at each turn stock Celery registers anew what is registered already.
Here a job goes to an idle process at once, not at a later turn, and what has not changed is left alone. A job has begun
when it is written to its process: only an idle one gets it, which then need not say so, and wake the main process to
hear it.
"""

from __future__ import annotations

import collections
import os
import time
from typing import TYPE_CHECKING, Any

from billiard.pool import ACK
from celery.concurrency import asynpool, prefork

if TYPE_CHECKING:
    from collections.abc import Callable

_HEADER_BYTES = 4


class _Readers:
    """An event loop's readers; one that is there as it should be is not added again."""

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self.remove_reader: Callable[[Any], None] = hub.remove_reader

    def add_reader(self, fd: int, callback: Any, *args: Any) -> None:
        if self._hub.readers.get(fd) != (callback, args):
            self._hub.add_reader(fd, callback, *args)


class _ResultHandler(asynpool.ResultHandler):
    """Reads what pool processes say. A process that was just read from is known to the loop."""

    def _make_process_result(self, hub: Any) -> Any:
        return super()._make_process_result(_Readers(hub))


class _Told:
    """What a pool process tells the main one: all but that a job begins, which is known there."""

    def __init__(self, queue: Any) -> None:
        self._put: Callable[[Any], None] = queue.put

    def put(self, message: Any) -> None:
        if message[0] != ACK:
            self._put(message)


class _Pipe:
    """Writes jobs to a pool process, each with the header before it, as far as there is room.

    Celery writes the header by itself: four bytes that wake the process, which then waits for the rest.

    Args:
        fd: the writing end, which does not block.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._header = memoryview(b"")

    def __call__(self, part: memoryview, offset: int) -> int:
        """Write a part of a job from an offset on; how many of its bytes are done with.

        Raises:
            BlockingIOError: there is no room.
        """
        if len(part) == _HEADER_BYTES:  # no pickled job is as short
            self._header = part
            return len(part)
        written = os.writev(self._fd, [self._header, part[offset:]])
        left, self._header = self._header, self._header[written:]
        return max(0, written - len(left))


class _Worker(asynpool.Worker):
    """A pool process that does not say that a job begins."""

    outq: Any

    def contribute_to_object(self, obj: Any) -> Any:
        process = super().contribute_to_object(obj)
        process.send_job_offset = _Pipe(process.inqW_fd)
        return process

    def on_loop_start(self, pid: int) -> None:
        super().on_loop_start(pid)
        self.outq = _Told(self.outq)


class _Outbound(collections.deque[Any]):
    """Jobs that wait for a process, and those that were just taken from among them."""

    def __init__(self) -> None:
        super().__init__()
        self._taken: list[Any] = []

    def popleft(self) -> Any:
        job = super().popleft()
        self._taken.append(job)
        return job

    def take(self) -> list[Any]:
        """The jobs taken since this was asked last."""
        taken, self._taken = self._taken, []
        return taken


class _Pool(asynpool.AsynPool):
    """A pool that hands a job to an idle process at once."""

    ResultHandler = _ResultHandler
    Worker = _Worker
    on_poll_start: Any
    _quick_put: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.outbound_buffer = _Outbound()

    def _create_write_handlers(self, hub: Any, **options: Any) -> None:
        super()._create_write_handlers(hub, **options)
        put, write, prepare = self._quick_put, hub.consolidate_callback, self.on_poll_start

        def write_and_begin(fds: Any) -> None:
            """From its first byte on a job may run, and ends with its process."""
            write(fds)
            for job in self.outbound_buffer.take():
                if job._write_to is not None:  # noqa: SLF001 -- billiard has no other name for it
                    self._begin(job)

        def put_and_write(job: Any) -> None:
            """Not at the loop's next turn: whoever is idle takes it now."""
            put(job)
            idle = self._all_inqueues - self._active_writes - self._busy_workers
            if idle:
                write_and_begin([*idle])

        def on_poll_start() -> None:
            """Only where a job waits for a process, or a process is still watched for room."""
            if self.outbound_buffer or not self._all_inqueues.isdisjoint(hub.writers):
                prepare()

        hub.consolidate_callback = write_and_begin
        self._quick_put, self.on_poll_start = put_and_write, on_poll_start

    def terminate_job(self, pid: int, sig: int | None = None) -> None:
        """End a process for its job. It gets no other, which would end with it.

        Billiard would take that other for the one it was told to end, and Celery would acknowledge it.
        """
        super().terminate_job(pid, sig)
        process, _ = self._process_by_pid(pid)
        if process is not None:
            self._all_inqueues.discard(process.inqW_fd)

    def on_job_ready(self, job: Any, i: Any, obj: Any, inqW_fd: int) -> None:  # noqa: N803 -- billiard's name
        """A process has ended its job. If it was told to end, the job has caught that: it is told again."""
        super().on_job_ready(job, i, obj, inqW_fd)
        process = self._fileno_to_inq.get(inqW_fd)
        if process is not None and getattr(process, "_job_terminated", False):
            super().terminate_job(process.pid)

    def _begin(self, job: Any) -> None:
        """What stock Celery does when a process says that it begins with a job."""
        process = job._write_to  # noqa: SLF001
        self._result_handler.on_state_change((ACK, (job._job, None, time.monotonic(), process.pid, None)))  # noqa: SLF001


class TaskPool(prefork.TaskPool):
    """The pool of a worker; named as Celery's own is, by which it is known."""

    Pool = _Pool
