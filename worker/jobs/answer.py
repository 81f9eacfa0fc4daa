"""Shared parts of answers in the contract's form: chunks, filters and the trace."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from worker.model import NO_FILTERS, FilterSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retrieval_client.contract.jobs import Filters
    from worker.core.trace import Tracer
    from worker.model import Candidate

    Handler = Callable[..., dict[str, Any]]
    Summary = tuple[int, str]

WORKER_VERSION = version("retrieval-worker")


def filter_set(filters: Filters | None) -> FilterSet:
    """Convert the contract's filters to the model's."""
    if filters is None:
        return NO_FILTERS
    lists = {
        name: tuple(values) if values is not None else None
        for name in ("document_ids", "sections", "pages", "path_contains", "ext_allow", "ext_deny")
        for values in [getattr(filters, name)]
    }
    return FilterSet(**lists, metadata=filters.metadata)


def trace(
    tracer: Tracer,
    search: dict[str, Any] | None = None,
    models: dict[str, str] | None = None,
    cache: str | None = None,
) -> dict[str, Any]:
    """Return the `trace` of a result."""
    return {
        "stages": tracer.stages,
        "search": search or {},
        "models": models or {},
        "worker_version": WORKER_VERSION,
        "cache": cache,
    }


def ranked(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Return candidates, in order, as the contract's chunks."""
    return [described(candidate, rank) for rank, candidate in enumerate(candidates, 1)]


def described(candidate: Candidate, rank: int) -> dict[str, Any]:
    """Return one candidate as the contract's chunk."""
    chunk = candidate.chunk
    return {
        "rank": rank,
        "chunk_id": chunk.id,
        "document_id": chunk.document_id,
        "text": chunk.text,
        "page": chunk.page,
        "section": chunk.section,
        "coordinates": chunk.coordinates,
        "metadata": chunk.metadata,
        "chunk_hash": chunk.chunk_hash,
        "hash_version": chunk.hash_version,
        "distance": candidate.distance,
        "similarity_score": candidate.similarity,
    }


def scores_of(candidate: Candidate) -> dict[str, Any]:
    """Return one candidate's scores in the contract's form."""
    scores = candidate.scores
    legs = tuple({"leg": leg.leg, "score": leg.score, "rank": leg.rank} for leg in scores.legs)
    return {"legs": legs, "fused": scores.fused, "rerank": scores.rerank, "temporal": scores.temporal}


def batch_summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of chunks in all answers of a batch, and a text with the number of answers."""
    chunks = sum(len(query_answer.get("chunks", ())) for query_answer in answer["results"])
    return chunks, f"batch of {len(answer['results'])}"
