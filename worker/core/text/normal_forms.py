"""Unicode's normal forms in linear time, whatever the text."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

_MOST_MARKS = 30
"""So many in a row Unicode Standard Annex 15 allows in a stream; no word of any language has nearly as many."""

# Marks are no word characters; where so many signs stand in a row, the marks among them are counted.
_SIGNS = re.compile(rf"[^\w\s]{{{_MOST_MARKS + 1},}}+")


def normal_form(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    r"""What `unicodedata.normalize` gives, but for longer runs of marks than any word has.

    Those are put in order thirty at a time: all of them at once takes quadratic time.

    >>> normal_form("NFC", "e\u0301"), normal_form("NFKC", "ﬁ")
    ('é', 'fi')
    """
    # Every part of a normal text is normal.
    if unicodedata.is_normalized(form, text):
        return text
    parts, start = [], 0
    for match in _SIGNS.finditer(text) if len(text) > _MOST_MARKS else ():
        marks = 0
        for i, character in enumerate(match[0], match.start()):
            marks = marks + 1 if unicodedata.category(character)[0] == "M" else 0
            if marks > _MOST_MARKS:
                parts.append(text[start:i])
                start, marks = i, 1
    return "".join(unicodedata.normalize(form, part) for part in (*parts, text[start:]))
