"""Celery's prefork pool, with less overhead per job, bundles, and no jobs for processes that are about to exit.

The event loop runs several times per job, and each time stock Celery registers again what is registered already. Here a
job goes to an idle process at once, not in a later iteration, and unchanged registrations are left alone.

Jobs that wait are written to a process in one message (see `worker.queue.bundles`). Each is still a job of its own
here, with its own result, time limits and callbacks.

A process reports that a job begins before it begins. So a job whose process died without that report has not begun and
goes to another process. A process that will exit, because it was asked to stop or has reached a limit, reports that and
gets no more jobs.

Celery kills a process that needs more than four seconds to start, and forks the next one at once: a slow Postgres, a
large model or a busy machine would let none ever start. Here it gets the time it needs, and no jobs until it is ready.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import struct
import time
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from billiard import pool
from billiard.pool import ACK, READY, RUN
from celery.concurrency import asynpool, prefork

from worker.queue import time_limit
from worker.queue.bundles import BUNDLE, LEAVING, SEVERAL, Jobs, was_in_bundle
from worker.queue.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

logger = logging.getLogger("worker.prefork")

_SHARE = 0.2
"""Share of the last bundle in the mean time of a job."""

_KILLED_SECONDS = 1.0
"""Time that the main process waits for the exit of a process that it killed."""

_MAINTENANCE_SECONDS = 1.0
"""Interval between checks for processes that died or do not start."""


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


class _Worker(asynpool.Worker):
    """Pool process that reports when it will exit, and in which the soft time limit interrupts only job code."""

    outq: Any
    wait_for_job: Any
    synqW_fd: Any  # noqa: N815 -- billiard's name
    initargs: Any
    maxtasks: Any
    max_memory_per_child: Any

    def after_fork(self) -> None:
        super().after_fork()
        time_limit.install()

    def on_loop_start(self, pid: int) -> None:
        super().on_loop_start(pid)
        limits = self.maxtasks, self.max_memory_per_child
        self.maxtasks = self.max_memory_per_child = None  # billiard would exit within a bundle; `Jobs` does so after it
        jobs = Jobs(self.wait_for_job, self.outq.put, next(iter(self.initargs), None), limits, self.synqW_fd)
        self.wait_for_job, self.outq = jobs.next, jobs

    def _ensure_messages_consumed(self, completed: int) -> Any:
        """Wait until the outcomes that were sent are read; those of a bundle that is interrupted never are sent."""
        return super()._ensure_messages_consumed(completed - getattr(self.outq, "unsent", 0))


class _Written(NamedTuple):
    """Jobs that a process has: when they were written, their number, and whether they may be in bundles."""

    at: float
    jobs: int
    are_bundled: bool


class _TimeLimits(pool.TimeoutHandler):
    """Time limits that end a process first and report the timeout then, so that a job never gets two outcomes.

    Attributes:
        read: reads the remaining messages of a process.
    """

    read: Callable[[Any], None]

    def on_soft_timeout(self, job: Any) -> None:
        """Interrupt a job; none of a bundle, which may have waited for others: it runs alone after the hard limit."""
        if not was_in_bundle(job):
            super().on_soft_timeout(job)

    def on_hard_timeout(self, job: Any) -> None:
        """End the job's process; jobs of a bundle are lost with it, and then run alone: one of them took too long."""
        process, _ = self._process_by_pid(job._worker_pid)  # noqa: SLF001 -- no public API
        if process is not None and not job.ready():
            self._trywaitkill(process)
            process._popen.wait(timeout=_KILLED_SECONDS)  # noqa: SLF001 -- `join` has no time limit
            self.read(process)
        if not was_in_bundle(job):
            super().on_hard_timeout(job)


