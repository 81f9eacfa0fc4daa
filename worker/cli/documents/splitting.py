"""Passages cut into chunks that the embedder reads whole: at sentences, else at lines, else at spaces."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, NamedTuple

from worker.cli.documents.passages import Passage
from worker.core.text.embedded_text import LEVELS
from worker.core.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Count = Callable[[str], int]
    Span = tuple[int, int]

TOKENS = 256
"""Most tokens of a chunk, where the embedder's window is not smaller."""

_LONGEST_TOKEN = 8
"""Characters for each token of the limit from which a sentence is cut without counting: hardly any text has as many."""

_LONGEST_NUMBER = 24
"""Most characters before a heading on its line, such as its number."""


def split(
    passages: Iterable[Passage], count: Count, limit: int = TOKENS, progress: Callable[[int], None] = lambda _: None
) -> Iterator[Passage]:
    """Yield chunks of passages, all about equally long within a passage.

    >>> [*split([Passage("It hums. It hums on. It stops.", 3, "Hum")], lambda text: len(text.split()), 5)]
    [Passage(text='It hums. It hums on.', page=3, section='Hum'), Passage(text='It stops.', page=3, section='Hum')]

    Args:
        passages: in the document's order.
        count: returns the tokens of a text; it gets few signs of it more than twice.
        limit: most tokens of a chunk.
        progress: called with the characters of each sentence that was counted.
    """
    for text, page, section in _with_headings(passages):
        pieces = []
        for piece in _pieces(text, count, limit):
            pieces.append(piece)
            progress(piece.end - piece.start)
        share = math.ceil(sum(piece.size for piece in pieces) / limit)
        aim = sum(piece.size for piece in pieces) / max(share, 1)
        start, end, filled = 0, 0, 0
        for begin, stop, size in pieces:
            if filled and (filled + size > limit or filled >= aim):
                yield Passage(text[start:end], page, section)
                filled = 0
            if not filled:
                start = begin
            end, filled = stop, filled + size
        if filled:
            yield Passage(text[start:end], page, section)


def _with_headings(passages: Iterable[Passage]) -> Iterator[Passage]:
    """Yield passages, headings without a text of their own before the next passage of their page."""
    headings: list[str] = []
    above = Passage("")
    for passage in passages:
        if headings and passage.page != above.page:
            yield above._replace(text="\n\n".join(headings))
            headings = []
        text = passage.text.strip()
        if _is_heading(text, passage.section):
            headings.append(text)
            above = passage
        else:
            yield passage._replace(text="\n\n".join([*headings, text]))
            headings = []
    if headings:
        yield above._replace(text="\n\n".join(headings))


def _is_heading(text: str, section: str | None) -> bool:
    """Return whether a passage is the heading of its section alone, perhaps with a number before it."""
    words, heading = " ".join(text.split()), " ".join((section or "").rpartition(LEVELS)[2].split())
    number_length = len(words) - len(heading)
    has_place = number_length <= _LONGEST_NUMBER and "\n" not in text[:number_length]
    return words.endswith(heading or "\0") and has_place


class _Piece(NamedTuple):
    """A sentence, or a part of one.

    Attributes:
        start, end: its place.
        size: its tokens, with the white space after it, which a tokenizer may count.
    """

    start: int
    end: int
    size: int


def _pieces(text: str, count: Count, limit: int) -> Iterator[_Piece]:
    """Yield the sentences of a text; a longer one than the limit in parts."""
    spans = [*split_sentences(text)]
    for span, next_start in zip(spans, [*(start for start, _ in spans[1:]), len(text)], strict=False):
        yield from _halved(text, span, next_start, count, limit)


def _halved(text: str, span: Span, next_start: int, count: Count, limit: int) -> Iterator[_Piece]:
    """Halve a sentence until its parts are within the limit: at the line end, space or character nearest the middle.

    What is surely longer is not counted: each half would be counted again, and again.
    """
    stack = [span]
    while stack:
        start, end = stack.pop()
        stop = next_start if end == span[1] else end
        if end - start <= max(1, _LONGEST_TOKEN * limit):
            size = count(text[start:stop])
            if end - start <= 1 or size <= limit or (stop > end and count(text[start:end]) <= limit):
                yield _Piece(start, end, size)
                continue
        middle = _middle(text, start, end, limit)
        stack += [(middle, end), (start, middle)]


_BREAKS = (re.compile(r"\n\s*+"), re.compile(r"\s++"))


def _middle(text: str, start: int, end: int, limit: int) -> int:
    """Return a place inside a span to cut it: not far from its middle, if there is a line end or a space."""
    middle, quarter, reach = (start + end) // 2, (end - start) // 4, _LONGEST_TOKEN * limit
    around = max(start + quarter, middle - reach), min(end - quarter, middle + reach)
    for pattern in _BREAKS:
        places = [match.end() for match in pattern.finditer(text, *around)]
        inside = [place for place in places if start < place < end]
        if inside:
            return min(inside, key=lambda place: abs(place - middle))
    return max(middle, start + 1)
