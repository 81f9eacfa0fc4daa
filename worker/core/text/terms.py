"""Terms of a text: its content words, with one spelling for all forms of a word."""

from __future__ import annotations

import re
from functools import lru_cache

from worker.core.text.normal_forms import normal_form
from worker.core.text.words import STOP_WORDS, folded

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
    "\U00060000-\U0007ffff"  # stand-ins for Han characters (`worker.core.text.unicode_data.known`)
)
"""Characters of scripts without spaces between words, for a regular expression; each is a term."""

_ACCENTS = re.compile("[\u0300-\u036f]++")
TERM = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]++")
"""A word."""


def stem(word: str) -> str:
    """Strip the endings of number, person and the regular past: ``needs``, ``need``; ``stopped``, ``stop``."""
    if len(word) <= 3 or not word.isascii():  # noqa: PLR2004 -- shorter words have no endings
        return word
    if word.endswith(("ies", "ied")) and len(word) > len("ties"):
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith("ed") and len(word) > len("need"):
        word = word[:-2]
    word = word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004 -- as above
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word  # noqa: PLR2004 -- as above


# Stemming is most of the work, and words recur; the cache changes no result.
_stem = lru_cache(maxsize=4096)(stem)


def search_terms(text: str) -> list[str]:
    """Return the terms of a text without accents, as full-text search compares words.

    >>> search_terms("Motörheads Café"), search_terms("motorhead cafe")
    (['motorhead', 'caf'], ['motorhead', 'caf'])
    """
    return terms(text if text.isascii() else _ACCENTS.sub("", normal_form("NFD", text)))


def terms(text: str) -> list[str]:
    """Return the words of a text without function words: folded, without English endings, in order, with repetitions.

    >>> terms("Which ribbons were RE-TENSIONED in 1958? 铝带")
    ['ribbon', 're', 'tension', '1958', '铝', '带']
    """
    return [_stem(word) for word in TERM.findall(folded(text, "NFKC")) if word not in STOP_WORDS]
