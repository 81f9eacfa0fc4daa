from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import hash_chunk
from worker.core.citations.document import (
    CitationRecord,
    create_citations_json,
    is_intact,
    read_citations_json,
)

SEED = ("chunk_hash", "source_id", "text", "weight", "section")
storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
records = st.builds(
    CitationRecord,
    chunk_hash=storable.map(hash_chunk),
    source_id=storable,
    text=storable,
    weight=st.floats(0, 1) | st.integers(0, 1),
    section=st.none() | storable,
    hash_version=st.sampled_from([None, 1]),
    chunk_id=st.none() | storable,
    page=st.none() | st.integers(-3, 10_000),
    coordinates=st.none() | st.dictionaries(storable, st.integers(), max_size=2) | st.lists(st.integers(), max_size=2),
)


def record(text: str = "Salt letters", source: str = "s1", section: str | None = None, **more: Any) -> CitationRecord:
    fields = {"chunk_hash": hash_chunk(text), "source_id": source, "text": text, "weight": 0.5, "section": section}
    return CitationRecord(**{**fields, **more})


# --- writing ------------------------------------------------------------------------------------


def test_the_document_is_the_seeds() -> None:
    """Seed 001's example: two citations of a verse, one of the chorus, two sources."""
    given_records = [
        CitationRecord("sha256:abc", "s2", "one", 0.9, "Verse 1"),
        CitationRecord("sha256:def", "s1", "two", 0.7, "Verse 1"),
        CitationRecord("sha256:ghi", "s2", "three", 0.85, "Chorus"),
    ]
    one, two, three = (dict(zip(SEED, r[:5], strict=True)) for r in given_records)
    assert create_citations_json(given_records) == {
        "by_section": {"Verse 1": [one, two], "Chorus": [three]},
        "all_citations": [one, two, three],
        "total_count": 3,
        "source_ids": ["s1", "s2"],
    }


def test_keys_stand_in_the_seeds_order() -> None:
    """Written as JSON without sorting, the document and its citations read like the seed's."""
    document = create_citations_json([record()])
    assert tuple(document) == ("by_section", "all_citations", "total_count", "source_ids")
    assert tuple(document["all_citations"][0]) == SEED


@pytest.mark.parametrize("section", [None, ""])
def test_no_section_is_grouped_as_unknown(section: str | None) -> None:
    """As the seed groups them; the citation itself says what was given, null or empty."""
    document = create_citations_json([record(section=section)])
    assert list(document["by_section"]) == ["unknown"]
    assert document["by_section"]["unknown"][0]["section"] == section


def test_a_section_called_unknown_and_none_at_all_share_a_group() -> None:
    """They stand in the order given, and each citation still tells which it is."""
    document = create_citations_json([record("a", section="unknown"), record("b")])
    assert [citation["section"] for citation in document["by_section"]["unknown"]] == ["unknown", None]


def test_sections_and_citations_keep_the_order_given() -> None:
    """Neither sections nor citations are sorted: the order is the caller's."""
    document = create_citations_json([record("z", section="B"), record("a", section="A"), record("m", section="B")])
    assert list(document["by_section"]) == ["B", "A"]
    assert [citation["text"] for citation in document["by_section"]["B"]] == ["z", "m"]
    assert [citation["text"] for citation in document["all_citations"]] == ["z", "a", "m"]


def test_sources_are_named_once_by_code_point() -> None:
    """As the database orders text: capitals before small letters, no locale."""
    sources = ["b", "é", "B", "a", "b", "10", "9", "\U0001f600", "\uffff"]
    document = create_citations_json([record(source=source) for source in sources])
    assert document["source_ids"] == ["10", "9", "B", "a", "b", "é", "\uffff", "\U0001f600"]


def test_optional_fields_are_there_only_if_known() -> None:
    """A page 0 and empty coordinates are known; what is not known has no key, not null."""
    known = {"hash_version": 1, "chunk_id": "c1", "page": 0, "coordinates": {}}
    with_all, without = create_citations_json([record(**known), record()])["all_citations"]
    assert {name: with_all[name] for name in known} == known
    assert tuple(without) == SEED


def test_no_records_make_an_empty_document() -> None:
    """Nothing cited is a document too."""
    empty = {"by_section": {}, "all_citations": [], "total_count": 0, "source_ids": []}
    assert create_citations_json([]) == empty


# --- integrity ----------------------------------------------------------------------------------


def test_a_text_is_intact_where_it_has_its_hash() -> None:
    """White space is no change, a letter is, and what can't be hashed is not intact."""
    pinned = hash_chunk("Carry me over")
    assert is_intact(record("Carry  me\nover", chunk_hash=pinned))
    assert is_intact(record("Carry me over", chunk_hash=pinned, hash_version=1))
    assert not is_intact(record("Carry me under", chunk_hash=pinned))
    assert not is_intact(CitationRecord(pinned, "s1", "lone \ud800", 1.0))
    assert not is_intact(CitationRecord(pinned, "s1", "U+0000 \0", 1.0))
    assert not is_intact(record("Carry me over", chunk_hash=pinned, hash_version=99))


# --- reading ------------------------------------------------------------------------------------


