"""Stage of a run: servers with a corpus, proxies before them, and workers with short time limits behind these."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.clocks import SKEWS, library, skewed
from chaos.fleet import Fleet
from chaos.jobs import DIARY
from chaos.proxy import network, proxy
from chaos.scene import Scene
from chaos.servers import PostgresServer, RedisServer, folders
from worker.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from chaos.corpus import Corpus
    from chaos.plan import Counts
    from chaos.proxy import Proxy

VISIBILITY_SECONDS = 16
TIME_LIMIT_SECONDS = 14
ROLE = "retrieval_worker"

SETTINGS = {
    "TRUST_QUEUE": "true",
    "LOG__FORMAT": "json",
    "SEARCH__EXACT_ROWS": "1000000",  # the oracle is exact, so the search must be
    "SEARCH__STATEMENT_TIMEOUT_SECONDS": "5",
    "WORKER__SOFT_TIME_LIMIT_SECONDS": "10",
    "WORKER__TIME_LIMIT_SECONDS": str(TIME_LIMIT_SECONDS),
    "WORKER__MAX_OUTAGE_SECONDS": "3600",
}
"""Default settings but for times, which are short so that lost messages come back within the run."""


@dataclass(frozen=True)
class RunOptions:
    """Options of a run.

    Attributes:
        jobs: how many are to be submitted.
        seed: of the jobs and the faults.
        counts: how many faults.
        transport: "reliable" or "stock".
        workers: how many workers.
        concurrency: processes of each.
        most_open: most jobs that may wait for their answer at once.
        patience: seconds without any answer after which what is open is given up.
        stop_at_first_loss: end as soon as a job is surely lost.
        own_results: the results have a Redis of their own.
        recycle: number of jobs after which a pool process is replaced; 0: never.
        skew: seconds by which, of three workers' clocks, one is ahead and one behind.
        visibility: seconds until stock Celery delivers a message again.
        beside: a checkout of another version, of which every second worker is.
    """

    jobs: int
    seed: int
    counts: Counts
    transport: str
    workers: int = 3
    concurrency: int = 2
    most_open: int = 200
    patience: float = 60.0
    stop_at_first_loss: bool = False
    own_results: bool = False
    recycle: int = 0
    skew: float = 0.0
    visibility: int = VISIBILITY_SECONDS
    beside: Path | None = None


@contextlib.contextmanager
def stage(
    options: RunOptions,
    corpus: Corpus,
    keep_logs: Path | None = None,
    variables: Mapping[str, str] | None = None,
    celery_options: Sequence[str] = (),
    *,
    proxied: bool = True,
    broker: type[RedisServer] = RedisServer,
) -> Iterator[Scene]:
    """Servers with a corpus, proxies before them, and workers behind these; all gone after the block.

    Args:
        options: how many workers, and which transport.
        corpus: what Postgres holds.
        keep_logs: a folder for the workers' logs; default one that is removed.
        variables: more of the workers' environment.
        celery_options: more options of ``celery worker``.
        proxied: False: no proxies, for a run without faults of the network that a proxy would take a part of.
        broker: what the queues are on.
    """
    with contextlib.ExitStack() as exits:
        root, small_disk = exits.enter_context(folders())
        redis_server = exits.enter_context(broker(root / "redis"))
        postgres = exits.enter_context(PostgresServer(root / "postgres"))
        with postgres.connect() as admin:
            corpus.load(admin)
        results = exits.enter_context(RedisServer(root / "results")) if options.own_results else redis_server
        links: dict[str, Proxy] = {}
        ports: dict[str, int] = {"redis": redis_server.port, "results": results.port}
        dsn = postgres.server.dsn(user=ROLE)
        if proxied:
            loop = exits.enter_context(network())
            links["redis"] = exits.enter_context(proxy(loop, redis_server.port))
            if options.own_results:
                links["results"] = exits.enter_context(proxy(loop, results.port))
            links["postgres"] = exits.enter_context(proxy(loop, postgres.socket))
            ports = {"redis": links["redis"].port, "results": links.get("results", links["redis"]).port}
            dsn = f"postgresql://{ROLE}@127.0.0.1:{links['postgres'].port}/postgres?sslmode=disable&connect_timeout=3"
        logs = keep_logs or root / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        broker_url = redis_server.url(0, "worker", ports["redis"])
        environment = worker_environment(broker_url, results.url(1, "worker", ports["results"]), dsn)
        diary = root / "diary"
        environment |= {DIARY: str(diary), **(variables or {})}
        faketime = library()
        fleet = exits.enter_context(
            Fleet(
                environment,
                logs,
                size=options.workers,
                concurrency=options.concurrency,
                options=[*celery_options, *([f"--max-tasks-per-child={options.recycle}"] if options.recycle else [])],
                app="chaos.stock" if options.transport == "stock" else "worker.app",
                variables=[skewed(options.skew * share, faketime) for share in SKEWS],
                checkouts=[Path.cwd(), options.beside or Path.cwd()],
            )
        )
        missing = ["clocks that are wrong: libfaketime is not installed"] if options.skew and faketime is None else []
        scene = Scene(redis_server, results, postgres, links, fleet, small_disk, diary, missing)
        yield exits.enter_context(contextlib.closing(scene))


def worker_environment(broker_url: str, results_url: str, dsn: str) -> dict[str, str]:
    """The environment of a worker."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return {
        **inherited,
        "PYTHONFAULTHANDLER": "1",
        "DATABASE_CONNECTION_STRING": dsn,
        "CELERY_BROKER_URL": broker_url,
        "CELERY_RESULT_BACKEND": results_url,
        **{PREFIX + name: value for name, value in SETTINGS.items()},
    }
