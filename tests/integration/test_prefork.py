"""The pool over real processes, driven by an event loop of the test."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from kombu.asynchronous import Hub

from worker.queue.pool import _Pool

if TYPE_CHECKING:
    from pathlib import Path


def _begin_and_die(begun: str) -> None:
    """A job that kills its process."""
    with open(begun, "w"):  # noqa: PTH123 -- nothing is left to chance here
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_is_registered_again_though_the_end_of_a_process_was_just_noticed() -> None:
    """As where a process dies and the connection is lost in the same moment: it is watched again."""
    hub, pool = Hub(), _Pool(processes=1, threads=False, enable_timeouts=True)
    try:
        pool.register_with_event_loop(hub)
        (process,) = pool._pool
        pool._untrack_child_process(process, hub)
        pool.register_with_event_loop(hub)
        assert process._sentinel_poll in hub.readers
    finally:
        pool.terminate()
        pool.join()
        hub.close()


def test_a_job_that_began_before_its_process_died_is_not_given_to_another(tmp_path: Path) -> None:
    """Though the end of another process had the pool look at all jobs, before it has missed this one's."""
    hub, pool = Hub(), _Pool(processes=1, threads=False, enable_timeouts=True)
    try:
        pool.register_with_event_loop(hub)
        loop = hub.create_loop()
        (process,) = pool._pool
        deadline = time.monotonic() + 30
        while not pool.room():
            assert time.monotonic() < deadline
            next(loop)
        job = pool.apply_async(_begin_and_die, (str(tmp_path / "begun"),))  # written at once
        process._popen.wait(timeout=180)
        assert not job._accepted, "the loop was to read it later"
        pool.on_job_process_down(job, process.pid)
        assert job._accepted
        assert job not in pool.outbound_buffer
    finally:
        pool.terminate()
        pool.join()
        hub.close()
