"""The tasks that a backend may call. The worker, the client, the schemas and the command line read this list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_origin

from retrieval_client.contract.base import AnsweredBy
from retrieval_client.contract.feedback import RecordFeedback
from retrieval_client.contract.jobs import Job, RetrieveHybrid, RetrieveTopK, RunPipeline
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay


@dataclass(frozen=True, slots=True)
class Task:
    """A task that a backend may call.

    Attributes:
        name: Celery's name of the task.
        queue: the Redis list that it is pushed to.
        job: type of its only argument.
        module: the module that answers it, through `worker.jobs.engine.Engine.handlers`. Its ``summary`` returns the
            number of chunks of an answer and a few words for the log line.
    """

    name: str
    queue: str
    job: type[Job]
    module: str

    @property
    def answer(self) -> Any:
        """Type of its answer, or a union of types."""
        bases = getattr(self.job, "__orig_bases__", ())
        answer = next(get_args(base)[0] for base in bases if get_origin(base) is AnsweredBy)
        return answer.__bound__ if isinstance(answer, TypeVar) else answer


TASKS = (
    Task("retrieve_top_k", "retrieval", RetrieveTopK, "worker.jobs.top_k"),
    Task("pinned_replay", "retrieval", PinnedReplay, "worker.jobs.replay"),
    Task("build_citations", "retrieval", BuildCitations, "worker.jobs.citations"),
    Task("retrieve_hybrid", "retrieval", RetrieveHybrid, "worker.jobs.hybrid"),
    Task("run_pipeline", "pipeline", RunPipeline, "worker.jobs.pipeline.jobs"),
    Task("record_feedback", "retrieval", RecordFeedback, "worker.jobs.feedback"),
)


def task_of(job: type[Job]) -> Task:
    """Return the task of a job type.

    Raises:
        TypeError: no task has such a job.

    >>> from retrieval_client.contract.results import TopKBatch
    >>> task_of(RetrieveTopK[TopKBatch]) is task_of(RetrieveTopK)
    True
    """
    unbound = job.__pydantic_generic_metadata__["origin"] or job
    for task in TASKS:
        if task.job is unbound:
            return task
    raise TypeError(f"expected a job of {', '.join(task.job.__name__ for task in TASKS)}, got {job.__name__}")
