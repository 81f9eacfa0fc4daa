"""Celery tasks that a backend may call: each tells Celery of its job's outcome (`worker.queue.outcome`)."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import kombu.exceptions
import redis
from celery import Task
from celery.exceptions import Reject

from retrieval_client.contract.registry import TASKS
from retrieval_client.contract.run_jobs import VerifyRuns
from retrieval_client.errors import RetrievalError
from worker.jobs import drift
from worker.jobs.drift import VERIFY_RUNS
from worker.queue.bundles import Bundles
from worker.queue.codec import JobResult
from worker.queue.outcome import Answers, DeliveredJob, Outcome, counted_outcome_of, outcome_of
from worker.queue.summaries import summarise
from worker.queue.together import AnsweredTogether
from worker.queue.transport.inspection import OUTAGE_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery import Celery

    from retrieval_client.contract.jobs import Job
    from worker.jobs.context import JobContext
    from worker.jobs.engine import Engine
    from worker.queue.metrics import Metrics
    from worker.queue.outcome import Answer
    from worker.settings import Settings


class RetrievalTask(Task):
    """Base of all tasks: late acknowledgement, quiet requests, expected errors."""

    Request = "worker.queue.request:QuietRequest"
    typing = False  # a wrong number of arguments is an InvalidJob, not a TypeError
    acks_late = True
    reject_on_worker_lost = True
    throws = (RetrievalError,)
    max_retries = None  # `_retry_later` bounds how long, not how often

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Send a job again, or the next one of a chain, without this worker's time limits: `_check_envelope`."""
        return super().apply_async(args, kwargs, **{"time_limit": None, "soft_time_limit": None, **options})

    def on_failure(self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """Drop the error's traceback, after the job's failure was stored."""
        del task_id, args, kwargs
        _drop_traceback(einfo, exc)

    def on_retry(self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """Drop the error's traceback, after the job was sent again."""
        del task_id, args, kwargs
        _drop_traceback(einfo, exc)


def _drop_traceback(einfo: Any, *errors: BaseException) -> None:
    """Drop the traceback that Celery keeps of an error, which nothing reads: the log has the place.

    Celery copies it for the main process, over a thousand objects. And the frames refer to it, so each failed job would
    leave a cycle of 0.3 MB until a garbage collection, which runs once in many jobs (`jobs.engine`). ``einfo`` is None
    where the main process delays a job because it has lost Redis.
    """
    if einfo is None:
        return
    einfo.tb = None
    for error in (getattr(einfo.exception, "exc", einfo.exception), *errors):
        error.__traceback__ = error.__context__ = error.__cause__ = None


def register(app: Celery, settings: Settings, engine: Callable[[], Engine], metrics: Metrics) -> None:
    """Define the tasks on an app.

    Args:
        app: the Celery app.
        settings: the worker's settings.
        engine: returns this process's engine, created after fork.
        metrics: counts jobs, if the settings enable it.
    """
    find = partial(counted_outcome_of, metrics) if settings.metrics.on else outcome_of
    together = AnsweredTogether(settings, engine)
    rules = settings.worker
    # A standby's lag is checked in each search's own transaction.
    greatest = 1 if settings.of_the_standby else rules.bundle
    app.bundles = Bundles(greatest, rules.bundle_ms / 1000, together)
    handlers: dict[str, tuple[type[Any], Answer[Any]]]
    handlers = {task.name: (task.job, partial(_answer, engine, task.name)) for task in TASKS}
    if settings.verify.every_minutes:
        verify = drift.scheduled(settings)
        handlers[VERIFY_RUNS] = VerifyRuns, lambda _, __: verify(engine().verifying)
    app.answers = Answers(handlers, settings, find, together)
    for name in handlers:
        _define(app, name, app.answers)


def _define(app: Celery, name: str, answers: Answers) -> None:
    @app.task(bind=True, base=RetrievalTask, shared=False, name=name)
    def task(self: RetrievalTask, /, *args: Any, **kwargs: Any) -> JobResult:
        return run_job(self, args, kwargs, answers)


def _answer(engine: Callable[[], Engine], task: str, job: Job, context: JobContext) -> dict[str, Any]:
    """Answer a job with its task's handler; the engine is created on first use."""
    return engine().handlers[task](job, context)


def run_job(task: RetrievalTask, args: tuple[Any, ...], kwargs: dict[str, Any], answers: Answers) -> JobResult:
    """Find a job's outcome, and tell Celery of it.

    Args:
        task: its task, with the delivery's request.
        args: its positional arguments.
        kwargs: its keyword arguments.
        answers: finds the outcome.

    Raises:
        RetrievalError: as `retrieval_client.errors` classifies it.
        celery.exceptions.Retry: Postgres or Redis is unavailable, for less than the longest outage so far.
        celery.exceptions.Reject: so is the broker's Redis: the message is requeued unchanged.
    """
    started = time.perf_counter()

    def report(stage: str, done: int, total: int) -> None:
        """Publish the job's progress for the backend or Flower; failures are ignored."""
        with contextlib.suppress(redis.RedisError, kombu.exceptions.OperationalError):
            task.update_state(state="PROGRESS", meta={"stage": stage, "done": done, "total": total})

    job = DeliveredJob(task.name, task.request.id, args, kwargs, vars(task.request))
    outcome = answers.outcome(job, started, report)
    if isinstance(outcome.result, JobResult):
        return outcome.result
    if outcome.state == "RETRY":
        raise _retry(task, job, outcome) from None
    raise outcome.result.with_traceback(None) from outcome.result.__cause__  # Celery would copy each frame


def _retry(task: RetrievalTask, job: DeliveredJob, outcome: Outcome) -> Exception:
    """Send a job again, with the sum of its pauses."""
    try:
        again: Exception = task.retry(
            exc=outcome.result,
            countdown=outcome.pause + _clock_ahead(task),
            throw=False,
            headers={OUTAGE_HEADER: job.pauses + outcome.pause},
            argsrepr=summarise(task.request.args),
            kwargsrepr="{}",
        )
    except Reject:  # Celery's way to report that it could not be sent
        again = Reject("the queue's Redis is away", requeue=True)
    return again


def _clock_ahead(task: RetrievalTask) -> float:
    """Return the seconds by which Redis' clock is ahead of this machine's: Celery uses this one, but Redis' decides."""
    return float((task.request.properties or {}).get("clock_ahead", 0.0))
