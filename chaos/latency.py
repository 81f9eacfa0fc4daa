"""Duration of jobs before and after network failures: a worker must not become slower over time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from chaos.aimed import replace_pool_processes, silence
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

SILENT_SECONDS = 2.0
MOST_RATIO = 1.1
WARM_UP = 50
POLL_SECONDS = 0.001


@dataclass
class LatencyReport:
    """Result of a run.

    Attributes:
        audit: the ledger's balance.
        seconds_before: median seconds of a job, one at a time, before the first blackhole.
        seconds_after: and after the last.
    """

    audit: Audit
    seconds_before: float
    seconds_after: float

    @property
    def ratio(self) -> float:
        """Time of a job after the failures, divided by its time before."""
        return self.seconds_after / self.seconds_before

    @property
    def clean(self) -> bool:
        """True if nothing was lost, and jobs take as long as before."""
        return self.audit.clean and self.ratio <= MOST_RATIO


def latency(options: RunOptions, blackholes: int, folder: Path, progress: Callable[[int, str], None]) -> LatencyReport:
    """Time jobs; then repeat: replace the pool's processes and blackhole the network; then time jobs again.

    Args:
        options: seed, workers and transport; its jobs are those of each measurement.
        blackholes: how many.
        folder: for the workers' logs.
        progress: called with the number of blackholes done.
    """
    oracle = Oracle(Corpus())
    with stage(options, oracle.corpus, folder) as scene:
        ledger = Ledger()
        questions = Questions(options.seed, oracle)
        producer = Producer(scene.redis, questions, 10**9, ledger, options.most_open)
        producer.allow(0)
        with Watcher(scene.results, ledger, oracle, POLL_SECONDS) as watcher, producer:

            def take(count: int) -> list[float]:
                return [_one(producer, ledger, options.patience) for _ in range(count)]

            take(WARM_UP)
            seconds_before = median(take(options.jobs))
            for number in range(blackholes):
                progress(number, "network silent after a fork")
                replace_pool_processes(scene, number)
                with silence(scene, "redis"):
                    time.sleep(SILENT_SECONDS)
                take(1)
                scene.fleet.replace_ended()
            take(WARM_UP)
            seconds_after = median(take(options.jobs))
            scene.fleet.stop()
            watcher.finish()
        waiting, held = holdings(scene.redis)
        return LatencyReport(audit(ledger.entries(), waiting | held), seconds_before, seconds_after)


def _one(producer: Producer, ledger: Ledger, patience: float) -> float:
    """Return the seconds from a job to its answer."""
    answered_before = ledger.done
    started = time.monotonic()
    producer.burst(1)
    ledger.wait_for_done(answered_before + 1, patience)
    return time.monotonic() - started
