"""Sentences: their places in a text."""

from __future__ import annotations

import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from worker.core.text.terms import TERM
from worker.core.text.unicode_data import cased, known

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from worker.core.text.spans import Span


def words_in(text: str) -> tuple[str, ...]:
    """Return the words of a table."""
    return tuple(text.split())


MONTHS = words_in("January February March April May June July August September October November December")
MONTH_FORMS = frozenset(form for month in MONTHS for form in (month.lower(), month[:3].lower())) | {"sept"}
_ABBREVIATIONS = words_in("dr mr mrs prof st med e.g eg i.e ie cf vs approx ca dept est al resp incl viz bzw")
_TITLES = words_in("Rev Gen Col Capt Maj Gov Sen Hon Co")
"""Abbreviations with a vowel before a name, other words with a small letter."""
_BEFORE_NUMBERS = words_in(
    "c no nos p pp fig figs vol ch sec art para eq ref jan feb mar apr jun jul aug sep sept oct nov dec"
)
"""Abbreviations before a number, words elsewhere."""
_BEGINNINGS = words_in("a an the if in on at no not for with from when it he she they we i you this that these those")
"""Before these the stop after a capital, a title or letters without a vowel ends a sentence."""

SHORT = 1
"""Most words of a sentence that is part of the next one: a yes or a no. Two may state something: it hums."""
_AFTER_STOPS = " \t\"'”’»)]」』*_"
_STOPS = tuple(".!…。！।۔።")

_BREAK = re.compile(
    r"""
    (?=[.!?…。！？\n\ \t#|])                             # what any of these begins with: most places have none
    (?: (?P<stop>(?<![.!?…])[.!?…]++)["'”’»)\]]*+(?=\s|\Z) # the end of a sentence, perhaps
    | [。！？]++[」』”’]*+
    | \n[ \t\r]*+\n\s*+                               # a blank line
    | \n(?=[ \t]*+(?:[#|>]|[-*+•–]\s|\d{1,3}[.)]\s))    # a line that begins a heading, a row, an item
    | ^[ \t]*+[#|][^\n]*+                              # a heading, a row: the line is all of it
    )
    """,
    re.VERBOSE | re.MULTILINE,
)
_NEXT = re.compile(r"\s*+(\S?)(\w*+)(-[\w-]*+)?")
_DIGIT = re.compile(r"\d")
# After an elision (d'env.), too; but a contraction is one word (doesn't).
_LAST_WORD = re.compile(r"(?:\A|\s|[(\[\"“‘]|(?<!\w)['’]|(?<=\b[^\W\d_])['’](?=\w\w))([\w.-]+)\Z")
_INITIALS = re.compile(r"(?>(?:[^\W\d_]\.)*)[^\W\d_]")
_CONSONANTS = "bcdfghjklmnpqrstvwxzбвгджзйклмнпрстфхцчшщβγδζθκλμνξπρσςτφχψ"
# Sgt, Mt, vgl, стр; units are taken for words after a number, and acronyms are in capitals.
_VOWELLESS = re.compile(rf"[{_CONSONANTS}{_CONSONANTS.upper()}][{_CONSONANTS}]{{1,3}}")
_CUT_SHORT = re.compile(rf"[^\W\d_]{{1,3}}[{_CONSONANTS}]")
_OPENING = re.compile(r"[,;(]\s*+\Z")
_ABBREVIATED = re.compile(r"([^\W\d_]++)\.\s++\Z")
_LOOK_BACK = 16
_LONGEST_ABBREVIATION = 4
"""Letters of a word before a number or an initial that is taken for an abbreviation: `ext. 22`, `rev. B.`"""


def split_sentences(text: str) -> Iterator[Span]:
    """Yield the places of the sentences of a text, without the white space around them, in time linear in the text.

    A full stop ends none after an abbreviation, an initial or what may be an ordinal, inside a number, or before a
    small letter that begins no code (`err-77c`): two sentences taken for one say more than half of one. An abbreviation
    is short, and has no vowel, or ends with a consonant and stands after a comma, a bracket or another, or is before a
    number. Headings, table rows and list items end where they end; a new line alone ends none.

    >>> text = "Dr. Groß measured 0.5 kHz on 3. May, e.g. twice. It hums!"
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['Dr. Groß measured 0.5 kHz on 3. May, e.g. twice.', 'It hums!']
    """
    text = known(text)
    start = 0
    for match in _BREAK.finditer(text):
        if match["stop"] is None or _ends_sentence(text, match, start):
            yield from _trimmed(text, start, match.end())
            start = match.end()
    yield from _trimmed(text, start, len(text))


