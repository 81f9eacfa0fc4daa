"""A number belongs to the word beside it that signs or scales it: without that word it is another number."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import FOUND, Made, Text, accepted, cases, check, is_broad, plant, refused

import worker.core.citations.quoting as package

if TYPE_CHECKING:
    import random

WORDS = tomllib.loads((Path(package.__file__).parent / "number_words.toml").read_text())
SIGNS, ATTACHED, MULTIPLIERS = (WORDS[name].split() for name in ("signs", "signs_attached", "multipliers"))
ORDINARY = WORDS["ordinary"]
GAPS = [" ", " ", "\n", " \n", "\n  ", "\u00a0"]
NUMBERS = ["5", "12,5", "1.5", "42", "2024", "٤٠"]
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


# --- in every text ------------------------------------------------------------------------------


def word_cut(rng: random.Random, text: Text) -> Made:
    """A quote begins at the number, or ends before the word."""
    number, gap = rng.choice(NUMBERS), rng.choice(GAPS)
    if rng.random() < 0.5:
        chunk, _, after = plant(rng, text, f"it is {rng.choice(SIGNS)}{gap}{number} kg of it")
        return Made(f"{number} kg of it{after}", chunk)
    word = rng.choice([word for word in MULTIPLIERS if word not in ORDINARY])
    chunk, before, _ = plant(rng, text, f"it is {number}{gap}{word} of it")
    return Made(f"{before}it is {number}", chunk)


def word_kept(rng: random.Random, text: Text) -> Made:
    """A quote has the word too, or stands beside one that changes nothing."""
    number, gap, kind = rng.choice(NUMBERS), rng.choice(GAPS), rng.randrange(3)
    if kind == 0:
        phrase = f"{rng.choice(SIGNS)}{gap}{number} kg of it"
        chunk, _, after = plant(rng, text, f"it is {phrase}")
        return Made(phrase + after, chunk)
    if kind == 1:
        phrase = f"it is {number}{gap}{rng.choice(MULTIPLIERS)}"
        chunk, before, _ = plant(rng, text, f"{phrase} of it")
        return Made(before + phrase, chunk)
    chunk, before, _ = plant(rng, text, f"it is {number} {rng.choice(PLAIN)} of it")
    return Made(f"{before}it is {number}", chunk)


def test_rules() -> None:
    """The rules hold for each language of the text with each language of the word."""
    altered, honest = cases(word_cut), cases(word_kept)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("They say that the take of the choir is flat by 14 cents at its end.", "flat by 14"),
        ("Das Haus ist alt, und der Müller ist da. Seit 2019 bin ich mit der Lampe in dem Saal.", "Seit 2019"),
        ("La casa è sua e lui la usa. Le 3 mie lampe e il forno sono nella sala di lei.", "Le 3"),
        ("In 2019 Mila came to the house of the miller and his wife.", "In 2019"),
    ],
)
def test_an_ordinary_word_of_the_texts_language_multiplies_nothing(text: str, quote: str) -> None:
    assert is_found(quote, text)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("La maison est à lui. La lampe de la maison coûte 5 cents euros.", "de la maison coûte 5"),
        ("Bu evde o ve onun bir kapısı var. Lamba 5 bin lira.", "onun bir kapısı var. Lamba 5"),
        ("The lamp of the house costs 5 mil for him and the miller.", "The lamp of the house costs 5"),
        ("Lamp: 5 cents", "Lamp: 5"),
    ],
)
def test_it_does_in_any_other(text: str, quote: str) -> None:
    """Also where nothing tells the language."""
    assert not is_found(quote, text)
