"""Messages with a priority, which no worker runs, in a flood beside jobs: these take about as long as without it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.corpus import Corpus
from chaos.jobs import QUEUE, Questions
from chaos.ledger import Audit, Ledger, audit
from chaos.oracle import Oracle
from chaos.producer import Producer
from chaos.stage import RunOptions, stage
from chaos.watcher import Watcher, holdings
from worker.queue.broker import dead_letters, keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

LIST = f"{QUEUE}\x06\x163"
"""Key of kombu's list of messages of its third priority."""

LETTERS = 100
"""Dead letters that were there before."""

LEAST_RATIO = 0.9
ROUNDS = 5
WARM_UP = 200
AT_ONCE = 10_000


@dataclass
class FloodReport:
    """Result of a flood.

    Attributes:
        audit: balance of the jobs.
        alone: jobs per second without the flood, summed over the rounds.
        beside: jobs per second beside it.
        messages_left: messages of the flood that were still there when the last round beside it ended.
        letters: dead letters of before that are still there.
    """

    audit: Audit
    alone: float
    beside: float
    messages_left: int
    letters: int

    @property
    def ratio(self) -> float:
        """Pace beside the flood, divided by the pace without it."""
        return self.beside / self.alone

    @property
    def clean(self) -> bool:
        """Return whether nothing was lost or pushed out, and jobs kept their pace."""
        return self.audit.clean and self.ratio >= LEAST_RATIO and self.messages_left > 0 and self.letters == LETTERS


def flood(options: RunOptions, messages: int, folder: Path, progress: Callable[[int, str], None]) -> FloodReport:
    """Measure jobs with and without a flood of messages with a priority, in turns.

    Args:
        options: seed, workers and transport; its jobs are those of each round.
        messages: length of the flood.
        folder: for the workers' logs.
        progress: gets the number of rounds done.
    """
    oracle = Oracle(Corpus())
    with stage(options, oracle.corpus, folder, proxied=False) as scene, scene.redis.client() as broker:
        for number in range(LETTERS):
            broker.xadd(keys.dead(QUEUE), {"reason": "max_deliveries", "task_id": f"before-{number}", "original": "x"})
        ledger = Ledger()
        producer = Producer(scene.redis, Questions(options.seed, oracle), 10**9, ledger, options.most_open)
        producer.allow(0)
        with Watcher(scene.results, ledger, oracle) as watcher, producer:

            def seconds_for(jobs: int) -> float:
                started, target = time.monotonic(), ledger.done + jobs
                producer.allow(jobs)
                ledger.wait_for_done(target, options.patience)
                return time.monotonic() - started

            seconds_for(WARM_UP)
            alone = beside = 0.0
            messages_left = messages
            for number in range(ROUNDS):
                progress(number, "jobs alone")
                alone += seconds_for(options.jobs)
                _send(broker, messages)
                progress(number, "jobs beside the flood")
                beside += seconds_for(options.jobs)
                messages_left = min(messages_left, broker.llen(LIST))
                broker.delete(LIST)
            scene.fleet.stop()
            watcher.finish()
        letters = [letter for letter in dead_letters.every(broker, QUEUE) if letter.task_id.startswith("before-")]
        waiting, held = holdings(scene.redis)
        jobs = ROUNDS * options.jobs
        return FloodReport(
            audit(ledger.entries(), waiting | held), jobs / alone, jobs / beside, messages_left, len(letters)
        )


def _send(broker: redis.Redis, messages: int) -> None:
    """Push the flood, as kombu would write it."""
    message = json.dumps({"headers": {"id": "priority"}, "properties": {"priority": 3}, "body": "[[{}], {}, {}]"})
    for start in range(0, messages, AT_ONCE):
        broker.lpush(LIST, *([message] * min(AT_ONCE, messages - start)))
