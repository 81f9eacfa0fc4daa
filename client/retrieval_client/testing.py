"""Clients for tests of a backend: they answer every task from the contract's examples, without Redis or a worker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from retrieval_client.asynchronous import AsyncClient
from retrieval_client.blocking import Client
from retrieval_client.contract.message import record_key
from retrieval_client.contract.registry import task_of
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob, NotAuthorised, RetrievalError
from retrieval_client.jobs import BaseClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from retrieval_client.contract.base import Answer
    from retrieval_client.contract.jobs import Job
    from retrieval_client.jobs import Claims, OutgoingJob, Signer

    Reply = Answer | RetrievalError
    Replies = Mapping[type[Job], Reply | Callable[[Any], Reply]]

_URL = "redis://no-redis.invalid/0"
DIMENSIONS = 768
"""Dimensions of a corpus of the settings as shipped."""
_PAUSE = 0.05
"""Seconds between two looks for an answer that nobody will give."""


@cache
def _examples() -> dict[str, Any]:
    """Return an answer of each task, and of its other forms as ``<task>.<form>``."""
    text = resources.files("retrieval_client").joinpath("examples.json").read_text(encoding="utf-8")
    examples: dict[str, Any] = json.loads(text)
    return examples


def example_of(job: Job) -> dict[str, Any]:
    """Return the contract's example of the answer to such a job."""
    task, set_fields = task_of(type(job)).name, job.model_fields_set
    form = f"{task}.batch" if "query_embeddings" in set_fields else f"{task}.runs" if "runs" in set_fields else task
    example: dict[str, Any] = _examples()[form]
    return example


class Answering:
    """The part of a fake that takes the place of Redis and the workers.

    Args:
        replies: the answers of jobs by their type, where they are not the contract's examples.
        dimensions: dimensions of the worker's corpora, none of which is public.

    Attributes:
        jobs: the jobs that were sent, in their order.
        claims: the claims of each.
    """

    def __init__(self, replies: Replies | None = None, dimensions: int = DIMENSIONS) -> None:
        self._replies = dict(replies or {})
        self._dimensions = dimensions
        self._records: dict[str, str] = {}
        self.jobs: list[Job] = []
        self.claims: list[Claims] = []

    def take(self, job: Job, claims: Claims, task_id: str) -> None:
        """Take a job, and answer it; the same id is answered once."""
        self.jobs.append(job)
        self.claims.append(claims)
        self._records.setdefault(record_key(task_id), self._record(job, claims))

    def reply(self, job: type[Job], reply: Reply | Callable[[Any], Reply]) -> None:
        """Answer jobs of this type so from now on: with an answer, an error, or what a function makes of the job."""
        self._replies[job] = reply

    def execute(self, command: str, *arguments: str) -> Any:
        """Answer a command as Redis does: records are read and deleted, and all else succeeds."""
        if command == "GET":
            return self._records.get(arguments[0])
        if command == "MGET":
            return [self._records.get(key) for key in arguments]
        if command == "DEL":
            self._records.pop(arguments[0], None)
        return 1

    def _record(self, job: Job, claims: Claims) -> str:
        reply = _refusal(job, claims, self._dimensions) or self._replies.get(type(job))
        answer = reply(job) if callable(reply) else reply
        if isinstance(answer, RetrievalError):
            failure = {"exc_type": type(answer).__name__, "exc_message": [answer.message]}
            return json.dumps({"status": "FAILURE", "result": failure})
        result = example_of(job) if answer is None else answer.model_dump(mode="json")
        return json.dumps({"status": "SUCCESS", "result": result})


def _refusal(job: Job, claims: Claims, dimensions: int) -> RetrievalError | None:
    """Return the error by which a worker refuses a job without a principal, or with an embedding of another size."""
    if not (claims or job.principal or job.principal_token or _is_inline(job)):
        return NotAuthorised(
            "the corpus is not public: send a principal_token, or a principal where the worker trusts its queue"
        )
    embedding = getattr(job, "query_embedding", None)
    if embedding is not None and (size := _size(embedding)) != dimensions:
        return InvalidJob(f"expected exactly {dimensions} finite numbers, got {size}", "query_embedding")
    return None


def _is_inline(job: Job) -> bool:
    """Return whether a job brings its texts along, and nothing of it is looked up."""
    if isinstance(job, BuildCitations):
        return job.records is not None and not job.verify and job.run is None
    return isinstance(job, PinnedReplay) and job.sources is not None


def _size(embedding: list[float] | str) -> int:
    """Return how many numbers an embedding has: a list, or base64 of float32."""
    return len(embedding.rstrip("=")) * 6 // 8 // 4 if isinstance(embedding, str) else len(embedding)


class _Listener:
    """A wait of a fake: it pauses between two looks, and not before the first."""

    def __init__(self, pause: Callable[[float], Any]) -> None:
        self._pause, self._seconds = pause, 0.0

    def next(self, seconds: float) -> Any:
        """Pause; nothing is published."""
        pause_seconds, self._seconds = self._seconds, _PAUSE
        return self._pause(min(seconds, pause_seconds))


class _Fake(BaseClient):
    """The part that both fakes share."""

    _queues: Any
    _results: Any
    _pause: Callable[[float], Any]

    def __init__(
        self, replies: Replies | None = None, signer: Signer | None = None, *, dimensions: int = DIMENSIONS
    ) -> None:
        super().__init__(_URL, signer=signer)
        self.worker = Answering(replies, dimensions)
        self._queues.execute_command = self._results.execute_command = self._execute

    @classmethod
    def from_env(cls, signer: Signer | None = None) -> Self:
        """Make one; no variable is read."""
        return cls(signer=signer)

    def _composed(self, job: Job, claims: Claims, task_id: str, expires: float | None) -> OutgoingJob:
        outgoing_job = super()._composed(job, claims, task_id, expires)
        self.worker.take(job, claims, task_id)
        return outgoing_job

    def _listening(self, task_ids: Iterable[str]) -> contextlib.AbstractContextManager[Any]:
        del task_ids
        self._check_open()
        return contextlib.nullcontext(_Listener(self._pause))

    def _execute(self, command: str, *arguments: str, **_: Any) -> Any:
        return self.worker.execute(command, *arguments)


class FakeClient(_Fake, Client):
    """A `Client` that needs no Redis: jobs are checked, answered from the contract's examples, and kept.

    As by a worker as shipped, a job without a principal is refused, and an embedding without its 768 numbers.

    Args:
        replies: other answers, by the type of the job; see `Answering.reply`.
        signer: as of `Client`.
        dimensions: dimensions of the worker's corpora.

    Attributes:
        worker: takes the jobs; ``worker.jobs`` are those that were sent.

    >>> from retrieval_client import RetrieveTopK
    >>> client = FakeClient(dimensions=2)
    >>> client.call(RetrieveTopK(query_embedding=[1.0, 0.0], principal={"user_id": "alice"})).chunks[0].rank
    1
    """

    _pause = staticmethod(time.sleep)


class FakeAsyncClient(_Fake, AsyncClient):
    """An `AsyncClient` that needs no Redis; see `FakeClient`."""

    _pause = staticmethod(asyncio.sleep)

    async def _execute(self, command: str, *arguments: str, **_: Any) -> Any:
        return self.worker.execute(command, *arguments)
