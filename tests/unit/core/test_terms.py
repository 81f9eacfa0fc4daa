from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.text.terms import terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The ribbon is not in it", ["ribbon"]),
        ("Ribbons, RIBBON; ribbon's", ["ribbon", "ribbon", "ribbon", "s"]),
        ("needed need needs", ["need", "need", "need"]),
        ("3.5 dB", ["3", "5", "db"]),
        ("Ｆｕｌｌ width", ["ful", "width"]),
        ("Größe größe", ["grösse", "grösse"]),
        ("铝带话筒", ["铝", "带", "话", "筒"]),
        ("", []),
    ],
)
def test_forms_of_a_word_are_one_term(text: str, expected: list[str]) -> None:
    """Letter case, width and English endings make no difference; function words are no terms."""
    assert terms(text) == expected


@given(st.text())
def test_every_text_has_terms_without_white_space(text: str) -> None:
    """No text fails, and no term is empty."""
    assert all(term and not term.isspace() for term in terms(text))


@pytest.mark.parametrize("unit", ["[", "a", "a ", "\u0301", "铝", "ed", "_"])
def test_any_text_takes_linear_time(unit: str) -> None:
    assert_linear(terms, unit, 10_000)
