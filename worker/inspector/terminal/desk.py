"""Desk: all that the terminal reads and asks, with the caller's permissions of the moment."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import InvalidJob, NotAuthorised, RetrievalError
from worker.adapters import logs
from worker.core.shape import is_storable
from worker.inspector.reading import RunViews
from worker.inspector.web.asking import SUBJECT
from worker.jobs.context import JobContext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from retrieval_client import Client
    from worker.adapters.postgres.run_list import ListedRun, RunFilter
    from worker.inspector.reading import RunPage
    from worker.inspector.view.citations import CitationsView, Decision
    from worker.inspector.view.drift import DriftView
    from worker.jobs.engine import Engine
    from worker.model import Principal

    Report = Callable[[str, int, int], None]

log = logs.logger("worker.inspector")

SECONDS_TO_ANSWER = 300.0
UNKNOWN = "There is no such run, or it is not yours."


class Answers(Protocol):
    """Answers questions."""

    def answer(self, job: RunPipeline, caller: Principal, report: Report) -> None:
        """Answer a question, which is recorded as its run; report stage, finished stages and all of them.

        Raises:
            RetrievalError: there is no answer.
        """


class InThisProcess:
    """Answers by this process's engine.

    Args:
        engine: the engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def answer(self, job: RunPipeline, caller: Principal, report: Report) -> None:
        """Answer a question; see `Answers`."""
        self._engine.handlers["run_pipeline"](job, JobContext(lambda: caller, secrets.token_urlsafe(16), report))


class ByTheQueue:
    """Answers by a worker.

    Args:
        client: sends the jobs; without a signer the worker must trust its queue.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def answer(self, job: RunPipeline, caller: Principal, report: Report) -> None:
        """Answer a question; see `Answers`."""
        claims = {name: [*value] if isinstance(value, tuple) else value for name, value in caller.claims.items()}
        if self._client.signer is None:
            job = job.model_copy(update={"principal": claims})
            task_id = self._client.enqueue(job, expires=SECONDS_TO_ANSWER)
        else:
            task_id = self._client.enqueue(job, claims=claims, expires=SECONDS_TO_ANSWER)
        for where in self._client.watch(task_id, SECONDS_TO_ANSWER):
            if where.stage is not None:
                report(where.stage, where.done or 0, where.total or 0)
        if not where.ended:
            raise self._client.no_answer(task_id, SECONDS_TO_ANSWER, "pipeline")
        self._client.result(task_id, 5.0)


class Desk:
    """Reader and asker for one caller.

    Args:
        engine: the worker's engine, in this process.
        caller: the caller; everything is read with this principal's permissions.
        answers: answers questions.
        modes: modes of the settings.
        profiles: profiles of the settings.
        ends_at: end of the visit by the monotonic clock; None: it has none.
    """

    def __init__(
        self,
        engine: Engine,
        caller: Principal,
        answers: Answers,
        modes: Sequence[str],
        profiles: Sequence[str],
        ends_at: float | None = None,
    ) -> None:
        self._reading = engine.reading
        self._views = RunViews(engine.reading, engine.paths, engine.accepted)
        self._caller = caller
        self._answers = answers
        self._ends_at = ends_at
        self.modes, self.profiles = tuple(modes), tuple(profiles)

    @property
    def owner(self) -> str:
        """The caller's owner claim, ``""`` without one."""
        return self._caller.owner

    def runs(self, run_filter: RunFilter, before_key: int | None, limit: int) -> list[ListedRun]:
        """Return a page of the caller's runs, newest first."""
        return self._reading.page(self._admitted(), run_filter, before_key, limit)

    def run(self, name: RunName) -> RunPage:
        """Return the views of a run; see `RunViews.run`."""
        return self._views.run(self._admitted(), name)

    def citations(self, name: RunName) -> CitationsView:
        """Return the citations of a run, checked now; see `RunViews.citations`."""
        return self._views.citations(self._admitted(), name)

    def drift(self, name: RunName) -> DriftView | None:
        """Return the state of a run's pins now; see `RunViews.drift`."""
        return self._views.drift(self._admitted(), name)

    def decide(self, name: RunName, conflict: str, decision: Decision) -> CitationsView:
        """Keep a decision on a conflict with the run; return the citations; see `RunViews.decide`."""
        self._views.decide(self._admitted(), name, conflict, decision, datetime.now(UTC))
        return self.citations(name)

    def ask(self, question: str, mode: str, profile: str, conversation: str, report: Report) -> RunName:
        """Ask the next question of a conversation; return the run that it is recorded as.

        Raises:
            RetrievalError: there is no answer.
        """
        caller = self._admitted()
        if not caller.owner:
            raise InvalidJob("only a caller with the owner claim has runs, and so may ask")
        if "\x00" in question or not is_storable(question):
            raise InvalidJob("expected text without U+0000 and lone surrogates", "question")
        name = RunName(subject_id=SUBJECT, run_id=secrets.token_hex(6))
        self._answers.answer(question_job(question, mode, profile, conversation, name), caller, report)
        return name

    def _admitted(self) -> Principal:
        """Return the caller, until the visit ends."""
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            raise NotAuthorised("the visit has ended: start it again with a new token")
        return self._caller


def question_job(question: str, mode: str, profile: str, conversation: str, run: RunName) -> RunPipeline:
    """Return the job of a question of a conversation.

    Raises:
        InvalidJob: a field of the job is wrong.
    """
    fields = {"question": question, "mode": mode, "run": run.model_dump(exclude_none=True)}
    fields |= {"conversation_id": conversation, "chat_mode": "chat"}
    return parse_job(RunPipeline, {**fields, **({"profile": profile} if profile else {})})


def sentence(error: Exception) -> str:
    """Return the sentence for an error; what is unknown and what is another's look the same."""
    if isinstance(error, InvalidJob) and error.path == "run":
        return UNKNOWN
    if isinstance(error, RetrievalError):
        return f"{type(error).__name__}: {error.message}"
    log.warning("page failed", error=type(error).__name__)  # its words may hold a text
    return f"internal error ({type(error).__name__})"
