from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.hashing import hash_chunk
from worker.core.citations.conflicts import Conflict, find_conflicts
from worker.core.citations.document import CitationRecord, is_intact

if TYPE_CHECKING:
    from collections.abc import Sequence

texts = st.sampled_from(["Salt letters", "Salt  letters", "Salt ferries", "", "lone \ud800", "U+0000 \0"])
hashes = st.sampled_from([hash_chunk(text) for text in ("Salt letters", "Salt ferries", "")])
record_lists = st.lists(
    st.builds(
        CitationRecord,
        chunk_hash=hashes,
        source_id=st.sampled_from("ab"),
        text=texts | st.text(st.characters(), max_size=5),
        weight=st.sampled_from([0, 0.5, 1]),
        section=st.sampled_from([None, "Verse"]),
        hash_version=st.sampled_from([None, 1, 99]),
        chunk_id=st.sampled_from([None, "c1", "c2"]),
        page=st.none(),
        coordinates=st.none(),
    ),
    max_size=8,
)


def record(text: str = "Salt letters", source: str = "s1", weight: float = 0.5, **more: Any) -> CitationRecord:
    fields = {"chunk_hash": hash_chunk(text), "source_id": source, "text": text, "weight": weight}
    return CitationRecord(**{**fields, **more})


def kinds(records: Sequence[CitationRecord]) -> list[tuple[str, list[int]]]:
    return [(found.kind, [side.index for side in found.sides]) for found in find_conflicts(records)]


def test_records_that_agree_have_no_conflict() -> None:
    """Other texts, other sources, the same chunk twice with one weight: nothing to report."""
    agreeing = [record(), record(section="Chorus"), record("Salt ferries", "s2", 0.9), record("Oars", chunk_id="c1")]
    assert find_conflicts(agreeing) == []
    assert find_conflicts([]) == []


def test_the_same_text_under_two_sources() -> None:
    """All that hold it, whole, with their sources; white space does not make it another text."""
    records = [record(), record("Oars"), record("Salt \n letters", "s2"), record()]
    (found,) = find_conflicts(records)
    assert found.kind == "same_text_two_sources"
    assert [(side.index, side.source_id, side.span) for side in found.sides] == [
        (0, "s1", (0, 12)),
        (2, "s2", (0, 14)),
        (3, "s1", (0, 12)),
    ]
    assert {side.chunk_hash for side in found.sides} == {hash_chunk("Salt letters")}


def test_a_false_hash_does_not_hide_that_texts_are_the_same() -> None:
    """Texts are compared themselves, and the false hash is a conflict of its own."""
    assert kinds([record(), record(source="s2", chunk_hash=hash_chunk("other"))]) == [
        ("same_text_two_sources", [0, 1]),
        ("text_hash_mismatch", [1]),
    ]


def test_one_chunk_id_with_two_texts() -> None:
    """Of whatever sources; the spans hold the words that differ."""
    records = [
        record("The bus measured −84 dBu at night.", chunk_id="c1"),
        record("Oars", chunk_id="c2"),
        record("The bus measured −8 dBu at night.", "s2", chunk_id="c1"),
    ]
    (found,) = find_conflicts(records)
    assert found.kind == "chunk_id_two_texts"
    assert [(side.index, records[side.index].text[slice(*side.span)]) for side in found.sides] == [
        (0, "−84"),
        (2, "−8"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        ("a b c", "a x c", ("b", "x")),
        ("a c", "a b c", ("", "b ")),
        ("a b b c", "a b c", ("b ", "")),
        ("a b", "a b c", ("", " c")),
        ("b c", "a b c", ("", "a ")),
        ("abc", "xyz", ("abc", "xyz")),
        ("", "a b", ("", "a b")),
        ("a a", "a a a", ("", " a")),
    ],
)
def test_the_span_is_what_stands_between_common_beginning_and_end(
    one: str, other: str, differing: tuple[str, str]
) -> None:
    """In whole words: a word that differs in a letter differs."""
    (found,) = find_conflicts([record(one, chunk_id="c1"), record(other, chunk_id="c1")])
    assert tuple(text[slice(*side.span)] for text, side in zip((one, other), found.sides, strict=True)) == differing


