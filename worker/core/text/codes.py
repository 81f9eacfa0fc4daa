"""Codes in a text, such as `INC-4711`: names that no other wording stands for."""

from __future__ import annotations

import re

from worker.core.text.words import folded

# A run with a letter before a digit (`INC-4711`, `v7.3`, `0x6C79`) or of four numbers (`10.20.30.40`), neither amount
# (`12mm`) nor date. In other alphabets than this one, endings or whole sentences would follow without a blank.
_RUN = re.compile(r"[a-z0-9][a-z0-9._/:-]*+")
_IS_CODE = re.compile(r"[^a-z]*+[a-z]\D*+\d|(?:\d++[._/:-]){3}\d")
_MARKS = re.compile(r"[\W_]++")


def codes(text: str) -> frozenset[str]:
    """Return the codes that a text names, folded, without marks.

    >>> sorted(codes("Is INC-4711 older than v7.3, the 12mm bolt at 10.20.30.40 or 2025-05-01?"))
    ['10203040', 'inc4711', 'v73']
    """
    runs = _RUN.findall(folded(text, "NFKC"))
    return frozenset(without_marks(run) for run in runs if _IS_CODE.match(run))


def without_marks(text: str) -> str:
    """Return the folded letters and digits of a text, in one run, among which a code is found in any writing.

    >>> without_marks("Ticket INC 4711:")
    'ticketinc4711'
    """
    return _MARKS.sub("", folded(text, "NFKC"))
