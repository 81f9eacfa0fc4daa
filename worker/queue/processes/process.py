"""One pool process: claim jobs, answer them, store their outcomes, acknowledge; nothing goes through the main process.

The next claim acknowledges what was claimed before, and it is sent only when all outcomes are stored. So a job of which
any step fails is still in this process's list, and is requeued by whoever tidies up after it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import resource
import signal
import sys
import time
from dataclasses import InitVar, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import redis

from retrieval_client.errors import DeadLettered, NotAuthorised, RetrievalError, Unavailable
from worker.adapters import logs
from worker.queue import codec, records
from worker.queue.broker import dead_letters, inspection
from worker.queue.broker.clock import ServerClock
from worker.queue.broker.inspection import OUTAGE_HEADER, DelayedMessage, DeliveredJob, Refusal
from worker.queue.processes.table import BUNDLE_SECONDS, MOST_JOBS, State
from worker.queue.processes.waker import Waker
from worker.queue.time_limit import Interruptible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.queue.broker.inspection import Rules
    from worker.queue.claims import ClaimedMessage, Claims
    from worker.queue.codec import JobResult
    from worker.queue.further_tasks import FurtherTasks
    from worker.queue.outcome import Answers, Outcome
    from worker.queue.processes.events import Events
    from worker.queue.processes.table import Head, Slot
    from worker.queue.records import Record, RecordStore

log = logs.logger("worker.process")

IDLE_SECONDS = 2.0
"""Time that Redis blocks a claim on empty queues."""

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 1.0
_SMOOTHING = 0.2
"""Weight of the last bundle in the moving average of a job's time."""

_OUTAGES = (redis.RedisError, OSError)


class Limits(NamedTuple):
    """Limits of a process.

    Attributes:
        soft_seconds: time after which a job is interrupted; 0: never.
        most_jobs: jobs after which it exits; 0: none.
        most_memory: KiB of memory after which it exits; 0: none.
        bundle: most jobs of a claim.
    """

    soft_seconds: float
    most_jobs: int
    most_memory: int
    bundle: int


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedJob:
    """A job of this process: its message, as claimed and as inspected. The same message may come twice."""

    message: ClaimedMessage
    job: DeliveredJob


class _UnstoredError(Exception):
    """Outcomes could not be stored, and the process must stop."""


