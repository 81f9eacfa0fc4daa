from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.hashing import hash_chunk
from worker.core.pins import pinning
from worker.core.pins.inline import FILL_ORDERS, InlineChunk, fill
from worker.core.pins.inline import order as inline_order
from worker.core.pins.pinning import RETURNED, Outcome, Pin, answered, bare, compact_json, digest, raw_hash, unique

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TEXT = "two words"
OTHER = "something else"
SPACED = "  two\n words "


def place(chunk_id: str, text: str = TEXT, document_id: str = "d1") -> InlineChunk:
    return InlineChunk(document_id, chunk_id, text, 0.5, hash_chunk(text))


def by_id(chunk: InlineChunk) -> tuple[str, str]:
    return chunk.document_id, chunk.id


def resolve(pins: Sequence[Pin], places: Sequence[InlineChunk]) -> list[Outcome[InlineChunk]]:
    return pinning.resolve(pins, places, by_id)


def knowing(chunk_id: str, text: str = TEXT) -> Pin:
    return Pin(hash_chunk(text), raw_hash=raw_hash(text), chunk_id=chunk_id, document_id="d1")


def outcome(pin: Pin, *places: InlineChunk) -> tuple[str, str | None, int]:
    (found,) = resolve([pin], places)
    assert found.pin is pin
    return found.verdict, found.chunk.id if found.chunk else None, found.places


# --- verdicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([place("c1")], ("exact", "c1", 1)),
        ([place("c1", SPACED)], ("normalised", "c1", 1)),
        ([place("c2")], ("moved", "c2", 1)),
        ([place("c1", document_id="d2")], ("moved", "c1", 1)),
        ([place("c3"), place("c2")], ("ambiguous", "c2", 2)),
        ([place("c1", OTHER)], ("edited", "c1", 0)),
        ([place("c2", OTHER)], ("missing", None, 0)),
        ([], ("missing", None, 0)),
    ],
)
def test_each_verdict_of_a_pin_that_knows_its_chunk(
    places: list[InlineChunk], expected: tuple[str, str | None, int]
) -> None:
    assert outcome(knowing("c1"), *places) == expected


@pytest.mark.parametrize(
    ("places", "standing"),
    [
        ([place("c1")], "c1"),
        ([place("c2")], "c2"),
        ([place("c3"), place("c2")], "c2"),
        ([place("c1", OTHER)], "c1"),
        ([place("c2", OTHER)], None),
        ([], None),
    ],
)
def test_a_tampered_pin_is_tampered_wherever_its_hash_stands_and_never_answered(
    places: list[InlineChunk], standing: str | None
) -> None:
    """If a text and a hash do not belong together, it is unknown which was pinned."""
    pin = knowing("c1")._replace(raw_hash=None, tampered=True)
    (found,) = resolve([pin], places)
    assert (found.verdict, found.chunk.id if found.chunk else None) == ("tampered", standing)
    assert answered([found]) == []
    assert pinning.missing(pin).verdict == "tampered"


def test_a_tampered_pin_does_not_hide_behind_an_honest_one() -> None:
    """Nor the other way round: of the same hash and chunk, both are reported."""
    honest = knowing("c1")
    assert unique([honest, honest._replace(tampered=True), honest]) == [honest, honest._replace(tampered=True)]


def test_a_pin_whose_bytes_are_unknown_is_not_exact() -> None:
    """All that its hash tells is that at most white space differs."""
    pin = Pin(hash_chunk(TEXT), chunk_id="c1", document_id="d1")
    assert outcome(pin, place("c1")) == outcome(pin, place("c1", SPACED)) == ("normalised", "c1", 1)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([place("c1", SPACED)], ("matched", "c1", 1)),
        ([place("c2"), place("c1")], ("ambiguous", "c1", 2)),
        ([place("c1", OTHER)], ("missing", None, 0)),
        ([], ("missing", None, 0)),
    ],
)
def test_each_verdict_of_a_bare_hash(places: list[InlineChunk], expected: tuple[str, str | None, int]) -> None:
    assert outcome(Pin(hash_chunk(TEXT)), *places) == expected


