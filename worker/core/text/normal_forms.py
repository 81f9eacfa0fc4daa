"""Unicode normal forms, in linear time for any text."""

from __future__ import annotations

import re
from typing import Literal

from worker.core.text.unicode_data import category, is_normalized, known, normalize

_MOST_MARKS = 30
"""Most consecutive marks in the stream-safe format (Unicode Standard Annex 15); no word of any language nears it."""

# Marks are not word characters; in a run of more than this many signs, the marks are counted.
_SIGNS = re.compile(rf"[^\w\s]{{{_MOST_MARKS + 1},}}+")


def normal_form(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    r"""Return what `unicodedata.normalize` does, except for runs of more than 30 marks.

    Those are ordered thirty at a time: ordering all of them at once takes quadratic time. Characters that the version
    of `worker.core.text.unicode_data` does not have are stand-ins afterwards.

    >>> normal_form("NFC", "e\u0301"), normal_form("NFKC", "ﬁ")
    ('é', 'fi')
    """
    if text.isascii():
        return text
    text = known(text)
    # Every part of a normal text is normal.
    if is_normalized(form, text):
        return text
    pieces, start = [], 0
    for match in _SIGNS.finditer(text) if len(text) > _MOST_MARKS else ():
        marks = 0
        for i, character in enumerate(match[0], match.start()):
            marks = marks + 1 if category(character)[0] == "M" else 0
            if marks > _MOST_MARKS:
                pieces.append(text[start:i])
                start, marks = i, 1
    return "".join(normalize(form, piece) for piece in (*pieces, text[start:]))
