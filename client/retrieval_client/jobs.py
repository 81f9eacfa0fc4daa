"""The part that both clients share: jobs to messages, records to answers; nothing here speaks to Redis."""

from __future__ import annotations

import array
import asyncio
import base64
import contextlib
import math
import os
import sys
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Literal, Union

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import Self

from retrieval_client import errors
from retrieval_client.canonical import canonical_sha256
from retrieval_client.connection import BROKER, RESULTS, check_urls, translated
from retrieval_client.contract.base import LEAST_SECRET_BYTES, AnswerT
from retrieval_client.contract.jobs import Job
from retrieval_client.contract.message import ENDED, Record, compose, read_record
from retrieval_client.contract.registry import TASKS, task_of
from retrieval_client.errors import InvalidJob, RetrievalError, TimedOut, Unavailable, as_error, printable
from retrieval_client.json_values import path_of_large

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Claims = Mapping[str, Any] | None


def encode_embedding(values: Iterable[float]) -> str:
    """Encode numbers as base64 of little-endian float32: a quarter of the size of a JSON list.

    Raises:
        InvalidJob: it is not one list of numbers, or one is not finite as a float32.
    """
    try:
        numbers = array.array("f", values)
    except TypeError:
        raise InvalidJob("expected one list of numbers", "query_embedding") from None
    if not all(map(math.isfinite, numbers)):
        raise InvalidJob("expected finite numbers", "query_embedding")
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


@dataclass(frozen=True)
class Signer:
    """A signer of the caller's claims, bound to one job: for workers that do not trust their queue.

    Attributes:
        key: the secret (HS256) or private key in PEM (RS256, EdDSA).
        key_id: name of the key among the worker's ``token_keys``.
        algorithm: HS256, RS256 or EdDSA.
        audience: the audience in the worker's settings.
        lifetime_seconds: lifetime of the token, which includes the wait in the queue.
    """

    key: str = field(repr=False)
    key_id: str
    algorithm: Literal["HS256", "RS256", "EdDSA"] = "HS256"
    audience: str = "retrieval-worker"
    lifetime_seconds: int = 600

    def sign(self, job: Mapping[str, Any], claims: Mapping[str, Any], *, task: str, task_id: str, now: float) -> str:
        """Return a token that allows ``claims`` exactly this job, under this task id, until it expires.

        Raises:
            ValueError: the key is none of the algorithm, or a secret too short for a worker to take.
            InvalidJob: an integer beyond 2^53, which no signature distinguishes from its neighbour.
        """
        import jwt  # noqa: PLC0415 -- only who signs pays for its import

        if not isinstance(self.key, str):  # unchecked callers: a variable of the environment that is not set is None
            raise ValueError(f"key: expected text, got {type(self.key).__name__}")  # noqa: TRY004 -- as of wrong text
        if self.algorithm == "HS256" and len(self.key.strip().encode()) < LEAST_SECRET_BYTES:
            raise ValueError(f"key: expected a secret of at least {LEAST_SECRET_BYTES} bytes (openssl rand -base64 32)")
        try:
            digest = canonical_sha256(dict(job))
        except ValueError as error:
            raise InvalidJob(str(error), path_of_large(dict(job))) from None
        bound = {
            "exp": int(now) + self.lifetime_seconds,
            "aud": self.audience,
            "task": task,
            "jti": task_id,
            "args_sha256": digest,
        }
        try:
            return jwt.encode({**claims, **bound}, self.key, self.algorithm, headers={"kid": self.key_id})
        except (jwt.PyJWTError, NotImplementedError):
            raise ValueError(f"key: expected a key of {self.algorithm}, which is HS256, RS256 or EdDSA") from None


LONGEST_SECONDS = 1e9
"""Longest time after which a job may expire: dates end in the year 9999."""
LONGEST_ID = 512
"""Most characters of a task id, as shipped workers take it."""


class TaskId(str, Generic[AnswerT]):
    """A task's id.

    Attributes:
        job: type of the job sent under it.
    """

    __slots__ = ("job",)
    job: type[Job]

    def __new__(cls, text: str, job: type[Job]) -> Self:
        """Create the id of a job that was sent."""
        task_id = super().__new__(cls, text)
        task_id.job = job
        return task_id


@dataclass(frozen=True)
class Progress:
    """Progress of a job: Celery's state, and the task's stage if reported."""

    state: str
    stage: str | None = None
    done: int | None = None
    total: int | None = None

    @property
    def ended(self) -> bool:
        """True if the state is final."""
        return self.state in ENDED


