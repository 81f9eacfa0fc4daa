"""Inline chunks: chunks that a job carries itself, and the order of its unpinned ones after the pinned."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class InlineChunk(NamedTuple):
    """Chunk of a job's own source.

    Attributes:
        document_id: the source's id, or its name.
        id: the chunk's id within its source, ``""`` without.
        text: its text.
        weight: weight of its source, 0-1.
        chunk_hash: ``sha256:`` + hex of the normalised text.
    """

    document_id: str
    id: str
    text: str
    weight: float
    chunk_hash: str


def order(chunk: InlineChunk) -> tuple[Any, ...]:
    """Return a total-order key: the whole content, so that the order of the sources changes nothing."""
    return chunk


FILL_ORDERS: Mapping[str, Callable[[InlineChunk], tuple[Any, ...]]] = {
    "text": lambda chunk: (chunk.document_id, chunk.text, chunk.id, chunk.weight),
    "hash": lambda chunk: (chunk.chunk_hash, chunk),
}
"""Orders in which unpinned chunks follow the pinned ones."""


def fill(chunks: Iterable[InlineChunk], fill_order: str, room: int) -> list[InlineChunk]:
    """Return the first ``room`` chunks in an order of `FILL_ORDERS`; linear time if ``room`` is small."""
    return nsmallest(room, chunks, key=FILL_ORDERS[fill_order])
