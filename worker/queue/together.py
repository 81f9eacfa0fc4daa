"""Jobs of a bundle, answered together before each of them runs as any other."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import RetrievalError
from worker.adapters import logs
from worker.core.shape import check_shape
from worker.jobs import top_k
from worker.jobs.context import JobContext
from worker.jobs.principal import identify

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from retrieval_client.contract.base import JobT
    from worker.jobs.engine import Engine
    from worker.jobs.top_k import PreparedSearch
    from worker.queue.bundles import BundledJob
    from worker.settings import Settings

    Answer: TypeAlias = Callable[[JobT, JobContext], dict[str, Any]]

log = logs.logger("worker.tasks")

_PATIENCE = 4
"""A statement is cancelled after this many times a bundle's time; its job then runs alone."""


class AnsweredTogether:
    """Answers of the current bundle's jobs.

    A job that can't be answered with the others, whatever the reason, is left out: it runs alone, and has the error,
    the retry or the answer that it would have without a bundle.

    Args:
        settings: the worker's settings.
        engine: returns this process's engine.
    """

    def __init__(self, settings: Settings, engine: Callable[[], Engine]) -> None:
        self._settings = settings
        self._engine = engine
        self._answers: dict[str, dict[str, Any]] = {}
        self._each = 0.0

    def accepts(self, task: str, content: Any) -> bool:
        """Return whether a job may be in a bundle, by its task and its message's content."""
        try:
            (raw,), kwargs, *_ = content
        except (TypeError, ValueError):
            return False
        return task == top_k.TASK and not kwargs and top_k.may_be_bundled(raw)

    def answer(self, jobs: Sequence[BundledJob]) -> Collection[str]:
        """Answer jobs together; return the ids of those that were answered."""
        started = time.perf_counter()
        self.forget()
        try:
            self._answer(jobs)
        except Exception as error:  # noqa: BLE001 -- each job then runs alone, and finds it again
            self.forget()
            log.warning("bundle not answered together", error=type(error).__name__, where=logs.where(error))
        self._each = (time.perf_counter() - started) / len(jobs)
        return self._answers.keys()

    def _answer(self, jobs: Sequence[BundledJob]) -> None:
        retrieval = self._engine().retrieval
        times = Counter(job.id for job in jobs)  # senders choose ids: each of two jobs with the same one runs alone
        unique = [job for job in jobs if times[job.id] == 1]
        prepared = {job.id: one for job in unique if (one := self._prepare(job)) is not None}
        if len(prepared) > 1:
            rules = self._settings.worker
            # All of them together take at most half the time of one job.
            seconds = min(_PATIENCE * rules.bundle_ms / 1000, rules.soft_time_limit_seconds / 2 / len(prepared))
            answers = retrieval.answer_each([*prepared.values()], seconds)
            self._answers |= {task_id: one for task_id, one in zip(prepared, answers, strict=True) if one is not None}

    def forget(self) -> None:
        """Drop answers that no job used, so that no later job with the same id gets one."""
        self._answers.clear()

    def spent(self, task_id: str) -> float:
        """Return the share of time that was spent on a job already, in seconds."""
        return self._each if task_id in self._answers else 0.0

    def _prepare(self, job: BundledJob) -> PreparedSearch | None:
        """Check a job as `worker.queue.tasks.run_job` does; None: it has an error, which that finds again."""
        raw = job.args[0]
        try:
            check_shape(raw, self._settings.limits)
            checked = parse_job(RetrieveTopK, raw)
            context = JobContext(
                lambda: identify(checked, raw, task=job.task, task_id=job.id, settings=self._settings), job.id
            )
            return self._engine().retrieval.prepare(checked, context)
        except RetrievalError:
            return None

    def first(self, answer: Answer[JobT]) -> Answer[JobT]:
        """Return a handler that uses the answer that a job has already, else ``answer``."""

        def answer_or_use(job: JobT, context: JobContext) -> dict[str, Any]:
            made = self._answers.pop(context.task_id, None)
            return answer(job, context) if made is None else made

        return answer_or_use
