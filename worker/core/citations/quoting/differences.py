"""Differences of two texts with the same folded form: what had to be normalised, or that it must not be.

Folding brings together a little too much (``re-sign`` and ``resign``, ``mW`` and ``MW``, Turkish ``ı`` and ``i``), so
that one search finds every candidate; here each candidate is compared piece by piece with the quote.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import (
    DASHES,
    INVISIBLE,
    KASHIDA,
    LETTERS_BY_ACCENT,
    LINE_BREAKS,
    LONG_DASHES,
    QUOTES,
    SHORT_DASHES,
    SOFT_HYPHEN,
    UNACCENTED,
    VANISHING,
    VOWEL_MARKS,
    ZERO_WIDTH,
    letters_as_latin,
    lower_case,
    without_formatting,
)
from worker.core.citations.quoting.columns import may_stand_for, reads_as_one_number
from worker.core.citations.quoting.letter_case import is_meant
from worker.core.text.normal_forms import normal_form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.core.citations.quoting.forms import Passage

FINAL_STOP = "final_stop"
KINDS = (
    "white_space",
    "paragraphs",
    "quotes",
    "dashes",
    "compatibility",
    "composition",
    "soft_hyphen",
    "zero_width",
    "hyphenation",
    "case",
    "look_alike",
    "vowel_marks",
    "kashida",
    "accents",
    "markup",
    FINAL_STOP,
)
"""Everything that may be listed as normalised, in the order of the list."""

Kinds = frozenset[str]
SAME: Kinds = frozenset()


def kinds_needed(quote: Passage, chunk: Passage) -> Kinds | None:
    """Return what must be normalised to make two passages of the same folded text equal; None: nothing does."""
    known: dict[tuple[str, str, str, str], Kinds] = {}
    cased: list[int] = []
    formatted: list[int] = []
    for start, stop in _differing(quote, chunk):
        # Long passages repeat the same few differences.
        pieces = *quote.piece(start, stop), *chunk.piece(start, stop)
        if quote.form.text[start] == " " and _joins_or_divides(quote.form.text, start, pieces[0], pieces[2]):
            return None
        kinds = known.get(pieces)
        if kinds is None:
            kinds = _piece_kinds(*pieces)
            if kinds is None:
                return None
            known[pieces] = kinds
        if "case" in kinds:
            cased.append(start + (quote.form.text[start] == " "))
        if "compatibility" in kinds:
            formatted.append(start)
    if (cased or formatted) and is_meant(quote, chunk, cased, formatted):
        return None
    kinds = SAME.union(*known.values())
    if "accents" in kinds and _are_letters_by_accent(quote, chunk):
        return None
    return None if "vowel_marks" in kinds and _are_read_otherwise(quote, chunk) else kinds


def _joins_or_divides(text: str, place: int, gap: str, own: str) -> bool:
    """Return whether white space between digits makes one number of two, or two of one."""
    if not reads_as_one_number(text, place):
        return False
    gap, own = INVISIBLE.sub("", gap), INVISIBLE.sub("", own)
    return gap.isspace() and own.isspace() and not may_stand_for(gap, own)


def _are_letters_by_accent(quote: Passage, chunk: Passage) -> bool:
    """Return whether the language is one in which a capital without its accent is another letter."""
    start, stop = chunk.span
    if LETTERS_BY_ACCENT.search(quote.text) or LETTERS_BY_ACCENT.search(chunk.text[start:stop]):
        return True
    around = chunk.text[max(0, start - _AROUND) : stop + _AROUND]
    return len(LETTERS_BY_ACCENT.findall(around)) >= _FEWEST_LETTERS


_AROUND, _FEWEST_LETTERS = 200, 3
"""Characters around a passage in which so many letters are of such a language, and of no name."""


def _are_read_otherwise(quote: Passage, chunk: Passage) -> bool:
    """Return whether a word has vowel marks in both texts, and neither has all of the other's."""
    pairs = {(quote.core(*match.span()), chunk.core(*match.span())) for match in _LETTERS.finditer(quote.form.text)}
    marks = ((_vowel_marks(one), _vowel_marks(other)) for one, other in pairs)
    return any(not (_is_among(one, other) or _is_among(other, one)) for one, other in marks)


