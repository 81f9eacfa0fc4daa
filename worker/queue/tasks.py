"""Celery tasks that a backend may call, and what answers their jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.registry import TASKS
from retrieval_client.contract.run_jobs import VerifyRuns
from worker.jobs import drift
from worker.jobs.drift import VERIFY_RUNS
from worker.queue.outcome import Answers
from worker.queue.together import AnsweredTogether

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery import Celery

    from retrieval_client.contract.jobs import Job
    from worker.jobs.context import JobContext
    from worker.jobs.engine import Engine
    from worker.queue.metrics import Metrics
    from worker.queue.outcome import Answer
    from worker.settings import Settings


def register(app: Celery, settings: Settings, engine: Callable[[], Engine], metrics: Metrics) -> Answers:
    """Define the tasks on an app, for remote control and beat; return what finds the outcomes of their jobs.

    `engine` returns this process's engine, created after fork.
    """
    handlers: dict[str, tuple[type[Any], Answer[Any]]]
    handlers = {task.name: (task.job, partial(_answer, engine, task.name)) for task in TASKS}
    if settings.verify.every_minutes:
        verify = drift.scheduled(settings)
        handlers[VERIFY_RUNS] = VerifyRuns, lambda _, __: verify(engine().verifying)
    for name in handlers:
        _define(app, name)
    return Answers(handlers, settings, metrics, AnsweredTogether(settings, engine))


def _define(app: Celery, name: str) -> None:
    @app.task(shared=False, name=name, typing=False)
    def task(_: Any = None, **__: Any) -> None:  # one argument: Celery calls an error callback that has more itself
        raise NotImplementedError("the worker's processes answer jobs themselves: Celery runs none")


def _answer(engine: Callable[[], Engine], task: str, job: Job, context: JobContext) -> dict[str, Any]:
    """Answer a job with its task's handler; the engine is created on first use."""
    return engine().handlers[task](job, context)