class _Pool(asynpool.AsynPool):
    """Pool that hands a job to an idle process at once, and never to one that is about to exit."""

    ResultHandler = _ResultHandler
    TimeoutHandler = _TimeLimits
    Worker = _Worker
    on_poll_start: Any
    on_process_up: Any
    _quick_put: Any
    _put_back: Any
    _pool: list[Any]
    _queues: dict[Any, Any]
    _cache: dict[int, Any]
    _on_ready_counters: dict[int | None, Any]
    _processes: int

    def __init__(self, *args: Any, **options: Any) -> None:
        self._bundles: Any = getattr(next(iter(options.get("initargs", ())), None), "bundles", None)
        self._written: dict[int, _Written] = {}
        self._left: dict[int, int] = {}
        self._places: dict[int, Place] = {}
        self._job_seconds = 0.0
        self._are_written_later = False
        self.writes = self.written = 0
        self.settle_together: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
        super().__init__(*args, **options)
        self._timeout_handler.read = self.process_flush_queues

    # --- bundles ------------------------------------------------------------------------------------

    @property
    def processes(self) -> int:
        """Number of processes."""
        return self._processes

    @property
    def bundle(self) -> int:
        """Largest number of jobs in a bundle."""
        return 1 if self._bundles is None else self._bundles.greatest

    def accepts(self, task: str, content: Any) -> bool:
        """Return whether a job may be in a bundle, by its task and its message's content."""
        return self.bundle > 1 and self._bundles.together.accepts(task, content)

    def room(self) -> int:
        """Return the number of further jobs that idle processes can begin."""
        return len(self._idle()) * self._size() - len(self.outbound_buffer)

    def _idle(self) -> set[int]:
        return self._all_inqueues - self._active_writes - self._busy_workers  # type: ignore[no-any-return] # no types

    def _size(self) -> int:
        """Return how many jobs fit into the longest time of a bundle."""
        if self.bundle == 1 or not self._job_seconds:
            return self.bundle
        return max(1, min(self.bundle, int(self._bundles.seconds / self._job_seconds)))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Give processes, in bundles, the jobs that are delivered meanwhile."""
        self._are_written_later = True
        try:
            yield
        finally:
            self._are_written_later = False
            self._write_waiting()

    def _write_waiting(self) -> None:
        """Write waiting jobs to the idle processes, an equal share to each."""
        idle = sorted(self._idle())
        if idle:
            self._drop_ended()
        while idle and self.outbound_buffer:
            share = -(-len(self.outbound_buffer) // len(idle))
            self._write_bundle(idle.pop(0), min(share, self._size()))
        for job in self.outbound_buffer:
            request = _request_of(job)
            if request is not None and not request.has_waited:
                request.wait_for_process()

    def _drop_ended(self) -> None:
        """Drop jobs that expired or were revoked while they waited for a process; their requests store that."""
        for job in [*self.outbound_buffer]:
            request = _request_of(job)
            if request is not None and request.has_waited and request.revoked():
                self.outbound_buffer.remove(job)
                job.discard()

    def _write_bundle(self, fd: int, most: int) -> None:
        """Write the next job to a process, and those after it that may be in one bundle with it."""
        first, *others = _that_fit(self.outbound_buffer, most)
        for _ in others:
            del self.outbound_buffer[1]
        if others:
            first.own_payload = first._payload  # noqa: SLF001 -- no public API
            first._payload = _frame([first, *others])  # noqa: SLF001 -- the same
        self._write([fd])
        process = first._write_to  # noqa: SLF001 -- the same
        if process is None:  # it is gone
            for job in reversed(others):
                self.outbound_buffer.appendleft(job)
            _write_alone(first)
            return
        for job in others:
            job._write_to = job._scheduled_for = process  # noqa: SLF001 -- the same
        for job in (first, *others):
            job.was_in_bundle = bool(others)
        self._left[fd] = 1 + len(others)
        self.writes += 1
        self.written += 1 + len(others)
        self._written[fd] = _Written(time.monotonic(), 1 + len(others), _may_be_bundled(first))

    def on_several(self, *messages: Any) -> None:
        """Handle a process's messages together."""
        handlers = self._result_handler.state_handlers
        with self.settle_together():
            for kind, arguments in messages:
                handlers[kind](*arguments)

    def _counting(self, on_ready: Callable[..., None]) -> Callable[..., None]:
        """Wrap billiard's handler of outcomes, which counts only one of several jobs that a process began together.

        A process waits for the count of its jobs before it exits.
        """

        def on_ready_counted(job: int, i: Any, obj: Any, fd: int) -> None:
            process = self._fileno_to_inq.get(fd)
            counter = self._on_ready_counters.get(getattr(process, "pid", None))
            before = 0 if counter is None else counter.value
            on_ready(job, i, obj, fd)
            if counter is not None and counter.value == before:
                with counter.get_lock():
                    counter.value += 1

        return on_ready_counted

    def _note_seconds(self, fd: int) -> None:
        """Note how long a job takes, where it may be in a bundle."""
        written = self._written.pop(fd, None)
        if written is not None and written.are_bundled:
            took = (time.monotonic() - written.at) / written.jobs
            self._job_seconds += (took - self._job_seconds) * (_SHARE if self._job_seconds else 1.0)

    # --- processes that leave -----------------------------------------------------------------------

    def create_result_handler(self) -> Any:
        handler = super().create_result_handler()
        handler.state_handlers[LEAVING] = self.on_process_leaving
        handler.state_handlers[SEVERAL] = self.on_several
        handler.state_handlers[READY] = self._counting(handler.state_handlers[READY])
        handler.state_handlers[ACK] = self._proving(handler.state_handlers[ACK])
        return handler

    def on_process_leaving(self, pid: int) -> None:
        """Retire a process that has reported that it exits after its job."""
        self._retire(*(process for process in self._pool if process.pid == pid))

    def on_process_alive(self, pid: int) -> None:
        """Mark a process as ready for jobs, unless it was asked to stop meanwhile."""
        super().on_process_alive(pid)
        for place in self._places_of(pid):
            place.ready_at = time.monotonic()
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
        """Finish a job, the last one of its process; kill that if it should have ended with the job and did not."""
        self._left[inqW_fd] = self._left.get(inqW_fd, 1) - 1
        if self._left[inqW_fd] <= 0:
            self._note_seconds(inqW_fd)
            super().on_job_ready(job, i, obj, inqW_fd)
        process = self._fileno_to_inq.get(inqW_fd)
        if getattr(process, "_job_terminated", False):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)

    # --- processes that start -----------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if a process can take jobs, or is at work."""
        return bool(self._all_inqueues)

    def _create_worker_process(self, i: int) -> Any:
        process = super()._create_worker_process(i)
        self._places.setdefault(i, Place()).begin(process, time.monotonic())
        return process

    def _places_of(self, pid: int) -> list[Place]:
        return [place for place in self._places.values() if place.process is not None and place.process.pid == pid]

    def _proving(self, on_ack: Callable[..., None]) -> Callable[..., None]:
        """Wrap billiard's handler of jobs that begin: their processes did not die at their start."""

        def on_ack_proving(job: int, i: Any, at: float, pid: int, fd: Any) -> None:
            for place in self._places_of(pid):
                place.is_proven = True
            on_ack(job, i, at, pid, fd)

        return on_ack_proving

    def _repopulate_pool(self, exitcodes: Any) -> None:
        """Fork what is missing; where processes die at their start, after a pause that grows."""
        del exitcodes
        now, taken = time.monotonic(), {process.index for process in self._pool}
        free = [index for index in range(self._processes) if index not in taken]
        due = [index for index in free if self._places.setdefault(index, Place()).is_due(now)]
        for index in due[: self._processes - len(self._pool)]:
            if self._state == RUN:
                self._create_worker_process(index)

    def _watch_start(self, place: Place) -> None:
        """Log a process that is not ready, and kill one that is stuck; not one whose report was not read yet."""
        now = time.monotonic()
        if not place.is_slow(now):
            return
        process = place.process
        self.process_flush_queues(process)
        if place.is_stuck(now):
            logger.error("process stuck at its start: killed", extra={"seconds": round(place.seconds(now))})
            self._trywaitkill(process)
        elif place.ready_at is None:
            logger.warning("process not ready", extra={"seconds": round(place.seconds(now))})

    def _create_process_handlers(self, hub: Any) -> None:
        super()._create_process_handlers(hub)
        on_process_up = self.on_process_up

        def on_process_up_patiently(process: Any) -> None:
            """Register a process that was forked; Celery would kill it four seconds later if it were not ready."""
            on_process_up(process)
            self._waiting_to_start.discard(process)

        self.on_process_up = on_process_up_patiently

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
        """Replace processes that died, and watch those that start.

        Not before an event loop reads the processes' messages: until then nothing of a process is registered, and so
        nothing of one that died would be freed.
        """
        if self.on_process_down is None:
            return
        super().maintain_pool()
        for place in self._places.values():
            self._watch_start(place)

    @property
    def timers(self) -> dict[Callable[[], None], float]:
        """Work of the event loop, and its intervals in seconds."""
        return {self.maintain_pool: _MAINTENANCE_SECONDS}

    def get_process_queues(self) -> Any:
        """Return free pipes; those of a process whose end an error kept from being handled in full are replaced."""
        for queues, process in list(self._queues.items()):
            if process is not None and process not in self._pool:
                self.destroy_queues(queues, process)
                self._queues[self.create_process_queues()] = None
        return super().get_process_queues()

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
        put, self._write, prepare = self._quick_put, hub.consolidate_callback, self.on_poll_start
        put_back = self._put_back

        def put_and_write(job: Any) -> None:
            """Write a job to an idle process now, not in the loop's next iteration; or soon, with others."""
            put(job)
            if not self._are_written_later:
                self._write_waiting()

        def requeue_and_report(job: Any) -> None:
            """Queue a job that has not begun for a process again."""
            _write_alone(job)
            put_back(job)
            request = _request_of(job)
            if job in self.outbound_buffer and request is not None:
                request.wait_for_process()

        def on_poll_start() -> None:
            """Prepare writes only if a job waits for a process, or a process is still watched for writing."""
            self._write_waiting()
            if self.outbound_buffer or not self._all_inqueues.isdisjoint(hub.writers):
                prepare()

        self._quick_put, self._put_back, self.on_poll_start = put_and_write, requeue_and_report, on_poll_start


