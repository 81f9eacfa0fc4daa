"""Client for Python backends: typed jobs in, typed results out, over Celery and Redis.

    client = Client("redis://localhost:6379/0")
    job = RetrieveTopK(query_embedding=encode_embedding(vector), principal={"user_id": "u1"})
    answer = client.call(job, timeout=10)

Needs neither Postgres nor numpy. A backend in another language sends the same JSON: docs/backends.md.
"""

from __future__ import annotations

import array
import base64
import contextlib
import sys
import time
import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, Union, overload
from urllib.parse import urlsplit

from celery import Celery
from celery.exceptions import TimeoutError as CeleryTimeoutError
from kombu.exceptions import OperationalError
from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from worker import errors
from worker.contract.answers import PipelineAnswer
from worker.contract.base import Answer, AnsweredBy, AnswerT
from worker.contract.feedback import FeedbackRecorded, RecordFeedback
from worker.contract.jobs import (
    Diversity,
    Filters,
    HybridSearch,
    Job,
    Message,
    RetrieveHybrid,
    RetrieveTopK,
    RunPipeline,
    RunRef,
)
from worker.contract.pinned import Citations, Replay, ReplayBatch
from worker.contract.registry import TASKS, task_of
from worker.contract.results import Hybrid, TopK, TopKBatch
from worker.contract.run_jobs import BuildCitations, CitedRun, PinnedReplay, RunName
from worker.core.pins.canonical import canonical_sha256
from worker.errors import InvalidJob, NotAuthorised, RetrievalError, SettingsError, TimedOut, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from celery.result import AsyncResult

    Claims = Mapping[str, Any] | None

__all__ = [
    "Answer",
    "BuildCitations",
    "Citations",
    "CitedRun",
    "Client",
    "Diversity",
    "FeedbackRecorded",
    "Filters",
    "Hybrid",
    "HybridSearch",
    "Message",
    "PinnedReplay",
    "PipelineAnswer",
    "Progress",
    "RecordFeedback",
    "Replay",
    "ReplayBatch",
    "RetrieveHybrid",
    "RetrieveTopK",
    "RunName",
    "RunPipeline",
    "RunRef",
    "Signer",
    "TaskId",
    "TopK",
    "TopKBatch",
    "encode_embedding",
]

# An answer is published once, and stored. A waiting client receives it at once; a lost publication, with its connection
# or before Redis has begun to send, delays it by at most this.
_LOOK_SECONDS = 1.0

# A backend should learn soon that Redis is unavailable; Celery's defaults retry for twenty seconds.
_RETRY_POLICY = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}

# Celery's result backend gives up with a RuntimeError of its own.
_REDIS_FAILS = (OperationalError, RedisError, RuntimeError)

_BROKER, _RESULTS = "broker_url (CELERY_BROKER_URL)", "result_backend (CELERY_RESULT_BACKEND)"


def encode_embedding(values: Iterable[float]) -> str:
    """Encode numbers as base64 of little-endian float32: a quarter of the size of a JSON list."""
    numbers = array.array("f", values)
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

    key: str
    key_id: str
    algorithm: Literal["HS256", "RS256", "EdDSA"] = "HS256"
    audience: str = "retrieval-worker"
    lifetime_seconds: int = 600

    def sign(self, job: Mapping[str, Any], claims: Mapping[str, Any], *, task: str, task_id: str, now: float) -> str:
        """Return a token that allows ``claims`` exactly this job, under this task id, until it expires."""
        import jwt  # noqa: PLC0415 -- only who signs pays for its import

        bound = {
            "exp": int(now) + self.lifetime_seconds,
            "aud": self.audience,
            "task": task,
            "jti": task_id,
            "args_sha256": canonical_sha256(dict(job)),
        }
        return jwt.encode({**claims, **bound}, self.key, self.algorithm, headers={"kid": self.key_id})


class TaskId(str, Generic[AnswerT]):
    """A task's id.

    Attributes:
        job: type of the job sent under it.
    """

    __slots__ = ("job",)
    job: type[Job]

    def __new__(cls, text: str, job: type[Job]) -> Self:
        """Create the id of a job that was sent."""
        made = super().__new__(cls, text)
        made.job = job
        return made


@dataclass(frozen=True)
class Progress:
    """Progress of a job: Celery's state, and the task's stage if reported."""

    state: str
    stage: str | None = None
    done: int | None = None
    total: int | None = None


