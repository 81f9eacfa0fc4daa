"""What the contract is of: the tasks that a backend may call, and the rules across their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from worker.contract import (
    BuildCitations,
    Citations,
    Hybrid,
    Job,
    Part,
    PinnedReplay,
    PipelineAnswer,
    Replay,
    ReplayBatch,
    RetrieveHybrid,
    RetrieveTopK,
    RunPipeline,
    TopK,
    TopKBatch,
)

Schema = dict[str, Any]


@dataclass(frozen=True)
class TaskContract:
    """A task that a backend may call.

    Attributes:
        name: Celery's name of the task.
        queue: the Redis list that it is pushed to.
        job: type of its only argument.
        result: type of its answer, or a union of types.
    """

    name: str
    queue: str
    job: type[Job]
    result: Any


TASKS = (
    TaskContract("retrieve_top_k", "retrieval", RetrieveTopK, TopK | TopKBatch),
    TaskContract("pinned_replay", "retrieval", PinnedReplay, Replay | ReplayBatch),
    TaskContract("build_citations", "retrieval", BuildCitations, Citations),
    TaskContract("retrieve_hybrid", "retrieval", RetrieveHybrid, Hybrid),
    TaskContract("run_pipeline", "pipeline", RunPipeline, PipelineAnswer),
)

RULES: dict[type[Part], tuple[Schema, ...]] = {
    Job: ({"not": {"required": ["principal", "principal_token"]}},),
    RetrieveTopK: (
        {"oneOf": [{"required": ["query_embedding"]}, {"required": ["query_embeddings"]}]},
        {"not": {"required": ["query_embeddings", "run"]}},
    ),
    PinnedReplay: (
        {"anyOf": [{"required": [name]} for name in ("required_chunk_hashes", "runs", "citations", "run")]},
        {"not": {"required": ["required_chunk_hashes", "runs"]}},
        {"not": {"required": ["required_chunk_hashes", "citations"]}},
        {"not": {"required": ["runs", "citations"]}},
        {"not": {"required": ["runs", "sources"]}},
    ),
    BuildCitations: (
        {"oneOf": [{"required": ["records"]}, {"required": ["cite"]}]},
        {"not": {"required": ["records", "sections"]}},
    ),
    RunPipeline: (
        {"anyOf": [{"required": ["question"]}, {"required": ["resume"]}]},
        {"not": {"required": ["question", "resume"]}},
    ),
}
"""What a type's validators ask of several fields at once, for it and its subclasses."""
