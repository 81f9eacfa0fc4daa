"""Celery's prefork pool, with less overhead per job and no jobs for processes that are about to exit.

The event loop runs several times per job, and each time stock Celery registers again what is registered already. Here a
job goes to an idle process at once, not in a later iteration, and unchanged registrations are left alone.

A process reports that a job begins before it begins. So a job whose process died without that report has not begun and
goes to another process. A process that will exit, because it was asked to stop or has reached a limit, reports that and
gets no more jobs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

from billiard import pool
from billiard.compat import mem_rss
from billiard.exceptions import RestartFreqExceeded
from billiard.pool import ACK, READY
from celery.concurrency import asynpool, prefork

from worker.queue import time_limit

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("worker.prefork")

LEAVING = 16
"""Message type from a pool process to the main one, besides billiard's and Celery's: its current job is its last."""

_KILLED_SECONDS = 1.0
"""Time that the main process waits for the exit of a process that it killed."""


class _Readers:
    """Readers of an event loop; one that is registered already is not added again."""

    def __init__(self, hub: Any) -> None:
        self._hub = hub
        self.remove_reader: Callable[[Any], None] = hub.remove_reader

    def add_reader(self, fd: int, callback: Any, *args: Any) -> None:
        if self._hub.readers.get(fd) != (callback, args):
            self._hub.add_reader(fd, callback, *args)


class _ResultHandler(asynpool.ResultHandler):
    """Reader of the pool processes' messages; does not register a process again after each read."""

    def _make_process_result(self, hub: Any) -> Any:
        return super()._make_process_result(_Readers(hub))


class _Reports:
    """Messages from a pool process to the main one; adds `LEAVING` before the outcome of the last job.

    Args:
        queue: queue to the main process.
        pid: id of this process.
        most_jobs: number of jobs after which it exits; None: no limit.
        most_memory: KiB of memory beyond which it exits after its job; None: no limit.
    """

    def __init__(self, queue: Any, pid: int, most_jobs: int | None, most_memory: int | None) -> None:
        self._put: Callable[[Any], None] = queue.put
        self._pid = pid
        self._most_jobs = most_jobs
        self._most_memory = most_memory
        self._begun = 0

    def put(self, message: Any) -> None:
        self._begun += message[0] == ACK
        if message[0] == READY and self._is_leaving():
            self._put((LEAVING, (self._pid,)))
        self._put(message)

    def _is_leaving(self) -> bool:
        """Return whether billiard will end this process after its job; it checks the same a moment later."""
        done_enough = bool(self._most_jobs) and self._begun >= (self._most_jobs or 0)
        # Peak memory: too much now is too much a moment later.
        return done_enough or (bool(self._most_memory) and mem_rss() > (self._most_memory or 0))


class _Worker(asynpool.Worker):
    """Pool process that reports when it will exit, and in which the soft time limit interrupts only job code."""

    outq: Any
    maxtasks: Any
    max_memory_per_child: Any

    def after_fork(self) -> None:
        super().after_fork()
        time_limit.install()

    def on_loop_start(self, pid: int) -> None:
        super().on_loop_start(pid)
        if self.maxtasks or self.max_memory_per_child:
            self.outq = _Reports(self.outq, pid, self.maxtasks, self.max_memory_per_child)


class _TimeLimits(pool.TimeoutHandler):
    """Time limits that end a process first and report the timeout then, so that a job never gets two outcomes.

    Attributes:
        read: reads the remaining messages of a process.
    """

    read: Callable[[Any], None]

    def on_hard_timeout(self, job: Any) -> None:
        process, _ = self._process_by_pid(job._worker_pid)  # noqa: SLF001 -- no public API
        if process is not None and not job.ready():
            self._trywaitkill(process)
            process._popen.wait(timeout=_KILLED_SECONDS)  # noqa: SLF001 -- `join` has no time limit
            self.read(process)
        super().on_hard_timeout(job)


