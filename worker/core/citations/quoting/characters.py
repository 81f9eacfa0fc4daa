"""Characters: the class of each, its loosest key, and what it is without typography; fixed tables, one Unicode version.

Keys decide where a quote may stand, never whether it does: two texts of one key are then compared sign by sign. All
functions take characters of `worker.core.text.unicode_data.known` texts.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeVar

from worker.core.text.unicode_data import category, decomposition, is_numeric, normalize, stands_for

if TYPE_CHECKING:
    from collections.abc import Callable

LETTER, UNSPACED, DIGIT, RAISED, MARK = "a", "c", "d", "r", "m"
BLANK, BREAK, INVISIBLE, SOFT = "s", "n", "i", "h"
DASH, QUOTE, PUNCTUATION, SYMBOL, TIMES = "-", "q", "p", "y", "t"
# Given by `reading` only: markup inside a line; markup that ends a line or a cell; what continues a sign or markup.
MARKUP, BLOCK, WITHIN = "M", "B", "x"

KEYED = frozenset({LETTER, UNSPACED, DIGIT, TIMES})
BLANKS = frozenset({BLANK, BREAK, BLOCK})
UNSEEN = frozenset({INVISIBLE, SOFT, MARKUP})
CONTINUED = frozenset({WITHIN, MARK})

LINE_BREAKS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
SOFT_HYPHEN = "\u00ad"
HYPHENS = "-\u2010\u2011\u058a\ufe63\uff0d"
MINUSES = "\u2212\u02d7"
DASHES = HYPHENS + MINUSES + "\u2012\u2013\u2014\u2015\u05be\u2e3a\u2e3b\ufe31\ufe32\ufe58"

# Not the overrides U+202D and U+202E (a reader sees other text), the operators U+2061 to U+2064, and tags (of flags).
ZERO_WIDTH = frozenset(
    "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u180e\u061c\u034f\u202a\u202b\u202c\u2066\u2067\u2068\u2069\u0640"
    "\u180b\u180c\u180d\u180f" + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)
SKIN_TONES = "".join(map(chr, range(0x1F3FB, 0x1F400)))

_SINGLE, _DOUBLE = "'‘’‚‛‹›′ʹʻʼ´`\u05f3", '"“”„‟«»″〝〞〟\u05f4「」『』'
_RINGS = "º˚"
_TYPOGRAPHY = str.maketrans(
    dict.fromkeys(_SINGLE, "'")
    | dict.fromkeys(_DOUBLE, '"')
    | dict.fromkeys(HYPHENS, "-")
    | dict.fromkeys(MINUSES, "\u2212")
    | dict.fromkeys(_RINGS, "°")
    | dict.fromkeys("∙⋅‧・", "·")
    | dict.fromkeys("\u2044\u2215", "/")
    | {"…": "...", "‥": "..", "×": "x", "∶": ":", "∗": "*", "ş": "ș", "ţ": "ț", "Ş": "Ș", "Ţ": "Ț"}
)
"""Glyphs of one sign: quotation marks, apostrophes, hyphens, minus, dots, slashes, and two letters of Romanian."""

_SYMBOLS = frozenset("%‰‱*&@#_^/\\\u066a" + _RINGS)

# Scripts written without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Kana, Han.
_WITHOUT_SPACES = (
    *((0x0E00, 0x0FFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x3029)),
    *((0x3031, 0x309F), (0x30A0, 0x312F), (0x31A0, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x16FE0, 0x18FFF)),
    *((0x1B000, 0x1B2FF), (0x20000, 0x3FFFF)),
)

# Of Unicode Technical Standard 39, the letters that look like a Latin one in most typefaces.
_LOOKS = str.maketrans("авеѕіјкмнорстухһԁԛԝѵӏαβεζηικμνορτυχϲϳγσωı", "abesijkmhopctyxhdqwvlabezhikmvoptuxcjyowi")

_OF_CATEGORY = {"M": MARK, "S": SYMBOL, "C": SYMBOL, "P": PUNCTUATION}


_FIXED = {
    **dict.fromkeys(LINE_BREAKS, BREAK),
    **dict.fromkeys(ZERO_WIDTH, INVISIBLE),
    **dict.fromkeys(DASHES, DASH),
    **dict.fromkeys(_SYMBOLS, SYMBOL),
    **dict.fromkeys(_SINGLE + _DOUBLE, QUOTE),
    **dict.fromkeys(SKIN_TONES, MARK),
    SOFT_HYPHEN: SOFT,
    "×": TIMES,
}


@functools.cache
def class_of(character: str) -> str:
    """Return the class of a character."""
    if character in _FIXED or character.isspace():
        return _FIXED.get(character, BLANK)
    general = category(character)
    return _letter_or_digit(character, general) if general[0] in "LN" else _OF_CATEGORY[general[0]]


def _letter_or_digit(character: str, general: str) -> str:
    code = ord(stands_for(character))
    if general != "Nd" and any(low <= code <= high for low, high in _WITHOUT_SPACES):
        return UNSPACED
    if decomposition(character).startswith("<super>") and plain(character) == character:
        return RAISED
    return LETTER if general[0] == "L" or general == "Nl" else DIGIT


Value = TypeVar("Value", bound="str | None")


class Table(dict[int, Value]):
    """For `str.translate`: found out once for each character."""

    def __init__(self, find: Callable[[str], Value]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, code: int) -> Value:
        self[code] = translation = self._find(chr(code))
        return translation


CLASSES = Table(class_of)
"""One letter for each character, so that regular expressions can speak of classes."""

# Decompositions that are the same letter or number; of others, none with a digit is ("⒈5" is not "1.5").
_SAME = frozenset({"<wide>", "<narrow>", "<font>", "<noBreak>", "<fraction>", "<sub>"})
_RAISED_TEXT = "ª℠™"


@functools.cache
def plain(character: str) -> str:
    """Return a character without its typography, or as it is where that would change what it says.

    >>> [plain(c) for c in "ﬁＡ½㎏²①’"]
    ['fi', 'A', '1/2', 'kg', '²', '①', "'"]
    """
    if (glyph := character.translate(_TYPOGRAPHY)) != character:
        return glyph
    tag, _, codes = decomposition(character).partition(" ")
    is_sign = tag == "<super>" or (tag == "<sub>" and category(character)[0] not in "LN")
    if not tag.startswith("<") or (is_sign and character not in _RAISED_TEXT):
        return normalize("NFC", character)
    decomposed = "".join(map(plain, normalize("NFD", "".join(chr(int(code, 16)) for code in codes.split()))))
    # A spacing accent is no space.
    is_other = decomposed.startswith(" ") or (tag not in _SAME and any(map(is_numeric, decomposed)))
    return character if is_other else decomposed


_LONGEST_SIGN = 64
"""Characters of a sign that is read, with its marks: ordering many marks takes quadratic time."""


@functools.lru_cache(maxsize=1 << 14)
def without_typography(text: str) -> str:
    """Return a sign with its marks, each character `plain`."""
    return normalize("NFC", "".join(map(plain, normalize("NFC", text)))) if len(text) <= _LONGEST_SIGN else text


def unmarked(text: str) -> str:
    """Return a sign without case and marks, each character `plain`."""
    if len(text) > _LONGEST_SIGN:
        return text
    decomposed = normalize("NFD", without_typography(text).casefold())
    return "".join(character for character in decomposed if category(character)[0] != "M").replace("ı", "i")


def key_of(character: str) -> str:
    """Return the loosest key of a letter or digit: no case, no marks, one script, plain forms; others have none.

    >>> [key_of(c) for c in "Éﬁр٥ß½×,"]
    ['e', 'fi', 'p', '5', 'ss', '12', 'x', '']
    """
    if class_of(character) not in KEYED:
        return ""
    signs = unmarked(character).translate(_LOOKS)
    return "".join(digits_of(sign) or sign for sign in signs if category(sign)[0] in "LN") or character


KEYS = Table(key_of)


def digits_of(text: str) -> str | None:
    """Return the value of a text of digits of any script, as ASCII digits; None for any other text.

    >>> digits_of("٢٥"), digits_of("²")
    ('25', None)
    """
    return "".join(str(int(digit)) for digit in text) if text.isdecimal() else None
