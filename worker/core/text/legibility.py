"""Legibility of a text for a model: words that its vocabulary lacks are read by letters and fragments, without meaning.

Limits by cross-validation over manual pages and paragraphs in 19 languages and over English prose, questions, code,
logs, identifiers and names. They hold for the vocabulary of English BERT, which most English models have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LETTERS_PER_TOKEN = 3.2
"""Mean below which words are read by fragments: English texts have 3.4 to 5.2, German ones 2.7, Russian ones 1."""

BROKEN_WORDS = 0.4
"""Least share of words in pieces: a rare name or term alone makes no text foreign."""

FEWEST_WORDS = 4
"""Words from which a text is judged."""

FOREIGN_SHARE = 0.25
"""Share of illegible chunks from which a corpus is reported: of English ones 0 to 0.13, of others 0.58 to 1."""

_MARKS = ".,;:!?()[]{}\"'`*_<>-"
_LATIN = re.compile("[A-Za-z\u00c0-\u024f]+")
_OTHER_LETTERS = re.compile("[^\\W\\d_A-Za-z\u00c0-\u024f]+")
_LETTERS = re.compile(r"[^\W\d_]+")


class WordPieces(NamedTuple):
    """A word as a tokenizer splits it: its letters, its tokens, and whether all of these are in the vocabulary."""

    letters: int
    tokens: int
    is_known: bool


def natural_words(text: str) -> list[str]:
    """Return the words of a text without identifiers, numbers, paths and acronyms, which belong to no language.

    >>> natural_words("Set ef_search, then getValue() in /etc/x.conf: größer als 15?")
    ['Set', 'then', 'in', 'größer', 'als']
    """
    words: list[str] = []
    for piece in text.split():
        word = piece.strip(_MARKS)
        if not word.isascii():
            words += _LETTERS.findall(word)
        elif word.isalpha() and word[1:].islower() | (len(word) == 1):
            words.append(word)
    return words


def is_other_script(text: str) -> bool:
    """Return whether most letters of a text are of no script that English is written in.

    >>> is_other_script("Что значит E-4012?"), is_other_script("What does ошибка mean?")
    (True, False)
    """
    latin, others = (sum(map(len, letters.findall(text))) for letters in (_LATIN, _OTHER_LETTERS))
    return others > latin


def is_illegible(words: Sequence[WordPieces]) -> bool:
    """Return whether a model reads a text by fragments: it is not of the languages of the model's vocabulary.

    >>> is_illegible([WordPieces(5, 1, True)] * 4), is_illegible([WordPieces(5, 2, True)] * 4)
    (False, True)
    """
    tokens, broken = sum(word.tokens for word in words), sum(word.tokens > 1 or not word.is_known for word in words)
    letters = sum(word.letters for word in words if word.is_known)
    return len(words) >= FEWEST_WORDS and letters < LETTERS_PER_TOKEN * tokens and broken >= BROKEN_WORDS * len(words)


def is_foreign_corpus(illegible: Iterable[bool]) -> bool:
    """Return whether so many chunks are illegible that their corpus is not of the model's languages.

    >>> is_foreign_corpus([True, False, False, False]), is_foreign_corpus([])
    (True, False)
    """
    verdicts = [*illegible]
    return bool(verdicts) and sum(verdicts) >= FOREIGN_SHARE * len(verdicts)