@dataclass(frozen=True)
class Outcome(Generic[AnswerT]):
    """How a job ended: with an answer or an error.

    Attributes:
        task_id: its id.
        answer: the answer, or None.
        error: the reason why there is none, or None.
        ended: False if no answer came in time; one may still come.
    """

    task_id: str
    answer: AnswerT | None = None
    error: RetrievalError | None = None
    ended: bool = True

    def get(self) -> AnswerT:
        """Return the answer, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.answer  # type: ignore[return-value] # one of the two is there


@dataclass(frozen=True)
class OutgoingJob:
    """A job that is ready to be sent.

    Attributes:
        task_id: its id.
        queue: the list that it is pushed to.
        message: what is pushed.
    """

    task_id: str
    queue: str
    message: str


class BaseClient:
    """A client without its connections: several threads may share a `Client`, an `AsyncClient` is for one event loop.

    Args:
        broker_url: the Redis of the workers' queues.
        result_backend: the Redis of their results; default the broker.
        signer: signs the claims given to `enqueue`.

    Attributes:
        signer: as given.
        queues_place: address and database of the queues, without user and password.
        results_place: the same of the results that this client reads.

    Raises:
        ValueError: a URL is not a Redis URL.
    """

    queues_place: str
    results_place: str

    @classmethod
    def from_env(cls, signer: Signer | None = None) -> Self:
        """Make a client of the URLs in CELERY_BROKER_URL and, if it is set, CELERY_RESULT_BACKEND.

        Raises:
            ValueError: the first is not set, or one is not a Redis URL.
        """
        broker_url = os.environ.get("CELERY_BROKER_URL")
        if not broker_url:
            raise ValueError("CELERY_BROKER_URL: expected the Redis URL of the workers' queues, got none")
        return cls(broker_url, os.environ.get("CELERY_RESULT_BACKEND") or None, signer)

    def __init__(self, broker_url: str, result_backend: str | None = None, signer: Signer | None = None) -> None:
        check_urls(broker_url, result_backend)
        self.signer = signer
        self._closed = False
        self._has_reached_results = False
        self._reads_where_workers_store = False
        self._results_setting = BROKER if result_backend is None else RESULTS

    def no_answer(self, task_id: str, timeout: float | None, queue: str = "") -> TimedOut:
        """Return the error for a missing answer, with the place of the results: workers may store them elsewhere."""
        serves = f"either no worker serves the queue {queue}" if queue else "either no worker has answered it"
        error = TimedOut(
            f"no answer within {timeout:g} s in the results at {self.results_place}: {serves}, or the workers store "
            "results elsewhere: compare this with their CELERY_RESULT_BACKEND (default: CELERY_BROKER_URL). "
            f"A worker may still answer it, under the task id {task_id}"
        )
        error.task_id = task_id
        return error

    def _away(self, task_id: str) -> Unavailable:
        """Return the error for a wait that ended while the results' Redis was away."""
        away = Unavailable(
            f"{self._results_setting}: Redis is away ({self.results_place}). A worker may still answer the job, under "
            f"the task id {task_id}"
        )
        away.task_id = task_id
        return away

    def _check_stored(self, task_id: str, stored: Record) -> None:
        """Check that what a worker published is stored where this client reads: Redis publishes to all its databases.

        Raises:
            SettingsError: it is not.
        """
        if not stored.ended:
            raise errors.SettingsError(
                f"{self._results_setting}: the answer of the job {task_id} was published, and is not stored at "
                f"{self.results_place}: workers store results elsewhere. Compare this with their CELERY_RESULT_BACKEND "
                "(default: CELERY_BROKER_URL)"
            )
        self._reads_where_workers_store = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed: make another one")

    @contextlib.contextmanager
    def _reaching(self, setting: str, task_id: str | None = None) -> Iterator[None]:
        """Speak to the Redis of a setting, about a job; its errors are translated.

        Closing a client takes its connections away from those who use them, and what they meet then may come from
        anywhere inside redis-py: they are told that the client is closed. A cancellation is heeded that redis-py
        loses: its `asyncio.wait_for` does so, until Python 3.12, if it comes together with the end of a write.
        """
        self._check_open()
        earlier_cancellations = _cancellations()
        try:
            with translated(setting, self.queues_place if setting == BROKER else self.results_place):
                yield
        except Exception as error:
            self._check_open()
            if isinstance(error, Unavailable):
                error.task_id = task_id
            raise
        if _cancellations() > earlier_cancellations:
            raise asyncio.CancelledError

    def _composed(self, job: Job, claims: Claims, task_id: str, expires: float | None) -> OutgoingJob:
        """Return the message of a job, signed."""
        self._check_open()
        task, body = task_of(type(job)), signed(job, claims, self.signer, task_id)
        until = None if expires is None else (datetime.now(timezone.utc) + timedelta(seconds=expires)).isoformat()
        return OutgoingJob(task_id, task.queue, compose(task, task_id, body, until))

    def _outcome(self, task_id: str, record: Record) -> Outcome[Any]:
        """Return how a job ended."""
        try:
            return Outcome(task_id, answer=self._answer(task_id, record))
        except RetrievalError as error:
            return Outcome(task_id, error=error)

    def _open(self, task_id: str, timeout: float | None, *, is_away: bool) -> Outcome[Any]:
        """Return the outcome of a job that has not ended in time, perhaps because Redis is away."""
        error = self._away(task_id) if is_away else self.no_answer(task_id, timeout)
        return Outcome(task_id, error=error, ended=False)

    def _answer(self, task_id: str, record: Record | None, timeout: float | None = None) -> Any:
        """Return the answer of a job, or raise its failure."""
        if record is None:
            raise self.no_answer(task_id, timeout)
        if record.state != "SUCCESS":
            raise as_error(record.result)
        task_name = task_of(task_id.job).name if isinstance(task_id, TaskId) else None
        try:
            return reader_of(task_name).validate_python(record.result)
        except (ValidationError, RecursionError):
            raise errors.InternalError("the answer in the record of this job is none of its task") from None


