from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.errors import InvalidJob
from worker.core.citations.labels import MAX_EXPANDED, LabelReport, classify, defused, find_labels

GIVEN = {f"S{n}": f"sha256:{n}" for n in range(1, 6)}
LABELS = ["S1", "S2", "S0", "S01", "s1", "S9", "Ｓ１"]
pieces = st.sampled_from([*LABELS, *"[]【】［］-–,;`~>†()1x \n\\\ud800", "\n\n", "```", "~~~", "- "])
answers = st.lists(pieces, max_size=30).map("".join) | st.text(st.characters(), max_size=30)


def used(answer: str) -> list[str]:
    return [label.label for label in classify(answer, GIVEN).used]


def unknown(answer: str) -> list[str]:
    return [text for text, _ in classify(answer, GIVEN).unknown]


# --- forms --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "labels"),
    [
        ("Hum [S1].", ["S1"]),
        ("[S1, S2]", ["S1", "S2"]),
        ("[S1,S2]", ["S1", "S2"]),
        ("[S1; S2]", ["S1", "S2"]),
        ("[S1 S2]", ["S1", "S2"]),
        ("[S1,\nS2]", ["S1", "S2"]),
        ("[S1][S2]", ["S1", "S2"]),
        ("[S1-S3]", ["S1", "S2", "S3"]),
        ("[S1–S3]", ["S1", "S2", "S3"]),
        ("[S1 — S3]", ["S1", "S2", "S3"]),
        ("[S1-S2, S4]", ["S1", "S2", "S4"]),
        ("[S2-S2]", ["S2"]),
        ("[ S1 ]", ["S1"]),
        ("【S1】", ["S1"]),
        ("【S1、S2】", ["S1", "S2"]),
        ("［S1］", ["S1"]),
        ("[[S1]]", ["S1"]),
        ("[S1](https://example.invalid)", ["S1"]),
        ("[S1, p. 3]", ["S1"]),
        ("[s1]", ["S1"]),
        ("[Ｓ１]", ["S1"]),
        ("[S1 and S2]", ["S1", "S2"]),
        ("[see S1]", ["S1"]),
        ("[S1】", ["S1"]),
        ("【S1†L2-L3】", ["S1"]),
    ],
)
def test_labels_are_found_in_every_usual_form(answer: str, labels: list[str]) -> None:
    """Lists, ranges and chains, in square and in lenticular brackets."""
    assert used(answer) == labels
    assert unknown(answer) == []


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("[S0]", "S0"),
        ("[S9]", "S9"),
        ("[S01]", "S01"),
        ("[s9]", "s9"),
        ("[Source 9]", "Source 9"),
        ("[see S9]", "S9"),
        ("[S3-S1]", "S3-S1"),
        ("[S0-S2]", "S0-S2"),
        ("[S9999999999]", "S9999999999"),
        ("[S1-S9999999999]", "S1-S9999999999"),
    ],
)
def test_what_was_not_given_is_unknown_and_never_mapped(answer: str, text: str) -> None:
    """A label that was not given, and what only begins as one, is reported as written."""
    assert used(answer) == []
    assert unknown(answer) == [text]


@pytest.mark.parametrize(
    "answer",
    [
        "S1",
        "(S1)",
        "[Figure S1]",
        "[1]",
        "[S]",
        "[S 1]",
        "[S-1]",
        "[S1a]",
        "[S²]",
        "[S1",
        "S1]",
        "[S1 is where the harbour thins to sand, and more of that]",
        r"\[S1]",
        r"[S1\]",
        r"\\\[S1]",
        "[AS1]",
        "[]",
    ],
)
def test_what_is_no_label_is_not_reported(answer: str) -> None:
    """Prose, other brackets, escaped brackets and brackets that do not match."""
    assert find_labels(answer) == []


@pytest.mark.parametrize(
    ("answer", "labels", "text"),
    [
        ("[S1, 2]", ["S1"], "[S1, 2]"),
        ("Hum [S1, see 2].", ["S1"], "[S1, see 2]"),
        ("[S1-3]", ["S1"], "[S1-3]"),
        ("[note [S1], S2]", ["S1", "S2"], "[note [S1], S2]"),
        ("[S1 (2)]", ["S1"], "[S1 (2)]"),
        ("[S1, `S2`]", ["S1"], "[S1, `S2`]"),
        ("[S1 but not S2]", [], "[S1 but not S2]"),
        ("(S1 says so)", [], "(S1 says so)"),
        ("f(S1)", [], "(S1)"),
        ("x[s1]", [], "[s1]"),
        ("[\u200bS1]", [], "[\u200bS1]"),
    ],
)
def test_a_bracket_that_can_not_be_read_whole_is_reported(answer: str, labels: list[str], text: str) -> None:
    """In square brackets a label that stands alone counts all the same; nothing else is guessed."""
    report = classify(answer, GIVEN)
    assert [label.label for label in report.used] == labels
    assert [one for one, _ in report.unreadable] == [text]