def _is_leaving(process: Any) -> bool:
    return getattr(process, "is_leaving", False)


def _request_of(job: Any) -> Any:
    """Return the request of a job of the pool, `worker.queue.request.QuietRequest`; None if it has none."""
    request = getattr(job._accept_callback, "__self__", None)  # noqa: SLF001 -- no public API
    return request if hasattr(request, "may_be_bundled") else None


def _may_be_bundled(job: Any) -> bool:
    request = _request_of(job)
    return request is not None and request.may_be_bundled


def _that_fit(waiting: Any, most: int) -> list[Any]:
    """Return the next waiting jobs that may be in one bundle; at least one."""
    jobs = [*islice(waiting, max(1, most))]
    alone = next((n for n, job in enumerate(jobs) if not _may_be_bundled(job)), len(jobs))
    return jobs[: max(1, alone)]


def _frame(jobs: Sequence[Any]) -> tuple[memoryview, memoryview, int]:
    """Return a bundle in the form of a job's payload: header, body and length of the body."""
    bodies = [bytes(getattr(job, "own_payload", job._payload)[1]) for job in jobs]  # noqa: SLF001 -- no public API
    body = pickle.dumps((BUNDLE, bodies), protocol=pickle.HIGHEST_PROTOCOL)
    return memoryview(struct.pack(">I", len(body))), memoryview(body), len(body)


def _write_alone(job: Any) -> None:
    """Undo what `_write_bundle` has set of a job that was not begun."""
    job.was_in_bundle = False
    job._write_to = job._scheduled_for = None  # noqa: SLF001 -- no public API
    if hasattr(job, "own_payload"):
        job._payload = job.own_payload  # noqa: SLF001 -- no public API
        del job.own_payload


class TaskPool(prefork.TaskPool):
    """Pool of a worker; has the name of Celery's own, by which Celery identifies it."""

    Pool = _Pool
    uses_semaphore = False  # it would let only one job of a bundle into the pool; the transport claims no more than fit

    def _get_info(self) -> dict[str, Any]:
        """Return what `inspect stats` shows of the pool."""
        jobs = {"written": self._pool.written, "writes": self._pool.writes, "largest bundle": self._pool.bundle}
        return {**super()._get_info(), "jobs": jobs}
