"""The outcome of a job: a function of the job, the code that answers it and the settings.

Nothing here knows Celery's tasks, requests or backend.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import kombu.exceptions
import redis
from celery.exceptions import SoftTimeLimitExceeded

from retrieval_client.contract.jobs import Job
from retrieval_client.contract.registry import TASKS
from retrieval_client.errors import InternalError, InvalidJob, NotAuthorised, RetrievalError, TimedOut, Unavailable
from worker.adapters import logs
from worker.jobs import drift
from worker.jobs.context import JobContext, check_job
from worker.jobs.drift import VERIFY_RUNS
from worker.queue import time_limit
from worker.queue.broker.inspection import ONE_JOB
from worker.queue.codec import JobResult
from worker.queue.summaries import known_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from retrieval_client.contract.base import JobT
    from worker.jobs.context import Report
    from worker.queue.broker.inspection import DeliveredJob
    from worker.queue.metrics import Metrics
    from worker.queue.together import AnsweredJob, AnsweredTogether
    from worker.settings import Settings

    Answer: TypeAlias = Callable[[JobT, JobContext], dict[str, Any]]

log = logs.logger("worker.tasks")

_LEAST_PAUSE_SECONDS = 0.001
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 30.0
"""Pauses before a job is tried again: each twice the one before, and the longest is what an outage's end may cost."""

_MODULES = {task.name: import_module(task.module) for task in TASKS} | {VERIFY_RUNS: drift}
"""Module of each task by name; see `contract.registry.Task.module`."""


class Outcome(NamedTuple):
    """End of one try of a job.

    Attributes:
        state: as Celery calls it. ``RETRY``: a server is unavailable, for less than the longest outage so far.
        result: the answer, or the error for the job's sender.
        pause: seconds until a retry.
    """

    state: Literal["SUCCESS", "FAILURE", "RETRY"]
    result: JobResult | RetrievalError
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Answers:
    """Finds the outcomes of jobs of all tasks, and counts them.

    Attributes:
        tasks: type of job, and what answers one, by the task's name.
        settings: the worker's settings.
        metrics: counts jobs, once it is started.
        together: answers jobs of a bundle.
    """

    tasks: Mapping[str, tuple[type[Any], Answer[Any]]]
    settings: Settings
    metrics: Metrics
    together: AnsweredTogether

    def outcome(
        self,
        job: DeliveredJob,
        started: float,
        report: Report = lambda *_: None,
        answered: AnsweredJob | None = None,
    ) -> Outcome:
        """Return a job's outcome; any error is one of the contract, anything unforeseen an `InternalError`.

        `started` is when it began, by `time.perf_counter`; `answered` is its answer, if it was answered with others.
        """
        model, answer = self.tasks[job.task]
        started -= answered.seconds if answered else 0.0
        counted = "interrupted"
        result: dict[str, Any] | None = None

        def keeping(parsed: Any, context: JobContext) -> dict[str, Any]:
            nonlocal result
            result = answered.answer if answered else answer(parsed, context)
            return result

        try:
            checked = answered.checked if answered else None
            outcome = _outcome_of(job, model, keeping, self.settings, started, checked, report)
            counted = {"SUCCESS": "ok", "RETRY": "delayed"}.get(outcome.state, type(outcome.result).__name__)
        finally:
            self.metrics.job(job.task, counted, time.perf_counter() - started, result)
        return outcome


def _outcome_of(
    job: DeliveredJob,
    model: type[JobT],
    answer: Answer[JobT],
    settings: Settings,
    started: float,
    checked: tuple[JobT, JobContext] | None,
    report: Report,
) -> Outcome:
    """Check and answer one job, unless it was checked before, and write one log line."""
    run: dict[str, str] = {}
    try:
        with time_limit.Interruptible():
            parsed, context = checked or check_job(model, _only_argument(job), settings, job.task, job.id, report)
            run = {"run_id": parsed.run.run_id} if isinstance(parsed, Job) and parsed.run is not None else {}
            _check_principal(context)
            result = answer(parsed, context)
            rows, summary = _MODULES[job.task].summary(result)
            job_result = JobResult(result, f"<{job.task} {summary}>")
    except Unavailable as error:
        _log("job delayed", job, started, **run, level="warning", error="Unavailable", reason=error.message)
        return _retry_or_failure(job, error, settings)
    except (redis.RedisError, kombu.exceptions.OperationalError) as error:
        _log("job delayed", job, started, **run, level="warning", error=type(error).__name__)
        is_full = isinstance(error, redis.OutOfMemoryError)
        return _retry_or_failure(job, Unavailable(f"Redis is {'full' if is_full else 'away'}"), settings)
    except SoftTimeLimitExceeded:
        _log("job failed", job, started, **run, level="warning", error="TimedOut")
        return Outcome("FAILURE", TimedOut("the job ran longer than its time limit"))
    except RetrievalError as error:
        level = "info" if isinstance(error, InvalidJob | NotAuthorised) else "warning"
        _log("job failed", job, started, **run, level=level, error=type(error).__name__, reason=known_reason(error))
        return Outcome("FAILURE", error)
    except Exception as error:  # noqa: BLE001 -- the wire knows no other errors, and a message may quote a job
        _log("job failed", job, started, **run, level="error", error=type(error).__name__, where=logs.where(error))
        sentence = f"unforeseen {type(error).__name__}; the worker's log has the details under this task id"
        return Outcome("FAILURE", InternalError(sentence))
    _log("job done", job, started, **run, rows=rows, outcome=summary)
    return Outcome("SUCCESS", job_result)


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


def _only_argument(job: DeliveredJob) -> Any:
    if job.kwargs or len(job.args) != 1:
        raise InvalidJob(ONE_JOB)
    return job.args[0]


def _retry_or_failure(job: DeliveredJob, error: Unavailable, settings: Settings) -> Outcome:
    """Retry the job later; fail once its pauses add up to the longest allowed outage.

    Their sum is sent with the job: a sender can thereby shorten its remaining time, never extend it.
    """
    seconds_left = settings.worker.max_outage_seconds - job.pauses
    if seconds_left < _LEAST_PAUSE_SECONDS:
        return Outcome("FAILURE", error)
    pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(job.retries, 30))
    # Jitter, so that a thousand jobs are not retried at the same instant; no result depends on it.
    return Outcome("RETRY", error, min(seconds_left, pause * random.uniform(0.5, 1.0)))  # noqa: S311 -- not a secret


def _log(event: str, job: DeliveredJob, started: float, level: str = "info", **fields: Any) -> None:
    """Write one line per job; an invalid job concerns its sender, everything else an operator."""
    duration_ms = round((time.perf_counter() - started) * 1000, 2)
    getattr(log, level)(event, task=job.task, task_id=job.id, duration_ms=duration_ms, **fields)
