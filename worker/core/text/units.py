"""Units of a text that can be quoted: sentences, and lines where lines are rows."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from worker.core.text.sentences import split_sentences
from worker.core.text.spans import paragraphs
from worker.core.text.terms import UNSPACED
from worker.core.text.unicode_data import cased, known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.core.text.spans import Span

NARROWEST = 40
"""Characters of the narrowest column of prose: lines that are all shorter are not wrapped."""

_LINE = re.compile(r"[^\r\n]++")
_FIRST_WORD = re.compile(rf"\s*+([{UNSPACED}]|[^\s{UNSPACED}]*+)")
_HEADING = re.compile(r"[ \t]*+#")
_ITEM = re.compile(r"[ \t]*+(?:\||[-*+•–]\s|\d{1,3}[.)]\s)")
_LEADERS = re.compile(r"\.{4}|(?:\.[ \u00a0]){3}\.|…{2}")
_AFTER_STOPS = " \t\"'”’»)]」』*_"
_STOPS = tuple(".!…。！।۔።")


class Unit(NamedTuple):
    """A sentence or a row.

    Attributes:
        start, end: its place.
        paragraph: where the paragraph or the line begins that it is a part of.
        is_row: whether it is an item, or a row of a table, a list or a log: complete without a full stop.
        is_whole: False of what ends without a full stop or begins in the middle, and of questions; rows are whole.
    """

    start: int
    end: int
    paragraph: int
    is_row: bool
    is_whole: bool


def quotable_units(text: str) -> Iterator[Unit]:
    r"""Yield the sentences and rows of a text, in time linear in it; no code, no headings, no lines of contents.

    A line could have held more if the next word would have fitted and is not in lower case: nothing wraps it there.
    Where half of a paragraph's lines could, each line ends its unit, and they are rows if most have no full stop at the
    end. Elsewhere only a line of at most half the width does: a heading.

    >>> text = "A chunk that\nis wrapped. It hums.\n\n# Opening hours\nMonday\t9 to 5\nSunday\tclosed"
    >>> [text[unit.start : unit.end] for unit in quotable_units(text)]
    ['A chunk that\nis wrapped.', 'It hums.', 'Monday\t9 to 5', 'Sunday\tclosed']
    """
    text = known(text)
    for start, end in paragraphs(text):
        for piece_start, piece_end, is_row in _pieces(text, start, end):
            for begins, ends in split_sentences(text[piece_start:piece_end]):
                unit = piece_start + begins, piece_start + ends
                is_torn = unit[0] == 0 and cased(text[0]).islower()
                yield Unit(*unit, piece_start, is_row, is_row or (not is_torn and _is_closed(text[slice(*unit)])))


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the parts of a paragraph that no unit reaches beyond, and whether each is a row."""
    lines = [(line.start(), line.start() + len(line[0].rstrip())) for line in _LINE.finditer(text, start, end)]
    if _HEADING.match(text, start, end):
        lines = lines[1:]
    width = max([NARROWEST, *(end - start for start, end in lines)])
    could_hold_more = [_could_hold_more(text, *pair, width) for pair in pairwise(lines)]
    are_apart = 2 * sum(could_hold_more) >= len(lines) - 1 > 0
    are_rows = are_apart and 2 * sum(_is_closed(text[slice(*line)]) for line in lines) < len(lines)
    is_item = bool(_ITEM.match(text, start, end))
    first_line = 0
    for i, (line_start, line_end) in enumerate(lines):
        is_short = 2 * (line_end - line_start) <= width
        if are_apart or line_end == lines[-1][1] or (is_short and could_hold_more[i]):
            piece = lines[first_line][0], line_end
            if not _LEADERS.search(text, *piece):
                yield *piece, are_rows or (is_item and not first_line)
            first_line = i + 1


def _is_closed(text: str) -> bool:
    return text.rstrip(_AFTER_STOPS).endswith(_STOPS)


def _could_hold_more(text: str, line: Span, following: Span, width: int) -> bool:
    """Return whether the end of a line is not that of a wrapped one."""
    if any(_LEADERS.search(text, *either) for either in (line, following)):
        return True
    word = _FIRST_WORD.match(text, *following)
    first_word = word[1] if word else ""
    return not cased(first_word[:1]).islower() and line[1] - line[0] + 1 + len(first_word) <= width