class Client:
    """A client that sends jobs and reads results until it is closed; then each method raises a RuntimeError.

    Args:
        broker_url: the Redis of the workers' queues.
        result_backend: the Redis of their results; default the broker.
        signer: signs the claims given to `enqueue`.

    Raises:
        ValueError: a URL is not a Redis URL.
    """

    def __init__(self, broker_url: str, result_backend: str | None = None, signer: Signer | None = None) -> None:
        for name, url in (("broker_url", broker_url), ("result_backend", result_backend)):
            if url is not None and not _is_of_redis(url):  # not repeated, because it may hold a password
                raise ValueError(f"{name}: expected a URL like redis://user:password@host:6379/0, or rediss:// for TLS")
        self._signer = signer
        self._closed = False
        self._results_setting = _BROKER if result_backend is None else _RESULTS
        self._app = Celery("retrieval-client", set_as_current=False)
        # Celery prefers CELERY_BROKER_URL and CELERY_RESULT_BACKEND of the environment to its own arguments; a backend
        # that is a Celery app itself has them for its own queue.
        self._app.backend_cls = result_backend or broker_url
        self._app.conf.update(
            broker_read_url=broker_url,
            broker_write_url=broker_url,
            task_serializer="json",
            result_serializer="json",
            accept_content=["json"],
            broker_transport_options={
                "socket_timeout": 5,
                "socket_connect_timeout": 5,
                "socket_keepalive": True,
                "max_retries": 2,
            },
            task_publish_retry_policy=_RETRY_POLICY,
            result_backend_transport_options={"retry_policy": _RETRY_POLICY},
            redis_socket_timeout=5,
            redis_socket_connect_timeout=5,
        )

    def enqueue(
        self,
        job: AnsweredBy[AnswerT],
        *,
        claims: Claims = None,
        task_id: str | None = None,
        expires: float | None = None,
    ) -> TaskId[AnswerT]:
        """Put a job on its queue.

        Args:
            job: the job.
            claims: the caller's claims, to be signed; needs a `Signer`.
            task_id: an id of your own, so that you may send the same job again; default a new one.
            expires: seconds after which no client waits for the answer.

        Returns:
            The task id, a string; it carries the type of the answer for `result`.

        Raises:
            InvalidJob: a field can't be written as JSON. Jobs with wrong fields raise it as they are made.
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user, the password or the command.
        """
        self._check_open()
        if not isinstance(job, Job):
            raise TypeError(f"job: expected a job, got {type(job).__name__}")
        task = task_of(type(job))
        task_id = task_id or str(uuid.uuid4())
        body = _plain(job)
        if claims is not None:
            if self._signer is None:
                raise ValueError("claims: give the Client a Signer, or put a `principal` into the job")
            body["principal_token"] = self._signer.sign(body, claims, task=task.name, task_id=task_id, now=time.time())
        with self._translated_errors(_BROKER):
            self._app.send_task(
                task.name,
                (body,),
                task_id=task_id,
                queue=task.queue,
                expires=expires,
                argsrepr="(job)",
                kwargsrepr="{}",
            )
        return TaskId(task_id, type(job))

    @overload
    def result(self, task_id: TaskId[AnswerT], timeout: float | None = None) -> AnswerT: ...
    @overload
    def result(self, task_id: str, timeout: float | None = None) -> Any: ...
    def result(self, task_id: str, timeout: float | None = None) -> Any:
        """Wait for a job's answer.

        Args:
            task_id: the id from `enqueue`, or an equal string.
            timeout: seconds; None: without limit.

        Raises:
            TimedOut: no answer within ``timeout`` seconds (the job may still be answered).
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password; or the worker is misconfigured.
            RetrievalError: the job failed; the class gives the reason (see `worker.errors`).
            ValueError: `timeout` is not a number of seconds.
        """
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout: expected seconds from 0, or None to wait without limit, got {timeout:g}")
        outcome = self._outcome(task_id, timeout)
        if outcome is None:
            raise self.no_answer(task_id, timeout)
        failed, value = outcome
        if failed or isinstance(value, BaseException):
            raise _as_error(value)
        sent = task_of(task_id.job).name if isinstance(task_id, TaskId) else None
        return _reader(sent).validate_python(value)

    def call(self, job: AnsweredBy[AnswerT], *, claims: Claims = None, timeout: float | None = 30.0) -> AnswerT:
        """Enqueue a job and wait for its answer; after ``timeout`` the job expires.

        Raises:
            ValueError: `timeout` is not a positive number of seconds.
            RetrievalError: as `enqueue` and `result`.
        """
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError(f"timeout: expected more than 0 seconds, or None to wait without limit, got {timeout:g}")
        return self.result(self.enqueue(job, claims=claims, expires=timeout), timeout)

    def progress(self, task_id: str) -> Progress:
        """Return the progress of a job.

        Raises:
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password.
        """
        result = self._result(task_id)
        with self._translated_errors(self._results_setting):
            state, info = result.state, result.info
        if state != "PROGRESS" or not isinstance(info, dict):
            return Progress(state)
        return Progress(state, info.get("stage"), info.get("done"), info.get("total"))

    def no_answer(self, task_id: str, timeout: float | None, queue: str = "") -> TimedOut:
        """Return the error for a missing answer, with the place of the results: workers may store them elsewhere."""
        serves = f"either no worker serves the queue {queue}" if queue else "either no worker has answered it"
        return TimedOut(
            f"no answer within {timeout:g} s in the results at {self.results_place}: {serves}, or the workers store "
            "results elsewhere: compare this with their CELERY_RESULT_BACKEND (default: CELERY_BROKER_URL). "
            f"A worker may still answer it, under the task id {task_id}"
        )

    @property
    def results_place(self) -> str:
        """Address and database of the results that this client reads, without user and password."""
        where = self._app.backend.connparams
        address = where.get("path") or f"{where.get('host')}:{where.get('port')}"
        return f"{address}, database {where.get('db', 0)}"

    def forget(self, task_id: str) -> None:
        """Delete a job's result before it expires.

        Raises:
            NotAuthorised: this user of Redis may not (config/redis allows it only to the administrator).
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password.
        """
        result = self._result(task_id)
        with self._translated_errors(self._results_setting):
            try:
                result.forget()
            except NoPermissionError:
                raise NotAuthorised("this user of Redis may not delete results: they expire by themselves") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to Redis, as leaving its `with` block does; a closed client stays closed."""
        if self._closed:
            return
        self._closed = True
        consumer = getattr(self._app.backend, "result_consumer", None)
        if consumer is not None:
            consumer.stop()
            # A result that is garbage-collected later would reconnect to unsubscribe.
            consumer.subscribed_to.clear()
        self._app.close()

    def _outcome(self, task_id: str, timeout: float | None) -> tuple[bool, Any] | None:
        """Wait for a job: whether it failed, and its result; None after the timeout."""
        result = self._result(task_id)
        try:
            with self._translated_errors(self._results_setting):
                value = _wait(result, timeout)
        except CeleryTimeoutError:
            # Celery would keep the result, and complain of it when the interpreter ends.
            with contextlib.suppress(RedisError, OSError):
                self._app.backend.remove_pending_result(result)
            return None
        return result.failed(), value

    def _result(self, task_id: str) -> AsyncResult[Any]:
        self._check_open()
        return self._app.AsyncResult(task_id)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed: make another one")

    @contextlib.contextmanager
    def _translated_errors(self, setting: str) -> Iterator[None]:
        """Translate errors of Redis and Celery to the worker's; `setting` names the Redis that is contacted first."""
        try:
            yield
        except _REDIS_FAILS as error:
            # Celery's own: the results' Redis, contacted before the broker, stays unavailable.
            asked = self._results_setting if isinstance(error, RuntimeError) else setting
            raise _failure(error, asked) from None