_LETTERS = re.compile(r"[^\W\d_]+")


def _vowel_marks(text: str) -> str:
    return "".join(filter(VOWEL_MARKS.__contains__, _nfd(text)))


def _is_among(marks: str, others: str) -> bool:
    rest = iter(others)
    return all(mark in rest for mark in marks)


def _piece_kinds(one: str, tail: str, other: str, other_tail: str) -> Kinds | None:
    of_core = core_kinds(one, other)
    of_tail = tail_kinds(tail, other_tail)
    return None if of_core is None or of_tail is None else of_core | of_tail


def _differing(quote: Passage, chunk: Passage) -> Iterator[tuple[int, int]]:
    """Yield the smallest pieces of the folded text that both have, and whose raw texts differ."""
    text, starts = quote.text, quote.form.starts
    other, other_starts = chunk.text, chunk.form.starts
    length = len(starts)
    start, following = 0, 1
    while following < length:
        ahead = start + _AT_ONCE
        if following == start + 1 and ahead < length and _is_same(quote, chunk, start, ahead):
            start, following = ahead, ahead + 1
            continue
        end = min(max(following, ahead) + 1, length)
        for stop in range(following, end):
            if starts[stop] == starts[stop - 1] or other_starts[stop] == other_starts[stop - 1]:
                continue
            if text[starts[start] : starts[stop]] != other[other_starts[start] : other_starts[stop]]:
                yield start, stop
            start = stop
        following = end
    yield start, length


_AT_ONCE = 32
"""Characters compared at once, since most are the same."""


def _is_same(quote: Passage, chunk: Passage, start: int, stop: int) -> bool:
    """Return whether two passages have the same raw text there, up to where a piece of both begins."""
    starts, other_starts = quote.form.starts, chunk.form.starts
    if starts[stop] == starts[stop - 1] or other_starts[stop] == other_starts[stop - 1]:
        return False
    return quote.text[starts[start] : starts[stop]] == chunk.text[other_starts[start] : other_starts[stop]]


# --- what folded to something -------------------------------------------------------------------


def core_kinds(one: str, other: str) -> Kinds | None:
    """Return what must be normalised to make two pieces equal: no kind more than needed.

    >>> sorted(core_kinds("É", "e\u0301")), core_kinds("ﬁ", "fi"), core_kinds("i", "ı")
    (['case', 'composition'], frozenset({'compatibility'}), None)
    """
    # Most texts repeat the same few differences; a long one is not worth its memory.
    return _kept_core_kinds(one, other) if len(one) + len(other) <= _WORTH_KEEPING else _core_kinds(one, other)


_WORTH_KEEPING = 64


def _core_kinds(one: str, other: str) -> Kinds | None:
    if one == other:
        return SAME
    hidden = _hidden_kinds(one, other)
    bare, other_bare = INVISIBLE.sub("", one), INVISIBLE.sub("", other)
    if bare.isspace() and other_bare.isspace():
        return hidden | _space_kinds(bare, other_bare)
    kinds = dash_kinds(bare, other_bare) if _is_dash(bare) or _is_dash(other_bare) else _letter_kinds(bare, other_bare)
    return None if kinds is None else hidden | kinds


_kept_core_kinds = functools.lru_cache(maxsize=4096)(_core_kinds)


def _space_kinds(one: str, other: str) -> Kinds:
    """White space for white space; one paragraph of two is said."""
    if one == other:
        return SAME
    return frozenset({"white_space" if _ends_paragraph(one) == _ends_paragraph(other) else "paragraphs"})


def _ends_paragraph(space: str) -> bool:
    return _BLANK_LINE.search(space) is not None


_BREAK = "[" + "".join(sorted(LINE_BREAKS - {"\u2029"})) + "]"
_BLANK_LINE = re.compile(f"(?:\\r\\n|{_BREAK})[^\\S\\n\\r]*(?:\\r\\n|{_BREAK})|\u2029")


