"""Unicode's normal forms, whatever the text."""

from __future__ import annotations

import re
import sys
import unicodedata
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.text.normal_forms import normal_form
from worker.core.text.unicode_data import known

Form = Literal["NFC", "NFD", "NFKC"]


@given(st.sampled_from(get_args(Form)), st.text() | st.text("e=a\u0301\u0315\u0338\u0f73-", max_size=60))
def test_a_text_without_endless_marks_is_normalised_as_unicode_has_it(form: Form, text: str) -> None:
    """Thirty marks in a row are more than any word has, and are put in order as ever; so are sixty signs."""
    longest = max(map(len, "".join("M" if unicodedata.category(c)[0] == "M" else " " for c in text).split()), default=0)
    if longest <= 30:
        assert normal_form(form, text) == unicodedata.normalize(form, known(text))


@pytest.mark.parametrize("marks", ["\u0315\u0300", "\u0f73", "\u0344", "\u0300"])
def test_no_mark_is_lost(marks: str) -> None:
    """Longer runs are put in order part by part, and are as long as they were."""
    text = "a" + marks * 100
    assert sorted(normal_form("NFD", text)) == sorted(unicodedata.normalize("NFD", text))


def test_marks_are_no_word_characters() -> None:
    """Every sign that a normal form may reorder is among those that are looked at."""
    every = map(chr, range(sys.maxunicode + 1))
    moving = [c for c in every if unicodedata.combining(unicodedata.normalize("NFD", c)[0])]
    assert all(unicodedata.category(c)[0] == "M" and not re.match(r"[\w\s]", c) for c in moving)
