"""Words of a text for comparison: case folding, and a list of stop words."""

from __future__ import annotations

import re
from typing import Literal

from worker.core.text.normal_forms import normal_form

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
"""Function words, which carry no topic."""


def folded(text: str, form: Literal["NFC", "NFKC"] = "NFC") -> str:
    r"""Fold differences of letter case and of Unicode encoding, in linear time.

    >>> folded("Straße"), folded("e\u0301") == folded("É")
    ('strasse', True)
    """
    return normal_form(form, text).casefold()
