from __future__ import annotations

import pytest

from worker.core.citations.disagreement.reading import read_sentence
from worker.core.citations.disagreement.vocabulary import BASES


@pytest.mark.parametrize(
    ("text", "skeleton"),
    [
        ("The ribbon does not need 48 V.", ["ribbon", "need", "#"]),
        ("In 2019, the reels were stopped twice.", ["in", "@", "reel", "stop", "twic"]),
        ("It sang between 6 and 9 March 2023.", ["it", "sang", "between", "@", "and", "@"]),
        ("You may march in May, or in March.", ["you", "march", "in", "@", "or", "in", "@"]),
        ("No. 5 has no longer any charm.", ["number", "#", "charm"]),
        ("No one is at home, nor anywhere.", ["person", "at", "hom", "or", "plac"]),
        ("Two hundred and twenty-two thousand; and one.", ["#", "and", "#"]),
    ],
)
def test_a_skeleton_is_what_is_said_without_its_values(text: str, skeleton: list[str]) -> None:
    """Stems in order, a sign for a number and one for a date; articles, auxiliaries and negations are gone."""
    expected = [BASES.get(word, word) for word in skeleton]
    assert list(read_sentence(text).skeleton) == expected
