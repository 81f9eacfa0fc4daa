from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from retrieval_client.errors import InvalidJob
from worker.core.citations.labels import classify
from worker.core.citations.statements import read_statements, without_marker

GIVEN = ["S1", "S2", "S3"]
pieces = st.sampled_from(
    [
        *("It hums", "it", "e.g.", "3.5 dB", "S1", "S2", "S9", "[S1]", "[S2, S3]", "[S9]", *".!?[]`-#|> \n", "\n\n"),
        *("```", "。", "铝", "“", "”", "\u2028", "\r", "\ud800"),
    ]
)
answers = st.lists(pieces, max_size=30).map("".join) | st.text(st.characters(), max_size=40)


def read(answer: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.text, one.labels) for one in read_statements(answer, GIVEN).sentences]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It hums [S1]. It burns [S2].", [("It hums.", ("S1",)), ("It burns.", ("S2",))]),
        ("It hums. [S1] It burns. [S2]", [("It hums.", ("S1",)), ("It burns.", ("S2",))]),
        ("It hums.[S1] It burns.[S2]", [("It hums.", ("S1",)), ("It burns.", ("S2",))]),
        ("It hums.\n[S1]", [("It hums.", ("S1",))]),
        ("It hums [S1] and burns [S2, S3].", [("It hums and burns.", ("S1", "S2", "S3"))]),
        ("It hums [S3][S1]. So!", [("It hums.", ("S1", "S3")), ("So!", ())]),
        ("[S1] It hums. So!", [("It hums.", ("S1",)), ("So!", ())]),
        ("It hums [S1-S3] [S1].", [("It hums.", ("S1", "S2", "S3"))]),
        ("It hums [S9].", [("It hums.", ())]),
        ("It says: “It hums. It burns.” [S1] So!", [("It says: “It hums. It burns.”", ("S1",)), ("So!", ())]),
        ('A 5" reel. A 7" reel [S1].', [('A 5" reel.', ()), ('A 7" reel.', ("S1",))]),
        ("它嗡嗡响。[S1]好。", [("它嗡嗡响。", ("S1",)), ("好。", ())]),
    ],
)
def test_a_label_stands_with_the_sentence_it_is_in_or_follows(
    answer: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    """Before the full stop or after it; what follows begins a sentence of its own."""
    assert read(answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("- It hums. [S1]\n- It burns [S2]", [("It hums.", ("S1",)), ("It burns", ("S2",))]),
        ("1. It hums [S1]\n2. It burns [S2]", [("It hums", ("S1",)), ("It burns", ("S2",))]),
        ("> It hums [S1]", [("It hums", ("S1",))]),
        ("# Noise [S1]\nIt hums.", [("It hums.", ("S1",))]),
        ("It hums.\n\n[S1] So.", [("It hums.", ()), ("So.", ("S1",))]),
        ("It hums.\n\n[S1]\n\nSo.", [("It hums.", ()), ("So.", ())]),
        ("walking down\nthe road [S1]\n\nand home [S2]", [("walking down\nthe road", ("S1",)), ("and home", ("S2",))]),
        ("Play:\n```\nsound(1). Really.\n```\n[S1]", [("Play:", ())]),
        ("| a | b |\n|---|---|\n| c | d [S1] |", [("| a | b |", ()), ("| c | d |", ("S1",))]),
    ],
)
def test_blocks_are_kept_apart(answer: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    """Items, paragraphs, rows; code and headings are no sentences, and a label by itself stands with none."""
    assert read(answer) == expected


@pytest.mark.parametrize("answer", ["", " \n", "[S1]", "...", "```\nIt hums.\n```", "# Noise"])
def test_there_may_be_no_sentence(answer: str) -> None:
    """Nothing is said, so nothing needs a source."""
    assert read(answer) == []


def test_a_sentence_has_its_place_in_the_answer() -> None:
    """With the labels in it, without those after it."""
    answer = "So it is. It [S1] hums [S2].  Yes. [S3]"
    found = read_statements(answer, GIVEN).sentences
    assert [answer[slice(*one.span)] for one in found] == ["So it is.", "It [S1] hums [S2].", "Yes."]


def test_labels_are_those_of_the_citations_engine() -> None:
    """Unused and unknown labels are those that the citations engine reports."""
    answer = "It hums [S1, S9]. `[S2]`"
    assert read_statements(answer, GIVEN).labels == classify(answer, dict.fromkeys(GIVEN, ""))


def test_a_label_of_another_form_is_refused() -> None:
    """It could never be found."""
    with pytest.raises(InvalidJob):
        read_statements("It hums.", ["T1"])


@pytest.mark.parametrize(
    ("text", "bare"),
    [("- a", "a"), ("12) a", "a"), ("> - a", "a"), ("-a", "-a"), ("1958. a", "1958. a"), ("a - b", "a - b"), ("", "")],
)
def test_a_mark_of_a_list_is_not_said(text: str, bare: str) -> None:
    """But a minus or a year is."""
    assert without_marker(text) == bare


@given(answers)
def test_sentences_are_in_order_and_apart(answer: str) -> None:
    """Spans rise and never overlap; texts hold no label that is read; each label used in a paragraph is with one."""
    found = read_statements(answer, GIVEN)
    ends = [0, *(one.span[1] for one in found.sentences)]
    assert all(end <= one.span[0] < one.span[1] for end, one in zip(ends, found.sentences, strict=False))
    used = {used.label for used in found.labels.used}
    assert {label for one in found.sentences for label in one.labels} <= used
    assert all(one.text.strip() for one in found.sentences)


@pytest.mark.parametrize(
    "unit", ["[", "[S1]", "[S1]. ", "It hums. [S1] ", "- a [S1]\n", "\n\n[S1]", "```\n", ". ", "# a\n"]
)
def test_any_text_takes_linear_time(unit: str) -> None:
    assert_linear(lambda text: read_statements(text, GIVEN), unit, 3_000)
