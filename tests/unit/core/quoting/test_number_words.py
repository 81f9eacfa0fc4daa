"""A number belongs to the word beside it that signs or scales it: without that word it is another number."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.unit.core.quoting.corpus import FOUND, check

import worker.core.citations.quoting as package

WORDS = tomllib.loads((Path(package.__file__).parent / "number_words.toml").read_text())
SIGNS, ATTACHED, MULTIPLIERS = (WORDS[name].split() for name in ("signs", "signs_attached", "multipliers"))
PLAIN = [
    "the",
    "die",
    "les",
    "los",
    "gli",
    "лампа",
    "λάμπα",
    "lamba",
    "المصباح",
    "मीटर",
    "โคม",
    "lampy",
    "about",
    "uns",
]


def is_found(quote: str, text: str) -> bool:
    return check(quote, text).verdict in FOUND


@pytest.mark.parametrize("number", ["5", "12,5", "−7"])
def test_a_sign_in_words_is_not_cut_off(number: str) -> None:
    for word in SIGNS:
        text = f"Es steht hier: {word} {number} kg an der Lampe im Saal."
        assert not is_found(f"{number} kg an der Lampe im Saal", text), word
        assert is_found(f"{word} {number} kg an der Lampe im Saal", text), word
    for word in ATTACHED:
        text = f"室外温度是{word}5度的时候水会结冰。"
        assert not is_found("5度的时候水会结冰", text), word
        assert is_found(f"{word}5度的时候水会结冰", text), word


@pytest.mark.parametrize("number", ["5", "1.5"])
def test_a_multiplier_is_not_cut_off(number: str) -> None:
    for word in dict.fromkeys(MULTIPLIERS):
        text = f"The lamp in the hall costs {number} {word} altogether."
        assert not is_found(f"The lamp in the hall costs {number}", text), word
        assert is_found(f"The lamp in the hall costs {number} {word}", text), word


@pytest.mark.parametrize("entity", ["&lt;", "&gt;", "&le;", "&minus;", "&plusmn; "])
def test_a_sign_written_as_an_entity_is_not_cut_off(entity: str) -> None:
    text = f"A dose of {entity}5 mg was found in it."
    assert not is_found("5 mg was found in it", text)
    assert is_found(f"{entity}5 mg was found in it", text)


def test_other_words_may_be_left_out() -> None:
    """Two hundred neighbours: the same numbers beside words that change nothing of them."""
    for number in ("5", "12,5", "7", "42", "3.5", "19", "2024", "8"):
        for word in PLAIN:
            before, after = (
                f"Es steht hier: {word} {number} kg an der Lampe.",
                f"The lamp in the hall: {number} {word}.",
            )
            assert is_found(f"{number} kg an der Lampe", before), word
            assert is_found(f"The lamp in the hall: {number}", after), word