def _hidden_kinds(one: str, other: str) -> Kinds:
    soft = one.count(SOFT_HYPHEN) != other.count(SOFT_HYPHEN)
    zero_width = [c for c in one if c in ZERO_WIDTH] != [c for c in other if c in ZERO_WIDTH]
    kashida = one.count(KASHIDA) != other.count(KASHIDA)
    found = {"soft_hyphen": soft, "zero_width": zero_width, "kashida": kashida}
    return frozenset(kind for kind, differs in found.items() if differs)


def _is_dash(text: str) -> bool:
    return text != "" and all(c in DASHES for c in text)


def dash_kinds(one: str, other: str) -> Kinds | None:
    """One dash may stand for another; two or three hyphens stand for a long one, but not for a single hyphen."""
    if one == other:
        return SAME
    if not (_is_dash(one) and _is_dash(other)):
        return None
    if len(one) == len(other):
        return frozenset({"dashes"})
    single, several = sorted((one, other), key=len)
    is_long = single in LONG_DASHES or single in SHORT_DASHES
    return frozenset({"dashes"}) if len(single) == 1 and is_long and set(several) <= {*VANISHING} else None


def _letter_kinds(one: str, other: str) -> Kinds | None:
    spaced = one[:1].isspace() != other[:1].isspace()
    one, other = one.strip(), other.strip()  # "1½" folds to "1 1/2", "5dB" to "5 db"
    if one == other:
        return frozenset({"white_space"})
    kinds = _accent_kinds(one, other) or _kinds_of_letters(one, other)
    return kinds | {"white_space"} if kinds and spaced and "compatibility" not in kinds else kinds


def _accent_kinds(one: str, other: str) -> Kinds | None:
    """For a capital that lacks its accent."""
    one, other = normal_form("NFC", one), normal_form("NFC", other)
    bare, other_bare = UNACCENTED.get(one, one), UNACCENTED.get(other, other)
    if (bare == one) == (other_bare == other) or not (one if bare == one else other).isupper():
        return None
    if bare == other_bare:
        return frozenset({"accents"})
    kinds = _kinds_of_letters(bare, other_bare)
    return kinds and kinds | {"accents"}


def _kinds_of_letters(one: str, other: str) -> Kinds | None:
    kinds = _enough(one, other)
    cased = kinds - {"case"}
    if not kinds or _marked_otherwise(one, other) or _other_letter(_normalised(one, cased), _normalised(other, cased)):
        return None
    for kind in _STEPS:
        if _normalised(one, kinds - {kind}) == _normalised(other, kinds - {kind}):
            kinds -= {kind}
    return kinds


def _marked_otherwise(one: str, other: str) -> bool:
    """Return whether two letters have vowel marks, and not the same."""
    marks, others = _vowel_marks(one), _vowel_marks(other)
    return bool(marks and others and marks != others)


def _enough(one: str, other: str) -> Kinds:
    """Kinds that make two pieces equal, look-alikes only if it must be: a Greek capital Μ is the µ of units too."""
    every = frozenset(_STEPS)
    for kinds in (every - {"look_alike"}, every):
        if _normalised(one, kinds) == _normalised(other, kinds):
            return kinds
    return SAME


def _nfd(text: str) -> str:
    return normal_form("NFD", text)


# In the order in which each is tried to be done without: a ligature is a matter of compatibility, although full case
# folding would undo some as well.
_STEPS: dict[str, Callable[[str], str]] = {
    "look_alike": letters_as_latin,
    "case": lower_case,
    "quotes": lambda text: text.translate(QUOTES),
    "vowel_marks": lambda text: "".join(c for c in text if c not in VOWEL_MARKS),
    "composition": _nfd,
    "compatibility": without_formatting,
}


_IN_ORDER = ("composition", "quotes", "compatibility", "look_alike", "case", "quotes", "composition", "vowel_marks")


def _normalised(text: str, kinds: Kinds) -> str:
    for kind in _IN_ORDER:
        if kind in kinds:
            text = _STEPS[kind](text)
    return text


# Turkish: ı is the small I, İ the capital i; in other languages I is the capital i.
_SAME_LETTER = frozenset(map(frozenset[str], ("iI", "iİ", "ıI")))
_FORMS_OF_I = frozenset("iIıİ")


