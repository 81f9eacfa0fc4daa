"""For Python backends: typed jobs in, typed results out, over Celery and Redis.

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
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError

from worker import errors
from worker.contract import (
    BuildCitations,
    Citations,
    CitedRun,
    Diversity,
    Filters,
    Hybrid,
    HybridSearch,
    Job,
    Message,
    PinnedReplay,
    PipelineAnswer,
    Replay,
    ReplayBatch,
    RetrieveHybrid,
    RetrieveTopK,
    RunName,
    RunPipeline,
    RunRef,
    TopK,
    TopKBatch,
)
from worker.contract.base import Answer, AnsweredBy, AnswerT
from worker.contract.registry import TASKS, task_of
from worker.core.pins.canonical import canonical_sha256
from worker.errors import NotAuthorised, RetrievalError, SettingsError, TimedOut, Unavailable

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
    "Filters",
    "Hybrid",
    "HybridSearch",
    "Message",
    "PinnedReplay",
    "PipelineAnswer",
    "Progress",
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

# An answer is published once, and stored. Whoever waits hears of it at once; a publication that is lost, with its
# connection or before Redis has begun to send, costs no more than this.
_LOOK_SECONDS = 1.0

# A backend wants to hear soon that Redis is away; Celery's defaults try for twenty seconds.
_RETRY_POLICY = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}

# Celery's result backend gives up with a RuntimeError of its own.
_REDIS_FAILS = (OperationalError, RedisError, RuntimeError)

_BROKER, _RESULTS = "broker_url (CELERY_BROKER_URL)", "result_backend (CELERY_RESULT_BACKEND)"


def encode_embedding(values: Iterable[float]) -> str:
    """768 numbers as base64 of little-endian float32: a quarter of the size of a JSON list."""
    numbers = array.array("f", values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()


@dataclass(frozen=True)
class Signer:
    """Signs who asks, bound to one job: for workers that do not trust their queue.

    Attributes:
        key: the secret (HS256) or private key in PEM (RS256, EdDSA).
        key_id: which of the worker's ``token_keys`` checks it.
        algorithm: HS256, RS256 or EdDSA.
        audience: as in the worker's settings.
        lifetime_seconds: how long the token may wait in the queue.
    """

    key: str
    key_id: str
    algorithm: Literal["HS256", "RS256", "EdDSA"] = "HS256"
    audience: str = "retrieval-worker"
    lifetime_seconds: int = 600

    def sign(self, job: Mapping[str, Any], claims: Mapping[str, Any], *, task: str, task_id: str, now: float) -> str:
        """A token that lets ``claims`` ask exactly this job, under this task id, until it expires."""
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
        job: type of the job that was sent under it.
    """

    __slots__ = ("job",)
    job: type[Job]

    def __new__(cls, text: str, job: type[Job]) -> Self:
        """An id of a job that was sent."""
        made = super().__new__(cls, text)
        made.job = job
        return made


@dataclass(frozen=True)
class Progress:
    """Where a job is: Celery's state, and what the task says of its stage if it says so."""

    state: str
    stage: str | None = None
    done: int | None = None
    total: int | None = None


