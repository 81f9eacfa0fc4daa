"""The pool over real processes, driven by an event loop of the test."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kombu.asynchronous import Hub
from tests.waiting import PATIENCE

from worker.queue.pool import _Pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def _begin_and_die(begun: str) -> None:
    """A job that kills its process."""
    with open(begun, "w"):  # noqa: PTH123 -- nothing is left to chance here
        os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def running(**options: Any) -> Iterator[tuple[_Pool, Hub]]:
    """A pool of one process, and a hub that it is not registered with yet."""
    hub, pool = Hub(), _Pool(processes=1, threads=False, enable_timeouts=True, **options)
    try:
        yield pool, hub
    finally:
        pool.terminate()
        pool.join()
        hub.close()


def drive(hub: Hub, until: Callable[[], object]) -> None:
    """Run an event loop until a condition holds."""
    loop = hub.create_loop()
    hub.call_repeatedly(0.05, lambda: None)
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline
        next(loop)


def _die_at_start(starts: str) -> None:
    with open(starts, "a") as file:  # noqa: PTH123 -- nothing is left to chance here
        file.write(f"{time.monotonic()}\n")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def test_processes_that_die_at_their_start_are_forked_after_pauses_that_grow(tmp_path: Path) -> None:
    """One that dies is replaced at once; each further one in a row after twice the pause of the last."""
    starts = tmp_path / "starts"
    starts.touch()
    with running(initializer=_die_at_start, initargs=(str(starts),)) as (pool, hub):
        pool.register_with_event_loop(hub)
        drive(hub, lambda: len(starts.read_text().splitlines()) >= 5)
        assert not pool.is_ready
    times = [float(line) for line in starts.read_text().splitlines()]
    pauses = [after - before for before, after in pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (0, 1, 2, 4), strict=False)), pauses


def test_a_process_that_ran_a_job_is_replaced_at_once(tmp_path: Path) -> None:
    """However many died before it: only deaths at the start delay the next process."""
    with running() as (pool, hub):
        pool.register_with_event_loop(hub)
        pids = []
        for number in range(4):
            drive(hub, pool.room)
            pids.append(pool._pool[0].pid)
            pool.apply_async(_begin_and_die, (str(tmp_path / f"{number}"),))
            drive(hub, lambda: pool._pool and pool._pool[0].pid not in pids)
        assert pool._places[0].deaths == 0


def test_a_pool_grows_by_processes_that_take_jobs() -> None:
    """A place in the pool that no process had before is filled too."""
    with running() as (pool, hub):
        pool.register_with_event_loop(hub)
        pool.grow(1)
        drive(hub, lambda: pool.room() == 2)


def test_a_process_that_dies_before_the_first_connection_stands_ends_no_worker() -> None:
    """As where a fresh connection is lost at the start: the pool is flushed before an event loop reads from it."""
    with running() as (pool, hub):
        (process,) = pool._pool
        process.terminate()
        process._popen.wait(timeout=PATIENCE)
        pool.flush()
        pool.register_with_event_loop(hub)
        assert pool.did_start_ok()
        drive(hub, pool.room)


def test_pipes_of_a_process_whose_end_was_handled_in_part_are_free_again() -> None:
    """An error of a lost connection came between: the next process is forked all the same, and gets jobs."""
    with running() as (pool, hub):
        pool.register_with_event_loop(hub)
        drive(hub, pool.room)
        (process,) = pool._pool
        process.terminate()
        process._popen.wait(timeout=PATIENCE)
        pool._pool.clear()
        drive(hub, lambda: pool._pool and pool.room())
        assert process not in pool._queues.values()


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
