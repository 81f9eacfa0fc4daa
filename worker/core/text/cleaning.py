"""Text of strangers on one line: nothing in it that can't be seen, and no longer than asked."""

from __future__ import annotations

import unicodedata

# They join or part letters in Persian, in Indic scripts and in emoji.
_JOINERS = "\u200c\u200d"


def one_line(text: str, most: int) -> str:
    r"""A text without control and format characters, its white space single blanks, cut at so many characters.

    Format characters are those that turn the direction of what follows, or that hide text from a reader.

    >>> one_line(" Kick\x00drum\n\tis\u202e low ", 40)
    'Kick drum is low'
    """
    seen = (" " if unicodedata.category(sign) == "Cc" else sign for sign in text if _is_seen(sign))
    return " ".join("".join(seen).split())[:most].rstrip()


def _is_seen(sign: str) -> bool:
    return unicodedata.category(sign) not in {"Cf", "Cs", "Co"} or sign in _JOINERS
