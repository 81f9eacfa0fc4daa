"""Pins: finding the same chunks again by what they say, and saying what became of them.

A pin is never answered with other text than it was made of. Pure: what the corpus holds comes in as `Found` rows.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from worker.core.hashing import HASH_VERSION, PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Verdict = Literal["exact", "normalised", "moved", "ambiguous", "edited", "missing", "matched"]

RETURNED: frozenset[Verdict] = frozenset({"exact", "normalised", "moved", "ambiguous", "matched"})
"""Verdicts of pins that are answered with a chunk."""


class Pin(NamedTuple):
    """What is needed to find a chunk again, and to say what changed.

    A tuple, as `Place` and `Outcome`: a job makes thousands of them, and a frozen dataclass takes three times as long.

    Attributes:
        chunk_hash: ``sha256:`` + hex of the normalised text.
        hash_version: the normaliser of ``chunk_hash``.
        raw_hash: ``sha256:`` + hex of the text's own bytes, where it is known.
        chunk_id: the chunk it was made of; ``None`` for a bare hash.
        document_id: that chunk's document.
        corpus: where that chunk stood.
        weight: how much it counted, 0-1.
    """

    chunk_hash: str
    hash_version: int = HASH_VERSION
    raw_hash: str | None = None
    chunk_id: str | None = None
    document_id: str | None = None
    corpus: str | None = None
    weight: float | None = None


class Place(NamedTuple):
    """A chunk as it stands now, for comparing; ``payload`` is whatever the caller needs of it later.

    Attributes:
        chunk_hash: its hash by the pin's version.
        chunk_id: its id (a source without ids: its position).
        document_id: its document or source.
        text: what it says.
        order: (corpus, document, chunk) as the database orders them, for a choice that does not depend on the plan;
            no two chunks that differ in anything share it.
    """

    chunk_hash: str
    chunk_id: str
    document_id: str
    text: str
    order: tuple[Any, ...]
    payload: Any


class Outcome(NamedTuple):
    """What became of one pin.

    Attributes:
        pin: the pin.
        verdict: see the contract; the first that holds.
        place: the chunk that answers it, or that stands in its place (``edited``), or ``None``.
        places: how many chunks say the same now.
    """

    pin: Pin
    verdict: Verdict
    place: Place | None
    places: int


def raw_hash(text: str) -> str:
    """``sha256:`` + hex over the text's own UTF-8 bytes, white space and all."""
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()


def unique(pins: Iterable[Pin]) -> list[Pin]:
    """Pins in their order, each once: a bare hash by itself, a pin that knows its chunk together with that."""
    first: dict[tuple[str, int, str | None, str | None], Pin] = {}
    for pin in pins:
        first.setdefault((pin.chunk_hash, pin.hash_version, pin.chunk_id, pin.corpus), pin)
    return list(first.values())


def answered(outcomes: Iterable[Outcome]) -> list[tuple[Outcome, Place]]:
    """The outcomes that are answered with a chunk, in the order of the pins, each chunk once.

    A chunk is told by its place in the order: pins of two hash versions that mean one chunk met it as two `Place`s.
    """
    places: dict[tuple[Any, ...], tuple[Outcome, Place]] = {}
    for outcome in outcomes:
        if outcome.verdict in RETURNED and outcome.place is not None:
            places.setdefault(outcome.place.order, (outcome, outcome.place))
    return list(places.values())


def resolve(pins: Sequence[Pin], places: Iterable[Place]) -> list[Outcome]:
    """What became of each pin, given every visible place that has a pin's hash or a pin's chunk id, or more."""
    by_hash: dict[str, list[Place]] = {pin.chunk_hash: [] for pin in pins}
    by_id: dict[str, list[Place]] = {pin.chunk_id: [] for pin in pins if pin.chunk_id is not None}
    for place in places:
        if place.chunk_hash in by_hash:
            by_hash[place.chunk_hash].append(place)
        if place.chunk_id in by_id:
            by_id[place.chunk_id].append(place)
    return [_outcome(pin, by_hash[pin.chunk_hash], by_id) for pin in pins]


def _outcome(pin: Pin, same_text: Sequence[Place], by_id: Mapping[str, Sequence[Place]]) -> Outcome:
    count = len(same_text)
    if pin.chunk_id is None:
        return _bare(pin, same_text, count)
    here = _own_place(pin, by_id[pin.chunk_id])
    if here is not None and here.chunk_hash == pin.chunk_hash:
        # Bytes that nobody recorded can't be said to be the same.
        unchanged = pin.raw_hash == raw_hash(here.text)
        return Outcome(pin, "exact" if unchanged else "normalised", here, count)
    if count:
        return Outcome(pin, "moved" if count == 1 else "ambiguous", _lowest(same_text), count)
    if here is not None:
        return Outcome(pin, "edited", here, 0)
    return Outcome(pin, "missing", None, 0)


def _own_place(pin: Pin, same_id: Sequence[Place]) -> Place | None:
    """The pin's own chunk. Ids of inline sources are each source's own: the pin's document decides, then the order."""
    own = [place for place in same_id if place.document_id == pin.document_id] or same_id
    return _lowest(own) if own else None


def _bare(pin: Pin, same_text: Sequence[Place], count: int) -> Outcome:
    if not count:
        return Outcome(pin, "missing", None, 0)
    return Outcome(pin, "matched" if count == 1 else "ambiguous", _lowest(same_text), count)


def _lowest(places: Sequence[Place]) -> Place:
    return places[0] if len(places) == 1 else min(places, key=_order)


def _order(place: Place) -> tuple[Any, ...]:
    return place.order


FILL_ORDERS: Mapping[str, Callable[[Place], tuple[Any, ...]]] = {
    "text": lambda place: (place.order[0], place.text, *place.order[1:]),
    "hash": lambda place: (place.chunk_hash, *place.order),
}
"""How chunks that nobody pinned follow the pinned ones."""


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
