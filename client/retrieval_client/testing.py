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
from retrieval_client.contract.message import Record
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
        self._records: dict[str, Record] = {}
        self.jobs: list[Job] = []
        self.claims: list[Claims] = []

    def take(self, job: Job, claims: Claims, task_id: str) -> None:
        """Take a job, and answer it; the same id is answered once."""
        self.jobs.append(job)
        self.claims.append(claims)
        self._records.setdefault(task_id, self._record(job, claims))

    def reply(self, job: type[Job], reply: Reply | Callable[[Any], Reply]) -> None:
        """Answer jobs of this type so from now on: with an answer, an error, or what a function makes of the job."""
        self._replies[job] = reply

    def record(self, task_id: str) -> Record:
        """Return the record of a job; one that was not sent is pending."""
        return self._records.get(task_id, Record("PENDING", None))

    def forget(self, task_id: str) -> None:
        """Delete the record of a job."""
        self._records.pop(task_id, None)

    def _record(self, job: Job, claims: Claims) -> Record:
        reply = _refusal(job, claims, self._dimensions) or self._replies.get(type(job))
        answer = reply(job) if callable(reply) else reply
        if isinstance(answer, RetrievalError):
            return Record("FAILURE", {"exc_type": type(answer).__name__, "exc_message": [answer.message]})
        return Record("SUCCESS", example_of(job) if answer is None else answer.model_dump(mode="json"))


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


class _Fake(BaseClient):
    """The part that both fakes share."""

    def __init__(
        self, replies: Replies | None = None, signer: Signer | None = None, *, dimensions: int = DIMENSIONS
    ) -> None:
        super().__init__(_URL, signer=signer)
        self.worker = Answering(replies, dimensions)

    @classmethod
    def from_env(cls, signer: Signer | None = None) -> Self:
        """Make one; no variable is read."""
        return cls(signer=signer)

    def _composed(self, job: Job, claims: Claims, task_id: str, expires: float | None) -> OutgoingJob:
        outgoing_job = super()._composed(job, claims, task_id, expires)
        self.worker.take(job, claims, task_id)
        return outgoing_job

    def _known(self, task_id: str) -> Record:
        self._check_open()
        return self.worker.record(task_id)

    def _all_known(self, task_ids: Iterable[str]) -> list[tuple[str, Record]]:
        return [(task_id, self._known(task_id)) for task_id in sorted(task_ids)]

    def _listening(self, task_ids: Iterable[str]) -> contextlib.AbstractContextManager[Any]:
        del task_ids
        self._check_open()
        return contextlib.nullcontext()

    def _forget(self, task_id: str) -> None:
        self._check_open()
        self.worker.forget(task_id)


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

    def forget(self, task_id: str) -> None:
        """Delete a job's answer."""
        self._forget(task_id)

    def cancel(self, task_id: str) -> None:
        """Do nothing: every job has been answered."""
        self._known(task_id)

    def _send(self, outgoing_job: OutgoingJob) -> None:
        pass

    def _look(self, task_id: str) -> Record:
        return self._known(task_id)

    def _next(self, listener: Any, waiting: set[str], seconds: float) -> list[tuple[str, Record]]:
        del listener
        records = self._all_known(waiting)
        if not any(record.ended for _, record in records):
            time.sleep(min(seconds, _PAUSE))
        return records


class FakeAsyncClient(_Fake, AsyncClient):
    """An `AsyncClient` that needs no Redis; see `FakeClient`."""

    async def forget(self, task_id: str) -> None:
        """Delete a job's answer."""
        self._forget(task_id)

    async def cancel(self, task_id: str) -> None:
        """Do nothing: every job has been answered."""
        self._known(task_id)

    async def _send(self, outgoing_job: OutgoingJob) -> None:
        pass

    async def _look(self, task_id: str) -> Record:
        return self._known(task_id)

    async def _next(self, listener: Any, waiting: set[str], seconds: float) -> list[tuple[str, Record]]:
        del listener
        records = self._all_known(waiting)
        if not any(record.ended for _, record in records):
            await asyncio.sleep(min(seconds, _PAUSE))
        return records
