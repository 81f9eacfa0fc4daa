"""Plan of faults: a pure function of a seed and of the number of each kind."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(StrEnum):
    """A kind of fault; its value is what the report calls it."""

    WORKER_KILL = "worker killed"
    MAIN_KILL = "main process killed"
    CHILD_KILL = "pool process killed"
    WORKER_STOP = "worker stopped politely"
    WORKER_FREEZE = "worker frozen"
    POOL_GROW = "pool grown"
    POOL_SHRINK = "pool shrunk"
    REDIS_KILL = "Redis killed"
    REDIS_RESTART = "Redis restarted"
    REDIS_FREEZE = "Redis frozen"
    REDIS_READ_ONLY = "Redis read-only"
    REDIS_NO_REPLICAS = "Redis without replicas"
    REDIS_OUT_OF_MEMORY = "Redis out of memory"
    REDIS_DISK_FULL = "Redis' disk full"
    POSTGRES_KILL = "Postgres killed"
    POSTGRES_RESTART = "Postgres restarted at once"
    BACKENDS_TERMINATED = "Postgres sessions terminated"
    BLACKHOLE = "network swallows all"
    HALF_OPEN = "connections half-open"
    ANSWERS_LOST = "answers lost"
    LATENCY = "network slow"
    RESET = "connections reset"
    RESULTS_AWAY = "time limits without results' Redis"
    SILENT_AFTER_FORK = "network silent after a fork"
    STOP_THEN_KILL = "worker stopped, then killed"
    KILL_AT_START = "pool process killed at a start without Redis"
    KILL_RECONNECTING = "pool process killed while reconnecting"
    KILL_AFTER_SURVIVOR = "process killed after a job that survived SIGTERM"
    BIG_MESSAGE = "message of 48 MB"

    @property
    def is_aimed(self) -> bool:
        """True if it is a sequence aimed at one weakness, with jobs of its own."""
        return self in AIMED

    @property
    def takes_worker(self) -> bool:
        """True if it ends or stops a worker's process."""
        return self in _OF_WORKERS

    @property
    def on_redis(self) -> bool:
        """True if it makes Redis unavailable."""
        return self.name.startswith("REDIS_") or self in {Kind.KILL_AT_START, Kind.KILL_RECONNECTING}

    @property
    def on_postgres(self) -> bool:
        """True if it makes Postgres unavailable."""
        return self in {Kind.POSTGRES_KILL, Kind.POSTGRES_RESTART, Kind.BACKENDS_TERMINATED}

    @property
    def on_network(self) -> bool:
        """True if it is a network fault."""
        return self in _OF_THE_NETWORK

    @property
    def holds_up(self) -> bool:
        """True if it stops all work, not only one worker: the next fault waits for recovery."""
        return self.is_aimed or self.on_redis or self.on_postgres or self.on_network


_OF_WORKERS = {
    *(Kind.WORKER_KILL, Kind.MAIN_KILL, Kind.CHILD_KILL, Kind.WORKER_STOP, Kind.WORKER_FREEZE),
    Kind.STOP_THEN_KILL,
}
_OF_THE_NETWORK = {
    *(Kind.BLACKHOLE, Kind.HALF_OPEN, Kind.ANSWERS_LOST, Kind.LATENCY, Kind.RESET),
    *(Kind.RESULTS_AWAY, Kind.SILENT_AFTER_FORK),
}
AIMED = (
    *(Kind.RESULTS_AWAY, Kind.SILENT_AFTER_FORK, Kind.STOP_THEN_KILL, Kind.KILL_AT_START, Kind.KILL_RECONNECTING),
    *(Kind.KILL_AFTER_SURVIVOR, Kind.BIG_MESSAGE),
)
"""The kinds that are counted together, as "each aimed kind"."""
SIMPLE = tuple(
    kind
    for kind in Kind
    if kind
    not in {
        Kind.WORKER_KILL,
        Kind.MAIN_KILL,
        Kind.REDIS_KILL,
        Kind.POSTGRES_KILL,
        Kind.BLACKHOLE,
        Kind.WORKER_FREEZE,
        Kind.REDIS_FREEZE,
        *AIMED,
    }
)
"""The kinds that are counted together, as "each other kind"."""

