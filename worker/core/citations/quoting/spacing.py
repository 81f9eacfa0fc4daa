"""Where a text may have a space or none: beside units (5 dB, 5dB), between Chinese and Latin (用 GPU, 用GPU)."""

from __future__ import annotations

import re

_PREFIXED = "m|g|s|V|W|N|J|Pa|Hz|F|T|Ω|Ω|B|bit|b|bps|Wh|Ah|VA|eV|L|l|mol|lm|lx|Gy|Sv|Bq|cal|bar|sec"
_ALONE = (
    "[mknµμ]A|°C|°F|°|℃|℉|%|‰|K|C|F|h|hr|hrs|min|mins|d|dB[A-Za-z]{0,2}|rpm|ppm|ppb|dpi|fps|ips|px|pt|ft|lb|lbs|oz|mph|mmHg"
    "|IU|kn|bn|mn|M|k|am|pm|a\\.m|p\\.m|€|£|¥|\\$|₽|₹|₩|zł|kr"
    "|(?:[кмМГ]|мк|н|п)?(?:г|м|с|В|А|Вт|Гц|Ф|Ом|Па|л|Дж|Н)|дБ|ч|мин|сек|руб|кВт|мкФ"
)
# Not of the scripts without spaces, nor Hangul: those may stand beside a number.
_LETTER = r"[^\W_\u0e00-\u109f\u1780-\u17ff\u2e80-\u9fff가-힣]"
# After a number: a unit, whole, in whatever case; a per cent sign; a Korean counter. "1990s" is no measure.
_GLUED_UNIT = re.compile(
    rf"""
    (?<!{_LETTER})(?<![\d][.,])
    \d++(?:[.,]\d++)*+
    (?: (?<![12]\d\d0)(?=s(?!{_LETTER})) | (?!s(?!{_LETTER}))
        (?=(?:(?:da|[pnµμmcdhkMGTP])?(?:{_PREFIXED})|{_ALONE})[²³⁻⁰-⁹¹]{{0,3}}(?!{_LETTER})) | (?=[%‰가-힣]) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Over classes: whether there may be one at all.
_GLUED = re.compile(r"D[^Dsn.,]")
_GLUED_CURRENCY = re.compile(r"[€£¥₽₹₩$](?=\d)")
# Over classes: Han, Kana, Thai, ... beside letters and digits of other scripts.
_GLUED_SCRIPTS = re.compile(r"(?:[CN]M{0,4}+(?=[ULDPBF%]))|[ULDPBF%]M{0,4}+(?=[CN])")


def optional_spaces(text: str, classes: str) -> list[int]:
    """Where there is no space and might be one, rising.

    >>> optional_spaces("5dB or €5", "DLUsLLs$D"), optional_spaces("用GPU", "CUUU")
    ([1, 8], [1])
    """
    places = [match.end() for match in _GLUED_UNIT.finditer(text)] if _GLUED.search(classes) else []
    if "$" in classes:
        places += [match.end() for match in _GLUED_CURRENCY.finditer(text)]
    if "C" in classes or "N" in classes:
        places += [match.end() for match in _GLUED_SCRIPTS.finditer(classes)]
    return sorted(places)
