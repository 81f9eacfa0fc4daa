"""Parts of an answer that several jobs have: chunks, filters and the trace as the contract writes them."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from worker.model import NO_FILTERS, FilterSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.contract import Filters
    from worker.core.trace import Tracer
    from worker.model import Candidate

    Handler = Callable[..., dict[str, Any]]
    Summary = tuple[int, str]

WORKER_VERSION = version("retrieval-worker")


def filter_set(filters: Filters | None) -> FilterSet:
    """The contract's filters as the vocabulary's."""
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
    """A result's `trace`."""
    return {
        "stages": tracer.stages,
        "search": search or {},
        "models": models or {},
        "worker_version": WORKER_VERSION,
        "cache": cache,
    }


def ranked(candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
    """Candidates, in order, as the contract's chunks."""
    return [described(candidate, rank) for rank, candidate in enumerate(candidates, 1)]


def described(candidate: Candidate, rank: int) -> dict[str, Any]:
    """One candidate as the contract's chunk."""
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


def batch_summary(answer: Mapping[str, Any]) -> Summary:
    """Chunks in all answers of a batch, and how many these are."""
    chunks = sum(len(part.get("chunks", ())) for part in answer["results"])
    return chunks, f"batch of {len(answer['results'])}"
