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


AGREEING = [record(), record(section="Chorus"), record("Salt ferries", "s2", 0.9), record("Oars", chunk_id="c1")]
WEIGHTS = [record(weight=0.5, chunk_id="c1"), record(weight=0.7, chunk_id="c2"), record(weight=0.9)]
FALSE_HASH = hash_chunk("other")
MIXED = [
    record(weight=0.1),
    record("Oars", chunk_id="c1"),
    record(weight=0.2, source="s2"),
    record(weight=0.3),
    record("Ropes", chunk_id="c1", chunk_hash=FALSE_HASH),
]


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([], []),
        (AGREEING, []),
        # the same text under two sources: all that hold it; white space or a false hash makes no other text of it
        ([record(), record("Oars"), record("Salt \n letters", "s2")], [("same_text_two_sources", [0, 2])]),
        (
            [record(), record(source="s2", chunk_hash=FALSE_HASH)],
            [("same_text_two_sources", [0, 1]), ("text_hash_mismatch", [1])],
        ),
        # one chunk id with several texts: one conflict of all; not where a chunk was only reflowed
        (
            [record(text, chunk_id="c1") for text in ("one oar", "two oars", "one oar", "no oars")],
            [("chunk_id_two_texts", [0, 1, 2, 3])],
        ),
        ([record("a  b", chunk_id="c1"), record("a b", chunk_id="c1")], []),
        # a text that is not what its hash was made of, or a text or hash version that can't be hashed at all
        (
            [record(), record("changed", chunk_hash=FALSE_HASH), CitationRecord(FALSE_HASH, "s1", "lone \ud800", 0.5)],
            [("text_hash_mismatch", [1]), ("text_hash_mismatch", [2])],
        ),
        ([record("Oars", hash_version=99)], [("text_hash_mismatch", [0])]),
        # the same chunk with two weights; the same text twice in a source is two chunks if their ids say so
        ([record(weight=0.5), record(weight=0.7, section="Chorus")], [("weight_differs", [0, 1])]),
        ([record(weight=1), record(weight=1.0)], []),
        (WEIGHTS[:2], []),
        (WEIGHTS[::2], [("weight_differs", [0, 1])]),
        (WEIGHTS, []),
        ([*WEIGHTS, record(weight=0.8)], [("weight_differs", [2, 3])]),
        # by kind, then by index
        (
            MIXED,
            [
                ("chunk_id_two_texts", [1, 4]),
                ("same_text_two_sources", [0, 2, 3]),
                ("text_hash_mismatch", [4]),
                ("weight_differs", [0, 3]),
            ],
        ),
    ],
)
def test_conflicts_by_kind(records: list[CitationRecord], found: list[tuple[str, list[int]]]) -> None:
    """Which kinds, and between which records."""
    assert kinds(records) == found


def test_a_side_is_a_whole_text_with_its_source_and_hash() -> None:
    """Where the texts are the same the span is all of each."""
    (conflict,) = find_conflicts([record(), record("Salt \n letters", "s2")])
    assert [(side.source_id, side.span) for side in conflict.sides] == [("s1", (0, 12)), ("s2", (0, 14))]
    assert {side.chunk_hash for side in conflict.sides} == {hash_chunk("Salt letters")}


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        ("The bus measured −84 dBu at night.", "The bus measured −8 dBu at night.", ("−84", "−8")),
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
    """In whole words: a word that differs in a letter differs; of whatever sources."""
    (found,) = find_conflicts([record(one, chunk_id="c1"), record(other, "s2", chunk_id="c1")])
    assert tuple(text[slice(*side.span)] for text, side in zip((one, other), found.sides, strict=True)) == differing


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