@given(st.lists(records, max_size=5))
def test_reading_gives_back_what_was_written(written: list[CitationRecord]) -> None:
    """Through JSON and back: the same records, and the same document of them."""
    document = json.loads(json.dumps(create_citations_json(written)))
    read = read_citations_json(document)
    assert read == written
    assert create_citations_json(read) == document


def test_a_text_that_lost_its_hash_is_read() -> None:
    """That is for the verification to find: the document is well-formed."""
    (read,) = read_citations_json(create_citations_json([record(chunk_hash=hash_chunk("other"))]))
    assert not is_intact(read)


def change(path: str, value: Any) -> dict[str, Any]:
    """A document of two citations, changed at one place in both of its lists, so that they agree."""
    document = copy.deepcopy(create_citations_json([record("a", section="A", page=3), record("b", "s2")]))
    if path in document:
        document[path] = value
    else:
        for citation in (document["all_citations"][0], document["by_section"]["A"][0]):
            citation[path] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("total_count", 3, "total_count"),
        ("total_count", True, "total_count"),
        ("source_ids", ["s2", "s1"], "source_ids"),
        ("source_ids", ["s1"], "source_ids"),
        ("by_section", {}, "by_section"),
        ("by_section", [], "by_section"),
        ("all_citations", {}, "all_citations"),
        ("all_citations", None, "all_citations"),
        ("all_citations", ["text"], "all_citations[0]"),
        ("all_citations", [], "by_section"),
        ("chunk_hash", "abc", "all_citations[0].chunk_hash"),
        ("chunk_hash", "sha256:" + "A" * 64, "all_citations[0].chunk_hash"),
        ("chunk_hash", None, "all_citations[0].chunk_hash"),
        ("source_id", 7, "all_citations[0].source_id"),
        ("text", None, "all_citations[0].text"),
        ("text", "U+0000 \0", "all_citations[0].text"),
        ("text", "lone \ud800", "all_citations[0].text"),
        ("weight", "0.5", "all_citations[0].weight"),
        ("weight", True, "all_citations[0].weight"),
        ("weight", 1.5, "all_citations[0].weight"),
        ("weight", float("nan"), "all_citations[0].weight"),
        ("section", 7, "all_citations[0].section"),
        ("hash_version", 99, "all_citations[0].hash_version"),
        ("hash_version", [], "all_citations[0].hash_version"),
        ("hash_version", None, "all_citations[0].hash_version"),
        ("chunk_id", 7, "all_citations[0].chunk_id"),
        ("page", "3", "all_citations[0].page"),
        ("page", True, "all_citations[0].page"),
        ("coordinates", None, "all_citations[0].coordinates"),
        ("similarity", 0.5, "all_citations[0].similarity"),
    ],
)
def test_a_malformed_document_is_refused_with_its_place(path: str, value: Any, where: str) -> None:
    """The message names the field and never repeats what stood there."""
    with pytest.raises(InvalidJob) as caught:
        read_citations_json(change(path, value))
    assert caught.value.path == f"citations.{where}"
    assert "lone" not in caught.value.message
    assert "abc" not in caught.value.message


@pytest.mark.parametrize("name", ["by_section", "all_citations", "total_count", "source_ids"])
def test_each_key_of_the_document_is_needed(name: str) -> None:
    """A document without one of the seed's four keys is none."""
    document = create_citations_json([record()])
    del document[name]
    with pytest.raises(InvalidJob, match=f"citations.{name}: expected this field"):
        read_citations_json(document)


@pytest.mark.parametrize("name", SEED)
def test_each_key_of_a_citation_is_needed(name: str) -> None:
    """A citation without one of the seed's five keys is none; its optional ones may be absent."""
    document = create_citations_json([record()])
    del document["all_citations"][0][name]
    with pytest.raises(InvalidJob, match="expected this field"):
        read_citations_json(document)


@pytest.mark.parametrize("document", [None, [], "citations", 7, {"version": 1}])
def test_what_is_no_document_is_refused(document: Any) -> None:
    """Any JSON may come from outside."""
    with pytest.raises(InvalidJob):
        read_citations_json(document)


def test_other_keys_are_refused() -> None:
    """An unknown field is a mistake of the sender, as everywhere in the contract."""
    with pytest.raises(InvalidJob, match=r"citations\.version: this field is not known"):
        read_citations_json({**create_citations_json([record()]), "version": 1})


def test_the_callers_path_is_named() -> None:
    """The same reader serves wherever a document stands in a job."""
    with pytest.raises(InvalidJob, match=r"^job\.pins: expected an object"):
        read_citations_json(7, "job.pins")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SEED, "all_citations"]), inner),
        max_leaves=8,
    )
)
def test_any_json_is_a_document_or_refused(document: Any) -> None:
    """No other exception, whatever comes."""
    try:
        read_citations_json(document)
    except InvalidJob:
        return
    raise AssertionError("nothing this small is a document")


def test_a_document_that_was_kept_holds_its_conflicts_and_is_read_like_any() -> None:
    """They are findings: a list, and nothing else is asked of them."""
    document = create_citations_json([record()])
    assert read_citations_json({**document, "conflicts": [{"kind": "of another version"}]}) == [record()]
    for wrong in ({}, None, "none"):
        with pytest.raises(InvalidJob, match=r"citations\.conflicts: expected a list"):
            read_citations_json({**document, "conflicts": wrong})
