"""Targets of the faults of a run, and the record of each fault."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from celery import Celery

from chaos.plan import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chaos.fleet import Fleet
    from chaos.plan import Fault
    from chaos.proxy import Proxy
    from chaos.servers import PostgresServer, RedisServer
    from chaos.sleepers import Sleepers


@dataclass
class FaultRecord:
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

    Attributes:
        control: app through which pools are scaled.
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
        self.control = Celery(set_as_current=False)
        url = redis_server.url()
        self.control.conf.update(broker_read_url=url, broker_write_url=url)

    def close(self) -> None:
        """Close the connection that scales pools."""
        self.control.close()

    def can(self, kind: Kind) -> bool:
        """Return whether this machine allows a kind of fault."""
        if kind is Kind.RESULTS_AWAY:
            return "results" in self.links
        return kind is not Kind.REDIS_DISK_FULL or self.small_disk is not None
