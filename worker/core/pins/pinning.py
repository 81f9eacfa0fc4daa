"""Pins: finding the same chunks again by their content, with a verdict on each.

A pin is never answered with text other than the text it was made of. Pure: the current chunks are arguments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from retrieval_client.hashing import HASH_VERSION, PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Verdict = Literal["exact", "normalised", "moved", "ambiguous", "edited", "missing", "matched", "tampered"]

RETURNED: frozenset[Verdict] = frozenset({"exact", "normalised", "moved", "ambiguous", "matched"})
"""Verdicts of pins that are answered with a chunk."""


class Pin(NamedTuple):
    """Reference to a chunk: enough to find it again and to detect changes.

    A tuple, as is `Outcome`: a job makes thousands of them, and a frozen dataclass takes three times as long.

    Attributes:
        chunk_hash: ``sha256:`` + hex of the normalised text.
        hash_version: the normaliser of ``chunk_hash``.
        raw_hash: ``sha256:`` + hex of the text's own bytes, where it is known.
        chunk_id: id of the pinned chunk; ``None`` for a bare hash.
        document_id: that chunk's document.
        corpus: that chunk's corpus.
        weight: its weight, 0-1.
        tampered: True if the job gave a text that does not match the hash.
    """

    chunk_hash: str
    hash_version: int = HASH_VERSION
    raw_hash: str | None = None
    chunk_id: str | None = None
    document_id: str | None = None
    corpus: str | None = None
    weight: float | None = None
    tampered: bool = False


class CurrentChunk(Protocol):
    """Current chunk of a corpus or of a job's own sources."""

    @property
    def id(self) -> str:
        """Id; ``""`` in a source without ids."""

    @property
    def document_id(self) -> str:
        """Id of its document or source."""

    @property
    def text(self) -> str:
        """Current text."""

    @property
    def chunk_hash(self) -> str:
        """Hash of the text, by `HASH_VERSION`."""


C = TypeVar("C", bound=CurrentChunk)
Order = Callable[[C], tuple[Any, ...]]
"""(corpus, document, chunk) in database order, so that a choice does not depend on the query plan; no two different
chunks share a key."""


class Outcome(NamedTuple, Generic[C]):
    """Result of resolving one pin.

    Attributes:
        pin: the pin.
        verdict: see the contract; the first that holds.
        chunk: the chunk that answers it, or the one now in its place (``edited``, ``tampered``), or ``None``.
        found_hash: that chunk's hash by the pin's version, or ``None``.
        places: number of chunks that have the pinned text now.
    """

    pin: Pin
    verdict: Verdict
    chunk: C | None
    found_hash: str | None
    places: int


# Does what a NamedTuple's own constructor does, in a third of its time: jobs make thousands of these.
_new = tuple.__new__


def missing(pin: Pin) -> Outcome[Any]:
    """Return the outcome of a pin without a chunk that exists and that this caller may see."""
    return _new(Outcome, (pin, "tampered" if pin.tampered else "missing", None, None, 0))


def raw_hash(text: str) -> str:
    """Return ``sha256:`` + hex over the text's own UTF-8 bytes, white space included."""
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def bare(chunk_hashes: Iterable[str]) -> list[Pin]:
    """Return pins made of hashes alone."""
    return [_new(Pin, (chunk_hash, HASH_VERSION, None, None, None, None, None, False)) for chunk_hash in chunk_hashes]


_identity = attrgetter("chunk_hash", "hash_version", "chunk_id", "corpus", "tampered")


def unique(pins: Sequence[Pin]) -> list[Pin]:
    """Return the pins in order without duplicates; a pin with a chunk id is distinct from its bare hash."""
    pins_by_identity: dict[tuple[str, int, str | None, str | None, bool], Pin] = {}
    for identity, pin in zip(map(_identity, pins), pins, strict=True):
        pins_by_identity.setdefault(identity, pin)
    return list(pins_by_identity.values())