@pytest.mark.parametrize(
    ("places", "verdict", "chunk_id"),
    [
        # Its own chunk comes before any other place, even one that is lower or has the very bytes.
        ([place("c0"), place("c1")], "exact", "c1"),
        ([place("c0"), place("c1", SPACED)], "normalised", "c1"),
        # The same text elsewhere comes before what its own chunk says now.
        ([place("c2"), place("c1", OTHER)], "moved", "c2"),
        ([place("c2"), place("c3"), place("c1", OTHER)], "ambiguous", "c2"),
    ],
)
def test_the_first_verdict_that_holds(places: list[InlineChunk], verdict: str, chunk_id: str) -> None:
    assert outcome(knowing("c1"), *places)[:2] == (verdict, chunk_id)


def test_the_lowest_is_by_document_then_chunk() -> None:
    """Not by chunk alone, and by the corpus' own order, not by the written ids."""
    assert outcome(Pin(hash_chunk(TEXT)), place("c1", document_id="d2"), place("c9"))[1] == "c9"
    numbers = [place("10"), place("9")]
    (found,) = pinning.resolve([Pin(hash_chunk(TEXT))], numbers, lambda chunk: (chunk.document_id, int(chunk.id)))
    assert found.chunk is numbers[1]


def test_an_edited_chunk_is_named_but_never_returned() -> None:
    """Its new hash is said; its text is no answer."""
    outcomes = resolve([knowing("c1")], [place("c1", OTHER)])
    assert outcomes[0].chunk is not None
    assert outcomes[0].chunk.chunk_hash == hash_chunk(OTHER)
    assert answered(outcomes) == []


def test_no_pins_have_no_outcomes() -> None:
    assert resolve([], [place("c1")]) == []


# --- unique, answered ---------------------------------------------------------------------------


def test_unique_keeps_the_first_of_each_in_order() -> None:
    """A bare hash by itself, a pin that knows its chunk together with that, an older hash beside a newer."""
    bare, first, second = Pin("sha256:b"), Pin("sha256:a", chunk_id="c1"), Pin("sha256:a", chunk_id="c2")
    older = Pin("sha256:b", hash_version=0)
    again = Pin("sha256:a", chunk_id="c1", weight=0.9)
    assert unique([bare, first, bare, second, again, older, first]) == [bare, first, second, older]


def test_a_chunk_that_two_pins_mean_is_answered_once() -> None:
    """By its id and by its bare hash: one chunk, with the first pin."""
    pins = [knowing("c1"), Pin(hash_chunk(TEXT)), Pin(hash_chunk(OTHER))]
    outcomes = resolve(pins, [place("c1"), place("c2", OTHER)])
    assert [(found.pin, where.id) for found, where in answered(outcomes)] == [(pins[0], "c1"), (pins[2], "c2")]


def test_a_chunk_that_pins_of_two_hash_versions_mean_is_answered_once() -> None:
    """Each version compares chunks by its own hash: two outcomes, and still one chunk."""
    older = Pin("sha256:older", hash_version=0, raw_hash=raw_hash(TEXT), chunk_id="c1", document_id="d1")
    chunks = [place("c1")]
    outcomes = [
        *resolve([knowing("c1")], chunks),
        *pinning.resolve([older], chunks, by_id, lambda _: "sha256:older"),
    ]
    assert [(found.verdict, found.found_hash) for found in outcomes] == [
        ("exact", hash_chunk(TEXT)),
        ("exact", "sha256:older"),
    ]
    assert [found.pin for found, _ in answered(outcomes)] == [knowing("c1")]


def test_texts_without_ids_in_one_source_are_each_answered() -> None:
    """Inline chunks need no id: their text tells them apart."""
    outcomes = resolve([Pin(hash_chunk(TEXT)), Pin(hash_chunk(OTHER))], [place("", TEXT), place("", OTHER)])
    assert [where.text for _, where in answered(outcomes)] == [TEXT, OTHER]