def _other_letter(one: str, other: str) -> bool:
    """Return whether two texts that differ in letter case alone have an i and an ı, or a small ss and an ß."""
    one, other = (normal_form("NFC", text).replace("i\u0307", "İ") for text in (one, other))
    if _count_sharp_s(one) != _count_sharp_s(other):
        return not ({"SS", "Ss"} & {one, other})
    pairs = {frozenset(pair) for pair in zip(one, other, strict=False)} if len(one) == len(other) else set()
    return any(len(pair) > 1 and pair <= _FORMS_OF_I and pair not in _SAME_LETTER for pair in pairs)


def _count_sharp_s(text: str) -> int:
    return text.count("ß") + text.count("ẞ")


# --- what folding left out ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tail:
    """The text between two folded characters: a dash, then white space."""

    dash: str
    gap: str

    @property
    def broken(self) -> bool:
        """Return whether a line ends here."""
        return any(c in LINE_BREAKS for c in self.gap)

    @property
    def vanishes(self) -> bool:
        """Return whether the dash may have been put in because the line ends here."""
        return self.broken and len(self.dash) == 1 and self.dash in VANISHING + SOFT_HYPHEN


_SOFT_AND_BROKEN = re.compile(rf"{SOFT_HYPHEN}[^{''.join(sorted(LINE_BREAKS))}]*+[{''.join(sorted(LINE_BREAKS))}]")


def _tail_of(text: str) -> tuple[_Tail, str]:
    """The tail, and what is invisible in it."""
    dash = "".join(c for c in text if c in DASHES)
    gap = "".join(c for c in text if c.isspace())
    hidden = "".join(c for c in text if not (c in DASHES or c.isspace()))
    if not dash and _SOFT_AND_BROKEN.search(text):
        return _Tail(SOFT_HYPHEN, gap), hidden.replace(SOFT_HYPHEN, "", 1)
    return _Tail(dash, gap), hidden


def tail_kinds(one: str, other: str) -> Kinds | None:
    r"""Return what must be normalised to make equal what folding left out of a quote and of a chunk at one place.

    >>> tail_kinds("-\n", ""), tail_kinds("-\n", "-"), tail_kinds("-", ""), tail_kinds("- ", "")
    (frozenset({'hyphenation'}), frozenset({'hyphenation'}), None, None)
    """
    if one == other:
        return SAME
    (first, hidden), (second, other_hidden) = _tail_of(one), _tail_of(other)
    kinds = _dash_tail_kinds(first, second) if first.dash or second.dash else _gap_kinds(first, second, "white_space")
    return None if kinds is None else kinds | _hidden_kinds(hidden, other_hidden)


def _dash_tail_kinds(one: _Tail, other: _Tail) -> Kinds | None:
    if not (one.dash and other.dash):
        dashed, bare = (one, other) if one.dash else (other, one)
        return frozenset({"hyphenation"}) if dashed.vanishes and not bare.gap else None
    if one.dash in LONG_DASHES and other.dash in VANISHING:
        # A writer's well—known is not the chunk's well-known.
        return None
    if SOFT_HYPHEN in (one.dash, other.dash):
        dashes = frozenset({"soft_hyphen"}) if one.vanishes and other.vanishes else None
    else:
        dashes = dash_kinds(one.dash, other.dash)
    if one.dash == other.dash:
        dashes = SAME
    gaps = _gap_kinds(one, other, "hyphenation")
    return None if dashes is None or gaps is None else dashes | gaps


def _gap_kinds(one: _Tail, other: _Tail, where_it_vanishes: str) -> Kinds | None:
    """White space for white space; only the end of a line may stand for none at all."""
    if one.gap == other.gap:
        return SAME
    if one.gap and other.gap:
        return _space_kinds(one.gap, other.gap)
    return frozenset({where_it_vanishes}) if one.broken or other.broken else None


def trimmed_kinds(text: str) -> Kinds:
    """Return what must be normalised to drop what stands around a passage: white space and invisible characters."""
    return _hidden_kinds(text, "") | ({"white_space"} if any(map(str.isspace, text)) else SAME)
