"""Start and end of each fault."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import redis

from chaos import aimed
from chaos.plan import Kind
from chaos.scene import FaultRecord
from chaos.servers import fill
from chaos.watcher import held_by

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chaos.plan import Fault
    from chaos.scene import Scene

LATENCY_SECONDS = 0.1

_SETTINGS = {
    Kind.REDIS_NO_REPLICAS: ("min-replicas-to-write", "1"),
    Kind.REDIS_OUT_OF_MEMORY: ("maxmemory", "1mb"),
}


def inject(scene: Scene, fault: Fault, open_jobs: Iterable[str] = ()) -> FaultRecord:
    """Inject a fault, keep it for its duration, and end it."""
    fault_record = FaultRecord(fault, time.monotonic(), open={*open_jobs})
    if fault.kind.is_aimed:
        aimed.inject(scene, fault, fault_record)
    elif fault.kind.takes_worker:
        _inject_worker(scene, fault, fault_record)
    elif fault.kind.on_redis:
        _inject_redis(scene, fault)
    elif fault.kind.on_postgres:
        _inject_postgres(scene, fault)
    elif fault.kind.on_network:
        _inject_network(scene, fault)
    else:
        _scale(scene, fault)
    fault_record.ended = time.monotonic()
    return fault_record


def _inject_worker(scene: Scene, fault: Fault, fault_record: FaultRecord) -> None:
    pid = scene.fleet.workers[fault.worker].process.pid
    match fault.kind:
        case Kind.WORKER_KILL | Kind.MAIN_KILL:
            scene.fleet.kill(fault.worker, with_pool=fault.kind is Kind.WORKER_KILL)
            fault_record.held = _held(scene, pid)
        case Kind.CHILD_KILL:
            scene.fleet.kill_child(fault.worker, fault.after)
            fault_record.held = _held(scene, pid)
        case Kind.WORKER_STOP:
            scene.fleet.shut_down(fault.worker)
        case _:
            scene.fleet.freeze(fault.worker, on=True)
            fault_record.held = _held(scene, pid)
            time.sleep(fault.seconds)
            scene.fleet.freeze(fault.worker, on=False)


def _held(scene: Scene, pid: int) -> set[str]:
    with contextlib.suppress(redis.RedisError):
        return held_by(scene.redis, pid)
    return set()


def _inject_redis(scene: Scene, fault: Fault) -> None:
    server = scene.redis
    match fault.kind:
        case Kind.REDIS_KILL | Kind.REDIS_RESTART:
            server.kill(signal.SIGKILL if fault.kind is Kind.REDIS_KILL else signal.SIGTERM)
            time.sleep(fault.seconds)
            server.start()
        case Kind.REDIS_FREEZE:
            pid = server.check_pid()
            os.kill(pid, signal.SIGSTOP)
            time.sleep(fault.seconds)
            os.kill(pid, signal.SIGCONT)
        case Kind.REDIS_DISK_FULL:
            _fill_disk(scene)
        case _:
            begin, end = _commands(scene, fault.kind)
            server.check_pid()
            server.command(*begin)
            time.sleep(fault.seconds)
            server.command(*end)


def _commands(scene: Scene, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the functions that begin and end a fault of Redis."""
    if kind is Kind.REDIS_READ_ONLY:  # a primary that never answers: until then, this server takes no writes
        return ("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")
    name, value = _SETTINGS[kind]
    return ("CONFIG", "SET", name, value), ("CONFIG", "SET", name, scene.redis.setting(name))


def _fill_disk(scene: Scene) -> None:
    """Fill Redis' disk: it exits when it can't write its file, and is started again once there is room."""
    assert scene.small_disk is not None  # noqa: S101 -- for the type checker: `can` said so
    scene.redis.check_pid()
    ballast = fill(scene.small_disk)
    ended = scene.redis.wait_for_end()
    ballast.unlink()
    if ended:
        scene.redis.start()


def _inject_postgres(scene: Scene, fault: Fault) -> None:
    if fault.kind is Kind.BACKENDS_TERMINATED:
        scene.postgres.check_pid()
        scene.postgres.terminate_sessions()
        return
    scene.postgres.kill(signal.SIGKILL if fault.kind is Kind.POSTGRES_KILL else signal.SIGQUIT)
    time.sleep(fault.seconds)
    scene.postgres.start()
    scene.links["postgres"].upstream = scene.postgres.socket


def _inject_network(scene: Scene, fault: Fault) -> None:
    link = scene.links[fault.link]
    match fault.kind:
        case Kind.BLACKHOLE:
            link.blackhole(True)
            time.sleep(fault.seconds)
            link.blackhole(False)
        case Kind.HALF_OPEN:
            link.half_open()
        case Kind.ANSWERS_LOST:
            link.deafen()
        case Kind.LATENCY:
            link.latency(LATENCY_SECONDS)
            time.sleep(fault.seconds)
            link.latency(0)
        case _:
            link.reset()


def _scale(scene: Scene, fault: Fault) -> None:
    """Grow or shrink a pool by one process, through the broker as `celery control` does."""
    command = "pool_grow" if fault.kind is Kind.POOL_GROW else "pool_shrink"
    with contextlib.suppress(redis.RedisError, OSError):
        scene.control.control.broadcast(
            command, arguments={"n": 1}, destination=[scene.fleet.workers[fault.worker].name]
        )
