"""Desk: all that the terminal reads and asks, with the caller's permissions of the moment."""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import InvalidJob, NotAuthorised, RetrievalError
from worker.adapters import logs
from worker.adapters.postgres.run_list import RunFilter
from worker.inspector.reading import RunViews
from worker.inspector.web.asking import SUBJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrieval_client.contract.answers import PipelineAnswer
    from worker.adapters.postgres.run_list import ListedRun
    from worker.jobs.engine import Engine
    from worker.jobs.pipeline.stored_packages import AnswerTrace
    from worker.model import Principal

    Report = Callable[[str, int, int], None]
    Answers = Callable[[RunPipeline, Principal, Report], PipelineAnswer]
    """Answers a recorded question for a caller; reports stage, finished stages and all of them."""

log = logs.logger("worker.inspector")


class Desk:
    """Reader and asker for one caller, who has one conversation at a time.

    Args:
        engine: the worker's engine, in this process.
        caller: the caller; everything is read with this principal's permissions.
        answers: answers questions.
        ends_at: end of the visit by the monotonic clock; None: it has none.
    """

    def __init__(self, engine: Engine, caller: Principal, answers: Answers, ends_at: float | None = None) -> None:
        self._engine = engine
        self._caller = caller
        self._answers = answers
        self._ends_at = ends_at
        self.views = RunViews(engine.reading, engine.paths, engine.accepted)
        # Ids that the next question of a chat continues from; empty where it begins one.
        self.chain: dict[str, str] = {}

    @property
    def caller(self) -> Principal:
        """The caller, until the visit ends; then `NotAuthorised` is raised."""
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            raise NotAuthorised("the visit has ended: start it again with a new token")
        return self._caller

    def runs(self) -> list[ListedRun]:
        """Return the caller's newest runs."""
        return self._engine.reading.page(self.caller, RunFilter(), None, 200)

    def traces(self, name: RunName) -> list[AnswerTrace]:
        """Return the traces of a run's answers; see `PipelineJobs.traces`."""
        return self._engine.pipeline_jobs.traces(name, self.caller)

    def ask(self, question: str, choices: Mapping[str, str], report: Report) -> RunName:
        """Ask a question, which in a chat continues from the last answer; return the run that records it.

        What else breaks the chain (another mode, model or provider) the worker says with its answer. ``choices`` are
        fields of the job, filters as JSON; empty ones are left out.

        Raises:
            RetrievalError: there is no answer.
        """
        caller, chain, is_chat = self.caller, self.chain, choices["chat_mode"] == "chat"
        if not caller.owner:
            raise InvalidJob("only a caller with the owner claim has runs, and so may ask")
        name = RunName(subject_id=SUBJECT, run_id=secrets.token_hex(6))
        fields: dict[str, Any] = {field: value for field, value in choices.items() if value}
        fields |= {"question": question, "run": name.model_dump(exclude_none=True)} | (chain if is_chat else {})
        if "\x00" in "".join([question, *choices.values()]):
            raise InvalidJob("expected text without U+0000", "question")
        if "filters" in fields:
            fields["filters"] = _json(fields["filters"])
        answer = self._answers(parse_job(RunPipeline, fields), caller, report)
        ids = {"conversation_id": answer.conversation_id, "prior_response_id": answer.response_id}
        if self.chain is chain:  # else another conversation was begun meanwhile
            self.chain = {field: value for field, value in ids.items() if value and is_chat}
        return name


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidJob('expected JSON such as {"pages": [3]}', "filters") from None


def sentence(error: Exception) -> str:
    """Return the sentence for an error; what is unknown and what is another's look the same."""
    if isinstance(error, InvalidJob) and error.path == "run":
        return "There is no such run, or it is not yours."
    if isinstance(error, RetrievalError):
        return f"{type(error).__name__}: {error.message}"
    log.warning("page failed", error=type(error).__name__)  # its words may hold a text
    return f"internal error ({type(error).__name__})"
