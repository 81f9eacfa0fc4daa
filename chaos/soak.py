"""An hour of work: memory, keys in Redis and connections do not grow."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import psutil

from chaos.corpus import Corpus
from chaos.jobs import Questions
from chaos.ledger import Audit, Ledger, audit
from chaos.oracle import Oracle
from chaos.producer import Producer
from chaos.stage import RunOptions, stage
from chaos.watcher import Watcher, holdings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chaos.scene import Scene

SAMPLE_SECONDS = 2.0
FLAT = 0.02


@dataclass(frozen=True)
class Sample:
    """Sample of measurements.

    Attributes:
        memory: bytes that the workers' processes have for themselves, all together.
        keys: keys in Redis that are no results.
        redis_connections: clients of Redis.
        postgres_connections: sessions of workers.
    """

    memory: int
    keys: int
    redis_connections: int
    postgres_connections: int


@dataclass
class SoakReport:
    """Result of a run: samples after warm-up, and the ledger's audit."""

    audit: Audit
    samples: list[Sample]

    def drift(self) -> dict[str, float]:
        """Return the growth from the first quarter of the samples to the last, as a share.

        Memory on average. Of what there are a dozen the least: what leaks stays, and what comes and goes (a list that
        holds a message now, a connection that is being replaced) is no growth.
        """
        quarter = max(1, len(self.samples) // 4)
        drifts = {}
        for name in Sample.__annotations__:
            value = fmean if name == "memory" else min
            first_value, last_value = (
                value([getattr(sample, name) for sample in quarter_samples])
                for quarter_samples in (self.samples[:quarter], self.samples[-quarter:])
            )
            drifts[name] = (last_value - first_value) / max(1.0, first_value)
        return drifts

    @property
    def clean(self) -> bool:
        """True if nothing was lost and nothing grew."""
        return self.audit.clean and all(drift <= FLAT for drift in self.drift().values())


def soak(
    options: RunOptions, seconds: float, per_second: float, folder: Path, progress: Callable[[int, str], None]
) -> SoakReport:
    """Work at a steady pace; the first quarter of the time is warm-up.

    Args:
        options: seed, workers and transport; its jobs and counts are not used.
        seconds: how long.
        per_second: how many jobs a second.
        folder: for the workers' logs.
        progress: called with the seconds that have passed.
    """
    oracle = Oracle(Corpus())
    with stage(options, oracle.corpus, folder) as scene:
        ledger, samples, started = Ledger(), [], time.monotonic()
        questions = Questions(options.seed, oracle)
        with (
            Watcher(scene.results, ledger, oracle) as watcher,
            Producer(scene.redis, questions, 10**9, ledger, options.most_open, per_second) as producer,
        ):
            while (over := time.monotonic() - started) < seconds:
                time.sleep(SAMPLE_SECONDS)
                progress(int(over), "")
                if over > seconds / 4:
                    samples.append(sample(scene))
            producer.stop()
            ledger.wait_for_all({*ledger.open}, options.patience)
            scene.fleet.stop()
            watcher.finish()
            waiting, held = holdings(scene.redis)
    return SoakReport(audit(ledger.entries(), waiting | held), samples)


def sample(scene: Scene) -> Sample:
    """Take a sample."""
    memory = 0
    for worker in scene.fleet.workers:
        for process in [psutil.Process(worker.process.pid), *worker.pool()]:
            with contextlib.suppress(psutil.NoSuchProcess):
                memory += process.memory_full_info().uss
    with scene.redis.client() as client, scene.results.client(1) as results:
        other_keys = sum(not key.startswith(b"celery-task-meta-") for key in results.scan_iter(count=1000))
        keys: Any = client.dbsize()
        clients: Any = client.info("clients")
    with scene.postgres.connect() as admin:
        row = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'retrieval_worker'").fetchone()
    assert row is not None  # noqa: S101 -- for the type checker: a count is one row
    return Sample(memory, keys + other_keys, clients["connected_clients"], row[0])
