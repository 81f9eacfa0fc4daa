"""The pool over real processes, which claim from a real Redis, driven by an event loop of the test."""

from __future__ import annotations

import os
import signal
import threading
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery, bootsteps, signals
from celery.worker import state as worker_state
from kombu.asynchronous import Hub
from kombu.entity import Queue
from tests.waiting import PATIENCE

from worker.queue.broker import keys
from worker.queue.metrics import Metrics
from worker.queue.places import Place
from worker.queue.processes.parts import Processes
from worker.queue.processes.pool import Pool
from worker.queue.together import AnsweredTogether
from worker.settings.serving import MetricsSettings

from .claims import QUEUE, RULES, envelope, places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from worker.settings import Settings


def end_process(*_: Any, **__: Any) -> Any:
    """End this process, as a fault of it does."""
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def pool(url: str, make_settings: Callable[..., Settings]) -> Iterator[Pool]:
    """A pool of one process, whose jobs end it."""
    settings = make_settings()
    app = Celery(set_as_current=False, broker=url, backend=url)
    app.conf.task_queues = [Queue(QUEUE)]
    unused: Any = None
    together = AnsweredTogether(settings, unused)
    answers: Any = SimpleNamespace(outcome=end_process, together=together, metrics=Metrics(MetricsSettings()))
    app.processes = Processes(app, settings, RULES, answers)
    app.processes.consumer = SimpleNamespace(controller=None, event_dispatcher=None)
    running = Pool(1, app=app, initargs=(app, "w@host"))
    yield running
    running.terminate()
    app.close()


def drive(pool: Pool, until: Callable[[], object]) -> None:
    """Run an event loop until a condition holds."""
    hub = Hub()
    pool.register_with_event_loop(hub)
    loop = hub.create_loop()
    deadline = time.monotonic() + PATIENCE
    while not until():
        assert time.monotonic() < deadline
        next(loop)
    hub.close()


def test_processes_that_die_at_their_start_are_forked_after_pauses(pool: Pool, tmp_path: Path) -> None:
    """One that dies is replaced at once; each further one in a row after a pause that grows."""
    starts = tmp_path / "starts"
    starts.touch()

    def die(**_: Any) -> None:
        with starts.open("a") as file:
            file.write(f"{time.monotonic()}\n")
        end_process()

    signals.worker_process_init.connect(die)
    try:
        pool.start()
        drive(pool, lambda: len(starts.read_text().splitlines()) >= 4)
    finally:
        signals.worker_process_init.disconnect(die)
    assert not pool.is_ready
    times = [float(line) for line in starts.read_text().splitlines()]
    pauses = [after - before for before, after in pairwise(times)]
    assert all(pause >= least for pause, least in zip(pauses, (0, 1, 2), strict=True)), pauses
    assert pauses[0] < 1


def test_a_process_that_ran_a_job_is_replaced_at_once(pool: Pool, broker: redis.Redis) -> None:
    """However often one dies of it, until the job is a dead letter: only deaths at the start delay the next process."""
    broker.lpush(QUEUE, envelope("killer"))
    pids = set()

    def is_dead_letter() -> bool:
        pids.update(member.pid for member in pool.members.values())
        return places(broker) == {"dead": 1}

    pool.start()
    drive(pool, is_dead_letter)
    assert len(pids) == RULES.max_deliveries + 1
    assert pool._places[0].deaths == 0


def test_a_process_asked_to_leave_at_its_start_does_not_act_as_the_main_one(pool: Pool, tmp_path: Path) -> None:
    """Not for a moment: it would say that the worker stops."""
    said = tmp_path / "said"
    signalled = {signal.SIGTERM}
    os.register_at_fork(after_in_child=lambda: [os.kill(os.getpid(), number) for number in signalled])
    former = signal.signal(signal.SIGTERM, lambda *_: said.touch())
    try:
        pool.start()
        pool.shrink()
        drive(pool, lambda: not pool.members)
    finally:
        signal.signal(signal.SIGTERM, former)
        signalled.clear()
    assert not said.exists()


def hang(*_: Any, **__: Any) -> Any:
    """Run until this process is ended."""
    threading.Event().wait()


def test_a_cold_stop_during_a_warm_one_does_not_wait_for_jobs(
    pool: Pool, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGQUIT may come when Celery has closed its consumer, and not stopped the pool: the job is requeued."""
    processes = pool.app.processes
    processes._answers.outcome = hang
    pool.options["timeout"] = 3  # after which the job would fail
    pool.app.conf.worker_soft_shutdown_timeout = 0.1
    broker.lpush(QUEUE, envelope("1"))
    pool.start()
    drive(pool, lambda: pool.busy)
    processes.consumer.blueprint = SimpleNamespace(state=bootsteps.CLOSE)
    monkeypatch.setattr(worker_state, "should_terminate", True)
    pool.stop()
    assert places(broker) == {"queue": 1}
    assert not broker.exists(keys.deliveries(QUEUE))


# --- when the next process may be forked ------------------------------------------------------------


def test_pauses_double_up_to_a_minute() -> None:
    """Of processes in a row that die at their start; the first is replaced at once."""
    place, now, pauses = Place(), 0.0, []
    for _ in range(9):
        place.begin(now)
        place.end(now, is_proven=False)
        died_at = now
        while not place.is_due(now):
            now += 0.5
        pauses.append(now - died_at)
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize(("ready_at", "is_proven", "pause"), [(0.0, False, 0), (0.0, True, 0), (50.0, False, 4)])
def test_a_process_that_worked_ends_the_row(ready_at: float, is_proven: bool, pause: float) -> None:
    """One that ran a job, or was ready for a minute, did not die at its start."""
    place, now = Place(), 0.0
    for _ in range(3):
        place.begin(now)
        place.end(now, is_proven=False)
        while not place.is_due(now):
            now += 0.5
    place.begin(now)
    place.ready_at = now + ready_at
    place.end(now + 61, is_proven=is_proven)
    assert place.is_due(now + 61) is (pause == 0)
    assert place.is_due(now + 61 + pause)


def test_a_process_that_starts_slowly_is_logged_less_and_less_often_and_ended_late() -> None:
    """Each time that its age has doubled; and the longer, the more died before it."""
    place = Place()
    place.begin(0.0)
    assert [now for now in range(100) if place.is_slow(now)] == [10, 20, 40, 80]
    assert [place.is_stuck(now) for now in (599, 600)] == [False, True]
    place.end(600, is_proven=False)
    assert place.is_due(600)
    place.begin(600)
    assert [place.is_stuck(600 + now) for now in (1199, 1200)] == [False, True]
    place.ready_at = 1700.0
    assert not place.is_slow(1800)
    assert not place.is_stuck(1800)
