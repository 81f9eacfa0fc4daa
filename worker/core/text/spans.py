"""Spans of a Markdown text: the paragraphs outside its fenced code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]
"""Start and end in characters of a text, end excluded."""

_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
# A fence may be in quotes and lists, and indented more than three spaces.
_FENCE = re.compile(
    r"[ \t]*+(?P<quote>(?>(?:>[ \t]*+)*))(?>(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*)"
    r"(?P<fence>`{3,}+(?![^\r\n]*`)|~{3,}+)"
)
# Quotes, rows, headings and items are blocks of their own.
_BLOCK = re.compile(r"[ \t]*+(?:[>|]|\#{1,6}+[ \t]|[-*+][ \t]|\d{1,9}+[.)][ \t])")


def paragraphs(text: str) -> Iterator[Span]:
    r"""Yield the spans of paragraphs: runs of lines of one block that are neither blank nor fenced code.

    >>> text = "It\nhums.\n- It burns.\n```\ncode\n```\nYes."
    >>> [text[start:end] for start, end in paragraphs(text)]
    ['It\nhums.\n', '- It burns.\n', 'Yes.']
    """
    fence: re.Match[str] | None = None
    start: int | None = None
    for line in _LINE.finditer(text):
        if fence:
            if _closes(line[0], fence["fence"]):
                fence = None
                continue
            if not fence["quote"] or line[0].lstrip(" \t").startswith(">"):
                continue
            # The quote that contained the fence has ended.
        fence = _FENCE.match(line[0])
        ends = bool(fence) or line[0].isspace()
        if start is not None and (ends or _BLOCK.match(line[0])):
            yield start, line.start()
            start = None
        if start is None and not ends:
            start = line.start()
    if start is not None:
        yield start, len(text)


def _closes(line: str, fence: str) -> bool:
    marks = line.strip(" \t>\r\n")
    return len(marks) >= len(fence) and not marks.strip(fence[0])