@dataclass(eq=False)
class Process:
    """A pool process; the client of its store is not that of the broker.

    `queues` are in an order that the main process knows; `parent` is a file that can be read once that one is gone.
    """

    _claims: Claims
    _queues: Sequence[str]
    _store: RecordStore
    _client: redis.Redis
    _answers: Answers
    _further: FurtherTasks
    _rules: Rules
    _limits: Limits
    _head: Head
    _slot: Slot
    _events: Events
    parent: InitVar[int]

    def __post_init__(self, parent: int) -> None:
        self._clock = ServerClock(time.monotonic)
        self._wake = Waker(parent)
        self._claim_limit = 1
        self._mean_seconds = 0.0
        self._pause = 0.0
        self._revocations = 0
        self._revoked: set[int] = set()

    def run(self) -> None:
        """Work until it is asked to stop, or has reached a limit."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGALRM, Interruptible.on_signal)
        self._slot.state = State.IDLE
        while not self._must_stop():
            try:
                self._claim_and_work()
                self._pause = 0.0
            except _OUTAGES as error:
                self._back_off(error)
            except _UnstoredError:
                self._slot.state = State.IDLE  # whoever requeues the message counts no death
                break
        with contextlib.suppress(*_OUTAGES):
            self._claims.acknowledge()
        with contextlib.suppress(*_OUTAGES):
            self._claims.close()
        self._events.close()
        self._wake.close()

    def _stop(self, *_: object) -> None:
        """Claim no more; the main process may have noted that first, while this one started."""
        self._slot.is_leaving = True

    def _must_stop(self) -> bool:
        has_lost_parent = self._wake.has_lost_parent()  # first: a signal after this ends the next wait
        return has_lost_parent or bool(self._slot.is_leaving)

    def _back_off(self, error: Exception) -> None:
        """Wait a moment, longer each time of an outage; the first one is logged."""
        if not self._pause:
            code = re.match(r"[A-Z]+\b", str(error))  # the rest may quote a key
            log.warning("Redis lost", error=type(error).__name__, code=code[0] if code else "")
        self._drop_connections(error)
        if self._slot.state != State.ENDED:
            self._slot.state = State.IDLE
        self._pause = min(max(2 * self._pause, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
        self._wake.wait(self._pause)

    def _drop_connections(self, error: Exception) -> None:
        """Connect again everywhere, if one connection is silent: each other one would cost its whole time limit."""
        if isinstance(error, redis.TimeoutError):
            self._claims.disconnect()
            self._client.connection_pool.disconnect()
            self._store.disconnect()

    def _claim_and_work(self) -> None:
        """Acknowledge what was claimed before, and work on what waits, or arrives within `IDLE_SECONDS`."""
        self._slot.signs += 1
        messages = self._claims.take(self._claim_limit)
        if not messages and not self._must_stop():
            self._slot.state = State.IDLE
            messages = self._claims.wait(IDLE_SECONDS, self._wake.fileno())
        if messages:
            try:
                self._claims.requeue(messages) if self._must_stop() else self._work(messages)
            except BaseException:  # else the next claim would acknowledge them
                self._claims.abandon()
                raise

    # --- claimed messages ---------------------------------------------------------------------------

    def _work(self, messages: Sequence[ClaimedMessage]) -> None:
        started = time.perf_counter()
        for message in messages:
            if message.woke:
                self._answers.metrics.waited(message.queue, 0.0)
        self._slot.begin_reading(messages[0].place, together=len(messages) > 1)
        jobs = self._select(self._inspect_all(self._of_first_queue(messages)))
        if not jobs:
            return
        tasks_and_ids = [(claimed.job.task, claimed.job.id) for claimed in jobs]
        self._slot.begin(jobs[0].message.place, tasks_and_ids, time.monotonic(), together=len(jobs) > 1)
        self._events.begun([claimed.job for claimed in jobs])
        self._answer(jobs, started)
        self._slot.state = State.ENDED
        self._slot.note_ended(self._queues.index(jobs[0].message.queue), len(jobs))
        self._limit_claims(jobs, time.perf_counter() - started)
        if self._has_reached_limit():
            self._stop()

    def _of_first_queue(self, messages: Sequence[ClaimedMessage]) -> list[ClaimedMessage]:
        """Requeue those that came of another queue at the same moment: another process may be idle."""
        first_place = messages[0].place
        other_messages = [message for message in messages if message.place != first_place]
        if other_messages:
            self._claims.requeue(other_messages)
        return [message for message in messages if message.place == first_place]

    def _inspect_all(self, messages: Sequence[ClaimedMessage]) -> list[ClaimedJob]:
        """Return the jobs that may run; delay what is not due, and dead-letter what is refused."""
        jobs: list[ClaimedJob] = []
        refused: list[tuple[ClaimedMessage, Refusal]] = []
        redis_time = self._clock.read(self._client)
        for message in messages:
            inspected = self._inspect(message)
            if isinstance(inspected, Refusal):
                refused.append((message, inspected))
            elif isinstance(inspected, DelayedMessage):
                self._claims.delay(message, max(0.0, inspected.due - redis_time.timestamp()))
            else:
                jobs.append(ClaimedJob(message, inspected))
        self._refuse(refused)
        return self._without_revoked(jobs)

    def _inspect(self, message: ClaimedMessage) -> DeliveredJob | DelayedMessage | Refusal:
        if message.count > self._rules.max_deliveries:  # whoever should have dead-lettered it died of reading it
            return _refuse_for_deliveries(message, inspection.glimpse_id(message.raw, self._rules), None)
        inspected = inspection.inspect(message.raw, self._rules, self._clock.read(self._client))
        if isinstance(inspected, DeliveredJob) and message.count >= self._rules.max_deliveries:
            return _refuse_for_deliveries(message, inspected.id, inspected.task)
        return inspected

    def _refuse(self, refused: Sequence[tuple[ClaimedMessage, Refusal]]) -> None:
        """Store the failures of refused messages, send their further tasks, and dead-letter these."""
        answered = self._store_all([records.refusal(refusal.id, refusal.error) for _, refusal in refused if refusal.id])
        for message, refusal in refused:
            self._send_of_refused(message, refusal)
            if refusal.id not in answered or refusal.reason not in {"expired", "max_deliveries"}:
                self._dead_letter(message, refusal)

    def _send_of_refused(self, message: ClaimedMessage, refusal: Refusal) -> None:
        """Send what a refused job names for its end, if its message can be read without risk."""
        if self._rules.callbacks and not refusal.may_kill:
            inspected = inspection.inspect(message.raw, self._rules, None)
            if isinstance(inspected, DeliveredJob):
                self._send_further(inspected, refusal.error, "FAILURE")

    def _dead_letter(self, message: ClaimedMessage, refusal: Refusal) -> None:
        letter = dead_letters.compose(message.raw, refusal, self._rules, self._clock.read(self._client))
        count = dead_letters.dead_letter(self._client, message.queue, message.place, message.raw, letter, self._rules)
        if count is not None:
            dead_letters.log_dead_letter(message.queue, refusal, letter, count)

    def _without_revoked(self, jobs: list[ClaimedJob]) -> list[ClaimedJob]:
        """Store the outcomes of revoked jobs, and return the others."""
        if self._revocations != self._head.revocations:
            self._revoked |= self._head.revoked_since(self._revocations)
            self._revocations = self._head.revocations
        if not self._revoked:
            return jobs
        revoked = [claimed for claimed in jobs if revocation_key(claimed.job.id) in self._revoked]
        self._store_all([records.compose(claimed.job.id, "REVOKED", records.REVOKED) for claimed in revoked])
        for claimed in revoked:
            self._send_further(claimed.job, records.REVOKED, "REVOKED")
            self._events.revoked(claimed.job)
            log.warning("job revoked", task_id=claimed.job.id)
        return [claimed for claimed in jobs if claimed not in revoked]

    def _select(self, jobs: list[ClaimedJob]) -> list[ClaimedJob]:
        """Return the jobs that can be answered together, or else the first one; requeue the others."""
        bundle = [claimed for claimed in jobs if self._may_be_bundled(claimed)]
        self._claim_limit = min(2 * self._claim_limit, self._limits.bundle) if bundle or not jobs else 1
        selected = bundle or jobs[:1]
        other_messages = [claimed.message for claimed in jobs if claimed not in selected]
        if other_messages:
            self._claims.requeue(other_messages)
        return selected

    def _may_be_bundled(self, claimed: ClaimedJob) -> bool:
        return not claimed.message.alone and self._answers.together.accepts(claimed.job)

    # --- outcomes -----------------------------------------------------------------------------------

    def _answer(self, jobs: Sequence[ClaimedJob], started: float) -> None:
        """Answer jobs, together where that is possible; store the outcomes."""
        answered = self._answers.together.answer([claimed.job for claimed in jobs]) if len(jobs) > 1 else {}
        ended = []
        for claimed in jobs:
            if claimed.job.id in answered:
                self._events.starting(claimed.job)
                outcome = self._answers.outcome(claimed.job, started, answered=answered[claimed.job.id])
                ended.append((claimed, outcome))
        self._end(ended, started)
        for position, claimed in enumerate(jobs):
            if claimed.job.id not in answered:
                self._slot.begin_next(position, time.monotonic())
                begun = started if len(jobs) == 1 else time.perf_counter()
                self._end([(claimed, self._run(claimed, begun))], begun)

    def _run(self, claimed: ClaimedJob, started: float) -> Outcome:
        """Return a job's outcome, within its soft time limit."""

        def report(stage: str, count: int, total: int) -> None:
            """Publish the job's progress; failures are ignored."""
            meta = {"stage": stage, "done": count, "total": total}
            with contextlib.suppress(redis.RedisError):
                self._store.put([records.compose(claimed.job.id, "PROGRESS", meta)])

        signal.setitimer(signal.ITIMER_REAL, self._limits.soft_seconds)
        try:
            self._events.starting(claimed.job)
            return self._answers.outcome(claimed.job, started, report)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _end(self, ended: Sequence[tuple[ClaimedJob, Outcome]], started: float) -> None:
        """Store outcomes; delay jobs that will be retried, and dead-letter those whose message is at fault."""
        self._slot.state = State.STORING
        seconds = (time.perf_counter() - started) / max(1, len(ended))
        final = [(claimed.job, outcome) for claimed, outcome in ended if outcome.state != "RETRY"]
        stored_outcomes = [(job, outcome) for job, outcome in final if job.keeps_result]
        self._store_all(
            [records.compose(job.id, outcome.state, outcome.result, job.headers) for job, outcome in stored_outcomes]
        )
        for claimed, outcome in ended:
            if outcome.state == "RETRY":
                self._retry(claimed, outcome)
            else:
                self._send_further(claimed.job, outcome.result, outcome.state)
                if refusal := _refuse_failed(claimed, outcome.result):
                    self._dead_letter(claimed.message, refusal)
            self._events.ended(claimed.job, outcome, seconds)

    def _retry(self, claimed: ClaimedJob, outcome: Outcome) -> None:
        """Delay a job, with the number of its tries and the sum of its pauses; refuse it if it expires meanwhile."""
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
        if claimed.job.keeps_result:
            error = Unavailable("the job was requeued, to be retried")
            try:
                self._store.put([records.compose(claimed.job.id, "RETRY", error)])
            except _OUTAGES as failed:
                log.warning("state not stored", task_id=claimed.job.id, state="RETRY", error=type(failed).__name__)

    def _store_all(self, composed: Sequence[Record]) -> set[str]:
        """Store records, however long that takes: nothing is acknowledged before.

        Returns the ids of jobs that have another, final record.

        Raises:
            _UnstoredError: the process must stop.
        """
        pause = 0.0
        while composed:
            self._slot.signs += 1
            try:
                return self._store.put(composed)
            except _OUTAGES as error:
                if self._must_stop():
                    raise _UnstoredError from None
                self._drop_connections(error)
                if not pause:
                    log.warning("outcomes not stored yet", error=type(error).__name__, outcomes=len(composed))
                pause = min(max(2 * pause, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
                self._wake.wait(pause)
        return set()

    def _send_further(self, job: DeliveredJob, result: JobResult | RetrievalError, state: str) -> None:
        """Send a job's further tasks; nothing is acknowledged while another process may be dying of its chord.

        Raises:
            _UnstoredError: the process must stop.
        """
        while not self._further.send(job, result, state):
            if self._must_stop():
                raise _UnstoredError
            self._slot.signs += 1
            self._wake.wait(_PAUSE_SECONDS)

    # --- limits -------------------------------------------------------------------------------------

    def _limit_claims(self, jobs: Sequence[ClaimedJob], seconds: float) -> None:
        """Claim at a time no more jobs than fit into the longest time of a bundle."""
        if not self._may_be_bundled(jobs[0]):
            return
        job_seconds = seconds / len(jobs)
        self._mean_seconds += (job_seconds - self._mean_seconds) * (_SMOOTHING if self._mean_seconds else 1.0)
        limit = int(BUNDLE_SECONDS / self._mean_seconds)
        self._claim_limit = max(1, min(self._claim_limit, limit, MOST_JOBS))

    def _has_reached_limit(self) -> bool:
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


def _refuse_for_deliveries(message: ClaimedMessage, task_id: str | None, task: str | None) -> Refusal:
    count = message.count
    error = DeadLettered(f"the job was delivered {count} times without an answer: it may be killing its worker")
    return Refusal("max_deliveries", error, task_id, task or "", may_kill=task is None)


def _refuse_failed(claimed: ClaimedJob, result: JobResult | RetrievalError) -> Refusal | None:
    """Return why the message of a job that ended becomes a dead letter; None: it does not."""
    if isinstance(result, Unavailable):
        return Refusal("retries_exhausted", result, claimed.job.id, claimed.job.task)
    if isinstance(result, NotAuthorised) and result.forged:
        return Refusal("bad_signature", result, claimed.job.id, claimed.job.task)
    return None


def revocation_key(task_id: str) -> int:
    """Return the number under which the table knows a revoked job."""
    return int.from_bytes(hashlib.blake2b(task_id.encode("utf-8", "replace"), digest_size=8).digest())
