"""Nearest passage: the part of a text that a quote is nearest to, where the quote itself does not stand in it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from worker.inspector.view.pieces import condensed, word_diff

if TYPE_CHECKING:
    from worker.core.text.spans import Span
    from worker.inspector.view.pieces import DiffPiece

SEARCHED = 200_000
"""Characters of a text in which a passage is looked for: a tenth of a second."""

_GRAM, _WORD = 3, 40
"""Length of the parts that are compared, and most characters by which a passage grows to whole words."""


_WORD_BEFORE, _WORD_AFTER = re.compile(r"\S*$"), re.compile(r"\S*")


def nearest_difference(quote: str, text: str) -> tuple[DiffPiece, ...]:
    """Return the difference from the nearest passage of a text to a quote, by words; empty if nothing is alike.

    >>> [(piece.change, piece.text) for piece in nearest_difference("gain is 35 dB", "The gain is 3.5 dB here.")]
    [('same', 'gain is '), ('removed', '3.5 '), ('added', '35 '), ('same', 'dB')]
    """
    quote = quote.strip()
    span = nearest_passage(quote, text)
    return () if span is None else condensed(word_diff(text[slice(*span)], quote))


def nearest_passage(quote: str, text: str) -> Span | None:
    """Return the part of a text, as long as a quote, with the most of its runs of three characters.

    The first of several; in time linear in both, because each step to the right adds one run and drops one.
    """
    folded, wanted = _folded(text[:SEARCHED]), _folded(quote)
    width = len(wanted) - _GRAM + 1
    missing = Counter(wanted[i : i + _GRAM] for i in range(max(0, width)))
    alike, best, last = 0, 0, 0
    for i in range(len(folded) - _GRAM + 1):
        if (gram := folded[i : i + _GRAM]) in missing:
            alike += missing[gram] > 0
            missing[gram] -= 1
        if i >= width and (gram := folded[i - width : i - width + _GRAM]) in missing:
            missing[gram] += 1
            alike -= missing[gram] > 0
        if alike > best:
            best, last = alike, i + _GRAM
    return _whole_words(text, max(0, last - len(wanted)), last) if best else None


def _folded(text: str) -> str:
    """Return a text without case, if that keeps the places of its characters."""
    folded = text.lower()
    return folded if len(folded) == len(text) else text


def _whole_words(text: str, start: int, end: int) -> Span:
    """Return a span grown to white space at both ends, by `_WORD` characters at most."""
    start -= len(_WORD_BEFORE.search(text[max(0, start - _WORD) : start])[0])  # type: ignore[index] # matches always
    return start, end + len(_WORD_AFTER.match(text[end : end + _WORD])[0])  # type: ignore[index] # matches always