class _Pool(asynpool.AsynPool):
    """Pool that hands a job to an idle process at once, and never to one that is about to exit."""

    ResultHandler = _ResultHandler
    TimeoutHandler = _TimeLimits
    Worker = _Worker
    on_poll_start: Any
    _quick_put: Any
    _put_back: Any
    _pool: list[Any]
    _cache: dict[int, Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._timeout_handler.read = self.process_flush_queues

    # --- processes that leave -----------------------------------------------------------------------

    def create_result_handler(self) -> Any:
        handler = super().create_result_handler()
        handler.state_handlers[LEAVING] = self.on_process_leaving
        return handler

    def on_process_leaving(self, pid: int) -> None:
        """Retire a process that has reported that it exits after its job."""
        self._retire(*(process for process in self._pool if process.pid == pid))

    def on_process_alive(self, pid: int) -> None:
        """Mark a process as ready for jobs, unless it was asked to stop meanwhile."""
        super().on_process_alive(pid)
        self._retire(*(process for process in self._pool if process.pid == pid and _is_leaving(process)))

    def _retire(self, *processes: Any) -> None:
        """Give processes no more jobs."""
        for process in processes:
            process.is_leaving = True
            if self._fileno_to_inq.get(process.inqW_fd) is process:
                self._all_inqueues.discard(process.inqW_fd)
                self._busy_workers.discard(process.inqW_fd)

    def shrink(self, n: int = 1) -> None:
        """End idle processes.

        Raises:
            ValueError: fewer than ``n`` are idle.
        """
        idle = [process for process in self._pool if self._is_idle(process)][:n]
        for process in idle:
            self._processes -= 1
            if self._putlock:
                self._putlock.shrink()
            self._retire(process)
            process.terminate_controlled()
        if len(idle) < n:
            raise ValueError("Can't shrink pool. All processes busy!")

    def _is_idle(self, process: Any) -> bool:
        """Return whether no job is assigned to a process and it is not about to exit."""
        return not _is_leaving(process) and all(
            process is not job._write_to and process is not job._scheduled_for  # noqa: SLF001 -- no public API
            for job in self._cache.values()
        )

    def terminate_job(self, pid: int, sig: Any = None) -> None:
        """End a process to terminate its job."""
        super().terminate_job(pid, sig)
        self.on_process_leaving(pid)

    def on_job_ready(self, job: int, i: Any, obj: Any, inqW_fd: int) -> None:  # noqa: N803 -- billiard's name
        """Finish a job; kill its process if that should have ended with the job and did not."""
        super().on_job_ready(job, i, obj, inqW_fd)
        process = self._fileno_to_inq.get(inqW_fd)
        if getattr(process, "_job_terminated", False):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    # --- processes that died ------------------------------------------------------------------------

    def on_job_process_down(self, job: Any, pid_gone: int) -> None:
        """Handle a job whose process is gone, after reading its messages: a job that has begun must not run again.

        Billiard also calls this for a process that died a moment ago and was not reaped yet.
        """
        process = job._write_to  # noqa: SLF001 -- no public API
        if process is not None and not job._accepted and not process._is_alive():  # noqa: SLF001 -- the same
            self.process_flush_queues(process)
            if job._accepted:  # noqa: SLF001 -- the same
                return  # lost with its process, once that is reaped
        super().on_job_process_down(job, pid_gone)

    def did_start_ok(self) -> bool:
        """Replace processes that died during the start, which is no reason for the worker to exit."""
        self.maintain_pool()
        return True

    def maintain_pool(self) -> None:
        """Replace processes that died; if they die too often, log it and end the worker."""
        try:
            super().maintain_pool()
        except RestartFreqExceeded:
            logger.critical("the worker stops: its pool processes die at their start")
            raise

    def _track_child_process(self, proc: Any, hub: Any) -> None:
        """Watch a process for its exit, also one whose exit was noticed but that is not gone yet."""
        if getattr(proc, "_sentinel_poll", 0) is None:
            del proc._sentinel_poll  # noqa: SLF001 -- Celery's own mark
        super()._track_child_process(proc, hub)

    # --- jobs ---------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Drop jobs that no process has, when a connection is lost or the worker ends.

        Celery also drops a job that was written to a process but not accepted yet. The process runs it all the same:
        the job would run twice, and the process would wait 30 s for its outcome to be read.
        """
        written = [job for job in self._cache.values() if job._write_to is not None and not job._accepted]  # noqa: SLF001 -- no public API
        for job in written:
            job._accepted = True  # noqa: SLF001 -- the same
        super().flush()
        for job in written:
            job._accepted = job._worker_pid is not None  # noqa: SLF001 -- the same

    def _create_write_handlers(self, hub: Any, **options: Any) -> None:
        super()._create_write_handlers(hub, **options)
        put, write, prepare = self._quick_put, hub.consolidate_callback, self.on_poll_start
        put_back = self._put_back

        def put_and_write(job: Any) -> None:
            """Write a job to an idle process now, not in the loop's next iteration."""
            put(job)
            idle = self._all_inqueues - self._active_writes - self._busy_workers
            if idle:
                write([*idle])

        def requeue_and_report(job: Any) -> None:
            """Queue a job that has not begun for a process again."""
            put_back(job)
            request: Any = getattr(job._accept_callback, "__self__", None)  # noqa: SLF001 -- no public API
            if job in self.outbound_buffer and hasattr(request, "wait_for_process"):
                request.wait_for_process()

        def on_poll_start() -> None:
            """Prepare writes only if a job waits for a process, or a process is still watched for writing."""
            if self.outbound_buffer or not self._all_inqueues.isdisjoint(hub.writers):
                prepare()

        self._quick_put, self._put_back, self.on_poll_start = put_and_write, requeue_and_report, on_poll_start


def _is_leaving(process: Any) -> bool:
    return getattr(process, "is_leaving", False)


class TaskPool(prefork.TaskPool):
    """Pool of a worker; has the name of Celery's own, by which Celery identifies it."""

    Pool = _Pool
