"""Costs of queries: processor time of worker, Postgres and Redis, bytes through Redis, memory."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

SETTLE_SECONDS = 0.2


@dataclass(frozen=True)
class Usage:
    """Resources used up to a moment.

    Attributes:
        worker: seconds of processor time of the side's own processes.
        postgres: of the server and all its sessions, those that have ended included.
        redis: of the server.
        redis_in: bytes that Redis received.
        redis_out: bytes that Redis sent.
    """

    worker: float
    postgres: float
    redis: float
    redis_in: int
    redis_out: int

    def per_query(self, before: Usage, queries: int) -> dict[str, float]:
        """Costs of each query since ``before``: milliseconds, and kB through Redis in both directions."""
        return {
            "worker_ms": (self.worker - before.worker) * 1000 / queries,
            "postgres_ms": (self.postgres - before.postgres) * 1000 / queries,
            "redis_ms": (self.redis - before.redis) * 1000 / queries,
            "redis_in_kb": (self.redis_in - before.redis_in) / 1000 / queries,
            "redis_out_kb": (self.redis_out - before.redis_out) / 1000 / queries,
        }


class Meter:
    """Reads the counters of the servers and of a side's processes.

    Args:
        postgres: the postmaster's process id.
        server: a client of the Redis server.
    """

    def __init__(self, postgres: int, server: redis.Redis) -> None:
        self._postgres = postgres
        self._redis = server

    def read(self, processes: Sequence[int]) -> Usage:
        """Counters now, with those of these processes and of their children."""
        info: dict[str, Any] = self._redis.info()
        return Usage(
            worker=sum(map(cpu_seconds, processes)),
            postgres=cpu_seconds(self._postgres),
            redis=info["used_cpu_user"] + info["used_cpu_sys"],
            redis_in=info["total_net_input_bytes"],
            redis_out=info["total_net_output_bytes"],
        )

    def settled(self, processes: Sequence[int]) -> Usage:
        """Counters a moment later: what a worker does after its last answer (acknowledging it) is its work, too."""
        time.sleep(SETTLE_SECONDS)
        return self.read(processes)


def tree(pid: int) -> list[psutil.Process]:
    """A process and its children, as far as they still live."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    return []


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, its children, and those children that have ended."""
    total = 0.0
    for process in tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def megabytes(pids: Sequence[int]) -> float:
    """Memory of a process on average: pages that several share are counted in parts (PSS), where the kernel tells."""
    sizes = []
    for process in (one for pid in pids for one in tree(pid)):
        with contextlib.suppress(psutil.NoSuchProcess):
            full = process.memory_full_info()
            sizes.append(getattr(full, "pss", full.uss))
    return sum(sizes) / len(sizes) / 2**20
