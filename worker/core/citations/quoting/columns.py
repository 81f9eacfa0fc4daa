"""Columns: tell digits with white space between them that are one number, ``25 000``, from columns of a table."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from worker.core.citations.quoting.characters import LINE_BREAKS
from worker.core.citations.quoting.units import AFTER_NUMBERS


class Columns:
    r"""The tables of numbers in a text, looked for when first asked for.

    >>> Columns("costs 25\n000 in all").is_one_number(8, 9), Columns("12\t345").is_one_number(2, 3)
    (True, False)
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def is_one_number(self, start: int, stop: int) -> bool:
        """Return whether the digits before ``start`` go on with those at ``stop``.

        A group of three, or decimals, may have come to stand in the next line. A tab divides columns, and so does a
        space in a table of which a row can't be one number.
        """
        gap = self._text[start:stop]
        if gap == "\t":
            return False
        if _GROUP_AFTER.match(self._text, stop) and int(self._text[stop]) == 0:
            return True  # no number begins with a zero
        breaks = _count_breaks(gap)
        if gap[0] in ".,":
            return breaks == 1 and self._are_decimals(start, stop)
        if gap[-1] in ".,":
            return breaks == 1 and _BEFORE_POINT.search(self._text[max(0, start - _AROUND) : start]) is not None
        if breaks:
            return breaks == 1 and not self._is_list_item(stop) and not _within(self._columns, start, stop)
        return not (gap == " " and _within(self._tables, start, stop))

    def _is_list_item(self, place: int) -> bool:
        """Return whether the number at a place counts the items of a list: ``101. Turn left``."""
        return _ITEM.match(self._text, place) is not None

    def _are_decimals(self, start: int, stop: int) -> bool:
        """Return whether a full stop or comma before the end of a line is inside a number.

        Zeros show it, a unit, or a group of three after a comma.
        """
        before = _WHOLE_BEFORE.search(self._text[max(0, start - _AROUND) : start])
        after = _DECIMALS.match(self._text, stop)
        if not before or not after:
            return False
        thousands = self._text[start] == "," and _GROUP_AFTER.match(self._text, stop) is not None
        return bool(thousands or int(before[0]) == 0 or int(after[0][0]) == 0 or after["unit"])

    @cached_property
    def _columns(self) -> list[tuple[int, int]]:
        """Spans of neighbouring lines that have nothing but numbers."""
        return [match.span() for match in _LINES_OF_NUMBERS.finditer(self._text)]

    @cached_property
    def _tables(self) -> list[tuple[int, int]]:
        """Spans of tables: neighbouring lines that end with equally many numbers, one of them not one number."""
        tables: list[tuple[int, int]] = []
        rows: list[re.Match[str]] = []
        for match in (*_ROW.finditer(self._text), None):
            if rows and (match is None or not _continues(rows[-1], match)):
                if len(rows) > 1 and not all(_ONE_NUMBER.fullmatch(row[1]) for row in rows):
                    tables.append((rows[0].start(), rows[-1].end()))
                rows = []
            if match is not None:
                rows.append(match)
        return tables


def _count_breaks(gap: str) -> int:
    return sum(c in LINE_BREAKS for c in gap.replace("\r\n", "\n"))


def may_stand_for(gap: str, own: str) -> bool:
    r"""Return whether white space of a quote between two groups of digits may stand for that of the chunk.

    The groups may be one number or two, and only the white space says which. One space may become several, or the end
    of a line; columns may be divided by a tab or by spaces. Nothing else is the same. So a number that the chunk has
    in two lines, ``25\n000``, is quoted with a line break too: with a space it would be one number, which the chunk
    does not say, and a verdict is never a guess.

    >>> may_stand_for(" ", "\t"), may_stand_for(" ", "\n"), may_stand_for("\n", " "), may_stand_for("\n", "\r\n")
    (False, False, True, True)
    """
    kind, own_kind = _gap_kind(gap), _gap_kind(own)
    return kind == own_kind or (own_kind, kind) in _SAME_GAPS


_SAME_GAPS = frozenset({("space", "spaces"), ("space", "line"), ("spaces", "tab"), ("tab", "spaces")})


def _gap_kind(gap: str) -> str:
    if breaks := _count_breaks(gap):
        return "line" if breaks == 1 and "\u2029" not in gap else "paragraph"
    if "\t" in gap:
        return "tab"
    return "space" if len(gap) == 1 else "spaces"


def reads_as_one_number(text: str, place: int) -> bool:
    """Return whether the digits on both sides of white space at a place would be one number with a single space there.

    >>> [reads_as_one_number(text, text.index(" ")) for text in ("25 000", "2019 500", "1 1/2", "12.5 350", "7 12")]
    [True, False, True, False, False]
    """
    before, after = text[max(0, place - _GROUP - 2) : place], text[place + 1 : place + _GROUP + 3]
    if _FRACTION_AFTER.match(after):
        return before[-1:].isdecimal()
    return _GROUP_AFTER.match(after) is not None and _GROUP_BEFORE.search(before) is not None


_GROUP = 3
_GROUP_AFTER, _FRACTION_AFTER = re.compile(r"\d{3}(?!\d)"), re.compile(r" ?\d{1,3}/\d")
# Decimals are grouped in threes as well.
_GROUP_BEFORE = re.compile(r"(?:(?<!\d)(?<!\d[.,])|(?<=\d[.,])(?=\d{3}))\d{1,3}\Z")
_AROUND = 8
# Not the end of a list, a date or a year; nor the number of an item, a time or a date.
_WHOLE_BEFORE = re.compile(r"(?<!\d)(?<!\d[.,:])(?<!\d[,;] )\d{1,3}\Z")
_DECIMALS = re.compile(rf"\d++(?![.,:)/]\s*\d|[.)]\s)(?P<unit>\s{{0,4}}+(?:[%‰°぀-ヿ一-鿿]|(?:{AFTER_NUMBERS})(?!\w)))?")
# What begins the next line with a point has none yet: no column of .5 and .25.
_BEFORE_POINT = re.compile(r"(?<![\d.,])\d++\Z")
_ITEM = re.compile(r"\d+[.)]\s")
_NUMBER = r"[-−+]?\d++(?>(?:[.,]\d++)*)%?"
_LINES_OF_NUMBERS = re.compile(
    rf"(?m)(?:^[^\S\n]*+(?>(?:{_NUMBER}[^\S\n]*+)+)\n){{1,}}[^\S\n]*+(?>(?:{_NUMBER}[^\S\n]*+)+)$"
)
# The numbers at the end of a line, whatever stands before them.
_ROW = re.compile(rf"(?<!\S)(?<![\d%] )({_NUMBER}(?>(?:[ ]{_NUMBER})*))[^\S\n]*+(?:\n|\Z)")
_ONE_NUMBER = re.compile(r"[-−+]?\d{1,3}(?: \d{3})*%?")


def _within(spans: list[tuple[int, int]], start: int, stop: int) -> bool:
    i = bisect_right(spans, (start, stop)) - 1
    return i >= 0 and stop < spans[i][1]


def _continues(row: re.Match[str], after: re.Match[str]) -> bool:
    """Return whether a row is in the line after another, and has as many numbers."""
    label = after.string[row.end() : after.start()]
    return "\n" not in label and row[1].count(" ") == after[1].count(" ")
