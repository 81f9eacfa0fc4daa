"""Jobs that kill the process that runs them, among healthy ones: each is dead-lettered, the others hardly wait longer.

All the time 200 healthy jobs are open, more than the workers can take at once: so their wait is what the poison leaves
them of the machine. It comes evenly among them; that it goes on after them counts for nothing.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.corpus import Corpus
from chaos.crashing import POISON
from chaos.jobs import DIARY, QUEUE, Questions, envelope
from chaos.ledger import Audit, Ledger, audit
from chaos.oracle import Oracle
from chaos.producer import Producer
from chaos.report import percentile
from chaos.stage import RunOptions, stage
from chaos.watcher import Watcher, holdings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chaos.servers import RedisServer

MOST_EXECUTIONS = 5
MOST_SLOWER = 2.0
SETTLE_SECONDS = 120.0
"""Seconds without any change, with jobs open, after which a run is given up."""

ALONE_SHARE = 0.25
"""Share of the healthy jobs that run before the first poison job."""

FEWEST_JOBS = 400
"""Fewest healthy jobs: of fewer, all would be open before the first poison job, and none be sent beside it."""


@dataclass
class PoisonReport:
    """Result of a run.

    Attributes:
        audit: of the healthy jobs.
        poison: how many poison jobs there were.
        executions: how often the worst of them was run.
        unanswered: poison jobs without a `DeadLettered`.
        healthy_p99: seconds that a healthy job waited, before and beside the poison.
    """

    audit: Audit
    poison: int
    executions: int
    unanswered: int
    healthy_p99: tuple[float, float]

    @property
    def clean(self) -> bool:
        """True if poison jobs were dead-lettered, and the others were answered about as soon as without them."""
        alone, beside = self.healthy_p99
        bounded = self.executions <= MOST_EXECUTIONS and beside <= MOST_SLOWER * alone
        return self.audit.clean and not self.unanswered and bounded


def poison(options: RunOptions, count: int, folder: Path, progress: Callable[[int, str], None]) -> PoisonReport:
    """A quarter of the jobs alone, and the others with poison jobs spread among them.

    Args:
        options: jobs, workers and transport; its counts are not used.
        count: how many poison jobs.
        folder: for the workers' logs and for what the poisoned wrote down.
        progress: called with the number of jobs done.
    """
    oracle = Oracle(Corpus())
    diary = folder / "diary"
    diary.touch()
    celery_options = ("--include", "chaos.crashing")
    with stage(options, oracle.corpus, folder, {DIARY: str(diary)}, celery_options, proxied=False) as scene:
        ledger = Ledger()
        alone_jobs = int(options.jobs * ALONE_SHARE)
        beside_jobs = options.jobs - alone_jobs
        with (
            Watcher(scene.results, ledger, oracle) as watcher,
            Producer(scene.redis, Questions(options.seed, oracle), options.jobs, ledger, options.most_open),
            scene.redis.client() as broker,
        ):
            for count_done in range(0, alone_jobs, 100):
                ledger.wait_for_done(count_done, SETTLE_SECONDS)
                progress(ledger.done, "healthy jobs alone")
            ledger.wait_for_done(alone_jobs, SETTLE_SECONDS)
            since = time.monotonic()
            for number in range(count):
                ledger.wait_for_done(alone_jobs + number * beside_jobs // count, SETTLE_SECONDS)
                scene.fleet.replace_ended()
                broker.lpush(QUEUE, envelope(f"{POISON}{number:07d}", "retrieve_top_k", "[[{}], {}, {}]"))
                progress(ledger.done, "healthy jobs among poison")
            _settle(
                scene.redis,
                ledger,
                options.jobs,
                lambda: _unanswered(scene.results, count),
                lambda: len(diary.read_text().split()),
                2 * MOST_EXECUTIONS * count,
                lambda remaining: progress(ledger.done, f"{remaining} poison jobs left"),
            )
            scene.fleet.stop()
            watcher.finish()
            waiting, held = holdings(scene.redis)
            unanswered = _unanswered(scene.results, count)
    entries = [entry for entry in ledger.entries() if entry.answered_at is not None and entry.submitted is not None]
    waits = [(entry.submitted or 0.0, (entry.answered_at or 0.0) - (entry.submitted or 0.0)) for entry in entries]
    # What came in while the first processes started waited for them.
    alone = [wait for at, wait in waits[alone_jobs // 2 :] if at < since]
    beside = [wait for at, wait in waits if at >= since]
    ran = Counter(diary.read_text().split())
    return PoisonReport(
        audit(ledger.entries(), waiting | held),
        count,
        max(ran.values(), default=0),
        unanswered,
        (percentile(alone, 0.99), percentile(beside, 0.99)),
    )


def _settle(
    server: RedisServer,
    ledger: Ledger,
    jobs: int,
    unanswered_poison: Callable[[], int],
    runs: Callable[[], int],
    most_runs: int,
    progress: Callable[[int], None],
) -> None:
    """Wait until all are answered and nothing is left in Redis, as long as something happens.

    Poison comes back in turns: all of it is run again and again before the first of it is given up. A look at Redis
    alone may miss a message that moves meanwhile.
    """
    earlier_counts, deadline = (0, 0, 0), time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < deadline and runs() <= most_runs:
        ledger.wait_for_done(jobs, 5.0)
        message_count = len(set().union(*holdings(server)))
        unanswered = jobs - ledger.done + unanswered_poison()
        if not (message_count or unanswered):
            return
        counts = (message_count, unanswered, runs())
        if counts != earlier_counts:
            earlier_counts, deadline = counts, time.monotonic() + SETTLE_SECONDS
        progress(message_count)
        time.sleep(5.0 if message_count else 0.5)


def _unanswered(server: RedisServer, count: int) -> int:
    with server.client(1) as results:
        records = results.mget([f"celery-task-meta-{POISON}{number:07d}" for number in range(count)])
    return sum(record is None or json.loads(record)["result"].get("exc_type") != "DeadLettered" for record in records)
