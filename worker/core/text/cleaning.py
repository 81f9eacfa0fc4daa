"""Cleaning of untrusted text: one line, visible characters only, limited length."""

from __future__ import annotations

from worker.core.text.unicode_data import category

# Join or separate letters in Persian, Indic scripts and emoji.
_JOINERS = "\u200c\u200d"


def one_line(text: str, max_length: int) -> str:
    r"""Return a text without control and format characters, with single spaces, cut to ``max_length`` characters.

    Format characters change the writing direction or hide text from a reader.

    >>> one_line(" Kick\x00drum\n\tis\u202e low ", 40)
    'Kick drum is low'
    """
    seen = (" " if category(sign) == "Cc" else sign for sign in text if _is_seen(sign))
    return " ".join("".join(seen).split())[:max_length].rstrip()


def _is_seen(sign: str) -> bool:
    return category(sign) not in {"Cf", "Cs", "Co"} or sign in _JOINERS
