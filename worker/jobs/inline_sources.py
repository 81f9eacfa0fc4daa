"""Inline sources of a `pinned_replay` job, converted to chunks and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieval_client.hashing import hash_chunk
from worker.core.pins.inline import InlineChunk
from worker.core.text.visible import is_blank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieval_client.contract.run_jobs import InlineSource

UNKNOWN_SOURCE = "unknown"


def inline_chunks(sources: Sequence[InlineSource]) -> tuple[list[InlineChunk], int]:
    """Return the hashed chunks of inline sources, and the number of skipped ones, which are blank or not text."""
    chunks, skipped = [], 0
    for source in sources:
        source_id = source.id or source.name or UNKNOWN_SOURCE
        for chunk in source.chunks or []:
            text, chunk_id = _inline_chunk(chunk)
            if text is None or is_blank(text):
                skipped += 1
                continue
            chunks.append(InlineChunk(source_id, chunk_id or "", text, source.weight, hash_chunk(text)))
    return chunks, skipped


def count_sources(sources: Sequence[InlineSource]) -> dict[str, int]:
    """Count the sources, those without chunks, and those that get a default name or weight."""
    return {
        "sources": len(sources),
        "without_chunks": sum(source.chunks is None for source in sources),
        "unnamed": sum(not (source.id or source.name) for source in sources),
        "unweighted": sum("weight" not in source.model_fields_set for source in sources),
    }


def _inline_chunk(chunk: Any) -> tuple[str | None, str | None]:
    """Return text and id of an inline chunk; text None if it is not of the contract's form."""
    if isinstance(chunk, str):
        return chunk, None
    if isinstance(chunk, dict) and isinstance(chunk.get("text"), str) and chunk.keys() <= {"text", "chunk_id"}:
        chunk_id = chunk.get("chunk_id")
        if chunk_id is None or isinstance(chunk_id, str):
            return chunk["text"], chunk_id
    return None, None


def inline_answer(chunk: InlineChunk, *, pinned: bool) -> dict[str, Any]:
    """Return a chunk in the contract's form for a replay over inline sources."""
    return {
        "chunk_hash": chunk.chunk_hash,
        "text": chunk.text,
        "source_id": chunk.document_id,
        "weight": chunk.weight,
        "pinned": pinned,
    }
