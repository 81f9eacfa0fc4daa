from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.ranking.near_duplicates import NearDuplicates, _Text, _within
from worker.core.text.words import DENIALS

TEXT = (
    "Store the ribbon microphone upright in a dry cupboard, cover it with its bag, and never carry it with the strap "
    "round its body; 48 volts can tear the ribbon where a cable is wired wrongly."
)
WORDS = TEXT.split()


def is_new(*texts: str) -> list[bool]:
    seen = NearDuplicates()
    return [seen.is_new(text) for text in texts]


@pytest.mark.parametrize(
    "other",
    [
        TEXT.upper(),
        TEXT.replace(",", " --").replace(";", "."),
        TEXT.replace("dry cupboard", "cool cupboard"),
        TEXT.replace("its bag", "a cloth bag"),
        TEXT.replace("microphone ", "").replace("body", "case"),
        "Please note: " + TEXT,
    ],
)
def test_case_punctuation_and_two_words_make_no_other_text(other: str) -> None:
    """Whichever comes first is kept."""
    assert is_new(TEXT, other) == is_new(other, TEXT) == [True, False]


@pytest.mark.parametrize(
    "other",
    [
        TEXT.replace("48", "12"),
        TEXT.replace("48", "-48"),
        TEXT.replace("never ", ""),
        TEXT.replace("can tear", "can't tear"),
        TEXT.replace("dry cupboard", "cool, dark, wooden cupboard"),
        "A ribbon is torn by phantom power when a cable is wrong, so keep the microphone upright and covered.",
        TEXT + " " + TEXT,
    ],
)
def test_numbers_denials_and_other_words_make_another_text(other: str) -> None:
    """Texts that contradict each other stay both, and so does what says the same in its own words."""
    assert is_new(TEXT, other) == [True, True]


@pytest.mark.parametrize(
    ("one", "other"),
    [("Store it dry.", "Store it cold."), ("", "x"), ("录音室不允许吸烟也不允许喝酒", "录音室允许吸烟也不允许喝酒")],
)
def test_a_short_text_has_no_word_to_spare(one: str, other: str) -> None:
    """Nor has one of a script without spaces, where one sign turns a clause round."""
    assert is_new(one, other) == [True, True]


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=20, max_size=40),
    st.lists(st.tuples(st.integers(0, 39), st.sampled_from(["replace", "insert", "delete"])), max_size=2),
)
def test_any_two_edits_are_found(words: list[str], edits: list[tuple[int, str]]) -> None:
    """The choice by anchors hides no pair that the comparison would find."""
    other = [*words, "x", "y"]
    words = [*words, "x", "y"]
    for at, edit in edits:
        place = at % len(other)
        other[place : place + (edit != "insert")] = [] if edit == "delete" else ["new"]
    assert is_new(" ".join(words), " ".join(other)) == [True, False]


@given(st.lists(st.text(max_size=60), max_size=8))
def test_of_any_texts_the_first_is_new_and_no_text_is_new_twice(texts: list[str]) -> None:
    """And the same texts give the same answers."""
    found = is_new(*texts)
    assert found[:1] == [True] * bool(texts)
    assert is_new(*texts, *texts)[len(texts) :] == [False] * len(texts)
    assert is_new(*texts) == found


def test_a_thousand_long_texts_take_moments() -> None:
    """Texts that share phrases are compared, texts that share nothing are not."""
    texts = [" ".join(f"word{i}x{j}" for j in range(300)) + " as the manual says here" for i in range(1000)]
    started = time.process_time()
    assert all(is_new(*texts))
    assert time.process_time() - started < 10


EDITED = st.lists(st.tuples(st.sampled_from(["insert", "leave out", "replace"]), st.integers(0, 60)), max_size=4)


def edited(words: list[str], edits: list[tuple[str, int]]) -> str:
    changed = [*words]
    for how, place in edits:
        at = place % (len(changed) + 1)
        changed[at : at + (how != "insert")] = [] if how == "leave out" else [f"new{place % 3}"]
    return " ".join(changed)


@given(
    st.lists(
        st.tuples(st.integers(8, 45), st.sampled_from([1, 2, 7, 50]), EDITED),
        min_size=2,
        max_size=8,
    )
)
def test_no_near_duplicate_is_overlooked(texts: list[tuple[int, int, list[tuple[str, int]]]]) -> None:
    """The answer is that of comparing each text with all that were new before it."""
    given_texts = [edited([f"word{i % many}" for i in range(count)], edits) for count, many, edits in texts]
    new: list[_Text] = []
    expected = []
    for text in given_texts:
        prepared = _Text(text, DENIALS)
        expected.append(not any(prepared.words == other.words or resembles(prepared, other) for other in new))
        if expected[-1]:
            new.append(prepared)
    assert is_new(*given_texts) == expected


def resembles(one: _Text, other: _Text) -> bool:
    """Whether few words differ, by the definition alone."""
    return one.deciding == other.deciding and _within(one.words, other.words, min(one.edits, other.edits))