def answered(outcomes: Iterable[Outcome[C]]) -> list[tuple[Outcome[C], C]]:
    """Return the outcomes answered with a chunk, in the order of the pins, each chunk once.

    Chunks are compared by object identity: `resolve` returns the objects that it was given.
    """
    answers: dict[int, tuple[Outcome[C], C]] = {}
    for outcome in outcomes:
        chunk = outcome.chunk
        if chunk is not None and outcome.verdict in RETURNED:
            answers.setdefault(id(chunk), (outcome, chunk))
    return [*answers.values()]


def resolve(
    pins: Sequence[Pin], chunks: Iterable[C], order: Order[C], hash_of: Callable[[C], str] = attrgetter("chunk_hash")
) -> list[Outcome[C]]:
    """Resolve each pin against the current chunks.

    Args:
        pins: all of one hash version.
        chunks: at least every visible chunk with a pin's hash or a pin's chunk id.
        order: chooses among several matching chunks.
        hash_of: returns a chunk's hash by the pins' version.
    """
    by_hash: dict[str, list[C]] = {pin.chunk_hash: [] for pin in pins}
    by_id: dict[str, list[C]] = {pin.chunk_id: [] for pin in pins if pin.chunk_id is not None}
    for chunk in chunks:
        same = by_hash.get(hash_of(chunk))
        if same is not None:
            same.append(chunk)
        if by_id and chunk.id in by_id:
            by_id[chunk.id].append(chunk)

    outcomes: list[Outcome[C]] = []
    for pin in pins:
        chunk_hash, _, raw, chunk_id, document_id, _, _, tampered = pin
        same_text, same_id = by_hash[chunk_hash], by_id[chunk_id] if chunk_id is not None else ()
        own_chunk = _own_chunk(pin, same_id, order) if same_id else None
        verdict: Verdict
        outcome: tuple[Pin, Verdict, C | None, str | None, int]
        if own_chunk is not None and hash_of(own_chunk) == chunk_hash:
            if document_id is not None and document_id != own_chunk.document_id:
                verdict = "moved"  # the pin names a document other than the chunk's
            else:
                # Without recorded bytes, the match can't be called exact.
                verdict = "exact" if raw == raw_hash(own_chunk.text) else "normalised"
            outcome = (pin, verdict, own_chunk, chunk_hash, len(same_text))
        elif same_text:
            count = len(same_text)
            verdict = "ambiguous" if count > 1 else "matched" if chunk_id is None else "moved"
            outcome = (pin, verdict, _lowest(same_text, order), chunk_hash, count)
        elif own_chunk is not None:
            outcome = (pin, "edited", own_chunk, hash_of(own_chunk), 0)
        else:
            outcome = (pin, "missing", None, None, 0)
        if tampered:  # whatever is there now: it is not known which of text and hash was pinned
            outcome = (pin, "tampered", *outcome[2:])
        outcomes.append(_new(Outcome, outcome))
    return outcomes


def _lowest(chunks: Sequence[C], order: Order[C]) -> C:
    return chunks[0] if len(chunks) == 1 else min(chunks, key=order)


def _own_chunk(pin: Pin, same_id: Sequence[C], order: Order[C]) -> C:
    """Return the pin's own chunk; inline chunk ids are unique per source only, so the pin's document decides first."""
    return _lowest([chunk for chunk in same_id if chunk.document_id == pin.document_id] or same_id, order)


def compact_json(value: Any) -> bytes:
    """Return compact, non-ASCII-escaped JSON; for strings and booleans that is RFC 8785."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def digest(chunks: Iterable[tuple[str, str, str, bool]], dumps: Callable[[list[Any]], bytes] = compact_json) -> str:
    """Return one hash of a replay: two replays are the same if their digests are.

    Args:
        chunks: (chunk_hash, text, source_id, pinned) in the order of the answer.
        dumps: serialiser with the same output as `compact_json`, such as the faster `orjson.dumps`.
    """
    return PREFIX + hashlib.sha256(dumps(list(chunks))).hexdigest()