def with_short_ones(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the places of sentences, each with the short ones before it, whose yes or no may turn its meaning round.

    >>> text = "No. It can run dry. Never! [S1] It can, too."
    >>> [text[start:end] for start, end in with_short_ones(text, [(0, 3), (4, 19), (20, 26), (32, 44)])]
    ['No. It can run dry.', 'Never!', 'It can, too.']

    Args:
        text: what they are in.
        spans: their places, in order; something other than white space between two keeps them apart.
    """
    first: int | None = None
    for (start, end), (next_start, _) in pairwise([*spans, (len(text), len(text))]):
        first = start if first is None else first
        is_followed = next_start < len(text) and not text[end:next_start].strip()
        is_short = sum(1 for _ in islice(TERM.finditer(text, start, end), SHORT + 1)) <= SHORT
        if not (is_followed and is_short and is_closed(text[start:end])):
            yield first, end
            first = None


def is_closed(text: str) -> bool:
    """Return whether a text ends with a full stop or its like, perhaps in quotation marks or brackets; no question."""
    return text.rstrip(_AFTER_STOPS).endswith(_STOPS)


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    """A span without the white space around it; none of white space alone."""
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        start += len(piece) - len(piece.lstrip())
        yield start, start + len(stripped)


def _ends_sentence(text: str, match: re.Match[str], start: int) -> bool:
    """Return whether a stop is the end of the sentence that begins at `start`, by what stands before and after it."""
    following = _NEXT.match(text, match.end())
    first_sign, rest, tail = following.groups("") if following else ("", "", "")
    is_numbered = bool(_DIGIT.search(first_sign + rest + tail))
    if cased(first_sign).islower() and not is_numbered:
        return False
    if match["stop"] != ".":
        return True
    last_word = _LAST_WORD.search(text[max(0, match.start() - _LOOK_BACK) : match.start()])
    if last_word is None:
        return True
    word, following_word = last_word[1], (first_sign + rest).casefold()
    at = match.start() - len(word)
    text_before = text[max(start, at - _LOOK_BACK) : at]
    abbreviated = _ABBREVIATED.search(text_before)
    is_next_initial = len(first_sign + rest) == 1 and following is not None and text.startswith(".", following.end())
    if word.isdecimal():
        is_counted = abbreviated is not None and _is_before_numbers(abbreviated[1])  # p. 12
        may_be_ordinal = len(word) <= len("31") and following_word not in _BEGINNINGS and not is_counted
        return at > 0 and text[at - 1] != "\n" and not may_be_ordinal
    if word.casefold() in _ABBREVIATIONS or (word.casefold() in _BEFORE_NUMBERS and is_numbered):
        return False
    # "J. S. Bach", "U.S. Air Force" and "Lt. Hayes", but not "9 V. The ...", "Room A. The ..." and "in Hz. The ...".
    is_initial = len(word) == 1 or (word.isupper() and bool(_INITIALS.fullmatch(word)))
    has_stop = "." in word and not _DIGIT.search(word)
    is_named = word.isalpha() and len(word) <= _LONGEST_ABBREVIATION and (is_next_initial or first_sign.isdecimal())
    # ", réf. X" and "Hr. Ing. Weber", but not "T. Kuhn. The ...".
    is_next_title = abbreviated is not None and len(abbreviated[1]) > 1 and word[0].isupper()
    is_cut_short = bool(_CUT_SHORT.fullmatch(word)) and (is_next_title or bool(_OPENING.search(text_before)))
    is_short = is_named or has_stop or is_initial or is_cut_short or word in _TITLES or bool(_VOWELLESS.fullmatch(word))
    is_unit = not is_named and text[max(0, at - 2) : at].strip().isdigit()
    return not is_short or is_unit or (following_word in _BEGINNINGS and not is_next_initial)


def _is_before_numbers(word: str) -> bool:
    return len(word) == 1 or word.casefold() in _BEFORE_NUMBERS or bool(_VOWELLESS.fullmatch(word))
