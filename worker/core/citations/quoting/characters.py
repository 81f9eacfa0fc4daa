"""Characters as quotes are compared: the class of each, what it folds to, the Latin letter that it looks like.

Folding is Unicode's NFKC with full case folding, but for what would make another number or word of it: ``10²``
does not fold to ``102``, ``①`` not to ``1``, ``½`` folds to ``1/2``, and of the dotted and dotless i, which fold to
one letter, `worker.core.citations.quoting.differences` says which pairs are the same letter in another case.
"""

from __future__ import annotations

import functools
import re

from worker.core.text.unicode_data import category as category_of
from worker.core.text.unicode_data import decomposition, is_numeric, normalize, stands_for

VANISHING = "-\u2010\u2011\u058a\ufe63\uff0d"
"""Hyphens that may have been put in at the end of a line."""

SHORT_DASHES = "\u2012\u2013\u05be\ufe32"
MINUSES = "\u2212\u02d7"
LONG_DASHES = "\u2014\u2015\u2e3a\u2e3b\ufe58\ufe31"
DASHES = VANISHING + SHORT_DASHES + MINUSES + LONG_DASHES

SOFT_HYPHEN = "\u00ad"

# Left out on purpose: the overrides U+202D and U+202E (a reader sees other text), the invisible operators
# U+2061 to U+2064 (between digits they mean times or plus), and tag characters (they tell flags apart).
ZERO_WIDTH = frozenset(
    "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\u180e\u061c\u034f\u202a\u202b\u202c\u2066\u2067\u2068\u2069"
    "\u180b\u180c\u180d\u180f" + "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
)

KASHIDA = "\u0640"
"""Lengthens the line between two Arabic letters."""

INVISIBLE = re.compile("[" + KASHIDA + SOFT_HYPHEN + "".join(sorted(ZERO_WIDTH)) + "]+")

LINE_BREAKS = frozenset("\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")

QUOTES = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛‹›′ʹʻʼ´\u05f3", "'"),
        **dict.fromkeys("“”„‟«»″〝〞〟\u05f4", '"'),
    }
)
"""Apostrophes, single quotes and primes are one; double quotes and double primes another: feet are not inches.

A backtick is neither: in code and Markdown it says something else.
"""

# --- folding ------------------------------------------------------------------------------------

_SAME_NUMBER = frozenset({"<wide>", "<narrow>", "<font>", "<noBreak>", "<fraction>"})
_RAISED_BUT_TEXT = "ªº℠™"
_LOWERED_DIGITS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


@functools.cache
def compatible(character: str) -> str:
    """A character without its compatibility formatting, or as it is where that would change what it says.

    >>> [compatible(c) for c in "ﬁＡ½㎏²①"]
    ['fi', 'A', '1/2', 'kg', '²', '①']
    """
    if character in "\u2044\u2215":  # the slash of fractions, the division slash
        return "/"
    tag, _, parts = decomposition(character).partition(" ")
    if not tag.startswith("<") or tag == "<sub>" or (tag == "<super>" and character not in _RAISED_BUT_TEXT):
        return character
    plain = "".join(map(compatible, normalize("NFD", "".join(chr(int(part, 16)) for part in parts.split()))))
    if plain.startswith(" ") or (tag not in _SAME_NUMBER and any(map(str.isdigit, plain))):
        # A spacing accent is no space; "⒈5" is not "1.5".
        return character
    return plain


def without_formatting(text: str) -> str:
    """Every character `compatible`, and lowered digits (as in CO₂) as digits."""
    return "".join(map(compatible, text)).translate(_LOWERED_DIGITS)


def lower_case(text: str) -> str:
    """Full case folding; Turkish İ and ı fold to i; ligatures stay (they are compatibility forms, not capitals)."""
    folded = "".join(c if "\ufb00" <= c <= "\ufb17" else c.casefold() for c in text)
    return folded.replace("i\u0307", "i").replace("ı", "i")


def fold(text: str) -> str:
    """Fold one character with its marks. Not for long text: sorting marks takes quadratic time.

    >>> fold("É"), fold("e\u0301"), fold("ﬀ"), fold("İ"), fold("’"), fold("10²")
    ('e', 'e', 'ff', 'i', "'", '10²')
    """
    plain = "".join(map(compatible, normalize("NFD", text.translate(QUOTES))))
    # Quotes before, since ″ would become ′′, and after, since ŉ becomes ʼn; NFD before case, since İ is I with a dot.
    lower = lower_case(normalize("NFD", plain)).translate(QUOTES)
    folded = normalize("NFC", lower)
    return folded.translate(_NOT_WRITTEN) or folded


