"""Celery tasks that a backend may call; all of them run through `run_job`."""

from __future__ import annotations

import contextlib
import random
import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import kombu.exceptions
import redis
from celery import Task
from celery.exceptions import Reject, Retry, SoftTimeLimitExceeded

from retrieval_client.contract.jobs import Job
from retrieval_client.contract.registry import TASKS
from retrieval_client.contract.run_jobs import VerifyRuns
from retrieval_client.errors import InternalError, InvalidJob, NotAuthorised, RetrievalError, TimedOut, Unavailable
from worker.adapters import logs
from worker.jobs import drift
from worker.jobs.context import JobContext, check_job
from worker.jobs.drift import VERIFY_RUNS
from worker.queue import time_limit
from worker.queue.bundles import Bundles
from worker.queue.codec import UNDECODABLE, JobResult, UnreadableBody
from worker.queue.request import known_reason, summarise
from worker.queue.together import AnsweredTogether
from worker.queue.transport.inspection import OUTAGE_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery import Celery

    from retrieval_client.contract.base import JobT
    from worker.jobs.engine import Engine
    from worker.queue.metrics import Metrics
    from worker.settings import Settings

    Answer: TypeAlias = Callable[[JobT, JobContext], dict[str, Any]]

log = logs.logger("worker.tasks")

_LEAST_PAUSE_SECONDS = 0.001


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


_MODULES = {task.name: import_module(task.module) for task in TASKS} | {VERIFY_RUNS: drift}
"""Module of each task by name; see `contract.registry.Task.module`."""


def register(app: Celery, settings: Settings, engine: Callable[[], Engine], metrics: Metrics) -> None:
    """Define the tasks on an app.

    Args:
        app: the Celery app.
        settings: the worker's settings.
        engine: returns this process's engine, created after fork.
        metrics: counts jobs, if the settings enable it.
    """
    run = partial(run_counted, metrics) if settings.metrics.on else run_job
    together = AnsweredTogether(settings, engine)
    rules = settings.worker
    # A standby's lag is checked in each search's own transaction.
    greatest = 1 if settings.of_the_standby else rules.bundle
    app.bundles = Bundles(greatest, rules.bundle_ms / 1000, together)
    for task in TASKS:
        _define(app, task.name, task.job, partial(_answer, engine, task.name), settings, run, together)
    if settings.verify.every_minutes:
        verify = drift.scheduled(settings)
        _define(app, VERIFY_RUNS, VerifyRuns, lambda _, __: verify(engine().verifying), settings, run, together)


def _define(
    app: Celery,
    name: str,
    model: type[JobT],
    answer: Answer[JobT],
    settings: Settings,
    run: Callable[..., JobResult],
    together: AnsweredTogether,
) -> None:
    @app.task(bind=True, base=RetrievalTask, shared=False, name=name)
    def task(self: RetrievalTask, /, *args: Any, **kwargs: Any) -> JobResult:
        started = time.perf_counter()
        answered = together.take(self.request.id)
        if answered is None:
            return run(self, args, kwargs, model, answer, settings, started)
        begun = started - answered.seconds
        return run(self, args, kwargs, model, lambda *_: answered.answer, settings, begun, answered.checked)


def _answer(engine: Callable[[], Engine], task: str, job: Job, context: JobContext) -> dict[str, Any]:
    """Answer a job with its task's handler; the engine is created on first use."""
    return engine().handlers[task](job, context)


def run_job(
    task: RetrievalTask,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    model: type[JobT],
    answer: Answer[JobT],
    settings: Settings,
    started: float,
    checked: tuple[JobT, JobContext] | None = None,
) -> JobResult:
    """Check and answer one delivered job, and write one log line.

    Args:
        task: its task, with the delivery's request.
        args: its positional arguments.
        kwargs: its keyword arguments.
        model: the type of job.
        answer: answers a checked job.
        settings: the worker's settings.
        started: when it began, by `time.perf_counter`.
        checked: the job and its context, if it was checked already.

    Raises:
        RetrievalError: as `retrieval_client.errors` classifies it; anything unforeseen becomes an `InternalError`.
        celery.exceptions.Retry: Postgres or Redis is unavailable, for less than the longest outage so far.
        celery.exceptions.Reject: so is the broker's Redis: the message is requeued unchanged.
    """
    run: dict[str, str] = {}
    try:
        with time_limit.Interruptible():
            _check_envelope(task)
            job, context = checked or _check(task, args, kwargs, model, settings)
            run = {"run_id": job.run.run_id} if isinstance(job, Job) and job.run is not None else {}
            _check_principal(context)
            result = answer(job, context)
            rows, summary = _MODULES[task.name].summary(result)
            done = JobResult(result, f"<{task.name} {summary}>")
    except Unavailable as error:
        _log("job delayed", task, started, **run, level="warning", error="Unavailable", reason=error.message)
        raise _retry_later(task, error, settings) from None
    except (redis.RedisError, kombu.exceptions.OperationalError) as error:
        _log("job delayed", task, started, **run, level="warning", error=type(error).__name__)
        raise _retry_later(task, Unavailable("Redis is away"), settings) from None
    except SoftTimeLimitExceeded:
        _log("job failed", task, started, **run, level="warning", error="TimedOut")
        limit = settings.worker.soft_time_limit_seconds
        raise TimedOut(f"the job ran longer than {limit} s") from None
    except RetrievalError as error:
        level = "info" if isinstance(error, InvalidJob | NotAuthorised) else "warning"
        _log("job failed", task, started, **run, level=level, error=type(error).__name__, reason=known_reason(error))
        raise error.with_traceback(None) from error.__cause__  # Celery would copy each frame
    except Exception as error:  # noqa: BLE001 -- the wire knows no other errors, and a message may quote a job
        _log("job failed", task, started, **run, level="error", error=type(error).__name__, where=logs.where(error))
        raise InternalError(
            f"unforeseen {type(error).__name__}; the worker's log has the details under this task id"
        ) from None
    _log("job done", task, started, **run, rows=rows, outcome=summary)
    return done


