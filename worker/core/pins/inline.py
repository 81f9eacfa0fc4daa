"""Chunks that a job brings along itself, and how those follow the pinned ones that nobody pinned."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class InlineChunk(NamedTuple):
    """A chunk of a job's own source.

    Attributes:
        document_id: the source's id, or its name.
        id: the chunk's id within its source, ``""`` without.
        text: what it says.
        weight: the source's, 0-1.
        chunk_hash: ``sha256:`` + hex of the normalised text.
    """

    document_id: str
    id: str
    text: str
    weight: float
    chunk_hash: str


def order(chunk: InlineChunk) -> tuple[Any, ...]:
    """Key of a total order: the whole content is in it, so that a permutation of sources changes nothing."""
    return chunk


FILL_ORDERS: Mapping[str, Callable[[InlineChunk], tuple[Any, ...]]] = {
    "text": lambda chunk: (chunk.document_id, chunk.text, chunk.id, chunk.weight),
    "hash": lambda chunk: (chunk.chunk_hash, chunk),
}
"""How chunks that nobody pinned follow the pinned ones."""


def fill(chunks: Iterable[InlineChunk], by: str, room: int) -> list[InlineChunk]:
    """The first ``room`` chunks in an order of `FILL_ORDERS`, in linear time for few of many."""
    return nsmallest(room, chunks, key=FILL_ORDERS[by])
