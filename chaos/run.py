"""One run: servers, workers, jobs and faults together, and what is found at its end."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.corpus import Corpus
from chaos.jobs import Questions
from chaos.ledger import Audit, Ledger, audit
from chaos.oracle import Oracle
from chaos.plan import Fault, Kind, plan
from chaos.producer import Producer
from chaos.stage import TIME_LIMIT_SECONDS, VISIBILITY_SECONDS, Order, stage
from chaos.watcher import Watcher, executions, holdings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from chaos.faults import Happened, Scene

LOOK_SECONDS = 0.2
SUSPECT_SECONDS = TIME_LIMIT_SECONDS + 6.0
"""A job that Redis holds nowhere so long after it was submitted is no longer in a worker's hands either."""
AT_WORK_SECONDS = 90.0
"""So long the harness waits after a fault for the first answer."""


@dataclass
class Outcome:
    """What was found.

    Attributes:
        order: what was run.
        audit: the ledger's balance.
        happened: the faults that were done.
        left_out: kinds of faults that this machine does not allow.
        started: when the first job could be submitted (monotonic seconds).
        seconds: how long it took from then on.
        done: when each answer was seen.
        duplicates: jobs that ran to their end more often than once, counted as often.
        most_duplicates: how many there may be: a fault can interrupt as many jobs as processes lose their hold of one.
        refused: how often Redis refused a job, and it was sent again.
        recorded_twice: recorded jobs with more or less than one record.
        crashes: why workers ended that were not told to.
        unclean: exit codes other than 0 of workers that were stopped politely.
    """

    order: Order
    audit: Audit
    happened: list[Happened]
    left_out: set[Kind]
    started: float
    seconds: float
    done: list[float]
    duplicates: int
    most_duplicates: int
    refused: int
    recorded_twice: int
    crashes: list[str] = field(default_factory=list)
    unclean: list[int] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether the run showed what it should: nothing lost, nothing wrong, no more duplicates than explained."""
        return self.audit.clean and not self.recorded_twice and self.duplicates <= self.most_duplicates


def chaos(order: Order, progress: Callable[[int, str], None], keep_logs: Path | None = None) -> Outcome:
    """Run it.

    Args:
        order: what to run.
        progress: is told how many jobs are done, and what happens.
        keep_logs: a folder for the workers' logs; default one that is removed.

    Raises:
        SettingsError: a server does not start, or is not installed.
        NotOurs: a server is not the one that this run started; nothing was done to it.
    """
    oracle = Oracle(Corpus())
    with stage(order, oracle.corpus, keep_logs) as scene:
        ledger = Ledger()
        questions = Questions(order.seed, oracle)
        with (
            Watcher(scene.redis.port, ledger, oracle) as watcher,
            Producer(scene.redis.port, questions, order.jobs, ledger, order.most_open) as producer,
        ):
            planned = plan(order.seed, order.jobs, order.workers, order.counts)
            run = _Run(order, scene, ledger, producer, watcher, progress, planned)
            run.go()
            return run.balance()


def back_from_workers(happened: list[Happened], done_at: Mapping[str, float]) -> None:
    """How long after a fault of a worker the last job was answered that it held then.

    A job that comes to another worker and is hurt there again counts for that fault. Time in which Redis, Postgres or
    the network was away, or work had not gone on after that, is not counted.
    """
    away = [(one.began, one.ended + (one.back or 0.0)) for one in happened if not one.fault.kind.takes_worker]
    again: set[str] = set()
    for one in reversed(happened):
        mine = one.held - again
        again |= one.held
        if mine and mine <= done_at.keys():
            last = max(one.began, *(done_at[task_id] for task_id in mine))
            one.back = last - one.began - sum(max(0.0, min(last, end) - max(one.began, start)) for start, end in away)


class _Run:
    """The course of a run."""

    def __init__(
        self,
        order: Order,
        scene: Scene,
        ledger: Ledger,
        producer: Producer,
        watcher: Watcher,
        progress: Callable[[int, str], None],
        faults: tuple[Fault, ...],
    ) -> None:
        self.order = order
        self.scene = scene
        self.ledger = ledger
        self.producer = producer
        self.watcher = watcher
        self.progress = progress
        self.faults = [fault for fault in faults if scene.can(fault.kind)]
        self.left_out = {fault.kind for fault in faults} - {fault.kind for fault in self.faults}
        self.happened: list[Happened] = []
        self.started = time.monotonic()
        self._suspects: set[str] = set()
        self._looked = self.started
        self._lost = False

    def go(self) -> None:
        """Faults in their order, then wait until all jobs have an answer, or none comes any more."""
        for left, fault in zip(range(len(self.faults), 0, -1), self.faults, strict=True):
            if not self._wait(self._due(fault, left), self.order.patience):
                break
            self._happen(fault)
        self._wait(lambda: self.producer.is_done and not self.ledger.open, self.order.patience)
        self._wait(self._redis_is_empty, VISIBILITY_SECONDS + 10.0)
        self.seconds = time.monotonic() - self.started

    def _due(self, fault: Fault, left: int) -> Callable[[], bool]:
        """Whether it is a fault's turn: not all at once because work went on while the last one lasted."""
        done = self.ledger.done
        after = max(fault.after, done + (self.order.jobs - done) // (2 * left + 2))
        return lambda: self.ledger.done >= after

    def _happen(self, fault: Fault) -> None:
        self.progress(self.ledger.done, fault.kind.value)
        happened = self.scene.happen(fault)
        self.happened.append(happened)
        # Workers are replaced, and hold up nobody; of all else the next fault waits until work goes on.
        if fault.kind.on_redis or fault.kind.on_postgres or fault.kind.on_network:
            before = self.ledger.done
            if self.ledger.open and self._wait(lambda: self.ledger.done > before, AT_WORK_SECONDS):
                happened.back = time.monotonic() - happened.ended

    def _wait(self, ready: Callable[[], bool], patience: float) -> bool:
        """Until it is ready; False if no job was answered for so many seconds, or one is surely lost."""
        seen, since = self.ledger.done, time.monotonic()
        while not ready():
            now = time.monotonic()
            if self.ledger.done != seen:
                seen, since = self.ledger.done, now
            if now - since > patience or self._lost:
                return False
            self.ledger.wait_for_done(seen + 1, LOOK_SECONDS)
            self._look_after(now)
        return True

    def _look_after(self, now: float) -> None:
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        for thread in (self.watcher, self.producer):
            if thread.error is not None:
                raise thread.error
        self.scene.fleet.look_after()
        self.progress(self.ledger.done, "")
        if self.order.stop_at_first_loss:
            self._lost = self._lost or self._is_one_lost(now)

    def _is_one_lost(self, now: float) -> bool:
        """Whether a job was in no place of Redis twice, long after it was submitted."""
        old = {
            entry.question.task_id
            for task_id in self.ledger.open
            for entry in [self.ledger.entry(task_id)]
            if entry is not None and entry.submitted is not None and now - entry.submitted > SUSPECT_SECONDS
        }
        if not old:
            return False
        with contextlib.suppress(Exception):  # Redis is being hurt
            waiting, held = holdings(self.scene.redis.port)
            before, self._suspects = self._suspects, old - waiting - held
            return bool(before & self._suspects & set(self.ledger.open))
        return False

    def _redis_is_empty(self) -> bool:
        with contextlib.suppress(Exception):  # a proxy may still have to forget
            return not any(holdings(self.scene.redis.port))
        return False

    def balance(self) -> Outcome:
        """Stop the workers, and see what became of every job."""
        self.progress(self.ledger.done, "balancing")
        self.producer.stop()
        fleet = self.scene.fleet
        fleet.stop()
        self.watcher.finish()
        waiting, held = holdings(self.scene.redis.port)
        entries = self.ledger.entries()
        done_at = {entry.question.task_id: entry.done for entry in entries if entry.done is not None}
        back_from_workers(self.happened, done_at)
        ran = executions(fleet.logs)
        return Outcome(
            order=self.order,
            audit=audit(entries, waiting | held),
            happened=self.happened,
            left_out=self.left_out,
            started=self.started,
            seconds=self.seconds,
            done=sorted(done_at.values()),
            duplicates=sum(count - 1 for count in ran.values()),
            most_duplicates=sum(map(self._most_interrupted, self.happened)),
            refused=self.ledger.refused,
            recorded_twice=self._recorded_twice([task_id for task_id in done_at if self._was_recorded(task_id)]),
            crashes=fleet.crashes,
            unclean=fleet.unclean,
        )

    def _most_interrupted(self, happened: Happened) -> int:
        """How many jobs a fault can take out of their process's hands: those are run again."""
        kind = happened.fault.kind
        if kind is Kind.CHILD_KILL:
            return 1
        if kind.takes_worker:
            return self.order.concurrency
        with_redis = kind.on_redis or (kind.on_network and happened.fault.link == "redis")
        return self.order.workers * self.order.concurrency if with_redis else 0

    def _was_recorded(self, task_id: str) -> bool:
        entry = self.ledger.entry(task_id)
        return entry is not None and "run" in entry.question.job and entry.verdict.name == "RIGHT"

    def _recorded_twice(self, task_ids: list[str]) -> int:
        """Recorded jobs that have not exactly one record."""
        with self.scene.postgres.connect() as admin:
            rows = admin.execute(
                "SELECT run_id FROM retrieval.runs JOIN retrieval.run_records ON run = id WHERE run_id = ANY(%s)",
                (task_ids,),
            ).fetchall()
        found = [str(row[0]) for row in rows]
        return len(found) - len(set(found)) + len(set(task_ids) - set(found))
