"""Words that a model's vocabulary lacks, told from what belongs to no language."""

from __future__ import annotations

import pytest

from worker.core.text.legibility import WordPieces, is_foreign_corpus, is_illegible, natural_words

WHOLE, SHORT_PIECES, LONG_PIECES = WordPieces(5, 1, True), WordPieces(6, 3, True), WordPieces(10, 2, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getElementById(x) max_size HNSW v2 a/b.c 3f9c", []),
        ("(the) 'pump', hums!", ["the", "pump", "hums"]),
        ("l'été 2012年 Müller-Lüdenscheidt", ["l", "été", "年", "Müller", "Lüdenscheidt"]),
        ("", []),
    ],
)
def test_identifiers_and_numbers_belong_to_no_language(text: str, words: list[str]) -> None:
    """Letters beyond ASCII make a word, whatever stands beside them."""
    assert natural_words(text) == words


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        ([SHORT_PIECES] * 4, True),
        ([SHORT_PIECES] * 3, False),
        ([LONG_PIECES] * 4, False),
        ([SHORT_PIECES, *[WHOLE] * 3], False),
        ([SHORT_PIECES] * 2 + [WHOLE] * 2, True),
        ([WordPieces(1, 1, False)] * 4, True),
        ([], False),
    ],
)
def test_many_words_in_short_pieces_are_illegible(words: list[WordPieces], verdict: bool) -> None:
    """Few words, long pieces, or a rare word among others are not."""
    assert is_illegible(words) is verdict


def test_a_quarter_of_the_chunks_makes_a_foreign_corpus() -> None:
    """Fewer may be code or names."""
    assert is_foreign_corpus([True] + [False] * 3)
    assert not is_foreign_corpus([True] + [False] * 4)
