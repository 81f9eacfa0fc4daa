"""One run: servers, workers, jobs and faults together, and the audit at its end."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.corpus import Corpus
from chaos.faults import inject
from chaos.history import History
from chaos.jobs import Questions
from chaos.ledger import Audit, Ledger, audit
from chaos.oracle import Oracle
from chaos.plan import Fault, Kind, plan, share
from chaos.producer import Producer
from chaos.recovery import WINDOW_SECONDS, measure, met_work, too_idle
from chaos.sleepers import Sleepers
from chaos.stage import TIME_LIMIT_SECONDS, RunOptions, stage
from chaos.watcher import Watcher, dead_letters, executions, holdings
from retrieval_client.errors import SettingsError
from worker.queue.broker.inspection import Rules

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chaos.scene import FaultRecord, Scene

LOOK_SECONDS = 0.2
SUSPECT_SECONDS = TIME_LIMIT_SECONDS + 6.0
"""Seconds after its submission from which a job that is nowhere in Redis is held by no worker either."""
BURST_SECONDS = 60.0
INCLUDED = ("--include", "chaos.sleeping")


@dataclass
class Outcome:
    """Result of a run.

    Attributes:
        options: what was run.
        audit: the ledger's balance.
        fault_records: the faults that were injected.
        left_out: what this machine does not allow.
        started: when the first job could be submitted (monotonic seconds).
        seconds: how long it took from then on.
        answer_times: when each answer was seen.
        duplicates: jobs that ran to their end more often than once, counted as often.
        most_duplicates: how many there may be: a fault can interrupt as many jobs as processes lose their hold of one;
            None: no bound, as results could not be stored for a time.
        refused: how often Redis refused a job, and it was sent again.
        recorded_twice: recorded jobs with more or less than one record.
        denied: what Redis refused its users.
        crashes: reasons why workers ended that were not asked to stop.
        unclean: exit codes other than 0 of workers that were stopped politely.
    """

    options: RunOptions
    audit: Audit
    fault_records: list[FaultRecord]
    left_out: set[str]
    started: float
    seconds: float
    answer_times: list[float]
    duplicates: int
    most_duplicates: int | None
    refused: int
    recorded_twice: int
    denied: set[str] = field(default_factory=set)
    crashes: list[str] = field(default_factory=list)
    unclean: list[int] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """True if nothing was lost or wrong, all repeats are explained, no worker ended, and Redis denied nothing."""
        explained = self.most_duplicates is None or self.duplicates <= self.most_duplicates
        return self.audit.clean and not self.recorded_twice and explained and not (self.crashes or self.denied)

    @property
    def met_work(self) -> int:
        """Number of faults that began while a job was open."""
        return met_work(self.fault_records)

    @property
    def too_idle(self) -> bool:
        """True if too many faults met no work for the run to show anything."""
        return too_idle(self.fault_records)


def chaos(
    options: RunOptions,
    progress: Callable[[int, str], None],
    keep_logs: Path | None = None,
    history: Path | None = None,
) -> Outcome:
    """Run jobs and faults.

    Args:
        options: what to run.
        progress: called with the number of jobs done, and the current fault.
        keep_logs: a folder for the workers' logs; default one that is removed.
        history: the file for its history; default none.

    Raises:
        SettingsError: a server does not start, or is not installed.
        ForeignServerError: a server is not the one that this run started; nothing was done to it.
    """
    oracle = Oracle(Corpus())
    with (
        history.open("w", encoding="utf-8") if history else contextlib.nullcontext() as file,
        stage(options, oracle.corpus, keep_logs, celery_options=INCLUDED) as scene,
    ):
        ledger = Ledger(History(file))
        questions = Questions(options.seed, oracle)
        with (
            Watcher(scene.results, ledger, oracle) as watcher,
            Producer(scene.redis, questions, options.jobs, ledger, options.most_open) as producer,
        ):
            scene.sleepers = Sleepers(questions, producer, scene.diary)
            planned = plan(options.seed, options.jobs, options.workers, options.counts)
            run = Run(options, scene, ledger, producer, watcher, progress, planned)
            run.go()
            return run.balance()


class Run:
    """The course of a run."""

    recovery_seconds = 90.0
    """Seconds that the harness waits after a fault until all jobs open then are answered."""

    def __init__(
        self,
        options: RunOptions,
        scene: Scene,
        ledger: Ledger,
        producer: Producer,
        watcher: Watcher,
        progress: Callable[[int, str], None],
        faults: tuple[Fault, ...],
    ) -> None:
        self.options = options
        self.scene = scene
        self.ledger = ledger
        self.producer = producer
        self.watcher = watcher
        self.progress = progress
        self.faults = [fault for fault in faults if scene.can(fault.kind)]
        self.left_out = {fault.kind.value for fault in faults if not scene.can(fault.kind)} | {*scene.missing}
        self.fault_records: list[FaultRecord] = []
        self.started = time.monotonic()
        self._suspects: set[str] = set()
        self._looked = self.started
        self._lost = False
        self._wanted = 0

    def go(self) -> None:
        """Faults in their order, then wait until all jobs have an answer, or none comes any more.

        Raises:
            SettingsError: no worker works.
        """
        burst = self._trickle(0, 0.0)
        if not self._wait(lambda: self.ledger.done > 0, self.options.patience):
            raise SettingsError(f"no worker answered a job: {'; '.join(sorted(set(self.scene.fleet.crashes)))}")
        for place, fault in enumerate(self.faults):
            if not self._wait(self._is_due, self.options.patience):
                break
            self.producer.burst(burst)
            burst = self._trickle(place + 1, fault.seconds)
            self._inject(fault)
        self.producer.allow(self.options.jobs)
        self._wait(lambda: self.producer.is_done and not self.ledger.open, self.options.patience)
        self._wait(self._redis_is_empty, self.options.visibility + 10.0)
        self.seconds = time.monotonic() - self.started

    def _trickle(self, place: int, seconds: float) -> int:
        """Let jobs come evenly while a fault lasts, and hold others back for the next; how many come at once then."""
        until = self.faults[place].after if place < len(self.faults) else self.options.jobs
        job_share = share(self.producer.acknowledged, until, seconds)
        self.producer.allow(job_share.trickle, job_share.per_second)
        self._wanted = self.ledger.done + job_share.trickle // 2
        return job_share.burst

    def _is_due(self) -> bool:
        """Return whether the next fault is due: its jobs were submitted, and work continued since the last one."""
        return self.producer.is_held_back and self.ledger.done >= self._wanted

    def _inject(self, fault: Fault) -> None:
        self.progress(self.ledger.done, fault.kind.value)
        name = fault.kind.replace("Redis", self.scene.redis.name)
        self.ledger.history.fault(name, "begin")
        fault_record = inject(self.scene, fault, self._open())
        self.ledger.history.fault(name, "end")
        self.fault_records.append(fault_record)
        # Killed workers are replaced at once; after every other fault the next one waits until work goes on as before.
        if fault.kind.holds_up:
            self._wait(lambda: fault_record.open.isdisjoint(self._open()), self.recovery_seconds)
            over = time.monotonic() + WINDOW_SECONDS
            self._wait(lambda: time.monotonic() > over, self.recovery_seconds)

    def _open(self) -> set[str]:
        """Return the jobs without an answer, except those that a failed worker held: these wait for it."""
        return set(self.ledger.open).difference(*(record.held for record in self.fault_records))

    def _wait(self, ready: Callable[[], bool], patience: float) -> bool:
        """Wait until ``ready``; False if no job was answered for that many seconds, or one is certainly lost."""
        seen, since = self.ledger.done, time.monotonic()
        while not ready():
            current_time = time.monotonic()
            if self.ledger.done != seen:
                seen, since = self.ledger.done, current_time
            if current_time - since > patience or self._lost:
                return False
            self.ledger.wait_for_done(seen + 1, LOOK_SECONDS)
            self._replace_and_watch(current_time)
        return True

    def _replace_and_watch(self, current_time: float) -> None:
        if current_time - self._looked < LOOK_SECONDS:
            return
        self._looked = current_time
        for thread in (self.watcher, self.producer):
            if thread.error is not None:
                raise thread.error
        self.scene.fleet.replace_ended()
        self.progress(self.ledger.done, "")
        if self.options.stop_at_first_loss:
            self._lost = self._lost or self._is_one_lost(current_time)

    def _is_one_lost(self, current_time: float) -> bool:
        """Return whether a job was missing from Redis twice, long after it was submitted."""
        old = {
            entry.question.task_id
            for task_id in self.ledger.open
            for entry in [self.ledger.entry(task_id)]
            if entry is not None and entry.submitted is not None and current_time - entry.submitted > SUSPECT_SECONDS
        }
        if not old:
            return False
        with contextlib.suppress(Exception):  # Redis is being hurt
            waiting, held = holdings(self.scene.redis)
            earlier_suspects, self._suspects = self._suspects, old - waiting - held
            return bool(earlier_suspects & self._suspects & set(self.ledger.open))
        return False

    def _redis_is_empty(self) -> bool:
        with contextlib.suppress(Exception):  # a proxy may still have to forget
            return not any(holdings(self.scene.redis))
        return False

    def balance(self) -> Outcome:
        """Stop the workers, and audit every job."""
        self.progress(self.ledger.done, "balancing")
        self.producer.stop()
        fleet = self.scene.fleet
        fleet.stop()
        self.watcher.finish()
        waiting, held = holdings(self.scene.redis)
        entries = self.ledger.entries()
        done_at = {entry.question.task_id: entry.answered_at for entry in entries if entry.answered_at is not None}
        measure(self.fault_records, entries)
        ran = executions(fleet.logs)
        return Outcome(
            options=self.options,
            audit=audit(entries, waiting | held, dead_letters(self.scene.redis), self._given_up()),
            fault_records=self.fault_records,
            left_out=self.left_out,
            started=self.started,
            seconds=self.seconds,
            answer_times=sorted(done_at.values()),
            duplicates=sum(count - 1 for count in ran.values()),
            most_duplicates=self._most_duplicates(),
            refused=self.ledger.refused,
            recorded_twice=self._recorded_twice([task_id for task_id in done_at if self._was_recorded(task_id)]),
            denied=self._denied(),
            crashes=fleet.crashes,
            unclean=fleet.unclean,
        )

    def _given_up(self) -> set[str]:
        """Return the jobs that may be dead-lettered: long sleepers, killed with their worker again and again."""
        sleepers = self.scene.sleepers
        return sleepers.began_often(Rules().max_deliveries) if sleepers else set()

    def _denied(self) -> set[str]:
        servers = {self.scene.redis, self.scene.results}
        for server in servers:
            server.record_denied()
        return set().union(*(server.denied for server in servers))

    def _most_duplicates(self) -> int | None:
        if any(record.fault.kind is Kind.RESULTS_AWAY for record in self.fault_records):
            return None
        return sum(map(self._most_interrupted, self.fault_records))

    def _most_interrupted(self, fault_record: FaultRecord) -> int:
        """Return the number of jobs that a fault can take from their process; those run again."""
        kind = fault_record.fault.kind
        if kind is Kind.CHILD_KILL:
            return 1
        if kind.takes_worker:
            return self.options.concurrency
        with_redis = kind.is_aimed or kind.on_redis or (kind.on_network and fault_record.fault.link == "redis")
        return self.options.workers * self.options.concurrency if with_redis else 0

    def _was_recorded(self, task_id: str) -> bool:
        entry = self.ledger.entry(task_id)
        return entry is not None and "run" in entry.question.job and entry.verdict.name == "RIGHT"

    def _recorded_twice(self, task_ids: list[str]) -> int:
        """Return the recorded jobs that do not have exactly one record."""
        with self.scene.postgres.connect() as admin:
            rows = admin.execute(
                "SELECT run_id FROM retrieval.runs JOIN retrieval.run_records ON run = id WHERE run_id = ANY(%s)",
                (task_ids,),
            ).fetchall()
        run_ids = [str(row[0]) for row in rows]
        return len(run_ids) - len(set(run_ids)) + len(set(task_ids) - set(run_ids))
