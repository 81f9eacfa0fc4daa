"""Whether digits with white space between them are one number, ``25 000``, or stand in two columns of a table."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from worker.core.citations.quoting.characters import LINE_BREAKS


class Columns:
    r"""The tables of numbers in a text, looked for when first asked for.

    >>> Columns("costs 25\n000 in all").is_one_number(8, 9), Columns("12\t345").is_one_number(2, 3)
    (True, False)
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def is_one_number(self, start: int, stop: int) -> bool:
        """Whether the digits before ``start`` go on with the three at ``stop``.

        A group of three may have come to stand in the next line. A tab divides columns, and so does a space in a table
        of which a row can't be one number.
        """
        gap = self._text[start:stop]
        if self._text[stop].isdecimal() and int(self._text[stop]) == 0:
            return True  # no number begins with a zero
        if gap[0] in ".,":
            return False
        breaks = sum(c in LINE_BREAKS for c in gap.replace("\r\n", "\n"))
        if breaks:
            return breaks == 1 and not self._is_list_item(stop) and not _within(self._columns, start, stop)
        return gap != "\t" and not (gap == " " and _within(self._tables, start, stop))

    def _is_list_item(self, place: int) -> bool:
        """Whether the number at a place counts the items of a list: ``101. Turn left``."""
        return _ITEM.match(self._text, place) is not None

    @cached_property
    def _columns(self) -> list[tuple[int, int]]:
        """Where neighbouring lines have nothing but numbers."""
        return [match.span() for match in _LINES_OF_NUMBERS.finditer(self._text)]

    @cached_property
    def _tables(self) -> list[tuple[int, int]]:
        """Where the tables stand: neighbouring lines that end with as many numbers, one of them not one number."""
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


_ITEM = re.compile(r"\d+[.)]\s")
_NUMBER = r"[-−+]?\d++(?:[.,]\d++)*+%?"
_LINES_OF_NUMBERS = re.compile(rf"(?m)(?:^[^\S\n]*+(?:{_NUMBER}[^\S\n]*+)++\n){{1,}}[^\S\n]*+(?:{_NUMBER}[^\S\n]*+)++$")
# The numbers at the end of a line, whatever stands before them.
_ROW = re.compile(rf"(?<!\S)(?<![\d%] )({_NUMBER}(?:[ ]{_NUMBER})*+)[^\S\n]*+(?:\n|\Z)")
_ONE_NUMBER = re.compile(r"[-−+]?\d{1,3}(?: \d{3})*%?")


def _within(spans: list[tuple[int, int]], start: int, stop: int) -> bool:
    i = bisect_right(spans, (start, stop)) - 1
    return i >= 0 and stop < spans[i][1]


def _continues(row: re.Match[str], after: re.Match[str]) -> bool:
    """Whether a row is in the line after another, and has as many numbers."""
    label = after.string[row.end() : after.start()]
    return "\n" not in label and row[1].count(" ") == after[1].count(" ")
