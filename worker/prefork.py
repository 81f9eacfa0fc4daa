"""Celery's prefork pool, with less work for each job.

Its event loop turns several times for a job, and at each turn stock Celery registers anew what is registered already.
Here a job goes to an idle process at once, not at a later turn, and what has not changed is left alone. What a dead
process may have begun with is put back, where it is counted, and not handed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from celery.concurrency import asynpool, prefork

if TYPE_CHECKING:
    from collections.abc import Callable


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


class _Pool(asynpool.AsynPool):
    """A pool that hands a job to an idle process at once."""

    ResultHandler = _ResultHandler
    on_poll_start: Any
    _quick_put: Any

    def on_partial_read(self, job: Any, proc: Any) -> None:
        """A job was written to a process that is gone, and nobody heard that it began: it may have.

        Celery would send it to another process, and a job that kills would run more often than it is counted. Here it
        is lost with its process, so that its message is counted when it comes back.
        """
        unheard = not job.accepted() and job._terminated is None  # noqa: SLF001 -- billiard has no other name for it
        if unheard:
            job._accepted = True  # noqa: SLF001 -- or it would be sent to another process
        super().on_partial_read(job, proc)
        if unheard:
            self.mark_as_worker_lost(job, proc.exitcode)

    def flush(self) -> None:
        """Forget what no process has, when a connection is lost or the worker ends.

        Celery forgets also what was written to a process that has not said yet that it begins. The process runs it all
        the same: the job would run twice, and at its end the process would wait 30 s for its outcome to be read.
        """
        written = [job for job in self._cache.values() if job._write_to is not None and not job._accepted]  # noqa: SLF001 -- nothing public tells it
        for job in written:
            job._accepted = True  # noqa: SLF001 -- the same
        super().flush()
        for job in written:
            job._accepted = job._worker_pid is not None  # noqa: SLF001 -- the same

    def _create_write_handlers(self, hub: Any, **options: Any) -> None:
        super()._create_write_handlers(hub, **options)
        put, write, prepare = self._quick_put, hub.consolidate_callback, self.on_poll_start

        def put_and_write(job: Any) -> None:
            """Not at the loop's next turn: whoever is idle takes it now."""
            put(job)
            idle = self._all_inqueues - self._active_writes - self._busy_workers
            if idle:
                write([*idle])

        def on_poll_start() -> None:
            """Only where a job waits for a process, or a process is still watched for room."""
            if self.outbound_buffer or not self._all_inqueues.isdisjoint(hub.writers):
                prepare()

        self._quick_put, self.on_poll_start = put_and_write, on_poll_start


class TaskPool(prefork.TaskPool):
    """The pool of a worker; named as Celery's own is, by which it is known."""

    Pool = _Pool
