"""Pins: finding the same chunks again by what they say, and saying what became of them.

A pin is never answered with other text than it was made of. Pure: what stands in the corpus now comes in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from worker.core.pins.hashing import HASH_VERSION, PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Verdict = Literal["exact", "normalised", "moved", "ambiguous", "edited", "missing", "matched", "tampered"]

RETURNED: frozenset[Verdict] = frozenset({"exact", "normalised", "moved", "ambiguous", "matched"})
"""Verdicts of pins that are answered with a chunk."""


class Pin(NamedTuple):
    """What is needed to find a chunk again, and to say what changed.

    A tuple, as `Outcome`: a job makes thousands of them, and a frozen dataclass takes three times as long.

    Attributes:
        chunk_hash: ``sha256:`` + hex of the normalised text.
        hash_version: the normaliser of ``chunk_hash``.
        raw_hash: ``sha256:`` + hex of the text's own bytes, where it is known.
        chunk_id: the chunk it was made of; ``None`` for a bare hash.
        document_id: that chunk's document.
        corpus: where that chunk stood.
        weight: how much it counted, 0-1.
        tampered: whether it came with a text that does not have its hash.
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
    """A chunk as it stands now: one of a corpus, or one of a job's own sources."""

    @property
    def id(self) -> str:
        """Its id; ``""`` in a source without ids."""

    @property
    def document_id(self) -> str:
        """Its document or source."""

    @property
    def text(self) -> str:
        """What it says."""

    @property
    def chunk_hash(self) -> str:
        """Its hash by the version of today."""


C = TypeVar("C", bound=CurrentChunk)
Order = Callable[[C], tuple[Any, ...]]
"""(corpus, document, chunk) as the database orders them, for a choice that does not depend on the plan; no two
chunks that differ in anything share it."""


class Outcome(NamedTuple, Generic[C]):
    """What became of one pin.

    Attributes:
        pin: the pin.
        verdict: see the contract; the first that holds.
        chunk: the chunk that answers it, or that stands in its place (``edited``, ``tampered``), or ``None``.
        found_hash: that chunk's hash by the pin's version, or ``None``.
        places: how many chunks say the same now.
    """

    pin: Pin
    verdict: Verdict
    chunk: C | None
    found_hash: str | None
    places: int


# What a NamedTuple's own constructor does in Python, a third of its time: jobs make thousands of these.
_made = tuple.__new__


def missing(pin: Pin) -> Outcome[Any]:
    """The outcome of a pin that nothing is left of, or nothing that this caller may see."""
    return _made(Outcome, (pin, "tampered" if pin.tampered else "missing", None, None, 0))


def raw_hash(text: str) -> str:
    """``sha256:`` + hex over the text's own UTF-8 bytes, white space and all."""
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def bare(chunk_hashes: Iterable[str]) -> list[Pin]:
    """Pins that know nothing but their hash."""
    return [_made(Pin, (chunk_hash, HASH_VERSION, None, None, None, None, None, False)) for chunk_hash in chunk_hashes]


_what = attrgetter("chunk_hash", "hash_version", "chunk_id", "corpus", "tampered")


def unique(pins: Sequence[Pin]) -> list[Pin]:
    """Pins in their order, each once: a bare hash by itself, a pin that knows its chunk together with that."""
    first: dict[tuple[str, int, str | None, str | None, bool], Pin] = {}
    for what, pin in zip(map(_what, pins), pins, strict=True):
        first.setdefault(what, pin)
    return list(first.values())


def answered(outcomes: Iterable[Outcome[C]]) -> list[tuple[Outcome[C], C]]:
    """The outcomes that are answered with a chunk, in the order of the pins, each chunk once.

    A chunk is told by its identity: `resolve` hands out the very objects that it was given.
    """
    found: dict[int, tuple[Outcome[C], C]] = {}
    for outcome in outcomes:
        chunk = outcome.chunk
        if chunk is not None and outcome.verdict in RETURNED:
            found.setdefault(id(chunk), (outcome, chunk))
    return [*found.values()]


def resolve(
    pins: Sequence[Pin], chunks: Iterable[C], order: Order[C], hash_of: Callable[[C], str] = attrgetter("chunk_hash")
) -> list[Outcome[C]]:
    """What became of each pin.

    Args:
        pins: all of one hash version.
        chunks: every visible chunk that has a pin's hash or a pin's chunk id, or more.
        order: decides where several chunks would do.
        hash_of: a chunk's hash by the pins' version.
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
        here = _own_chunk(pin, same_id, order) if same_id else None
        verdict: Verdict
        outcome: tuple[Pin, Verdict, C | None, str | None, int]
        if here is not None and hash_of(here) == chunk_hash:
            if document_id is not None and document_id != here.document_id:
                verdict = "moved"  # the pin names another document than the one that the chunk is in
            else:
                # Bytes that nobody recorded can't be said to be the same.
                verdict = "exact" if raw == raw_hash(here.text) else "normalised"
            outcome = (pin, verdict, here, chunk_hash, len(same_text))
        elif same_text:
            count = len(same_text)
            verdict = "ambiguous" if count > 1 else "matched" if chunk_id is None else "moved"
            outcome = (pin, verdict, _lowest(same_text, order), chunk_hash, count)
        elif here is not None:
            outcome = (pin, "edited", here, hash_of(here), 0)
        else:
            outcome = (pin, "missing", None, None, 0)
        if tampered:  # whatever stands there now: nobody knows which of text and hash was pinned
            outcome = (pin, "tampered", *outcome[2:])
        outcomes.append(_made(Outcome, outcome))
    return outcomes


def _lowest(some: Sequence[C], order: Order[C]) -> C:
    return some[0] if len(some) == 1 else min(some, key=order)


def _own_chunk(pin: Pin, same_id: Sequence[C], order: Order[C]) -> C:
    """The pin's own chunk. Ids of inline sources are each source's own: the pin's document decides, then the order."""
    return _lowest([chunk for chunk in same_id if chunk.document_id == pin.document_id] or same_id, order)


def compact_json(value: Any) -> bytes:
    """JSON without spaces, and without escapes for ASCII's sake: of strings and booleans that is RFC 8785."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def digest(chunks: Iterable[tuple[str, str, str, bool]], dumps: Callable[[list[Any]], bytes] = compact_json) -> str:
    """One hash of a replay: two replays are the same if their digests are.

    Args:
        chunks: (chunk_hash, text, source_id, pinned) in the order of the answer.
        dumps: writes the same bytes as `compact_json`, if faster (`orjson.dumps`).
    """
    return PREFIX + hashlib.sha256(dumps(list(chunks))).hexdigest()