def test_three_texts_of_one_chunk_id_are_one_conflict() -> None:
    """With a side for every record, those that agree with each other as well."""
    records = [record(text, chunk_id="c1") for text in ("one oar", "two oars", "one oar", "no oars")]
    assert kinds(records) == [("chunk_id_two_texts", [0, 1, 2, 3])]


def test_white_space_is_no_second_text() -> None:
    """A chunk that was only reflowed says the same."""
    assert find_conflicts([record("a  b", chunk_id="c1"), record("a b", chunk_id="c1")]) == []


def test_a_text_that_does_not_match_its_hash() -> None:
    """Each such record by itself; also where the text or the version of the hash can't be hashed at all."""
    records = [
        record(),
        record("changed", chunk_hash=hash_chunk("Salt letters")),
        CitationRecord(hash_chunk("x"), "s1", "lone \ud800", 0.5),
        record("Oars", hash_version=99),
    ]
    assert kinds(records) == [("text_hash_mismatch", [index]) for index in (1, 2, 3)]
    (side,) = find_conflicts(records)[0].sides
    assert (side.chunk_hash, side.span) == (hash_chunk("Salt letters"), (0, 7))


def test_a_weight_that_differs_for_the_same_chunk() -> None:
    """Cited in two sections with two weights; 1 and 1.0 are one weight."""
    assert kinds([record(weight=0.5), record(weight=0.7, section="Chorus")]) == [("weight_differs", [0, 1])]
    assert kinds([record(weight=1), record(weight=1.0)]) == []


def test_other_chunks_may_have_other_weights() -> None:
    """The same text twice in a source is two chunks if their ids say so; without ids it is one."""
    one, other = record(weight=0.5, chunk_id="c1"), record(weight=0.7, chunk_id="c2")
    assert kinds([one, other]) == []
    assert kinds([one, record(weight=0.7)]) == [("weight_differs", [0, 1])]
    assert kinds([one, other, record(weight=0.9)]) == []
    assert kinds([one, other, record(weight=0.9), record(weight=0.8)]) == [("weight_differs", [2, 3])]


def test_kinds_come_in_order() -> None:
    """By kind, then by the records' indices."""
    records = [
        record(weight=0.1),
        record("Oars", chunk_id="c1"),
        record(weight=0.2, source="s2"),
        record(weight=0.3),
        record("Ropes", chunk_id="c1", chunk_hash=hash_chunk("x")),
    ]
    assert kinds(records) == [
        ("chunk_id_two_texts", [1, 4]),
        ("same_text_two_sources", [0, 2, 3]),
        ("text_hash_mismatch", [4]),
        ("weight_differs", [0, 3]),
    ]


@given(record_lists)
def test_known_integrity_changes_nothing(records: list[CitationRecord]) -> None:
    """Handing in what was hashed already only saves the time."""
    assert find_conflicts(records, [is_intact(record) for record in records]) == find_conflicts(records)


@given(record_lists, st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_matter(records: list[CitationRecord], random: Any) -> None:
    """Any permutation has the same conflicts between the same records."""
    order = list(range(len(records)))
    random.shuffle(order)

    def named(conflict: Conflict, places: Sequence[int]) -> tuple[Any, ...]:
        return conflict.kind, sorted((places[side.index], side.span, side.source_id) for side in conflict.sides)

    straight = sorted(named(found, range(len(records))) for found in find_conflicts(records))
    shuffled = sorted(named(found, order) for found in find_conflicts([records[i] for i in order]))
    assert shuffled == straight


@given(record_lists)
def test_spans_lie_in_the_texts(records: list[CitationRecord]) -> None:
    """Any text at all: who and where are of the records given."""
    for found in find_conflicts(records):
        assert [side.index for side in found.sides] == sorted({side.index for side in found.sides})
        for side in found.sides:
            one = records[side.index]
            assert (side.chunk_hash, side.source_id) == (one.chunk_hash, one.source_id)
            assert 0 <= side.span[0] <= side.span[1] <= len(one.text)
