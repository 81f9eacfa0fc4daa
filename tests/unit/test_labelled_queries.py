"""Files of labelled queries as `retrieval-worker evaluate` reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from workbench.evaluation.queries import LabelledQuery, WrongLines, read_queries
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, *lines: str | bytes) -> Path:
    """A file of lines."""
    file = folder / "queries.jsonl"
    file.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    return file


def line(**fields: Any) -> str:
    """A line that has all it needs, with changes."""
    return json.dumps({"question": "hum", "relevant": ["c1"], **fields})


def test_a_line_needs_a_question_and_what_answers_it(tmp_path: Path) -> None:
    """Its number is its name; an empty line is no query, but counts."""
    file = written(tmp_path, b"\xef\xbb\xbf" + line().encode(), "", line(), "")
    assert read_queries(file) == [LabelledQuery("1", 1, "hum", {"c1": 1}), LabelledQuery("3", 3, "hum", {"c1": 1})]


def test_a_line_may_say_more(tmp_path: Path) -> None:
    """Grades, its name, its caller, where to search, and with what."""
    caller = {"user_id": "u1", "roles": ["editor"]}
    fields = {"corpus": "docs", "context": "code", "kind": "vague"}
    file = written(
        tmp_path,
        line(id="a", relevant={"c1": 3, "c2": 0, "c3": 1.0}, caller=caller, query_embedding=[0.5], **fields),
        line(id="b", relevant=[], caller="u2"),
    )
    first, second = read_queries(file)
    assert first == LabelledQuery("a", 1, "hum", {"c1": 3, "c2": 0, "c3": 1}, claims=caller, embedding=[0.5], **fields)
    assert (second.grades, second.claims) == ({}, {"user_id": "u2"})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("{}", "question: expected this field"),
        ('{"question": "hum"}', "relevant: expected this field"),
        (line(question=" "), "question: expected more than white space"),
        (line(question=3), "question: expected a string"),
        (line(question="a\x00"), "question: expected text without U+0000"),
        (line(question="\ud800"), "question: expected text without lone surrogates"),
        (line(relevant="c1"), "relevant: expected a list of ids, or an object of id and grade"),
        (line(relevant=[1]), "relevant: expected ids that are strings"),
        (line(relevant=["c1", "c1"]), "relevant: expected each id once"),
        (line(relevant=[""]), "relevant.<key>: expected at least 1 character"),
        (line(relevant={"c1": 1.5}), "relevant.c1: expected an integer"),
        (line(relevant={"c1": True}), "relevant.c1: expected an integer"),
        (line(relevant={"c1": -1}), "relevant.c1: expected at least 0 and at most 1000000"),
        ('{"question": "hum", "relevant": {"c1": NaN}}', "relevant.c1: expected a finite number"),
        ('{"question": "hum", "relevant": {"c1": 1, "c1": 2}}', "relevant: expected each key once"),
        ('{"question": "hum", "question": "x", "relevant": []}', "question: expected each key once"),
        (line(caller=3), "caller: expected an object"),
        (line(corpus=None), "corpus: expected a value or no such field, got null"),
        (line(caler="u1"), "caler: this field is not known"),
        (line(id="first"), "id: expected each once; line 1 has it too"),
        ("[]", "expected a JSON object"),
        ("{", "expected a JSON object on one line (Expecting property name enclosed in double quotes, column 2)"),
        ("[" * 100_000, "expected at most 32 levels of nesting"),
        (b"\xff", "expected text in UTF-8"),
    ],
)
def test_a_wrong_line_is_one_sentence(tmp_path: Path, wrong: str | bytes, said: str) -> None:
    """File, line, field and what was expected."""
    file = written(tmp_path, line(id="first"), wrong)
    with pytest.raises(WrongLines) as raised:
        read_queries(file)
    assert raised.value.message == f"{file}: line 2: {said}"


def test_every_wrong_line_is_named(tmp_path: Path) -> None:
    """All of them at once, not one a run."""
    file = written(tmp_path, "{}", line(), line(relevant=3))
    with pytest.raises(WrongLines, match="2 of 3 lines are wrong") as raised:
        read_queries(file)
    assert [sentence.partition(":")[0] for sentence in raised.value.lines] == ["line 1", "line 3"]


def test_a_file_without_a_query_is_none(tmp_path: Path) -> None:
    """Nor is one that can't be read."""
    with pytest.raises(WrongUsage, match="got no line"):
        read_queries(written(tmp_path, "", " "))
    with pytest.raises(WrongUsage, match="No such file"):
        read_queries(tmp_path / "other.jsonl")