@pytest.mark.parametrize("answer", ["[S\u200b1]", "[S\u20601]", "[\u04051]", "[see \u04051]", "(\u04051)"])
def test_what_looks_like_a_label_is_one(answer: str) -> None:
    """With a sign inside that can't be seen, or a Cyrillic letter."""
    assert [label.label for label in classify(answer, GIVEN).used] == ["S1"]
    assert classify(defused(answer), GIVEN).used == ()


@pytest.mark.parametrize("answer", ["(S1)", "（S1, S2）", "{S1}", "<S1>", "「S1」", "(see S1)", "[the report](S1)"])
def test_other_brackets_count_where_a_label_in_them_was_given(answer: str) -> None:
    """Where none was, they are ordinary text."""
    assert classify(answer, GIVEN).used[0].label == "S1"
    others = classify(answer, {"S7": "sha256:7"})
    assert (others.used, others.unknown, others.unreadable) == ((), (), ())


def test_a_backslash_that_is_escaped_escapes_nothing() -> None:
    """Two backslashes are one, and the bracket after them is a bracket."""
    assert used(r"\\[S1]") == ["S1"]


# --- code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "`[S1]`",
        "`` ` [S1] ``",
        "```\n[S1]\n```",
        "```python\n[S1]",
        "````\n```\n[S1]\n````",
        "~~~\n[S1]\n```\n~~~",
        "  ```\n  [S1]\n  ```",
        "- ```\n  [S1]\n  ```",
        "1. ~~~ text\n   [S1]\n   ~~~",
        "> ```\n> [S1]\n> ```",
        "text ```[S1]``` text",
        "a `code\nover lines [S1]` b",
        "```\r\n[S1]\r\n```",
        "A.\n\n    [S1]\n\nB",
        "A.\n\n\t[S1]\n\nB",
        "A.\r\n\r\n    [S1]\r\n",
        "    [S1]",
        "    a\n\n      [S1]",
        "# A\n    [S1]",
        "---\n    [S1]",
        "- a\n\n      [S1]",
        "1. a\n\n\t\t[S1]",
        "- a\n  - b\n\n        [S1]",
        "-     [S1]",
        ">     [S1]",
        "> A\n>\n>     [S1]",
        "> a\n\n    [S1]",
        "A.\n\n    - [S1]",
        "A ```\n[S1]\n``` B",
        "A ````\n[S1]\n```` B\nC",
    ],
)
def test_code_holds_no_labels(answer: str) -> None:
    """Fenced blocks of either kind, closed or not, in lists and quotes; indented blocks; and inline code."""
    assert find_labels(answer) == []


@pytest.mark.parametrize(
    "answer",
    [
        "```\ncode\n``` \n[S1]",
        "~~~\ncode\n~~~~\n[S1]",
        "> ```\n> code\nquote has ended [S1]",
        "a ` b [S1]",
        "a ` b\n\nc [S1] ` d",
        "- a ` b\n- c [S1] ` d",
        "`` a ` [S1]",
        r"\`[S1]\`",
        "``` not a fence ` [S1]",
        "`code` [S1] `code`",
        "A.\n    [S1]",
        "A.\n\n   [S1]",
        "- a\n\n    [S1]",
        "- a\n\n\t[S1]",
        "10. a\n\n    [S1]",
        "- a\n    - b [S1]",
        "- a\n    - b\n\n        [S1]",
        "1. a\n\n   b\n\n    [S1]",
        "- a\nlazy\n\n    [S1]",
        "> A\n>     [S1]",
        "> - a\n>\n>     [S1]",
        "    code\n[S1]",
        "    code\n\n  [S1]",
        "- \t [S1]",
        "Write ``` first [S1].\n```\ncode\n```",
    ],
)
def test_what_stands_beside_code_counts(answer: str) -> None:
    """A fence ends, a stray backtick is a character, and inline code stays within its block."""
    assert used(answer) == ["S1"]


# --- the report ---------------------------------------------------------------------------------


def test_the_report_names_each_label_once_by_number() -> None:
    """Used with all their places, unused, and unknown in the answer's order."""
    answer = "One [S10], two [S2, S7] and again [S2]; [S0]."
    report = classify(answer, {"S10": "x", "S9": "y", "S2": "z"})
    assert [(label.label, label.chunk_hash) for label in report.used] == [("S2", "z"), ("S10", "x")]
    assert [[answer[slice(*span)] for span in label.spans] for label in report.used] == [["S2", "S2"], ["S10"]]
    assert report.unused == ("S9",)
    assert [(text, answer[slice(*span)]) for text, span in report.unknown] == [("S7", "S7"), ("S0", "S0")]


