"""Spaces that a text may have or not: beside units (5 dB, 5dB), between Chinese and Latin (用 GPU, 用GPU)."""

from __future__ import annotations

import re

from worker.core.citations.quoting.characters import UNSPACED
from worker.core.citations.quoting.units import AFTER_NUMBERS, CURRENCIES

_LETTER = rf"[^\W_{UNSPACED}]"
# After a number: a unit, whole, in whatever case; a per cent sign; a Korean counter. "1990s" is no measure.
_GLUED_UNIT = re.compile(
    rf"""
    (?<!{_LETTER})(?<![\d][.,])
    \d++(?>(?:[.,]\d++)*)
    (?: (?<![12]\d\d0)(?=s(?!{_LETTER})) | (?!s(?!{_LETTER}))
        (?=(?:{AFTER_NUMBERS})[²³⁻⁰-⁹¹]{{0,3}}(?!{_LETTER})) | (?=[%‰가-힣]) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Over classes: whether there may be one at all.
_GLUED = re.compile(r"D[^Dsn.,]")
_GLUED_CURRENCY = re.compile(rf"(?:{CURRENCIES})(?=\d)")
# Over classes: Han, Kana, Thai, ... beside letters and digits of other scripts.
_GLUED_SCRIPTS = re.compile(r"(?:[CN]M{0,4}+(?=[ULDPBF%]))|[ULDPBF%]M{0,4}+(?=[CN])")


def optional_spaces(text: str, classes: str) -> list[int]:
    """Return the places without a space that might have one, rising.

    >>> optional_spaces("5dB or €5", "DLUsLLs$D"), optional_spaces("用GPU", "CUUU")
    ([1, 8], [1])
    """
    places = [match.end() for match in _GLUED_UNIT.finditer(text)] if _GLUED.search(classes) else []
    if "$" in classes:
        places += [match.end() for match in _GLUED_CURRENCY.finditer(text)]
    if "C" in classes or "N" in classes:
        places += [match.end() for match in _GLUED_SCRIPTS.finditer(classes)]
    return sorted(places)
