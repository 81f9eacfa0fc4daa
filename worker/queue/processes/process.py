"""One pool process: claim jobs, answer them, store their outcomes, acknowledge; nothing goes through the main process.

The next claim acknowledges what was claimed before, and it is sent only when all outcomes are stored. So a job of which
any step fails is still in this process's list, and is requeued by whoever tidies up after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import resource
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import redis

from retrieval_client.errors import DeadLettered, NotAuthorised, RetrievalError, Unavailable
from worker.adapters import logs
from worker.queue import codec, records
from worker.queue.broker import dead_letters, inspection
from worker.queue.broker.clock import ServerClock
from worker.queue.broker.inspection import OUTAGE_HEADER, DelayedMessage, Delivery, Refusal
from worker.queue.outcome import delivered_job
from worker.queue.processes.table import MOST_JOBS, State
from worker.queue.records import Record, RecordStore
from worker.queue.time_limit import Interruptible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.jobs.context import Report
    from worker.queue.broker.inspection import Rules
    from worker.queue.claims import ClaimedMessage, Claims
    from worker.queue.codec import JobResult
    from worker.queue.further_tasks import FurtherTasks
    from worker.queue.outcome import Answers, DeliveredJob, Outcome
    from worker.queue.processes.events import Events
    from worker.queue.processes.table import Head, Slot

log = logs.logger("worker.process")

IDLE_SECONDS = 2.0
"""Time that Redis blocks a claim on empty queues."""

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 1.0
_SHARE = 0.2
"""Share of the last bundle in the mean time of a job."""

BROKEN = (redis.RedisError, OSError)


class Limits(NamedTuple):
    """Limits of a process.

    Attributes:
        soft_seconds: time after which a job is interrupted; 0: never.
        most_jobs: jobs after which it exits; 0: none.
        most_memory: KiB of memory after which it exits; 0: none.
        bundle: most jobs of a claim.
        bundle_seconds: longest time that a bundle may take, by the time that jobs took so far.
        result_seconds: time for which a record is kept.
    """

    soft_seconds: float
    most_jobs: int
    most_memory: int
    bundle: int
    bundle_seconds: float
    result_seconds: int


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedJob:
    """A job of this process: its message, as claimed and as inspected; two of the same message are two."""

    message: ClaimedMessage
    job: DeliveredJob

    @property
    def keeps_result(self) -> bool:
        """False if its sender wants none."""
        return not self.job.headers["ignore_result"]


class _UnstoredError(Exception):
    """Outcomes could not be stored, and the process was asked to leave."""


class Process:
    """A pool process.

    Args:
        claims: its claims.
        queues: names of the queues, in an order that the main process knows.
        store: stores records; its client is its own.
        client: client of the broker.
        answers: finds the outcomes of jobs.
        further: sends what a job names for its end.
        rules: limits of messages.
        limits: its own.
        head, slot: its parts of the table.
        events: what it tells Flower.
        parent: a file that can be read once the main process is gone.
    """

    def __init__(
        self,
        claims: Claims,
        queues: Sequence[str],
        store: RecordStore,
        client: redis.Redis,
        answers: Answers,
        further: FurtherTasks,
        rules: Rules,
        limits: Limits,
        head: Head,
        slot: Slot,
        events: Events,
        parent: int,
    ) -> None:
        self._claims = claims
        self._queues = queues
        self._store = store
        self._client = client
        self._answers = answers
        self._further = further
        self._rules = rules
        self._limits = limits
        self._head = head
        self._slot = slot
        self._events = events
        self._clock = ServerClock(time.monotonic)
        self._wake = _Wake(parent)
        self._is_leaving = False
        self._most = 1
        self._job_seconds = 0.0
        self._pause = 0.0
        self._revocations = 0
        self._revoked: set[int] = set()

    def run(self) -> None:
        """Work until it is asked to leave, or has reached a limit."""
        signal.signal(signal.SIGTERM, self._leave)
        self._is_leaving = bool(self._slot.is_leaving)  # asked while it started, when it heard no signal
        signal.signal(signal.SIGALRM, Interruptible.on_signal)
        self._slot.state = State.IDLE
        while not self._is_leaving:
            try:
                self._turn()
                self._pause = 0.0
            except BROKEN as error:
                self._wait_out(error)
            except _UnstoredError:
                self._slot.state = State.IDLE  # whoever requeues the message counts no death
                break
        with contextlib.suppress(*BROKEN):
            self._claims.acknowledge()  # asked to leave after the last look at that, it has not done so
        with contextlib.suppress(*BROKEN):
            self._claims.close()
        self._events.flush()
        self._wake.close()

    def _leave(self, *_: object) -> None:
        self._is_leaving = True
        self._slot.is_leaving = True

    def _wait_out(self, error: Exception) -> None:
        """Wait a moment; the first time of an outage is logged."""
        if not self._pause:
            log.warning("Redis lost", error=type(error).__name__)
        self._suspect_others(error)
        if self._slot.state != State.ENDED:
            self._slot.state = State.IDLE
        self._pause = min(max(2 * self._pause, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        if self._wake.wait(self._pause):  # not `|=`, which would lose what a signal says meanwhile
            self._is_leaving = True

    def _suspect_others(self, error: Exception) -> None:
        """Connect again everywhere, if one connection is silent: each other one would cost its whole time limit."""
        if isinstance(error, redis.TimeoutError):
            self._claims.suspect()
            self._client.connection_pool.disconnect()
            self._store.disconnect()

    def _turn(self) -> None:
        """Acknowledge what was claimed before, and work on what waits, or comes within a while."""
        self._slot.signs += 1
        messages = self._claims.take(self._most)
        if self._wake.has_lost_parent():
            self._is_leaving = True
        if not messages and not self._is_leaving:
            self._slot.state = State.IDLE
            self._events.flush()
            messages = self._claims.wait(IDLE_SECONDS, self._wake.fileno())
            if self._wake.has_lost_parent():
                self._is_leaving = True
        if messages:
            try:
                self._claims.give_back(messages) if self._is_leaving else self._work(messages)
            except BaseException:  # else the next claim would acknowledge them
                self._claims.abandon()
                raise
        if self._is_leaving:
            self._claims.acknowledge()

    # --- claimed messages ---------------------------------------------------------------------------

    def _work(self, messages: Sequence[ClaimedMessage]) -> None:
        started = time.perf_counter()
        self._slot.begin_reading(messages[0].place, together=len(messages) > 1)
        jobs = self._kept(self._accepted(self._of_one_list(messages)))
        if not jobs:
            return
        shown = [(claimed.job.task, claimed.job.id, number) for number, claimed in enumerate(jobs)]
        self._slot.begin(jobs[0].message.place, shown, time.monotonic(), together=len(jobs) > 1)
        self._events.begun([claimed.job for claimed in jobs])
        self._run(jobs, started)
        self._slot.state = State.ENDED
        self._slot.note_ended(self._queues.index(jobs[0].message.queue), len(jobs))
        self._adapt(jobs, time.perf_counter() - started)
        if self._is_spent():
            self._leave()

    def _of_one_list(self, messages: Sequence[ClaimedMessage]) -> list[ClaimedMessage]:
        """Give back those that came of another queue at the same moment: another process may be idle."""
        first = messages[0].place
        others = [message for message in messages if message.place != first]
        if others:
            self._claims.give_back(others)
        return [message for message in messages if message.place == first]

    def _accepted(self, messages: Sequence[ClaimedMessage]) -> list[ClaimedJob]:
        """Return the jobs that may run; delay what is not due, and dead-letter what is refused."""
        jobs: list[ClaimedJob] = []
        refused: list[tuple[ClaimedMessage, Refusal]] = []
        now = self._clock.read(self._client)
        for message in messages:
            inspected = self._inspect(message)
            if isinstance(inspected, Refusal):
                refused.append((message, inspected))
            elif isinstance(inspected, DelayedMessage):
                self._claims.delay(message, max(0.0, inspected.due - now.timestamp()))
            else:
                jobs.append(ClaimedJob(message, delivered_job(inspected)))
        self._refuse(refused)
        return self._unrevoked(jobs)

    def _inspect(self, message: ClaimedMessage) -> Delivery | DelayedMessage | Refusal:
        if message.count > self._rules.max_deliveries:  # whoever should have dead-lettered it died of reading it
            return _too_often(message, inspection.glimpse_id(message.raw, self._rules), None)
        inspected = inspection.inspect(message.raw, self._rules, self._clock.read(self._client))
        if isinstance(inspected, Delivery) and message.count >= self._rules.max_deliveries:
            return _too_often(message, inspected.id, inspected.headers["task"])
        return inspected

    def _refuse(self, refused: Sequence[tuple[ClaimedMessage, Refusal]]) -> None:
        """Store the failures of refused messages, send further tasks that need to know, and dead-letter these."""
        seconds = self._limits.result_seconds
        answered = self._store_all(
            [records.refusal(refusal.id, refusal.error, seconds) for _, refusal in refused if refusal.id]
        )
        for message, refusal in refused:
            if refusal.reason == "max_deliveries" and refusal.id in answered:
                continue
            self._send_further(message, refusal.error)
            self._dead_letter(message, refusal)

    def _send_further(self, message: ClaimedMessage, error: RetrievalError) -> None:
        """Send what a refused job names for its failure, if its message can be read without risk."""
        if self._rules.callbacks and message.count <= self._rules.max_deliveries:
            inspected = inspection.inspect(message.raw, self._rules, None)
            if isinstance(inspected, Delivery):
                self._further.send(delivered_job(inspected), error, "FAILURE")

    def _dead_letter(self, message: ClaimedMessage, refusal: Refusal) -> None:
        letter = dead_letters.compose(message.raw, refusal, self._rules, self._clock.read(self._client))
        count = dead_letters.dead_letter(self._client, message.queue, message.place, message.raw, letter, self._rules)
        if count is not None:
            dead_letters.log_dead_letter(message.queue, refusal, letter, count)

    def _unrevoked(self, jobs: list[ClaimedJob]) -> list[ClaimedJob]:
        """Answer revoked jobs as such, and return the others."""
        if self._revocations != self._head.revocations:
            self._revoked |= self._head.revoked_since(self._revocations)
            self._revocations = self._head.revocations
        if not self._revoked:
            return jobs
        revoked = [claimed for claimed in jobs if revocation_key(claimed.job.id) in self._revoked]
        self._store_all([records.revocation(claimed.job.id, self._limits.result_seconds) for claimed in revoked])
        for claimed in revoked:
            self._further.send(claimed.job, records.REVOKED, "REVOKED")
            self._events.revoked(claimed.job)
            log.warning("job revoked", task_id=claimed.job.id)
        return [claimed for claimed in jobs if claimed not in revoked]

    def _kept(self, jobs: list[ClaimedJob]) -> list[ClaimedJob]:
        """Return the jobs that can be answered together, or one; give back the others."""
        together = [claimed for claimed in jobs if self._may_be_bundled(claimed)]
        kept = together or jobs[:1]
        self._most = min(2 * self._most, self._limits.bundle) if kept == together else 1
        others = [claimed.message for claimed in jobs if claimed not in kept]
        if others:
            self._claims.give_back(others)
        return kept

    def _may_be_bundled(self, claimed: ClaimedJob) -> bool:
        content = [claimed.job.args, claimed.job.kwargs]
        return not claimed.message.alone and self._answers.together.accepts(claimed.job.task, content)

    # --- outcomes -----------------------------------------------------------------------------------

    def _run(self, jobs: Sequence[ClaimedJob], started: float) -> None:
        """Answer jobs, together where that is possible; store the outcomes."""
        ids = {*self._answers.together.answer([claimed.job for claimed in jobs])} if len(jobs) > 1 else set[str]()
        together = [claimed for claimed in jobs if claimed.job.id in ids]
        try:
            self._settle([(claimed, self._answered(claimed, started, _no_report)) for claimed in together], started)
        finally:
            self._answers.together.forget()
        for position, claimed in enumerate(jobs):
            if claimed.job.id not in ids:
                self._slot.begin_next(position, time.monotonic())
                begun = started if len(jobs) == 1 else time.perf_counter()
                self._settle([(claimed, self._outcome(claimed, begun))], begun)

    def _outcome(self, claimed: ClaimedJob, started: float) -> Outcome:
        def report(stage: str, done: int, total: int) -> None:
            """Publish the job's progress; failures are ignored."""
            meta = {"stage": stage, "done": done, "total": total}
            with contextlib.suppress(redis.RedisError):
                self._store.put([self._record(claimed.job.id, "PROGRESS", meta, ended=False)])

        signal.setitimer(signal.ITIMER_REAL, self._limits.soft_seconds)
        try:
            return self._answered(claimed, started, report)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _answered(self, claimed: ClaimedJob, started: float, report: Report) -> Outcome:
        self._events.starting(claimed.job)
        return self._answers.outcome(claimed.job, started, report)

    def _settle(self, ended: Sequence[tuple[ClaimedJob, Outcome]], started: float) -> None:
        """Store outcomes; delay jobs that will be retried, and dead-letter those whose message is at fault."""
        self._slot.state = State.STORING
        seconds = (time.perf_counter() - started) / max(1, len(ended))
        final = [(claimed, outcome) for claimed, outcome in ended if outcome.state != "RETRY"]
        self._store_all([self._record_of(claimed, outcome) for claimed, outcome in final if claimed.keeps_result])
        for claimed, outcome in ended:
            if outcome.state == "RETRY":
                self._retry(claimed, outcome)
            else:
                self._further.send(claimed.job, outcome.result, outcome.state)
                self._refuse_at_fault(claimed, outcome.result)
            self._events.ended(claimed.job, outcome, seconds)

    def _refuse_at_fault(self, claimed: ClaimedJob, result: JobResult | RetrievalError) -> None:
        if isinstance(result, RetrievalError) and (fault := _fault(claimed, result)):
            self._dead_letter(claimed.message, fault)

    def _retry(self, claimed: ClaimedJob, outcome: Outcome) -> None:
        """Delay a job, with the number of its tries and the sum of its pauses; if it expires before, tell that now."""
        due = self._clock.read(self._client) + timedelta(seconds=outcome.pause)
        if (expired := inspection.expired_while_retried(claimed.job.headers, due)) is not None:
            self._refuse([(claimed.message, Refusal("expired", expired, claimed.job.id, claimed.job.task))])
            return
        envelope = codec.parse(claimed.message.raw)
        envelope["headers"] |= {
            "retries": claimed.job.retries + 1,
            OUTAGE_HEADER: claimed.job.pauses + outcome.pause,
            "eta": None,
        }
        self._claims.delay(claimed.message, outcome.pause, json.dumps(envelope, ensure_ascii=False).encode())
        if claimed.keeps_result:
            error = records.failure(Unavailable("the job was requeued, to be retried"))
            try:
                self._store.put([self._record(claimed.job.id, "RETRY", error, ended=False)])
            except BROKEN as failed:
                log.warning("state not stored", task_id=claimed.job.id, state="RETRY", error=type(failed).__name__)

    def _record_of(self, claimed: ClaimedJob, outcome: Outcome) -> Record:
        result = records.failure(outcome.result) if isinstance(outcome.result, RetrievalError) else outcome.result
        headers = claimed.job.headers
        ids = {"group": headers.get("group"), "parent": headers.get("parent_id")}
        return self._record(claimed.job.id, outcome.state, result, **ids)

    def _record(self, task_id: str, state: str, result: Any, **options: Any) -> Record:
        return Record(task_id, records.compose(task_id, state, result, **options), self._limits.result_seconds)

    def _store_all(self, composed: Sequence[Record]) -> set[str]:
        """Store records, however long that takes: nothing is acknowledged before.

        Returns:
            The ids of jobs that have another, final record.

        Raises:
            _UnstoredError: it was asked to leave meanwhile.
        """
        pause = 0.0
        while composed:
            self._slot.signs += 1
            try:
                return self._store.put(composed)
            except BROKEN as error:
                if self._is_leaving:
                    raise _UnstoredError from None
                self._suspect_others(error)
                if not pause:
                    log.warning("outcomes not stored yet", error=type(error).__name__, outcomes=len(composed))
                pause = min(max(2 * pause, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
                if self._wake.wait(pause):
                    self._is_leaving = True
        return set()

    # --- limits -------------------------------------------------------------------------------------

    def _adapt(self, jobs: Sequence[ClaimedJob], seconds: float) -> None:
        """Claim at a time no more jobs than fit into the longest time of a bundle."""
        if not self._may_be_bundled(jobs[0]):
            return
        took = seconds / len(jobs)
        self._job_seconds += (took - self._job_seconds) * (_SHARE if self._job_seconds else 1.0)
        self._most = max(1, min(self._most, int(self._limits.bundle_seconds / self._job_seconds), MOST_JOBS))

    def _is_spent(self) -> bool:
        if self._limits.most_jobs and self._slot.ended >= self._limits.most_jobs:
            return True
        # Peak memory: too much now is too much later.
        if self._limits.most_memory and _peak_kib() > self._limits.most_memory:
            log.warning("the process exits: it has more memory than --max-memory-per-child")
            return True
        return False


def _peak_kib() -> float:
    """Return the most memory that this process has had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform == "darwin" else peak


def _no_report(*_: object) -> None:
    """Ignore the progress of a job that is answered already."""


def _too_often(message: ClaimedMessage, task_id: str | None, task: str | None) -> Refusal:
    count = message.count
    error = DeadLettered(f"the job was delivered {count} times without an answer: it may be killing its worker")
    return Refusal("max_deliveries", error, task_id, task)


def _fault(claimed: ClaimedJob, error: RetrievalError) -> Refusal | None:
    """Return why the message of a failed job is dead-lettered; None: it is not at fault."""
    if isinstance(error, Unavailable):
        return Refusal("retries_exhausted", error, claimed.job.id, claimed.job.task)
    if isinstance(error, NotAuthorised) and error.forged:
        return Refusal("bad_signature", error, claimed.job.id, claimed.job.task)
    return None


def revocation_key(task_id: str) -> int:
    """Return the number under which the table knows a revoked job."""
    return int.from_bytes(hashlib.blake2b(task_id.encode("utf-8", "replace"), digest_size=8).digest())


class _Wake:
    """Ends a wait: when a signal arrives, and when the main process is gone.

    Args:
        parent: a file that can be read once the main process is gone.
    """

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._signals, writer = socket.socketpair()
        self._writer = writer
        for end in (self._signals, writer):
            end.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._selector.register(parent, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Return the number of a file that can be read when a wait must end."""
        return int(self._selector.fileno())

    def close(self) -> None:
        """Let signals end no wait any more."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        self._signals.close()
        self._writer.close()

    def wait(self, seconds: float) -> bool:
        """Wait; return whether the main process is gone."""
        self._selector.select(seconds)
        return self.has_lost_parent()

    def has_lost_parent(self) -> bool:
        """Return whether the main process is gone; forget the signals that arrived."""
        with contextlib.suppress(BlockingIOError):
            self._signals.recv(4096)
        return any(key.fd == self._parent for key, _ in self._selector.select(0))
