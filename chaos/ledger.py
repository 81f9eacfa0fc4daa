"""Ledger of submitted jobs and their outcomes; thread-safe."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from chaos.history import History

if TYPE_CHECKING:
    from collections.abc import Collection

    from chaos.jobs import Question

DIFFERS = "a second result differs"
REVOKED = "REVOKED"


class Verdict(StrEnum):
    """Outcome of a job."""

    OPEN = "open"
    RIGHT = "right"
    FAILED = "failed, and said so"
    DEAD = "dead-lettered"
    WRONG = "wrong"


@dataclass
class Entry:
    """One job.

    Attributes:
        question: what was asked.
        submitted: when Redis acknowledged it (monotonic seconds); None: it never did, so it may be there or not.
        answered_at: when its result was first seen.
        verdict: what became of it.
        reasons: why it is wrong, or the class of its failure.
        digest: of the first result seen, without what may differ from try to try.
    """

    question: Question
    submitted: float | None
    answered_at: float | None = None
    verdict: Verdict = Verdict.OPEN
    reasons: list[str] = field(default_factory=list)
    digest: bytes = b""


class Ledger:
    """Every job of a run.

    Args:
        history: is told all of them, too.
    """

    def __init__(self, history: History | None = None) -> None:
        self.history = history or History()
        self._lock = threading.Condition()
        self._entries: dict[str, Entry] = {}
        self._open: dict[str, Entry] = {}
        self._done = 0
        self.refused = 0
        """Number of refusals by Redis (read-only, out of memory): the same job was sent again."""

    def submitted(self, question: Question, at: float | None) -> None:
        """Record when Redis acknowledged a job; None if that is unknown."""
        with self._lock:
            entry = Entry(question, at)
            self._entries[question.task_id] = entry
            if at is not None:
                self._open[question.task_id] = entry
            else:
                self.history.sent(question.task_id, "not acknowledged", is_known=False)

    def answered(self, task_id: str, at: float, verdict: Verdict, reasons: list[str], digest: bytes) -> None:
        """Record a job's first result."""
        with self._lock:
            entry = self._entries[task_id]
            entry.answered_at, entry.verdict, entry.reasons, entry.digest = at, verdict, reasons, digest
            if self._open.pop(task_id, None) is not None:
                self._done += 1
            wrong = ("foreign" if "foreign" in reasons else "; ".join(reasons)) if verdict is Verdict.WRONG else ""
            failure = "".join(reasons) if verdict in {Verdict.FAILED, Verdict.DEAD} else ""
            self.history.outcome(task_id, digest, wrong=wrong, failure=failure)
            self._lock.notify_all()

    def differs(self, task_id: str, digest: bytes) -> None:
        """Record that a later result of a job differs from its first."""
        self.history.outcome(task_id, digest)
        with self._lock:
            self._entries[task_id].verdict = Verdict.WRONG
            self._entries[task_id].reasons.append(DIFFERS)

    def wait_for_all(self, task_ids: set[str], seconds: float) -> bool:
        """Wait until none of these jobs is open."""
        with self._lock:
            return self._lock.wait_for(lambda: self._open.keys().isdisjoint(task_ids), seconds)

    @property
    def open(self) -> list[str]:
        """Jobs that were acknowledged and have no result yet."""
        with self._lock:
            return [*self._open]

    @property
    def done(self) -> int:
        """Number of acknowledged jobs with a result."""
        with self._lock:
            return self._done

    def wait_for_room(self, most_open: int, seconds: float) -> bool:
        """Wait until fewer than ``most_open`` jobs are open."""
        with self._lock:
            return self._lock.wait_for(lambda: len(self._open) < most_open, seconds)

    def wait_for_done(self, count: int, seconds: float) -> bool:
        """Wait until ``count`` acknowledged jobs have a result."""
        with self._lock:
            return self._lock.wait_for(lambda: self._done >= count, seconds)

    def entries(self) -> list[Entry]:
        """All jobs, in the order in which they were submitted."""
        with self._lock:
            return [*self._entries.values()]

    def entry(self, task_id: str) -> Entry | None:
        """One job; None if there is no such."""
        with self._lock:
            return self._entries.get(task_id)


@dataclass(frozen=True)
class Audit:
    """Result of the ledger's audit.

    Attributes:
        submitted: jobs that Redis acknowledged.
        unsure: jobs that were sent, and neither acknowledged nor refused.
        unsure_done: those of them that have a result.
        verdicts: how many jobs ended how, unsure ones included.
        failures: classes of the failures.
        lost: acknowledged jobs with neither a result nor a dead letter, which Redis does not hold either.
        stuck: acknowledged jobs without result that Redis still holds at the end.
        foreign: answers that held a row of another caller.
        twice: jobs with two answers that differ.
        revoked: jobs that ended as `REVOKED`, though no client revoked them.
        dead: ids of jobs that became a dead letter: none of them may.
        given_up: jobs that became one after as many deaths of their processes as a job may have.
        wrong: ids of wrong answers, with the reasons.
    """

    submitted: int
    unsure: int
    unsure_done: int
    verdicts: dict[str, int]
    failures: dict[str, int]
    lost: tuple[str, ...]
    stuck: tuple[str, ...]
    foreign: int
    twice: int
    revoked: int
    dead: tuple[str, ...]
    given_up: int
    wrong: tuple[tuple[str, str], ...]

    @property
    def clean(self) -> bool:
        """True if nothing was lost or wrong, and no job was dead-lettered."""
        return not (self.lost or self.stuck or self.wrong or self.dead)


def audit(
    entries: list[Entry], still_in_redis: set[str], dead_letters: Collection[str] = (), given_up: Collection[str] = ()
) -> Audit:
    """Audit a ledger at the end of a run.

    Args:
        entries: all jobs.
        still_in_redis: ids that are found anywhere in Redis but among the results, with no worker running.
        dead_letters: ids of which Redis keeps a dead letter, whatever was answered.
        given_up: ids that a worker may give up: they began as often as a job may, and each time it was killed.
    """
    sure = [entry for entry in entries if entry.submitted is not None]
    unsure = [entry for entry in entries if entry.submitted is None]
    open_ids = [entry.question.task_id for entry in sure if entry.verdict is Verdict.OPEN]
    return Audit(
        submitted=len(sure),
        unsure=len(unsure),
        unsure_done=sum(entry.verdict is not Verdict.OPEN for entry in unsure),
        verdicts=dict(Counter(entry.verdict.value for entry in entries if entry.verdict is not Verdict.OPEN)),
        failures=dict(Counter(r for e in entries if e.verdict in {Verdict.FAILED, Verdict.DEAD} for r in e.reasons)),
        lost=tuple(i for i in open_ids if i not in still_in_redis and i not in dead_letters),
        stuck=tuple(task_id for task_id in open_ids if task_id in still_in_redis),
        foreign=sum("foreign" in entry.reasons for entry in entries),
        twice=sum(DIFFERS in entry.reasons for entry in entries),
        revoked=sum(REVOKED in entry.reasons for entry in entries),
        dead=tuple(
            entry.question.task_id
            for entry in entries
            if entry.question.task_id in dead_letters or entry.verdict is Verdict.DEAD
            if not (entry.verdict is Verdict.DEAD and entry.question.task_id in given_up)
        ),
        given_up=sum(entry.verdict is Verdict.DEAD and entry.question.task_id in given_up for entry in entries),
        wrong=tuple((e.question.task_id, "; ".join(e.reasons)) for e in entries if e.verdict is Verdict.WRONG),
    )