_VOWEL_MARKS = (
    *((0x64B, 0x653), (0x656, 0x660), (0x670, 0x671), (0x610, 0x61B), (0x6D6, 0x6DD), (0x6DF, 0x6E5), (0x6E7, 0x6E9)),
    *((0x6EA, 0x6EE), (0x591, 0x5BE), (0x5BF, 0x5C0), (0x5C1, 0x5C3), (0x5C4, 0x5C6), (0x5C7, 0x5C8)),
)
VOWEL_MARKS = frozenset(chr(code) for first, end in _VOWEL_MARKS for code in range(first, end))
"""Of Arabic and Hebrew letters (harakat, niqqud, signs of recitation): most texts are written without them."""

_GREEK_ACCENTS = dict.fromkeys(map(ord, "\u0300\u0301\u0342\u0313\u0314"))


def _unaccented() -> dict[str, str]:
    """Letters with an accent that many leave out on capitals, and those without.

    Not those with which most languages write another letter: ä, ö, ü, å, ñ, ã, õ.
    """
    latin = dict(zip("áàâéèêëíìîïóòôúùûç", "aaaeeeeiiiiooouuuc", strict=True))
    codes = [*range(0x386, 0x3D0), *range(0x1F00, 0x2000)]
    greek = {c: normalize("NFC", normalize("NFD", c).translate(_GREEK_ACCENTS)) for c in map(chr, codes) if c.isalpha()}
    both = latin | {c.upper(): plain.upper() for c, plain in latin.items()} | greek
    return {c: plain for c, plain in both.items() if c != plain and len(c) == len(plain) == 1}


UNACCENTED = _unaccented()
_NOT_WRITTEN = str.maketrans(UNACCENTED | dict.fromkeys(VOWEL_MARKS, ""))
"""Folding leaves these out; `worker.core.citations.quoting.differences` says where they count."""

# Letters of languages where é, á, ô, ... are other letters than e, a, o, in capitals as well.
LETTERS_BY_ACCENT = re.compile("[őűěščřžůďťňľŕđơưăðþłąęćńśźżŵŷșțşāēīū\u1ea0-\u1ef9]", re.IGNORECASE)


class _Folds(dict[int, str]):
    """For `str.translate`: each character folded by itself, found out once."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = " " if chr(code).isspace() else fold(chr(code))
        return folded


FOLDS = _Folds()

# --- look-alikes --------------------------------------------------------------------------------

# Of the confusables of Unicode Technical Standard 39, the letters that look like a Latin one in most typefaces.
_CYRILLIC = dict(zip("АВЕЅІЈКМНОРСТУХаеѕіјорсухһԁԛԝѵӏ", "ABESIJKMHOPCTYXaesijopcyxhdqwvl", strict=True))
_GREEK = dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿοϲϳ", "ABEZHIKMNOPTYXCJocj", strict=True))
# These are symbols as well (ρ is not p, ν is not v), so they count only inside a word that is Latin otherwise.
_SMALL_GREEK = dict(zip("αικνρυχάίύ", "aikvpuxáíú", strict=True))

_OF_SMALL_GREEK = str.maketrans(_SMALL_GREEK)
_TO_CYRILLIC = str.maketrans({latin: letter for letter, latin in _CYRILLIC.items()})
_TO_GREEK = str.maketrans({latin: letter for letter, latin in (_GREEK | _SMALL_GREEK).items()})

_WORD = re.compile(r"[^\W\d_]+")
_IS_CYRILLIC = re.compile("[\u0400-\u052f]")
_IS_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_SHORTEST_WORD, _FEWEST_LATIN = 3, 2


class _LookAlikes(dict[int, str]):
    """For `str.translate`: the Latin look-alike of each character, found out once; accents stay."""

    def __missing__(self, code: int) -> str:
        parts = normalize("NFD", chr(code))
        latin = (_CYRILLIC | _GREEK).get(parts[0])
        composed = normalize("NFC", latin + parts[1:]) if latin else ""
        self[code] = same_length = composed if len(composed) == 1 else chr(code)
        return same_length


_LOOK_ALIKES = _LookAlikes()


def one_script(text: str) -> str:
    """Each word in one script, letters of another that only look right replaced; as long as ``text``.

    Latin, if all its letters are or look Latin; else Cyrillic or Greek.

    >>> one_script("nоise оf ρ") == "noise of ρ", one_script("vοlume"), one_script("nαme, α")
    (True, 'volume', 'name, α')
    >>> one_script("мopе") == "море"
    True
    """
    if text.isascii() or not (_IS_CYRILLIC.search(text) or _IS_GREEK.search(text)):
        return text
    return _WORD.sub(lambda match: _word_in_one_script(match[0]), text)


def _word_in_one_script(word: str) -> str:
    latin = word.translate(_LOOK_ALIKES)
    if len(word) >= _SHORTEST_WORD and sum(map(str.isascii, latin)) >= _FEWEST_LATIN:
        latin = latin.translate(_OF_SMALL_GREEK)
    if _IS_CYRILLIC.search(latin):
        return word.translate(_TO_CYRILLIC)
    return word.translate(_TO_GREEK) if _IS_GREEK.search(latin) else latin


def letters_as_latin(text: str) -> str:
    """Every letter that may look Latin as the Latin one, whatever word it stands in."""
    return text.translate(_LOOK_ALIKES).translate(_OF_SMALL_GREEK)


# --- classes ------------------------------------------------------------------------------------

_SIGNS = {
    **dict.fromkeys("'\u05f3\u05f4", "'"),
    **dict.fromkeys(".\u066b", "."),  # the second are Arabic
    **dict.fromkeys(",\u066c\u060c", ","),
    **dict.fromkeys(":", ":"),
    **dict.fromkeys("/\\", "/"),
    **dict.fromkeys("^*&@", "*"),
    **dict.fromkeys("×·⋅÷", "x"),
    **dict.fromkeys("+±∓<>≤≥=≠~≈√∛∜〜≦≧≪≫⩽⩾≲≳∼≃≅≉≮≯≰≱", "+"),
    **dict.fromkeys("%‰‱°′″℃℉\u066a", "%"),
    **dict.fromkeys("#♯♭", "#"),
    "_": "L",
}

# Scripts written without spaces between words: Thai, Lao, Tibetan, Myanmar, Khmer, Kana, Han.
_NO_SPACES = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u309f\u30a0-\u312f"
    "\u31a0-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00016fe0-\U00018fff\U0001b000-\U0001b2ff\U00020000-\U0003ffff]"
)
_HAN = re.compile("[\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WIDE_PUNCTUATION = re.compile("[\u3001-\u3003\u3008-\u3011\u3014-\u301b\uff01-\uff0c\uff0e\uff1a-\uff1f]")
# Vowels and finals of Hangul that was taken apart, skin tones of emoji.
_MARKS_TOO = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff\U0001f3fb-\U0001f3ff]")


UNSPACED = r"\u0e00-\u109f\u1780-\u17ff\u2e80-\u9fff가-힣"
"""Inside a set of characters: those that may stand beside a number or a word of others, Hangul too."""


class _Classes(dict[int, str]):
    """For `str.translate`: the class of each character, found out once."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _spacing(chr(code)) or _sign(chr(code)) or _letter_or_digit(chr(code))
        return found