def _cancellations() -> int:
    """Return how often the current task was cancelled; 0 outside of tasks, and in Python 3.10, which does not count."""
    try:
        return getattr(asyncio.current_task(), "cancelling", int)()
    except RuntimeError:  # no event loop runs in this thread
        return 0


def progress_of(record: Record) -> Progress:
    """Return the progress that a record tells."""
    if record.state != "PROGRESS" or not isinstance(record.result, dict):
        return Progress(printable(record.state))
    stage, *counts = (record.result.get(name) for name in ("stage", "done", "total"))
    finished_stages, total = (count if isinstance(count, int) else None for count in counts)
    return Progress(record.state, printable(stage) if isinstance(stage, str) else None, finished_stages, total)


def is_news(progress: Progress, previous_progress: Progress | None) -> bool:
    """Return whether progress is later than that before: what was published may be heard after what was looked at."""
    if previous_progress is None or previous_progress.state != "PROGRESS":
        return progress != previous_progress
    if progress.state == "PROGRESS":
        return progress != previous_progress and (progress.done or 0) >= (previous_progress.done or 0)
    return progress.state not in {"PENDING", "STARTED"}


def new_id(job: Job, task_id: str | None = None) -> TaskId[Any]:
    """Return the id of a job to send: a given one, or a new one.

    Raises:
        InvalidJob: a worker would refuse the id.
    """
    if task_id is not None and not (0 < len(task_id) <= LONGEST_ID and task_id.isprintable()):
        raise InvalidJob(f"expected 1 to {LONGEST_ID} printable characters", "task_id")
    return TaskId(task_id or str(uuid.uuid4()), type(job))


def check_wait(timeout: float | None) -> None:
    """Check how long to wait for a result.

    Raises:
        ValueError: not a number of seconds.
    """
    if timeout is not None and not (_is_number(timeout) and timeout >= 0):
        raise ValueError(f"timeout: expected seconds from 0, or None to wait without limit, got {timeout!r}")


def check_expiry(timeout: float | None) -> None:
    """Check after how long a job expires.

    Raises:
        ValueError: not a positive number of seconds.
    """
    if timeout is not None and not (_is_number(timeout) and 0 < timeout <= LONGEST_SECONDS):
        raise ValueError(f"timeout: expected more than 0 seconds, or None to wait without limit, got {timeout!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_job(job: object) -> Job:
    """Return a job as its type.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(job, Job):
        raise TypeError(f"job: expected a job, got {type(job).__name__}")
    return job


def signed(job: Job, claims: Claims, signer: Signer | None, task_id: str) -> dict[str, Any]:
    """Return a job as JSON, with a token for the caller's claims if there are any.

    Raises:
        InvalidJob: a field can't be written as JSON.
        ValueError: there are claims and nobody to sign them.
    """
    body = _checked(job)
    if claims is not None:
        if signer is None:
            raise ValueError("claims: give the client a Signer, or put a `principal` into the job")
        task = task_of(type(job)).name
        body["principal_token"] = signer.sign(body, claims, task=task, task_id=task_id, now=time.time())
    return body


def _plain(job: Job, only: set[str] | None = None) -> dict[str, Any]:
    """Return a job as JSON, with the fields that were given."""
    return job.model_dump(mode="json", exclude_unset=True, include=only)


def _checked(job: Job) -> dict[str, Any]:
    """Return a job as JSON; an error names the first field that is none, for example an array of numpy."""
    try:
        return _plain(job)
    except PydanticSerializationError:
        name = next((name for name in type(job).model_fields if not _is_plain(job, name)), "")
        numbers = ": a list of numbers, or encode_embedding(numbers)" if name.startswith("query_embedding") else ""
        raise InvalidJob(f"expected plain JSON{numbers}", name) from None


def _is_plain(job: Job, name: str) -> bool:
    try:
        _plain(job, {name})
    except PydanticSerializationError:
        return False
    return True


def record_of(stored: bytes | str | None) -> Record:
    """Read a record; what is none is the failure of its job alone."""
    try:
        return read_record(stored)
    except (ValueError, RecursionError):
        message = "the record of this job is no record of a worker"
        return Record("FAILURE", {"exc_type": "InternalError", "exc_message": [message]})


@cache
def reader_of(task_name: str | None) -> TypeAdapter[Any]:
    """Return the reader of a task's answers; without a name that of all tasks, by the first type that fits."""
    kinds = tuple(task.answer for task in TASKS if task_name in {None, task.name})
    union: Any = Union[kinds]  # noqa: UP007 -- the types are known only at run time
    return TypeAdapter(union)