_SECONDS: Mapping[Kind, tuple[float, float]] = {
    Kind.WORKER_FREEZE: (2.0, 12.0),
    Kind.REDIS_KILL: (0.0, 2.0),
    Kind.REDIS_FREEZE: (1.0, 7.0),
    Kind.REDIS_READ_ONLY: (0.5, 3.0),
    Kind.REDIS_NO_REPLICAS: (0.5, 3.0),
    Kind.REDIS_OUT_OF_MEMORY: (0.5, 3.0),
    Kind.POSTGRES_KILL: (0.0, 2.0),
    Kind.BLACKHOLE: (1.0, 7.0),
    Kind.LATENCY: (1.0, 3.0),
    Kind.RESULTS_AWAY: (100.0, 104.0),  # past the hard time limit, and all tries to store what it ended
    Kind.SILENT_AFTER_FORK: (2.0, 2.0),
    Kind.STOP_THEN_KILL: (1.0, 2.0),
    Kind.KILL_AT_START: (0.5, 1.5),
    Kind.KILL_RECONNECTING: (0.5, 1.5),
}
"""Between how many seconds a fault of a kind lasts; 0 where it is over at once."""


@dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        after: number of submitted jobs after which it is injected, the last of them at once.
        kind: what happens.
        seconds: how long it lasts.
        worker: which worker it happens to, if it happens to one: a place in the fleet.
        link: which connections, if it is of the network: "redis" or "postgres".
    """

    after: int
    kind: Kind
    seconds: float
    worker: int
    link: str


@dataclass(frozen=True)
class Counts:
    """Number of faults of each kind.

    Attributes:
        worker_kills: `kill -9` of a worker: half of them whole, half only its main process.
        redis_kills: `kill -9` of Redis.
        postgres_kills: `kill -9` of Postgres.
        blackholes: times that the network swallows everything.
        freezes: SIGSTOP and SIGCONT, of Redis and of workers in turn.
        others: of each other kind.
        aimed: of each aimed kind.
        only: of the aimed kinds those whose names hold this.
    """

    worker_kills: int = 0
    redis_kills: int = 0
    postgres_kills: int = 0
    blackholes: int = 0
    freezes: int = 0
    others: int = 0
    aimed: int = 0
    only: str = ""

    def kinds(self) -> list[Kind]:
        """One item a fault, not yet in order.

        >>> [kind.value for kind in Counts(worker_kills=3, freezes=1).kinds()]
        ['worker killed', 'main process killed', 'worker killed', 'Redis frozen']
        """
        return [
            *((Kind.WORKER_KILL, Kind.MAIN_KILL)[i % 2] for i in range(self.worker_kills)),
            *[Kind.REDIS_KILL] * self.redis_kills,
            *[Kind.POSTGRES_KILL] * self.postgres_kills,
            *[Kind.BLACKHOLE] * self.blackholes,
            *((Kind.REDIS_FREEZE, Kind.WORKER_FREEZE)[i % 2] for i in range(self.freezes)),
            *[kind for kind in SIMPLE for _ in range(self.others)],
            *[kind for kind in AIMED for _ in range(self.aimed) if self.only in kind],
        ]


def plan(seed: int, jobs: int, workers: int, counts: Counts) -> tuple[Fault, ...]:
    """The faults of a run, in order, spread evenly over its jobs; equal arguments give an equal plan.

    Args:
        seed: of everything that is random.
        jobs: how many jobs the run has.
        workers: how many workers the fleet has.
        counts: how many faults of each kind.
    """
    chance = random.Random(seed)  # noqa: S311 -- repeatable, not secret
    kinds = counts.kinds()
    chance.shuffle(kinds)
    gap = jobs / (len(kinds) + 1)
    return tuple(
        Fault(
            after=int(gap * (place + chance.uniform(0.5, 1.0))),
            kind=kind,
            seconds=round(chance.uniform(*_SECONDS.get(kind, (0.0, 0.0))), 2),
            worker=chance.randrange(workers),
            link=("redis", "postgres")[chance.random() < 1 / 4],
        )
        for place, kind in enumerate(kinds)
    )


@dataclass(frozen=True)
class FaultJobs:
    """The jobs that belong to a fault: some evenly while the last one lasts, the others at once when it begins.

    Attributes:
        trickle: how many are submitted evenly.
        per_second: how fast.
        burst: how many are submitted at once, right before the fault.
    """

    trickle: int
    per_second: float
    burst: int


MOST_BURST = 24
PAUSE_SECONDS = 1.5


def share(submitted: int, until: int, seconds: float) -> FaultJobs:
    """Hold jobs back, so that each fault meets work: until it begins no more than its place in the plan.

    Args:
        submitted: how many jobs there were so far.
        until: how many there may be when the next fault begins.
        seconds: how long the last fault lasts.

    >>> share(100, 160, 0.5)
    FaultJobs(trickle=36, per_second=18.0, burst=24)
    """
    room = max(0, until - submitted)
    burst = min(MOST_BURST, -(-room // 2))
    trickle = room - burst
    return FaultJobs(trickle, trickle / (PAUSE_SECONDS + seconds), burst)
