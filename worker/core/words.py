"""The words of a text, for whatever compares words: folded, and told apart from those that say nothing."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

WORD = re.compile(r"\w+")

STOP_WORDS = frozenset(
    word
    for line in (
        "a an and are as at be been but by can could did do does for from had has have he her his how i if in into",
        "is it its may me my no not of on or our she should so than that the their them then there these they this",
        "to up us was we were what when where which who why will with would you your",
    )
    for word in line.split()
)
"""Function words: they say nothing of what a text is about."""

# Putting marks in order takes quadratic time. Unicode Standard Annex 15 allows thirty in a row; no word has any sign.
_SIGNS = re.compile(r"([^\w\s]{30})[^\w\s]++")


def folded(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    r"""A text without differences of letter case and of encoding, in linear time.

    Of a run of signs and marks only the first thirty are kept.

    >>> folded("Straße"), folded("e\u0301") == folded("É")
    ('strasse', True)
    """
    return unicodedata.normalize(form, _SIGNS.sub(r"\1", text)).casefold()
