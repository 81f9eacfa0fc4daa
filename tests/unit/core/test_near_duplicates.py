from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.ranking.near_duplicates import NearDuplicates, words_of
from worker.core.text.words import folded

TEXT = (
    "Store the ribbon microphone upright in a dry cupboard (cover it with its bag), and “never” carry it with the "
    "strap round its body; −48.5 volts can't tear the ribbon - but 5 % can."
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
        TEXT.replace(" ", "\n "),
        TEXT.replace("“", "").replace("”", "'").replace("(", "").replace(")", ""),
        TEXT.replace("−", "-").replace("can't", "can’t").replace(" - ", " — "),
        TEXT.replace("microphone", "micro\u00adphone"),
    ],
)
def test_case_punctuation_and_spacing_make_no_other_text(other: str) -> None:
    """Whichever comes first is kept."""
    assert is_new(TEXT, other) == is_new(other, TEXT) == [True, False]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *[(TEXT, " ".join(WORDS[:i] + WORDS[i + 1 :])) for i in range(len(WORDS)) if any(map(str.isalnum, WORDS[i]))],
        *[(TEXT, TEXT.replace(old, new)) for old, new in (("48.5", "485"), ("−", ""), ("can't", "can"), ("%", "‰"))],
        (TEXT, TEXT.replace("dry cupboard", "cool cupboard")),
        (TEXT, TEXT.replace("in a dry", "a dry in")),
        (TEXT, f"{TEXT} {TEXT}"),
        ("", "x"),
        ("录音室不允许吸烟", "录音室允许吸烟"),
        ("यह सही है", "यह सहा है"),
        ("if x != y: run", "if x == y: run"),
        ("if !x run", "if x run"),
        ("take x[1] now", "take x1 now"),
        ("it is (5) now", "it is 5 now"),
        ("notable", "not able"),
    ],
)
def test_another_word_number_or_sign_makes_another_text(one: str, other: str) -> None:
    """Texts that contradict each other stay both, and so does what is said in other words or another order."""
    assert is_new(one, other) == [True, True]


@given(st.lists(st.text(max_size=60), max_size=8))
def test_of_any_texts_the_first_is_new_and_no_text_is_new_twice(texts: list[str]) -> None:
    """And the same texts give the same answers."""
    found = is_new(*texts)
    assert found[:1] == [True] * bool(texts)
    assert is_new(*texts, *texts)[len(texts) :] == [False] * len(texts)
    assert is_new(*texts) == found


@given(st.text(max_size=60) | st.text("aB1 -.,()!", max_size=20))
def test_every_letter_and_digit_of_a_text_counts(text: str) -> None:
    """In order: nothing but punctuation, spacing and case is left out of comparison."""
    signs = re.compile(r"[\W_]")
    assert signs.sub("", "".join(words_of(text))) == signs.sub("", folded(text))
