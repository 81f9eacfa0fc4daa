"""Faults in sequences, each aimed at one place where a worker is weakest, with jobs that run just then."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import redis

from chaos.jobs import QUEUE, envelope
from chaos.plan import Kind
from chaos.watcher import held_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from chaos.plan import Fault
    from chaos.scene import FaultRecord, Scene
    from chaos.sleepers import Sleepers

BEGIN_SECONDS = 20.0
"""Seconds that a sequence waits for its next step: jobs that begin or end, a process that is forked."""
SETTLE_SECONDS = 0.3
PAST_HARD_LIMIT_SECONDS = 30
BIG_BYTES = 48 * 2**20


def inject(scene: Scene, fault: Fault, fault_record: FaultRecord) -> None:
    """Inject an aimed fault, from its beginning to its end."""
    assert scene.sleepers is not None  # noqa: S101 -- for the type checker: a run has set them
    fault_record.open |= _SEQUENCES[fault.kind](scene, scene.sleepers, fault, fault_record)


def _results_away(scene: Scene, sleepers: Sleepers, fault: Fault, _: FaultRecord) -> set[str]:
    """Both time limits fire in every worker while nothing can be stored: none is left to take over from another."""
    ids = sleepers.send(len(scene.fleet) * scene.fleet.concurrency, PAST_HARD_LIMIT_SECONDS)
    sleepers.wait_for_begin(ids, BEGIN_SECONDS)
    with silence(scene, "results"):
        time.sleep(fault.seconds)
    return ids


def _silent_after_fork(scene: Scene, _: Sleepers, fault: Fault, __: FaultRecord) -> set[str]:
    """A process that was forked while the worker was connected; then the worker's connections go silent."""
    replace_pool_processes(scene, fault.after)
    with silence(scene, "redis"):
        time.sleep(fault.seconds)
    return set()


def replace_pool_processes(scene: Scene, which: int) -> None:
    """Kill a pool process of each worker, so that it forks a new one."""
    for place in range(len(scene.fleet)):
        earlier_pids = {process.pid for process in scene.fleet.workers[place].pool()}
        scene.fleet.kill_child(place, which)
        deadline = time.monotonic() + BEGIN_SECONDS
        while time.monotonic() < deadline:
            current_pids = {process.pid for process in scene.fleet.workers[place].pool()}
            if current_pids - earlier_pids and len(current_pids) >= scene.fleet.concurrency:
                break
            time.sleep(0.02)
    time.sleep(SETTLE_SECONDS)


def _stop_then_kill(scene: Scene, sleepers: Sleepers, fault: Fault, fault_record: FaultRecord) -> set[str]:
    """All processes are busy: the grace ends before their jobs do."""
    ids, _ = _keep_busy(scene, sleepers, fault.worker, 6)
    pid = scene.fleet.workers[fault.worker].process.pid
    with contextlib.suppress(redis.RedisError):
        fault_record.held = held_by(scene.redis, pid)
    fault_record.began = time.monotonic()
    scene.fleet.stop_then_kill(fault.worker, fault.seconds)
    return ids


def _kill_at_start(scene: Scene, _: Sleepers, fault: Fault, __: FaultRecord) -> set[str]:
    """A worker starts while Redis is away, and loses a process before it is there."""
    scene.redis.kill()
    scene.fleet.kill(fault.worker, with_pool=True)
    scene.fleet.wait_for_pool(fault.worker, BEGIN_SECONDS)
    time.sleep(fault.seconds)
    scene.fleet.kill_child(fault.worker, fault.after)
    time.sleep(fault.seconds)
    scene.redis.start()
    return set()


def _kill_reconnecting(scene: Scene, _: Sleepers, fault: Fault, __: FaultRecord) -> set[str]:
    """Every worker loses a process while Redis is away."""
    scene.redis.kill()
    time.sleep(fault.seconds)
    for place in range(len(scene.fleet)):
        scene.fleet.kill_child(place, fault.after)
    time.sleep(fault.seconds)
    scene.redis.start()
    return set()


def _kill_after_survivor(scene: Scene, sleepers: Sleepers, fault: Fault, _: FaultRecord) -> set[str]:
    """Jobs that ignore SIGTERM while their connection is lost; then a process that ran one dies in its next job."""
    survivors, pids = _keep_busy(scene, sleepers, fault.worker, 3, stubborn=True)
    running = {*sleepers.running(survivors)}
    scene.links["redis"].reset()
    sleepers.wait_for_end(running, BEGIN_SECONDS)
    victims, __ = _keep_busy(scene, sleepers, fault.worker, 4)
    scene.fleet.kill_pool_process(pids & {*sleepers.running(victims).values()})
    return survivors | victims


def _big_message(scene: Scene, _: Sleepers, __: Fault, ___: FaultRecord) -> set[str]:
    """Send a message that is far too long: Redis refuses it, or it is dead-lettered; no other job is affected."""
    message = envelope("too-long", "retrieve_top_k", '[[{"query_embedding": "' + "A" * BIG_BYTES + '"}], {}, {}]')
    with contextlib.suppress(redis.RedisError, OSError), scene.redis.client(timeout=30, user="producer") as client:
        client.lpush(QUEUE, message)
    return set()


def _keep_busy(
    scene: Scene, sleepers: Sleepers, place: int, seconds: int, *, stubborn: bool = False
) -> tuple[set[str], set[int]]:
    """Have all processes of a worker sleep: (the jobs that do so, there and elsewhere, the processes)."""
    ids = sleepers.send(2 * len(scene.fleet) * scene.fleet.concurrency, seconds, stubborn=stubborn)
    scene.fleet.wait_for_pool(place, BEGIN_SECONDS)
    pids = {process.pid for process in scene.fleet.workers[place].pool()}
    sleepers.wait_until_all_sleep(pids, ids, BEGIN_SECONDS)
    return ids, pids


@contextlib.contextmanager
def silence(scene: Scene, link: str) -> Iterator[None]:
    """Blackhole a link until the end of the block."""
    scene.links[link].blackhole(True)
    try:
        yield
    finally:
        scene.links[link].blackhole(False)


_SEQUENCES: Mapping[Kind, Callable[[Scene, Sleepers, Fault, FaultRecord], set[str]]] = {
    Kind.RESULTS_AWAY: _results_away,
    Kind.SILENT_AFTER_FORK: _silent_after_fork,
    Kind.STOP_THEN_KILL: _stop_then_kill,
    Kind.KILL_AT_START: _kill_at_start,
    Kind.KILL_RECONNECTING: _kill_reconnecting,
    Kind.KILL_AFTER_SURVIVOR: _kill_after_survivor,
    Kind.BIG_MESSAGE: _big_message,
}