def test_a_range_gives_what_was_given_and_says_the_rest_in_short() -> None:
    """However long it is; every label of it stands where the range stands."""
    report = classify("[S2-S999999999]", {"S1": "a", "S2": "b", "S5": "c", "S7": "d"})
    assert [(label.label, label.spans) for label in report.used] == [
        ("S2", ((1, 14),)),
        ("S5", ((1, 14),)),
        ("S7", ((1, 14),)),
    ]
    assert report.unknown == (("S3-S4", (1, 14)), ("S6", (1, 14)), ("S8-S999999999", (1, 14)))


def test_ranges_can_not_blow_up_a_report() -> None:
    """Past a bound on all labels that ranges stand for, a range is unknown as a whole."""
    labels = {f"S{n}": "x" for n in range(1, 1001)}
    report = classify("[S1-S1000]" * 200, labels)
    assert sum(len(label.spans) for label in report.used) == MAX_EXPANDED
    assert {text for text, _ in report.unknown} == {"S1-S1000"}
    assert len(report.unknown) == 200 - MAX_EXPANDED // 1000


@pytest.mark.parametrize("label", ["", "S", "S0", "S01", "s1", "1", "[S1]", "S1 ", "S-1", "S1234567890", "S١"])
def test_a_given_label_has_the_form_that_is_looked_for(label: str) -> None:
    """Another could never be found in an answer, so it is a mistake of the sender."""
    with pytest.raises(InvalidJob, match="labels: expected labels of the form S1"):
        classify("", {label: "sha256:1"})


def test_nothing_given_and_nothing_said() -> None:
    """An empty report is empty."""
    assert classify("", {}) == LabelReport((), (), ())


@given(answers)
def test_spans_point_at_the_labels_text(answer: str) -> None:
    """Any text at all: each label is what stands at its place, in order, none inside another."""
    labels = find_labels(answer, GIVEN)
    assert all(answer[label.start : label.end] == label.name for label in labels)
    assert all(one.end <= other.start for one, other in pairwise(labels))


@given(answers)
def test_every_label_is_used_or_unused_and_none_was_made_up(answer: str) -> None:
    """The given labels are divided; unknown ones are none of these, unless a part of a range."""
    report = classify(answer, GIVEN)
    names = [label.label for label in report.used]
    assert sorted([*names, *report.unused]) == sorted(GIVEN)
    assert all(label.chunk_hash == GIVEN[label.label] for label in report.used)
    assert all(text not in GIVEN for text, _ in report.unknown)
    assert all(answer[slice(*span)] == text for text, span in report.unreadable)


@pytest.mark.parametrize(
    "unit",
    [
        "[",
        "[S1",
        "[S1-",
        "(",
        "(S1",
        "([",
        "[(",
        "<{",
        "[S1(]",
        "S1, ",
        "Source ",
        "`",
        "` ",
        "\\",
        "【",
        "\n",
        "> ",
        "- ",
        "[S1]",
        "```\n",
        "~",
        "    a\n\n",
        "- a\n\n    ",
        "a ```\n``` b\n\n",
        "> - ",
    ],
)
def test_a_long_answer_of_anything_is_read(unit: str) -> None:
    """Fifty thousand characters of what a backtracking reader would choke on."""
    find_labels(unit * (50_000 // len(unit)), GIVEN)


CITED = {"S1": "one", "S2": "two", "S3": "three"}


@pytest.mark.parametrize(
    ("answer", "cited", "unknown"),
    [
        ("It hums [S1] and burns [S2].", ["S1"], ["S2"]),
        ("It hums [S1, S2].", ["S1"], ["S2"]),
        ("It hums [S1-S3].", ["S1", "S3"], ["S2"]),
        ("It hums (S2).", [], ["S2"]),
        ("It hums [Source 2].", [], ["Source 2"]),
        ("It hums [S1] [S3].", ["S1", "S3"], []),
    ],
)
def test_a_label_of_a_chunk_that_is_not_cited_is_unknown(answer: str, cited: list[str], unknown: list[str]) -> None:
    """It leads a reader to no source, whatever it was given for; where the answer does not use it, it is unused."""
    report = classify(answer, CITED, {"one", "three"})
    assert [label.label for label in report.used] == cited
    assert [text for text, _ in report.unknown] == unknown
    used = {*cited, *(f"S{text[-1]}" for text in unknown)}
    assert set(report.unused) == {*CITED} - used