def test_bare_pins_know_their_hash_alone() -> None:
    assert bare(["sha256:a", "sha256:b"]) == [Pin("sha256:a"), Pin("sha256:b")]
    assert bare(["sha256:a"])[0].weight is None


def test_what_is_returned() -> None:
    """Every verdict but the two that have no text to give."""
    assert frozenset({"exact", "normalised", "moved", "ambiguous", "matched"}) == RETURNED
    where = place("c1")
    given_back = [
        verdict
        for verdict in ("exact", "normalised", "moved", "ambiguous", "matched", "edited", "missing")
        if answered([Outcome(Pin(TEXT), verdict, where, None, 1)])
    ]
    assert set(given_back) == RETURNED


# --- for any places -----------------------------------------------------------------------------

texts = st.sampled_from([TEXT, SPACED, "two  words", OTHER, "Something else", "", "ü", "u\u0308"])
ids = st.sampled_from([f"c{n}" for n in range(6)])
places_of_a_corpus = st.lists(
    st.builds(place, ids, texts, st.sampled_from(["d1", "d2", "d3"])), unique_by=lambda where: where.id
)
bare_pins = st.builds(lambda text: Pin(hash_chunk(text)), texts)
knowing_pins = st.builds(knowing, ids, texts)
pins_without_bytes = st.builds(lambda text, chunk_id: Pin(hash_chunk(text), chunk_id=chunk_id), texts, ids)
some_pins = st.lists(bare_pins | knowing_pins | pins_without_bytes, max_size=8)


@given(st.data(), some_pins, places_of_a_corpus)
def test_the_order_of_the_places_changes_nothing(
    data: st.DataObject, pins: list[Pin], places: list[InlineChunk]
) -> None:
    """Verdicts and places are the same for any order in which the database returns rows."""
    permuted = data.draw(st.permutations(places))
    assert resolve(pins, permuted) == resolve(pins, places)
    assert answered(resolve(pins, permuted)) == answered(resolve(pins, places))


def test_the_order_changes_nothing_where_ids_are_not_unique() -> None:
    """Inline sources choose their own ids, so that two of them may both have a `c1`."""
    places = [place("c1", document_id="d1"), place("c1", document_id="d2")]
    assert resolve([knowing("c1")], places) == resolve([knowing("c1")], places[::-1])


@given(some_pins, places_of_a_corpus)
def test_a_pin_is_never_answered_with_text_of_another_hash(pins: list[Pin], places: list[InlineChunk]) -> None:
    """Each answer says what its pin was made of, and is one of the places, once."""
    found = answered(resolve(pins, places))
    for outcome_, where in found:
        assert hash_chunk(where.text) == where.chunk_hash == outcome_.pin.chunk_hash
        assert outcome_.verdict in RETURNED
        assert where in places
    assert len({where.id for _, where in found}) == len(found)


@given(some_pins, places_of_a_corpus)
def test_verdicts_say_what_is_so(pins: list[Pin], places: list[InlineChunk]) -> None:
    """Each outcome against the contract's own words, said the long way round."""
    outcomes = resolve(pins, places)
    assert [found.pin for found in outcomes] == pins
    for found in outcomes:
        pin = found.pin
        same = sorted((p for p in places if p.chunk_hash == pin.chunk_hash), key=lambda p: (p.document_id, p.id))
        here = next((p for p in places if p.id == pin.chunk_id), None)
        expected: tuple[Any, Any]
        if pin.chunk_id is not None and here in same:
            changed = here is not None and raw_hash(here.text) != pin.raw_hash
            elsewhere = here.document_id != pin.document_id
            expected = ("moved" if elsewhere else "normalised" if changed else "exact", here)
        elif len(same) == 1:
            expected = ("matched" if pin.chunk_id is None else "moved", same[0])
        elif same:
            expected = ("ambiguous", same[0])
        elif here is not None:
            expected = ("edited", here)
        else:
            expected = ("missing", None)
        assert (found.verdict, found.chunk) == expected
        assert found.places == len(same)


