"""Files for the reference corpora: read whole, or refused with one sentence that names the place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from worker.cli.corpus_files import SAMPLES, DocSection, Document, Example, read
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = {"id": "c1", "text": "chunk"}
DOCUMENT = {"id": "d1", "owner": "alice", "chunks": [CHUNK]}
SECTION = {"id": "s1", "page_name": "Filters", "page_url": "/filters", "section_title": "Low-pass", "content": "darker"}
EXAMPLE = {"id": "e1", "title": "Beat", "description": "a beat", "code": 's("bd")'}


@pytest.fixture
def refusal(tmp_path: Path) -> Any:
    """The sentence with which a content is refused, without the file's name in front."""

    def refused(content: Any) -> str:
        path = tmp_path / "corpus.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        with pytest.raises(WrongUsage) as caught:
            read(path)
        assert caught.value.message.startswith(f"{path}: ")
        return caught.value.message.removeprefix(f"{path}: ")

    return refused


@pytest.mark.parametrize(
    ("corpus", "kind", "items", "chunks"),
    [("documents", Document, 20, 107), ("docs", DocSection, 111, 111), ("examples", Example, 51, 51)],
)
def test_the_sample_files_are_read(corpus: str, kind: type, items: int, chunks: int) -> None:
    """Each holds the items of its corpus."""
    file = read(SAMPLES[corpus])
    assert (file.corpus, len(file.items), file.chunks) == (corpus, items, chunks)
    assert {type(item) for item in file.items} == {kind}


def test_sections_of_the_manual_are_of_one_size() -> None:
    """60 to 150 words each, under a title that its page has once."""
    sections = [item for item in read(SAMPLES["docs"]).items if isinstance(item, DocSection)]
    assert all(60 <= len(section.content.split()) <= 150 for section in sections)
    assert len({(section.page_url, section.section_title) for section in sections}) == len(sections)


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    """Only the fields that nothing can be found or cited without are needed."""
    path = tmp_path / "minimal.json"
    for corpus, item in (("documents", DOCUMENT), ("docs", SECTION), ("examples", EXAMPLE)):
        path.write_text(json.dumps({corpus: [item]}))
        assert read(path).items[0].id == item["id"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected JSON, and line 1 is none (Expecting value)"),
        (b'{"documents":\n [}', "expected JSON, and line 2 is none (Expecting value)"),
        (b"[" * 100_000, "expected JSON that is nested less deep"),
        ([SECTION], "expected one object with one list"),
        ({}, "expected one object with one list"),
        ({"pages": [SECTION]}, "documents, docs, examples"),
        ({"docs": [], "examples": []}, "expected one object with one list"),
        ({"docs": SECTION}, "docs: expected a list"),
        ({"docs": [SECTION, "text"]}, "docs[1]: expected"),
        ({"docs": [{**SECTION, "content": None}]}, "docs[0].content: expected a string"),
        ({"docs": [{**SECTION, "author": "x"}]}, "docs[0].author: this field is not known"),
        ({"examples": [{"id": "e1"}]}, "examples[0].title: expected this field"),
        ({"examples": [{**EXAMPLE, "tags": "drums"}]}, "examples[0].tags: expected a list"),
        ({"examples": [{**EXAMPLE, "id": ""}]}, "examples[0].id: "),
        ({"examples": [EXAMPLE, EXAMPLE]}, "examples[1].id: expected an id that no item before has"),
        ({"documents": [{**DOCUMENT, "chunks": [CHUNK, CHUNK]}]}, "documents[0]: expected chunk ids"),
        (
            {"documents": [DOCUMENT, {**DOCUMENT, "id": "d2"}]},
            "documents[1]: expected chunk ids that no chunk before has: c1 is in d1 already",
        ),
        (
            {"documents": [{**DOCUMENT, "visibility": "all"}]},
            "documents[0].visibility: expected 'public', 'tenant' or 'private'",
        ),
        ({"documents": [{**DOCUMENT, "chunks": [{**CHUNK, "page": 2**31}]}]}, "documents[0].chunks[0].page: "),
        ({"docs": [{**SECTION, "content": "a\0b"}]}, "docs[0].content: expected text without U+0000"),
        ({"docs": [{**SECTION, "metadata": {"a": ["\ud800"]}}]}, "docs[0].metadata.a[0]: expected text without lone"),
        (b'{"docs": [{"id": NaN}]}', "docs[0].id: expected a finite number"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(refusal: Any, content: Any, said: str) -> None:
    """It names the file, the first wrong place, and what was expected there."""
    sentence = refusal(content)
    assert said in sentence
    assert "\n" not in sentence


def test_a_refusal_does_not_repeat_a_text(refusal: Any) -> None:
    """A file's texts may be confidential: the terminal and its log are not."""
    assert "secret" not in refusal({"docs": [{**SECTION, "metadata": "a secret text"}]})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """One that is not there is refused like one that is no JSON."""
    with pytest.raises(WrongUsage, match=r"nowhere\.json"):
        read(tmp_path / "nowhere.json")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_encodings_with_a_mark_and_json_lines_are_read(tmp_path: Path, encoding: str, ending: str) -> None:
    """As other programs export them; blank lines are none."""
    path = tmp_path / f"items.{ending}"
    items = [SECTION, {**SECTION, "id": "Düne"}]
    text = json.dumps({"docs": items}) if ending == "json" else "\r\n\r\n".join(map(json.dumps, items))
    path.write_bytes(text.encode(encoding))
    assert [item.id for item in read(path).items] == ["s1", "Düne"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"{}\n{\n", ": expected JSON, and line 2 is none"),
        (b'{"id": "a"}', ": expected an item on each line, with one of the fields chunks, page_url, code"),
        (b"", ": expected an item on each line"),
        ('{"title":\n "D\u00fcne"}'.encode("latin-1"), ", line 2: expected text in UTF-8"),
    ],
)
def test_json_lines_of_another_form_are_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    """With the file and the line."""
    path = tmp_path / "items.jsonl"
    path.write_bytes(content)
    with pytest.raises(WrongUsage) as caught:
        read(path)
    assert caught.value.message.startswith(f"{path}{sentence}")