class Client:
    """Sends jobs and reads results, until it is closed; then each of its methods raises a RuntimeError.

    Args:
        broker_url: the Redis that the workers listen on.
        result_backend: where they put results; default the broker.
        signer: signs the claims given to `enqueue`.

    Raises:
        ValueError: a URL is not one of Redis.
    """

    def __init__(self, broker_url: str, result_backend: str | None = None, signer: Signer | None = None) -> None:
        for name, url in (("broker_url", broker_url), ("result_backend", result_backend)):
            if url is not None and not _is_of_redis(url):  # it is not repeated, because it may hold a password
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
            job: what to do.
            claims: who asks, to be signed; needs a `Signer`.
            task_id: an id of your own, so that you may send the same job again; default a new one.
            expires: seconds after which nobody waits for the answer any more.

        Returns:
            The task id, a string; `result` knows by it what the job is answered with.

        Raises:
            Unavailable: Redis is away.
            SettingsError: Redis refuses the user, the password or what is done with them.
        """
        self._check_open()
        if not isinstance(job, Job):
            raise TypeError(f"job: expected a job, got {type(job).__name__}")
        task = task_of(type(job))
        task_id = task_id or str(uuid.uuid4())
        body = job.model_dump(mode="json", exclude_unset=True)
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
            task_id: as `enqueue` gave it; or the same characters, where they were kept elsewhere.
            timeout: seconds; None: for ever.

        Raises:
            TimedOut: there is none within ``timeout`` seconds (the job may still be answered).
            Unavailable: Redis is away.
            SettingsError: Redis refuses the user or the password; or the worker is set up wrongly.
            RetrievalError: the job failed; the class says why (see `worker.errors`).
            ValueError: `timeout` is not a number of seconds.
        """
        result = self._result(task_id)
        if timeout is not None and not timeout >= 0:
            raise ValueError(f"timeout: expected seconds from 0, or None to wait for ever, got {timeout:g}")
        try:
            with self._translated_errors(self._results_setting):
                value = _wait(result, timeout)
        except CeleryTimeoutError:
            raise self.no_answer(timeout) from None
        if result.failed() or isinstance(value, BaseException):
            raise _as_error(value)
        sent = task_of(task_id.job).name if isinstance(task_id, TaskId) else None
        return _reader(sent).validate_python(value)

    def call(self, job: AnsweredBy[AnswerT], *, claims: Claims = None, timeout: float | None = 30.0) -> AnswerT:
        """Enqueue a job and wait for its answer; a job nobody waits for any more expires.

        Raises:
            ValueError: `timeout` is no time that a job could be answered in.
            RetrievalError: as `enqueue` and `result`.
        """
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError(f"timeout: expected more than 0 seconds, or None to wait for ever, got {timeout:g}")
        return self.result(self.enqueue(job, claims=claims, expires=timeout), timeout)

    def progress(self, task_id: str) -> Progress:
        """Where a job is now.

        Raises:
            Unavailable: Redis is away.
            SettingsError: Redis refuses the user or the password.
        """
        result = self._result(task_id)
        with self._translated_errors(self._results_setting):
            state, info = result.state, result.info
        if state != "PROGRESS" or not isinstance(info, dict):
            return Progress(state)
        return Progress(state, info.get("stage"), info.get("done"), info.get("total"))

    def no_answer(self, timeout: float | None, queue: str = "") -> TimedOut:
        """What to raise where none came, with the place that was looked at: workers may store results elsewhere."""
        serves = f"either no worker serves the queue {queue}" if queue else "either no worker has answered it"
        return TimedOut(
            f"no answer within {timeout:g} s in the results at {self.results_place}: {serves}, or the workers store "
            "results elsewhere: compare this with their CELERY_RESULT_BACKEND (default: CELERY_BROKER_URL)"
        )

    @property
    def results_place(self) -> str:
        """Address and database of the results that this client reads; nothing of a user or a password."""
        where = self._app.backend.connparams
        address = where.get("path") or f"{where.get('host')}:{where.get('port')}"
        return f"{address}, database {where.get('db', 0)}"

    def forget(self, task_id: str) -> None:
        """Delete a job's result before it expires by itself.

        Raises:
            NotAuthorised: this user of Redis may not (config/redis lets none but the administrator).
            Unavailable: Redis is away.
            SettingsError: Redis refuses the user or the password.
        """
        result = self._result(task_id)
        with self._translated_errors(self._results_setting):
            try:
                result.forget()
            except NoPermissionError:
                raise NotAuthorised("this user of Redis may not delete results: they expire by themselves") from None

    def close(self) -> None:
        """Close the connections to Redis for good; a client that is closed already stays so."""
        if self._closed:
            return
        self._closed = True
        consumer = getattr(self._app.backend, "result_consumer", None)
        if consumer is not None:
            consumer.stop()
            # A result that is collected as garbage later would connect again, to unsubscribe.
            consumer.subscribed_to.clear()
        self._app.close()

    def _result(self, task_id: str) -> AsyncResult[Any]:
        self._check_open()
        return self._app.AsyncResult(task_id)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the client is closed: make another one")

    @contextlib.contextmanager
    def _translated_errors(self, setting: str) -> Iterator[None]:
        """Raise what Redis and Celery raise as ours; `setting` says where the Redis is that is asked first."""
        try:
            yield
        except _REDIS_FAILS as error:
            # Celery's own: the results' Redis stays away, which it is asked about before the broker.
            asked = self._results_setting if isinstance(error, RuntimeError) else setting
            raise _failure(error, asked) from None


_SCHEMES = ("redis", "rediss", "redis+socket", "unix", "memory", "cache+memory")
"""What a client connects to: Redis; and within the process, for tests of a backend."""


def _is_of_redis(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in _SCHEMES


def _failure(error: BaseException, setting: str) -> RetrievalError:
    """Say whether Redis is away, which passes, or refuses the client, which does not."""
    causes = [*_chain(error)]
    if any(isinstance(cause, AuthenticationError) for cause in causes):
        return SettingsError(
            f"{setting}: Redis refuses this user or password. Check both against users.acl of that Redis"
        )
    if any(isinstance(cause, NoPermissionError) for cause in causes):
        return SettingsError(
            f"{setting}: this Redis user may not do what a backend does. Connect as a user with the rights of producer "
            "in config/redis/users.acl (docs/operations.md)"
        )
    return Unavailable("Redis is away")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _wait(result: AsyncResult[Any], timeout: float | None) -> Any:
    """What a job ended with, as soon as it is published; what is stored is looked at now and then, too."""
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
    """Reads a task's answers; without a name those of all tasks, as the first type that an answer fits."""
    kinds = tuple(task.answer for task in TASKS if task_name in {None, task.name})
    union: Any = Union[kinds]  # noqa: UP007 -- the types are known when this runs
    return TypeAdapter(union)


def _as_error(value: object) -> Exception:
    """A failure of the worker as the class that it names."""
    kind = getattr(errors, type(value).__name__, None)
    if isinstance(value, errors.RetrievalError):
        return value
    if isinstance(kind, type) and issubclass(kind, errors.RetrievalError):
        return kind(str(value))
    return errors.InternalError(f"the job failed ({type(value).__name__})")