CLASSES = _Classes()
"""One ASCII letter or sign for each character, so that regular expressions can speak of classes:

``s`` white space, ``n`` line break, ``H`` soft hyphen, ``I`` zero-width, ``T`` kashida
· ``-`` hyphen, ``d`` other short dash,
``m`` minus, ``e`` long dash · ``U`` capital, ``L`` other letter, ``D`` digit, ``F`` vulgar fraction, ``B`` lowered
digit, ``P`` other raised or lowered sign, ``M`` mark (of the character before) · ``C`` sign of a script without
spaces, ``N`` Chinese numeral, ``K`` wide punctuation · ``'`` apostrophe ``.`` ``,`` ``:`` ``/`` ``*`` ``x`` (products)
``+`` (signs of numbers) ``%`` (what follows numbers) ``$`` (currencies) ``#`` (sharps and flats) · ``S`` symbol,
``o`` anything else.
"""


def _spacing(c: str) -> str:
    if c.isspace():
        return "n" if c in LINE_BREAKS else "s"
    if c == SOFT_HYPHEN:
        return "H"
    if c == KASHIDA:
        return "T"
    return "I" if c in ZERO_WIDTH else ""


def _sign(c: str) -> str:
    for dashes, name in ((VANISHING, "-"), (SHORT_DASHES, "d"), (MINUSES, "m"), (LONG_DASHES, "e")):
        if c in dashes:
            return name
    if _WIDE_PUNCTUATION.match(c):
        return "K"
    # Primes before quotes: 5′ is one number, while 5' may be the end of a quotation.
    plain = compatible(c)
    return _SIGNS.get(c) or _SIGNS.get(plain) or _SIGNS.get(c.translate(QUOTES), "")


def _letter_or_digit(c: str) -> str:
    plain = compatible(c)
    category = category_of(plain[0])
    if category[0] == "M" or _MARKS_TOO.match(c):
        return "M"
    if _NO_SPACES.match(stands_for(plain[0])):
        return "N" if _HAN.match(plain) and is_numeric(plain[0]) else "C"
    return _raised_or_lowered(c) or _OF_CATEGORY.get(category) or _OF_CATEGORY.get(category[0], "o")


def _raised_or_lowered(c: str) -> str:
    tag = decomposition(c).partition(" ")[0]
    if tag == "<fraction>":
        return "F"
    if tag in {"<sub>", "<super>"} and compatible(c) == c:
        return "B" if ord(c) in _LOWERED_DIGITS else "P"
    return ""


_OF_CATEGORY = {"Nd": "D", "Sc": "$", "Lu": "U", "Lt": "U", "So": "S", "L": "L", "N": "L"}
