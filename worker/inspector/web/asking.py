"""Asking: questions of visitors, answered by this process's engine with the visitor's permissions, recorded as runs."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import InvalidJob, RetrievalError
from worker.adapters import logs
from worker.jobs.context import JobContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.jobs.engine import Engine
    from worker.model import Principal

log = logs.logger("worker.inspector")

SUBJECT = "asked"
"""Subject of the runs of questions that were asked here."""

MOST_TICKETS = 200
AT_ONCE = 2
MOST_WAITING = 8
"""Most questions of a visitor's that wait to be answered."""


@dataclass(frozen=True, slots=True)
class AnswerProgress:
    """Progress of the answer to a question, with one profile.

    Attributes:
        run: the run that it is recorded as.
        profile: its profile; empty for the mode's.
        stage: its current stage; empty while it waits.
        done, total: finished stages and all of them.
        state: ``working``, ``done`` or ``failed``.
        error: sentence of its error; empty without one.
    """

    run: RunName
    profile: str
    stage: str = ""
    done: int = 0
    total: int = 0
    state: str = "working"
    error: str = ""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A question, asked with one profile or two, and its owner: only who asked sees it."""

    owner: str
    question: str
    mode: str
    answers: tuple[AnswerProgress, ...]

    @property
    def is_over(self) -> bool:
        """True if none is being worked on."""
        return all(answer.state != "working" for answer in self.answers)


class Asking:
    """Questions in work; visitors take turns, so that one's many questions delay another's by one answer at most.

    Args:
        engine: answers them.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._tickets: OrderedDict[str, Ticket] = OrderedDict()
        self._waiting: OrderedDict[str, deque[Callable[[], None]]] = OrderedDict()
        self._pool = ThreadPoolExecutor(AT_ONCE, "ask")

    def ask(self, caller: Principal, question: str, mode: str, profiles: tuple[str, ...]) -> str:
        """Begin to answer a question, with each profile at once; return the ticket.

        Raises:
            InvalidJob: a field of the job is wrong, or too many questions of the caller's wait.
        """
        ticket, name = secrets.token_urlsafe(16), secrets.token_hex(6)
        runs = [RunName(subject_id=SUBJECT, run_id=f"{name}-{i}") for i, _ in enumerate(profiles, 1)]
        jobs = [_job(question, mode, profile, run) for profile, run in zip(profiles, runs, strict=True)]
        answers = tuple(AnswerProgress(run, profile) for run, profile in zip(runs, profiles, strict=True))
        with self._lock:
            waiting = self._waiting.setdefault(caller.owner, deque())
            if len(waiting) + len(jobs) > MOST_WAITING:
                raise InvalidJob(f"wait for an answer first: {len(waiting)} of your questions are waiting")
            waiting += [partial(self._answer, ticket, i, job, caller) for i, job in enumerate(jobs)]
            self._tickets[ticket] = Ticket(caller.owner, question, mode, answers)
            while len(self._tickets) > MOST_TICKETS:
                self._tickets.popitem(last=False)
        for _ in jobs:
            self._pool.submit(self._answer_next)
        return ticket

    def find(self, ticket: str, caller: Principal) -> Ticket | None:
        """Return a ticket; None if there is none, or another caller's."""
        with self._lock:
            open_ticket = self._tickets.get(ticket)
        return open_ticket if open_ticket is not None and open_ticket.owner == caller.owner else None

    def close(self) -> None:
        """Finish the questions in work, and stop."""
        self._pool.shutdown(cancel_futures=True)

    def _answer_next(self) -> None:
        """Answer the question that has waited longest, of the visitor whose turn it is."""
        with self._lock:
            owner, waiting = self._waiting.popitem(last=False)
            answer = waiting.popleft()
            if waiting:
                self._waiting[owner] = waiting
        answer()

    def _answer(self, ticket: str, index: int, job: RunPipeline, caller: Principal) -> None:
        def report(stage: str, finished_stages: int, total: int) -> None:
            self._change(ticket, index, stage=stage, done=finished_stages, total=total)

        try:
            self._engine.handlers["run_pipeline"](job, JobContext(lambda: caller, ticket, report))
        except RetrievalError as error:
            self._change(ticket, index, state="failed", error=error.message)
        except Exception as error:  # noqa: BLE001 -- a thread must not die unseen; its words may hold a text
            log.warning("question failed", error=type(error).__name__)
            self._change(ticket, index, state="failed", error="internal error")
        else:
            self._change(ticket, index, state="done")

    def _change(self, ticket: str, index: int, **changes: str | int) -> None:
        with self._lock:
            open_ticket = self._tickets.get(ticket)
            if open_ticket is not None:
                answers = [*open_ticket.answers]
                answers[index] = replace(answers[index], **changes)  # type: ignore[arg-type] # names and types of fields
                self._tickets[ticket] = replace(open_ticket, answers=tuple(answers))


def _job(question: str, mode: str, profile: str, run: RunName) -> RunPipeline:
    fields = {"question": question, "mode": mode, "run": run.model_dump(exclude_none=True)}
    return parse_job(RunPipeline, {**fields, **({"profile": profile} if profile else {})})
