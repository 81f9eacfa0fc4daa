"""Jobs of a bundle, answered together before each of them runs as any other."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import RetrievalError
from worker.adapters import logs
from worker.jobs import top_k
from worker.jobs.context import check_job
from worker.queue.processes.table import BUNDLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from worker.jobs.context import JobContext
    from worker.jobs.engine import Engine
    from worker.jobs.top_k import PreparedSearch, Retrieval
    from worker.queue.broker.inspection import DeliveredJob
    from worker.settings import Settings

    Checked = tuple[RetrieveTopK[Any], JobContext]

log = logs.logger("worker.tasks")

_PATIENCE = 4
"""A statement is cancelled after this many times a bundle's time; its job then runs alone."""


class AnsweredJob(NamedTuple):
    """Job that was answered with others.

    Attributes:
        checked: the job, and its context, whose caller is known.
        answer: its answer.
        seconds: its share of the time that all of them took.
    """

    checked: Checked
    answer: dict[str, Any]
    seconds: float


class AnsweredTogether:
    """Answers jobs of a bundle.

    A job that can't be answered with the others, whatever the reason, is left out: it runs alone, and has the error,
    the retry or the answer that it would have without a bundle.
    """

    def __init__(self, settings: Settings, engine: Callable[[], Engine]) -> None:
        self._settings = settings
        self._engine = engine

    @staticmethod
    def accepts(job: DeliveredJob) -> bool:
        """Return whether a job may be in a bundle."""
        is_alone = job.task == top_k.TASK and not job.kwargs and len(job.args) == 1
        return is_alone and top_k.may_be_bundled(job.args[0])

    def answer(self, jobs: Sequence[DeliveredJob]) -> dict[str, AnsweredJob]:
        """Answer jobs together; return those that were answered, by their ids."""
        started = time.perf_counter()
        try:
            answers = self._answers(jobs)
        except Exception as error:  # noqa: BLE001 -- each job then runs alone, and finds it again
            log.warning("bundle not answered together", error=type(error).__name__, where=logs.where(error))
            return {}
        seconds = (time.perf_counter() - started) / len(jobs)
        return {task_id: AnsweredJob(checked, answer, seconds) for task_id, checked, answer in answers}

    def _answers(self, jobs: Sequence[DeliveredJob]) -> list[tuple[str, Checked, dict[str, Any]]]:
        """Return the id of each job that could be answered, the job as checked, and its answer."""
        retrieval = self._engine().retrieval
        times = Counter(job.id for job in jobs)  # senders choose ids: each of two jobs with the same one runs alone
        unique = [job for job in jobs if times[job.id] == 1]
        prepared = [
            (job.id, *prepared_job) for job in unique if (prepared_job := self._prepare(job, retrieval)) is not None
        ]
        if len(prepared) <= 1:
            return []
        # All of them together take at most half the time of one job.
        half_seconds = self._settings.worker.soft_time_limit_seconds / 2
        seconds = min(_PATIENCE * BUNDLE_SECONDS, half_seconds / len(prepared))
        answers = retrieval.answer_each([search for *_, search in prepared], seconds)
        return [
            (task_id, checked, answer)
            for (task_id, checked, _), answer in zip(prepared, answers, strict=True)
            if answer is not None
        ]

    def _prepare(self, job: DeliveredJob, retrieval: Retrieval) -> tuple[Checked, PreparedSearch] | None:
        """Check a job and its caller; None: it has an error, which it has again when it runs alone."""
        try:
            checked = check_job(RetrieveTopK, job.args[0], self._settings, job.task, job.id)
            return checked, retrieval.prepare(*checked)
        except RetrievalError:
            return None
