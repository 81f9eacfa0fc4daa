"""Our pool with real processes and a real event loop."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from billiard.exceptions import Terminated, WorkerLostError
from kombu.asynchronous import Hub, set_event_loop

from worker.prefork import TaskPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PATIENCE_SECONDS = 20.0


class Rig:
    """A pool of one process and its loop."""

    def __init__(self) -> None:
        self.hub = Hub()
        set_event_loop(self.hub)
        self.pool = TaskPool.Pool(1, threads=False, lost_worker_timeout=1.0)
        self.pool.register_with_event_loop(self.hub)
        self.until(lambda: self.idle)
        self.process = psutil.Process(self.pool._pool[0].pid)

    @property
    def idle(self) -> bool:
        return bool(self.pool._all_inqueues)

    def until(self, happened: Callable[[], Any]) -> None:
        """Turn the loop."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            assert time.monotonic() < end, "it did not happen"
            self.hub.call_later(0.05, lambda: None)
            with contextlib.suppress(StopIteration):
                self.hub.run_once()

    def run(self, function: Callable[..., Any], *args: Any) -> Job:
        return Job(self.pool, function, *args)

    def close(self) -> None:
        for process in self.pool._pool:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.pool.close()
        self.hub.close()
        set_event_loop(None)


class Job:
    """What the pool said of a job."""

    def __init__(self, pool: Any, function: Callable[..., Any], *args: Any) -> None:
        self.begun: list[int] = []
        self.ended: list[Any] = []
        self.failed: list[Any] = []
        pool.apply_async(
            function,
            args,
            accept_callback=lambda pid, _: self.begun.append(pid),
            callback=self.ended.append,
            error_callback=lambda info: self.failed.append(type(info.exception.exc)),
        )


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    with contextlib.closing(made):
        yield made


def test_a_job_has_begun_when_it_is_written(rig: Rig) -> None:
    """Its process need not say so: this one can't."""
    rig.process.suspend()
    job = rig.run(os.getpid)
    assert job.begun == [rig.process.pid]
    rig.process.resume()
    rig.until(lambda: job.ended)
    assert job.ended == job.begun


def test_a_job_waits_for_a_process(rig: Rig) -> None:
    """It has not begun while it waits."""
    rig.process.suspend()
    first, second = rig.run(os.getpid), rig.run(os.getpid)
    assert (first.begun, second.begun) == ([rig.process.pid], [])
    rig.process.resume()
    rig.until(lambda: second.ended)
    assert second.begun == [rig.process.pid]


def test_a_job_as_long_as_many_pipes_arrives(rig: Rig) -> None:
    """Whole, in many pieces."""
    text = "longer than a pipe " * 100_000
    job = rig.run(str.upper, text)
    rig.until(lambda: job.ended)
    assert job.ended == [text.upper()]


def test_a_job_that_began_is_lost_with_its_process(rig: Rig) -> None:
    """Whoever asked hears of it, and the next one runs."""
    rig.process.suspend()
    job = rig.run(os.getpid)
    rig.process.kill()
    rig.until(lambda: job.failed)
    assert job.failed == [WorkerLostError]
    after = rig.run(os.getpid)
    rig.until(lambda: after.ended)


def test_a_process_that_is_told_to_end_gets_no_other_job(rig: Rig) -> None:
    """The other would be taken for the one that is to end, and be acknowledged without having run."""
    rig.process.suspend()
    rig.pool.terminate_job(rig.process.pid, signal.SIGTERM)
    job = rig.run(os.getpid)
    assert job.begun == []
    rig.process.resume()
    rig.until(lambda: job.ended or job.failed)
    assert (job.ended, job.failed) == (job.begun, [])
    assert job.begun != [rig.process.pid]


def test_a_job_that_is_to_end_is_said_to_have(rig: Rig) -> None:
    """As Celery expects it of a job that was revoked."""
    job = rig.run(time.sleep, PATIENCE_SECONDS)
    rig.pool.terminate_job(rig.process.pid, signal.SIGTERM)
    rig.until(lambda: job.failed)
    assert job.failed == [Terminated]


def test_a_process_whose_job_caught_the_signal_is_told_again(rig: Rig, tmp_path: Path) -> None:
    """It would never get a job, and never be replaced."""
    there = tmp_path / "there"
    job = rig.run(_catch, there)
    rig.until(there.exists)
    rig.pool.terminate_job(rig.process.pid, signal.SIGTERM)
    rig.until(lambda: job.ended)
    assert job.ended == ["caught"]
    after = rig.run(os.getpid)
    rig.until(lambda: after.ended)
    assert after.ended != [rig.process.pid]


def _catch(there: Path) -> str:
    try:
        there.touch()
        time.sleep(PATIENCE_SECONDS)
    except SystemExit:
        return "caught"
    return "slept"
