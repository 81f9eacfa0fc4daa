"""Characters: the class of each, its loosest key, and what it is without typography; fixed tables, one Unicode version.

Keys decide where a quote may stand, never whether it does: two texts of one key are then compared sign by sign.
"""

from __future__ import annotations

import functools

from worker.core.text.unicode_data import category, decomposition, is_numeric, normalize, stands_for

LETTER, UNSPACED, DIGIT, RAISED, MARK = "a", "c", "d", "r", "m"
BLANK, BREAK, INVISIBLE, HYPHEN_HIDDEN = "s", "n", "i", "h"
DASH, QUOTE, PUNCTUATION, SYMBOL = "-", "q", "p", "y"
MARKUP, BLOCK, WITHIN = "M", "B", "x"
"""Classes that only `reading` gives: markup inside a line, markup that ends a line or cell, and what continues a sign."""

KEYED = frozenset("acd")
BLANKS = frozenset("snB")
UNSEEN = frozenset("ihM")

LINE_BREAKS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
SOFT_HYPHEN = "\u00ad"
HYPHENS = "-\u2010\u2011\u058a\ufe63\uff0d"
DASHES = HYPHENS + "\u2012\u2013\u2014\u2015\u2212\u02d7\u05be\u2e3a\u2e3b\ufe31\ufe32\ufe58"

# Not the overrides U+202D and U+202E (a reader sees other text), the operators U+2061 to U+2064, and tags (of flags).
ZERO_WIDTH = frozenset(
    "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u180e\u061c\u034f\u202a\u202b\u202c\u2066\u2067\u2068\u2069\u0640"
    "\u180b\u180c\u180d\u180f" + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)

_SINGLE, _DOUBLE = "'‘’‚‛‹›′ʹʻʼ´`\u05f3", '"“”„‟«»″〝〞〟\u05f4「」『』'
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys(_SINGLE, "'")
    | dict.fromkeys(_DOUBLE, '"')
    | dict.fromkeys(HYPHENS, "-")
    | dict.fromkeys("\u2212\u02d7", "\u2212")
    | dict.fromkeys("·⋅∙‧・", "·")
    | {"…": "...", "‥": "..", "×": "x", "º": "°", "˚": "°", "\u2044": "/", "\u2215": "/", "∕": "/", "∶": ":", "∗": "*"}
    | {"ş": "ș", "ţ": "ț", "Ş": "Ș", "Ţ": "Ț"}
)
"""Glyphs of one sign: of quotation marks, apostrophes, hyphens, minus, dots, slashes, and of two letters of Romanian."""

# Scripts written without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Kana, Han.
_WITHOUT_SPACES = (
    *((0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029)),
    *((0x3031, 0x309F), (0x30A0, 0x312F), (0x31A0, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x16FE0, 0x18FFF)),
    *((0x1B000, 0x1B2FF), (0x20000, 0x3FFFF)),
)

# Of Unicode Technical Standard 39, the letters that look like a Latin one in most typefaces.
_LOOKS = str.maketrans(
    "авеѕіјкмнорстухһԁԛԝѵӏαβεζηικμνορτυχϲϳγσω", "abesijkmhopctyxhdqwvlabezhikmvoptuxcjyow"
)


def _is_unspaced(character: str) -> bool:
    code = ord(stands_for(character))
    return any(first <= code <= last for first, last in _WITHOUT_SPACES)


@functools.cache
def class_of(character: str) -> str:
    """Return the class of a character that Unicode 14 has, or of its stand-in."""
    if character.isspace():
        return BREAK if character in LINE_BREAKS else BLANK
    if character in ZERO_WIDTH:
        return INVISIBLE
    for signs, name in ((SOFT_HYPHEN, HYPHEN_HIDDEN), (DASHES, DASH), (_SINGLE + _DOUBLE, QUOTE), ("º˚×", SYMBOL)):
        if character in signs:
            return name
    general = category(character)
    if general[0] == "M" or 0x1F3FB <= ord(character) <= 0x1F3FF:  # skin tones
        return MARK
    if general[0] in "LN" and _is_unspaced(character):
        return UNSPACED
    if general[0] == "L":
        return LETTER if plain(character) != character or decomposition(character)[:7] != "<super>" else RAISED
    if general[0] == "N":
        return _class_of_number(character, general)
    return SYMBOL if general[0] in "SC" or character in "%‰‱*&@#_^/\\\u066a" else PUNCTUATION


def _class_of_number(character: str, general: str) -> str:
    if decomposition(character).startswith("<super>"):
        return RAISED
    return LETTER if general == "Nl" else DIGIT


class _Table(dict[int, str]):
    """For `str.translate`: found out once for each character."""

    def __init__(self, find: object) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, code: int) -> str:
        self[code] = found = self._find(chr(code))  # type: ignore[operator]
        return found


CLASSES = _Table(class_of)

_SAME = frozenset({"<wide>", "<narrow>", "<font>", "<noBreak>", "<fraction>", "<sub>"})
_RAISED_TEXT = "ªº℠™"


@functools.cache
def plain(character: str) -> str:
    """Return a character without its typography, or as it is where that would change what it says.

    >>> [plain(c) for c in "ﬁＡ½㎏²①’"]
    ['fi', 'A', '1/2', 'kg', '²', '①', "'"]
    """
    if (glyph := character.translate(_TYPOGRAPHY)) != character:
        return glyph
    tag, _, parts = decomposition(character).partition(" ")
    if not tag.startswith("<") or (tag == "<super>" and character not in _RAISED_TEXT):
        return normalize("NFC", character)
    found = "".join(map(plain, normalize("NFD", "".join(chr(int(part, 16)) for part in parts.split()))))
    # A spacing accent is no space; "⒈5" is not "1.5".
    is_other = found.startswith(" ") or (tag not in _SAME and any(map(str.isdigit, found)))
    return character if is_other else found


def without_typography(text: str) -> str:
    """Return a short text with every sign `plain`."""
    return normalize("NFC", "".join(map(plain, normalize("NFC", text))))


def key_of(character: str) -> str:
    """Return the loosest key of a letter or digit: no case, no marks, one script, plain forms.

    >>> [key_of(c) for c in "Éﬁр٥ß"]
    ['e', 'fi', 'p', '5', 'ss']
    """
    if character == "×":
        return "x"
    parts = normalize("NFD", plain(character))
    if any(map(is_numeric, parts)):
        return "".join(str(_digit(part)) for part in parts if part != "/")
    letters = normalize("NFD", parts.casefold()).replace("ı", "i").translate(_LOOKS)
    return "".join(part for part in letters if category(part)[0] in "LN") or character


def _digit(character: str) -> str:
    value = DIGIT_VALUES.get(character)
    return character if value is None else value


class _Digits(dict[str, str]):
    def get(self, character: str, default: str | None = None) -> str | None:  # type: ignore[override]
        return str(int(character)) if category(character) == "Nd" else default


DIGIT_VALUES = _Digits()
KEYS = _Table(lambda character: key_of(character) if class_of(character) in KEYED or character == "×" else "")


def unmarked(text: str) -> str:
    """Return a short text without case and marks, each sign plain."""
    parts = normalize("NFD", without_typography(text).casefold())
    return "".join(part for part in parts if category(part)[0] != "M").replace("ı", "i")


def digits_of(text: str) -> str | None:
    """Return the value of a text of digits in any one script, as ASCII digits; None for any other."""
    return "".join(str(int(one)) for one in text) if text and all(category(one) == "Nd" for one in text) else None
