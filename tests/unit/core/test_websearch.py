"""Parts of a text that are searched for: its words, and the few signs that mean something."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.text.websearch import searchable

SIGNS = st.text(st.sampled_from("- \"()&|!<>:*'aé_\n"), max_size=200)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bass drum", '"bass" "drum"'),
        ('"bass drum" -snare or hi-hat', '"bass drum" -"snare" or "hi-hat"'),
        ('-"bass drum" OR x', '-"bass drum" or "x"'),
        ('say"bass drum"loud', '"say" "bass drum" "loud"'),
        ("--fast", '"--fast"'),
        ("a - b", '"a" "b"'),
        ("-----", ""),
        ('-"" -"--" ""', ""),
        ("(a & b) | !c", '"(a" "b)" "!c"'),
        ("(-a)", '"(-a)"'),
        ('"a b', '"a b"'),
        ("-\uff02wide\uff02 \uff0dsign", '-"wide" -"sign"'),
        ("C++ .net it's -or", '"C++" ".net" "it\'s" -"or"'),
    ],
)
def test_each_term_is_in_quotation_marks(text: str, expected: str) -> None:
    """So no sign within means anything; what is left are hyphens that exclude, and `or`."""
    assert searchable(text, 100) == expected


@given(st.text(max_size=200) | SIGNS)
def test_negations_never_pile_up(text: str) -> None:
    """Each hyphen outside of quotation marks is before one, so Postgres' stack of 32 is enough for any text."""
    outside = re.sub('"[^"]*"', '""', searchable(text, 200))
    assert re.fullmatch('(?:(?:-?""|or)(?: |$))*', outside)


@given(st.text(max_size=200), st.integers(1, 200))
def test_the_words_stay_the_words(text: str, most: int) -> None:
    """No word is made, none is lost within the limit, and none is cut where there is a space before it."""
    text = unicodedata.normalize("NFKC", text)
    found = re.findall(r"\w+", searchable(text, most))
    words = re.findall(r"\w+", text)
    assert found == words[: len(found)] or " ".join(found) == " ".join(words)[: len(" ".join(found))]
    if len(text) <= most:
        assert found == words


@pytest.mark.parametrize("unit", ['"', "-", '-"', " ", '-"a'])
def test_any_text_takes_linear_time(unit: str) -> None:
    assert_linear(lambda text: searchable(text, len(text)), unit, 50_000)
