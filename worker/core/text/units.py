"""Units of a text: sentences, lines where lines are rows, and the headings of both."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from worker.core.text.sentences import is_closed, split_sentences, with_short_ones
from worker.core.text.spans import paragraphs
from worker.core.text.terms import UNSPACED
from worker.core.text.unicode_data import cased, known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worker.core.text.spans import Span

NARROWEST = 40
"""Characters of the narrowest column of prose: lines that are all shorter are not wrapped."""

LONGEST_HEADING = 80
"""Most characters of a heading that has no mark of one."""

_LINE = re.compile(r"[^\r\n]++")
_FIRST_WORD = re.compile(rf"\s*+([{UNSPACED}]|[^\s{UNSPACED}]*+)")
_HEADING = re.compile(r"[ \t]*+#")
_UNDERLINE = re.compile(r"[ \t]*+([=~^\"'`#*+_-])\1{2,}[ \t]*+$")
_BULLET = re.compile(r"[ \t]*+(?:\||[-*+•–]\s)")
_NUMBER = re.compile(r"[ \t]*+\d{1,3}[.)]\s")
_DELIMITER = re.compile(r"[ \t]*+\|[ \t]*+:?-[-| \t:]*+\s*+$")
_LABELLED = re.compile(r"\S[:：]\s++\S")
# Directives, comments, targets and substitutions of reStructuredText; images of Markdown.
_MARKUP = re.compile(r"\s*+(?:\.\.(?:\s|$)|(?:\|[^|\n]++\|[ \t]++)?[\w-]++::\s++\S|(?>(?:\|[^|\s]++\|\s*+)+)$|\[?!\[)")
_LEADERS = re.compile(r"\.{4}|(?:\.[ \u00a0]){3}\.|…{2}")
_COLONS = (":", "：")
_DELIMITERS = "\t;|,"
_DIGITS, _LETTERS = re.compile(r"\d++"), re.compile(r"[^\W\d_]++")


class Unit(NamedTuple):
    """A sentence, a row or a heading.

    Attributes:
        start, end: its place.
        paragraph: where the paragraph or the line begins that it is a part of.
        is_row: whether it is an item, or a row of a table, a list or a log: complete without a full stop.
        is_whole: False of what ends without a full stop or begins in the middle, and of questions; rows are whole.
        is_heading: whether it only says what the units after it are about, as a heading or an introduction does. What
            is a row, too, names the columns of a table.
    """

    start: int
    end: int
    paragraph: int
    is_row: bool
    is_whole: bool
    is_heading: bool


def units(text: str) -> Iterator[Unit]:
    r"""Yield the sentences, rows and headings of a text, in time linear in it; no code, no contents, no images.

    A line could have held more if the next word would have fitted and is not in lower case, or if both lines begin
    alike, as those of a log do: nothing wraps it there. Where half of a paragraph's lines could, each line ends its
    unit, and they are rows if most have no full stop at the end. Elsewhere only a line of at most half the width does.

    A heading has a mark of one, ends with a colon, or is a line without a full stop above other text. What follows a
    colon line by line is a list: its lines are rows. The header of a table stands above a line of dashes, or alone with
    tabs in it, or is the only row without a digit among most that have one.

    A sentence of one word is part of the next one, whose meaning it may turn round: "No. It can run dry."

    >>> text = "A chunk that\nis wrapped. It hums.\n\n# Opening hours\nMonday\t9 to 5\nSunday\tclosed"
    >>> [text[unit.start : unit.end] for unit in units(text) if not unit.is_heading]
    ['A chunk that\nis wrapped.', 'It hums.', 'Monday\t9 to 5', 'Sunday\tclosed']
    """
    text = known(text)
    blocks = [*paragraphs(text)]
    is_numbered = [False, *(bool(_NUMBER.match(text, *block)) for block in blocks), False]
    in_list = False
    for i, block in enumerate(blocks):
        following = blocks[i + 1] if i + 1 < len(blocks) else None
        # A number alone is that of a heading.
        is_item = is_numbered[i + 1] and (is_numbered[i] or is_numbered[i + 2])
        pieces = [*_pieces(text, *block, is_item=is_item or bool(_BULLET.match(text, *block)))]
        if following and _DELIMITER.match(text, *following):
            pieces = [piece._replace(kind="header") for piece in pieces]
        for piece in pieces:
            is_last = piece is pieces[-1]
            spans = [
                (piece.start + start, piece.start + end)
                for start, end in split_sentences(text[piece.start : piece.end])
            ]
            is_line = len(spans) == 1 and (len(pieces) == 1 or not is_last)
            spans = [*with_short_ones(text, spans)]
            in_list = in_list and is_line
            kind = "row" if in_list and piece.kind == "prose" else piece.kind
            for span in spans:
                unit = _unit(
                    text, span, piece._replace(kind=kind), is_line=is_line, is_above=bool(following) or not is_last
                )
                yield unit
                if unit.is_heading:
                    in_list = text.endswith(_COLONS, *span)


def _unit(text: str, span: Span, piece: _Piece, *, is_line: bool, is_above: bool) -> Unit:
    """Return the unit at a place.

    Args:
        text: the whole text.
        span: the place.
        piece: the piece that it is a part of.
        is_line: whether it stands alone on its line.
        is_above: whether other text follows.
    """
    unit_text = text[slice(*span)]
    is_torn = span[0] == 0 and cased(text[0]).islower()
    is_whole_sentence = is_closed(unit_text) and not is_torn
    kind = "heading" if unit_text.endswith(_COLONS) else piece.kind
    if kind == "prose" and is_line and not is_whole_sentence and not is_torn:
        if _LABELLED.search(unit_text):
            kind = "row"
        elif is_above and len(unit_text) <= LONGEST_HEADING:
            kind = "header" if "\t" in unit_text else "heading"
    is_row = kind in {"row", "header"}
    is_whole = is_row or (kind == "prose" and is_whole_sentence)
    return Unit(*span, piece.start, is_row, is_whole, kind in {"heading", "header"})


class _Piece(NamedTuple):
    """Part of a paragraph that no unit reaches beyond."""

    start: int
    end: int
    kind: Literal["prose", "row", "heading", "header"]


def _pieces(text: str, start: int, end: int, *, is_item: bool) -> Iterator[_Piece]:
    """Yield the parts of a paragraph."""
    if _MARKUP.match(text, start, end) or _DELIMITER.match(text, start, end):
        return
    lines = [(line.start(), line.start() + len(line[0].rstrip())) for line in _LINE.finditer(text, start, end)]
    is_underlined = len(lines) > 1 and _UNDERLINE.match(text, *lines[1]) and not is_closed(text[slice(*lines[0])])
    if is_underlined or _HEADING.match(text, start, end):
        yield _Piece(*lines[0], "heading")
        lines = lines[1:]
    lines = [line for line in lines if not _UNDERLINE.match(text, *line)]
    width = max([NARROWEST, *(end - start for start, end in lines)])
    could_hold_more = [_could_hold_more(text, *pair, width) for pair in pairwise(lines)]
    are_apart = 2 * sum(could_hold_more) >= len(lines) - 1 > 0
    are_rows = are_apart and 2 * sum(is_closed(text[slice(*line)]) for line in lines) < len(lines)
    has_header = are_rows and _has_header([text[slice(*line)] for line in lines])
    first_line = 0
    for i, (line_start, line_end) in enumerate(lines):
        is_short = 2 * (line_end - line_start) <= width
        if are_apart or line_end == lines[-1][1] or (is_short and could_hold_more[i]):
            piece = lines[first_line][0], line_end
            if has_header and not i:
                yield _Piece(*piece, "header")
            elif not _LEADERS.search(text, *piece):
                yield _Piece(*piece, "row" if are_rows or (is_item and not first_line) else "prose")
            first_line = i + 1


def _has_header(lines: Sequence[str]) -> bool:
    """Return whether the first of some rows names their columns: words that differ, above as many cells with digits.

    Two cells between which a tab or a comma with a space stands may as well be data.

    >>> _has_header(["id;name", "1;Reel", "2;Tape"]), _has_header(["Sunday, closed", "Monday, 9-5", "Friday, 9-5"])
    (True, False)
    """
    header, *rows = lines
    delimiter = next((sign for sign in _DELIMITERS if sign in header), "\t")
    cells = [cell.strip() for cell in header.split(delimiter)]
    are_cells = header.count(delimiter) > 1 or delimiter in ";|" or (delimiter == "," and ", " not in header)
    return (
        are_cells
        and len({*cells}) == len(cells) > 1 < len(rows)
        and not _DIGITS.search(header)
        and all(row.count(delimiter) == len(cells) - 1 for row in rows)
        and 2 * sum(bool(_DIGITS.search(row)) for row in rows) > len(rows)
    )


def _could_hold_more(text: str, line: Span, following: Span, width: int) -> bool:
    """Return whether the end of a line is not that of a wrapped one."""
    if any(_LEADERS.search(text, *either) for either in (line, following)):
        return True
    first_word = _first_word(text, following)
    shape = _shape(first_word)
    if shape != "a" and shape == _shape(_first_word(text, line)):
        return True
    return not cased(first_word[:1]).islower() and line[1] - line[0] + 1 + len(first_word) <= width


def _first_word(text: str, line: Span) -> str:
    word = _FIRST_WORD.match(text, *line)
    return word[1] if word else ""


def _shape(word: str) -> str:
    """Return a word with one sign for all letters and one for all numbers: ``0-0-0`` of a date."""
    return _DIGITS.sub("0", _LETTERS.sub("a", word))
