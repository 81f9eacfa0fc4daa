"""Start and end of each fault."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import redis
from celery import Celery

from chaos import aimed
from chaos.plan import Kind
from chaos.servers import fill
from chaos.watcher import held_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from chaos.fleet import Fleet
    from chaos.plan import Fault
    from chaos.proxy import Proxy
    from chaos.servers import PostgresServer, RedisServer
    from chaos.sleepers import Sleepers

LATENCY_SECONDS = 0.1


@dataclass
class Happened:
    """A fault that was done.

    Attributes:
        fault: which.
        began: when (monotonic seconds).
        ended: when it was over and everything was there again.
        held: jobs that the worker held right after it began, if it is one of workers.
        open: all jobs that had no answer when it began.
        back: seconds that it was felt (`chaos.recovery`). None: it was felt till the end, or that is not measured.
    """

    fault: Fault
    began: float
    ended: float = 0.0
    held: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    back: float | None = None


class Scene:
    """Targets of faults.

    Args:
        redis_server: the broker.
        results: the results' Redis: the same, or one of its own.
        postgres: the database.
        links: the proxies before them: "redis", "results" and "postgres".
        fleet: the workers.
        small_disk: Redis' folder, if it is a small file system of its own.
        diary: where sleepers write down what they do.
        missing: what this machine lacks of what was asked for.
    """

    def __init__(
        self,
        redis_server: RedisServer,
        results: RedisServer,
        postgres: PostgresServer,
        links: dict[str, Proxy],
        fleet: Fleet,
        small_disk: Path | None,
        diary: Path,
        missing: Sequence[str] = (),
    ) -> None:
        self.redis = redis_server
        self.results = results
        self.diary = diary
        self.missing = missing
        self.sleepers: Sleepers | None = None
        self.postgres = postgres
        self.links = links
        self.fleet = fleet
        self.small_disk = small_disk
        self._control = Celery(set_as_current=False)
        url = redis_server.url()
        self._control.conf.update(broker_read_url=url, broker_write_url=url)

    def close(self) -> None:
        """Close the connection that scales pools."""
        self._control.close()

    def can(self, kind: Kind) -> bool:
        """Return whether this machine allows a kind of fault."""
        if kind is Kind.RESULTS_AWAY:
            return "results" in self.links
        return kind is not Kind.REDIS_DISK_FULL or self.small_disk is not None

    def happen(self, fault: Fault, open_jobs: Iterable[str] = ()) -> Happened:
        """Do a fault, hold it for as long as it lasts, and end it."""
        happened = Happened(fault, time.monotonic(), open={*open_jobs})
        if fault.kind.is_aimed:
            aimed.happen(self, fault, happened)
        elif fault.kind.takes_worker:
            self._hurt_worker(fault, happened)
        elif fault.kind.on_redis:
            self._hurt_redis(fault)
        elif fault.kind.on_postgres:
            self._hurt_postgres(fault)
        elif fault.kind.on_network:
            self._hurt_network(fault)
        else:
            self._scale(fault)
        happened.ended = time.monotonic()
        return happened

    def _hurt_worker(self, fault: Fault, happened: Happened) -> None:
        pid = self.fleet.workers[fault.worker].process.pid
        match fault.kind:
            case Kind.WORKER_KILL | Kind.MAIN_KILL:
                self.fleet.kill(fault.worker, whole=fault.kind is Kind.WORKER_KILL)
                happened.held = self._held(pid)
            case Kind.CHILD_KILL:
                self.fleet.kill_child(fault.worker, fault.after)
                happened.held = self._held(pid)
            case Kind.WORKER_STOP:
                self.fleet.stop_politely(fault.worker)
            case _:
                self.fleet.freeze(fault.worker, on=True)
                happened.held = self._held(pid)
                time.sleep(fault.seconds)
                self.fleet.freeze(fault.worker, on=False)

    def _held(self, pid: int) -> set[str]:
        with contextlib.suppress(redis.RedisError):
            return held_by(self.redis, pid)
        return set()

    def _hurt_redis(self, fault: Fault) -> None:
        server = self.redis
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
                self._fill_disk()
            case _:
                begin, end = self._commands(fault.kind)
                server.check_pid()
                server.command(*begin)
                time.sleep(fault.seconds)
                server.command(*end)

    def _commands(self, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the functions that begin and end a fault of Redis."""
        if kind is Kind.REDIS_READ_ONLY:  # a primary that never answers: until then, this server takes no writes
            return ("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")
        name, value = _SETTINGS[kind]
        return ("CONFIG", "SET", name, value), ("CONFIG", "SET", name, self.redis.setting(name))

    def _fill_disk(self) -> None:
        """Redis ends itself where it can't write its file; it is started again once there is room."""
        assert self.small_disk is not None  # noqa: S101 -- for the type checker: `can` said so
        self.redis.check_pid()
        ballast = fill(self.small_disk)
        ended = self.redis.wait_for_end()
        ballast.unlink()
        if ended:
            self.redis.start()

    def _hurt_postgres(self, fault: Fault) -> None:
        if fault.kind is Kind.BACKENDS_TERMINATED:
            self.postgres.check_pid()
            self.postgres.terminate_sessions()
            return
        self.postgres.kill(signal.SIGKILL if fault.kind is Kind.POSTGRES_KILL else signal.SIGQUIT)
        time.sleep(fault.seconds)
        self.postgres.start()
        self.links["postgres"].upstream = self.postgres.socket

    def _hurt_network(self, fault: Fault) -> None:
        link = self.links[fault.link]
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

    def _scale(self, fault: Fault) -> None:
        """One process more or less, told through the broker as `celery control` does."""
        command = "pool_grow" if fault.kind is Kind.POOL_GROW else "pool_shrink"
        with contextlib.suppress(redis.RedisError, OSError):
            self._control.control.broadcast(
                command, arguments={"n": 1}, destination=[self.fleet.workers[fault.worker].name]
            )


_SETTINGS = {
    Kind.REDIS_NO_REPLICAS: ("min-replicas-to-write", "1"),
    Kind.REDIS_OUT_OF_MEMORY: ("maxmemory", "1mb"),
}