_SCHEMES = ("redis", "rediss", "redis+socket", "unix", "memory", "cache+memory")
"""URL schemes of a client: Redis; and in-process ones, for tests of a backend."""


def _is_of_redis(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in _SCHEMES


def _plain(job: Job) -> dict[str, Any]:
    """Return a job as JSON, with the fields that were given."""
    try:
        return job.model_dump(mode="json", exclude_unset=True)
    except PydanticSerializationError:
        raise _not_json(job) from None


def _not_json(job: Job) -> InvalidJob:
    """Return the error that names the first field that is not JSON, for example an array of numpy."""
    for name in type(job).model_fields:
        try:
            job.model_dump(mode="json", exclude_unset=True, include={name})
        except PydanticSerializationError:
            numbers = ": a list of numbers, or encode_embedding(numbers)" if name.startswith("query_embedding") else ""
            return InvalidJob(f"expected plain JSON{numbers}", name)
    return InvalidJob("expected plain JSON")


def _failure(error: BaseException, setting: str) -> RetrievalError:
    """Return `Unavailable` if Redis does not answer, which is transient, else the error of its refusal."""
    causes = [*_chain(error)]
    if any(isinstance(cause, AuthenticationError) for cause in causes):
        return SettingsError(
            f"{setting}: Redis refuses this user or password. Check both against users.acl of that Redis"
        )
    if any(isinstance(cause, NoPermissionError) for cause in causes):
        return SettingsError(
            f"{setting}: this Redis user lacks a backend's permissions. Connect as a user with those of producer "
            "in config/redis/users.acl (docs/redis.md)"
        )
    return Unavailable(f"{setting}: Redis is away")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _wait(result: AsyncResult[Any], timeout: float | None) -> Any:
    """Wait for a job's result, published or stored; the stored one is polled at intervals."""
    until = float("inf") if timeout is None else time.monotonic() + timeout
    while True:
        left = until - time.monotonic()
        try:
            return result.get(timeout=max(0.0, min(left, _LOOK_SECONDS)), propagate=False)
        except CeleryTimeoutError:
            if left <= 0:
                raise


@cache
def _reader(task_name: str | None) -> TypeAdapter[Any]:
    """Return the reader of a task's answers; without a name that of all tasks, by the first type that fits."""
    kinds = tuple(task.answer for task in TASKS if task_name in {None, task.name})
    union: Any = Union[kinds]  # noqa: UP007 -- the types are known only at run time
    return TypeAdapter(union)


def _as_error(value: object) -> Exception:
    """Return a failure of the worker as an error of the class that it names."""
    kind = getattr(errors, type(value).__name__, None)
    if isinstance(value, errors.RetrievalError):
        return value
    if isinstance(kind, type) and issubclass(kind, errors.RetrievalError):
        return kind(str(value))
    return errors.InternalError(f"the job failed ({type(value).__name__})")