def run_counted(
    metrics: Metrics,
    task: RetrievalTask,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    model: type[JobT],
    answer: Answer[JobT],
    settings: Settings,
    started: float,
    checked: tuple[JobT, JobContext] | None = None,
) -> JobResult:
    """Run a job with `run_job`, and add it to the metrics."""
    outcome = "interrupted"
    answered: dict[str, Any] | None = None

    def keeping(job: JobT, context: JobContext) -> dict[str, Any]:
        nonlocal answered
        answered = answer(job, context)
        return answered

    try:
        done = run_job(task, args, kwargs, model, keeping, settings, started, checked)
        outcome = "ok"
    except (Retry, Reject):
        outcome = "delayed"
        raise
    except RetrievalError as error:
        outcome = type(error).__name__
        raise
    finally:
        metrics.job(task.name, outcome, time.perf_counter() - started, answered)
    return done


def _check(
    task: RetrievalTask, args: tuple[Any, ...], kwargs: dict[str, Any], model: type[JobT], settings: Settings
) -> tuple[JobT, JobContext]:
    """Check a delivery's arguments; see `worker.jobs.context.check_job`."""

    def report(stage: str, done: int, total: int) -> None:
        """Publish the job's progress for the backend or Flower; failures are ignored."""
        with contextlib.suppress(redis.RedisError, kombu.exceptions.OperationalError):
            task.update_state(state="PROGRESS", meta={"stage": stage, "done": done, "total": total})

    return check_job(model, _only_argument(args, kwargs), settings, task.name, task.request.id, report)


def _check_principal(context: JobContext) -> None:
    """Refuse a malformed or forged principal, also of a job that reads nothing for which it needs one.

    Raises:
        InvalidJob, NotAuthorised: it is malformed or forged. Any other that is not accepted is as none.
    """
    try:
        _ = context.caller
    except NotAuthorised as error:
        if error.forged:
            raise


def _only_argument(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs or len(args) != 1:
        raise InvalidJob("expected the job object as the only positional argument, and no keyword arguments")
    if isinstance(args[0], UnreadableBody):
        raise InvalidJob(UNDECODABLE)
    return args[0]


def _check_envelope(task: RetrievalTask) -> None:
    """Refuse headers by which a sender could change how the worker runs."""
    limits = task.request.timelimit
    if limits is not None and limits not in ([None, None], (None, None)):
        raise InvalidJob("expected no such header", "timelimit")
    if task.request.get("compression") is not None:
        raise InvalidJob("expected no such header", "compression")


def _retry_later(task: RetrievalTask, error: Unavailable, settings: Settings) -> Exception:
    """Retry the job later, or return ``error`` once its pauses add up to the longest allowed outage.

    The sum of its pauses is sent with the job: a sender can thereby shorten its remaining time, never extend it.
    """
    rules, waited = settings.worker, _total_pauses(task)
    left = rules.max_outage_seconds - waited
    if left < _LEAST_PAUSE_SECONDS:
        return error
    pause = min(rules.retry_backoff_max_seconds, rules.retry_backoff_seconds * 2.0 ** min(task.request.retries, 30))
    # Jitter, so that a thousand jobs are not retried at the same instant; no result depends on it.
    pause = min(left, pause * random.uniform(0.5, 1.0))  # noqa: S311 -- not a secret
    try:
        again: Exception = task.retry(
            exc=error,
            countdown=pause + _clock_ahead(task),
            throw=False,
            headers={OUTAGE_HEADER: waited + pause},
            argsrepr=summarise(task.request.args),
            kwargsrepr="{}",
        )
    except Reject:  # Celery's way to report that it could not be sent
        again = Reject("the queue's Redis is away", requeue=True)
    return again


def _clock_ahead(task: RetrievalTask) -> float:
    """Return the seconds by which Redis' clock is ahead of this machine's: Celery uses this one, but Redis' decides."""
    return float((task.request.properties or {}).get("clock_ahead", 0.0))


def _total_pauses(task: RetrievalTask) -> float:
    """Return the sum of the job's pauses so far, in seconds; checked by `worker.queue.transport.inspection`."""
    waited = task.request.get(OUTAGE_HEADER)
    return float(waited) if isinstance(waited, int | float) and waited >= 0 else 0.0


def _log(event: str, task: RetrievalTask, started: float, level: str = "info", **fields: Any) -> None:
    """Write one line per job; an invalid job concerns its sender, everything else an operator."""
    getattr(log, level)(
        event,
        task=task.name,
        task_id=task.request.id,
        duration_ms=round((time.perf_counter() - started) * 1000, 2),
        **fields,
    )