@given(st.lists(bare_pins | knowing_pins))
def test_unique_is_idempotent_and_loses_nothing(pins: list[Pin]) -> None:
    """Of two pins with one hash and one chunk, but other bytes, the first stands for both."""

    def meant(pin: Pin) -> tuple[str, str | None]:
        return pin.chunk_hash, pin.chunk_id

    once = unique(pins)
    assert unique(once) == once
    assert list(map(meant, once)) == list(dict.fromkeys(map(meant, pins)))
    assert once == sorted(once, key=pins.index)


@given(st.data(), places_of_a_corpus, st.sampled_from(["text", "hash"]))
def test_fill_is_a_total_order(data: st.DataObject, places: list[InlineChunk], by: str) -> None:
    """By (document, text, chunk) or by (hash, document, chunk), whatever the order they came in."""
    permuted = data.draw(st.permutations(places))
    filled = fill(permuted, by, len(places))
    keys = [(p.document_id, p.text, p.id) if by == "text" else (p.chunk_hash, p.document_id, p.id) for p in filled]
    assert keys == sorted(keys)
    assert filled == sorted(places, key=FILL_ORDERS[by])
    assert fill(permuted, by, 2) == filled[:2]


def test_the_order_of_inline_chunks_knows_all_that_they_differ_in() -> None:
    """Two sources of one name may hold one text under one id and differ in their weight alone."""
    light, heavy = place("c1"), place("c1")._replace(weight=0.9)
    for pair in ([light, heavy], [heavy, light]):
        (found,) = pinning.resolve([Pin(hash_chunk(TEXT))], pair, inline_order)
        assert found.chunk is light
        assert [fill(pair, by, 1) for by in FILL_ORDERS] == [[light], [light]]


# --- raw_hash, digest ---------------------------------------------------------------------------

storable = st.text(st.characters(exclude_categories=["Cs"]))


def test_raw_hash_is_of_the_bytes_as_they_are() -> None:
    assert raw_hash(SPACED) == "sha256:" + hashlib.sha256(SPACED.encode()).hexdigest()
    assert raw_hash(SPACED) != raw_hash(TEXT)


@pytest.mark.parametrize("dumps", [compact_json, orjson.dumps])
@given(chunks=st.lists(st.tuples(storable, storable, storable, st.booleans())))
def test_a_digest_is_sha256_of_the_rfc_8785_json(
    dumps: Callable[[Any], bytes], chunks: list[tuple[str, str, str, bool]]
) -> None:
    """Recomputed by another implementation of RFC 8785: control characters, quotes, astral planes and all."""
    canonical = rfc8785.dumps([list(chunk) for chunk in chunks])
    assert digest(chunks, dumps) == "sha256:" + hashlib.sha256(canonical).hexdigest()


@pytest.mark.parametrize("dumps", [compact_json, orjson.dumps])
def test_a_digest_of_every_awkward_character(dumps: Callable[[Any], bytes]) -> None:
    """The digest is stable over characters that JSON must escape, may escape and must not."""
    text = "".join(map(chr, range(0x100))) + '\\"/\u2028\u2029\ufeff\uffff\U0001f600\U0010ffff'
    canonical = rfc8785.dumps([[text, text, text, True]])
    assert digest([(text, text, text, True)], dumps) == "sha256:" + hashlib.sha256(canonical).hexdigest()


def test_a_digest_of_nothing() -> None:
    assert digest([]) == "sha256:" + hashlib.sha256(b"[]").hexdigest()


@given(st.lists(st.tuples(storable, storable, storable, st.booleans()), min_size=1, max_size=4), st.data())
def test_a_digest_tells_every_difference(chunks: list[tuple[str, str, str, bool]], data: st.DataObject) -> None:
    """One field of one chunk, or the order."""
    n, field = data.draw(st.tuples(st.integers(0, len(chunks) - 1), st.integers(0, 3)))
    row: list[Any] = list(chunks[n])
    row[field] = not row[field] if field == 3 else row[field] + "x"
    assert digest([*chunks[:n], tuple(row), *chunks[n + 1 :]]) != digest(chunks)
    assert (digest(chunks[::-1]) == digest(chunks)) == (chunks[::-1] == chunks)
