"""Warm shutdowns under load, worker by worker: nothing is lost, and nothing runs twice."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.corpus import Corpus
from chaos.jobs import Questions
from chaos.ledger import Audit, Ledger, audit
from chaos.oracle import Oracle
from chaos.producer import Producer
from chaos.stage import RunOptions, stage
from chaos.watcher import Watcher, executions, holdings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class RollingReport:
    """Result of a run.

    Attributes:
        audit: the ledger's balance.
        duplicates: jobs that ran to their end more often than once, counted as often.
        stops: seconds that each stop took.
        unclean: exit codes of workers that did not end with 0.
        crashes: reasons why workers ended that were not asked to stop.
    """

    audit: Audit
    duplicates: int
    stops: list[float]
    unclean: list[int]
    crashes: list[str]

    @property
    def clean(self) -> bool:
        """True if nothing was lost, nothing ran twice, and all workers shut down cleanly."""
        return self.audit.clean and not (self.duplicates or self.unclean or self.crashes)


def rolling(options: RunOptions, restarts: int, folder: Path, progress: Callable[[int, str], None]) -> RollingReport:
    """Stop and replace one worker after another while jobs come without pause.

    Args:
        options: seed, workers and transport; its jobs are those that are done between two restarts.
        restarts: how many.
        folder: for the workers' logs.
        progress: called with the number of restarts done.
    """
    oracle = Oracle(Corpus())
    with stage(options, oracle.corpus, folder) as scene:
        ledger, stops = Ledger(), []
        questions = Questions(options.seed, oracle)
        with (
            Watcher(scene.results, ledger, oracle) as watcher,
            Producer(scene.redis, questions, 10**9, ledger, options.most_open) as producer,
        ):
            for number in range(restarts):
                progress(number, f"{ledger.done} jobs done")
                ledger.wait_for_done(ledger.done + options.jobs, options.patience)
                scene.fleet.replace_ended()
                started = time.monotonic()
                scene.fleet.shut_down(number % options.workers)
                stops.append(time.monotonic() - started)
            producer.stop()
            ledger.wait_for_all({*ledger.open}, options.patience)
            scene.fleet.stop()
            watcher.finish()
            waiting, held = holdings(scene.redis)
        ran = executions(scene.fleet.logs)
        duplicates = sum(count - 1 for count in ran.values())
        return RollingReport(
            audit(ledger.entries(), waiting | held), duplicates, stops, scene.fleet.unclean, scene.fleet.crashes
        )
