"""A text without its Markdown: emphasis, code ticks, links and rows of numbers, as a reader of the page sees it."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import CLASSES
from worker.core.citations.quoting.units import AFTER_NUMBERS
from worker.core.citations.tables import read_tables

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Unmarked:
    """A text without its markup.

    Attributes:
        text: what is left.
        places: where each of its characters stands in the text with markup.
        links: where each link stands there, and where it leads.
        pipes: where each pipe of a row of numbers stands there; in ``text`` it is a tab.
    """

    text: str
    places: array[int]
    links: tuple[tuple[int, str], ...]
    pipes: tuple[int, ...]

    def count_pipes(self, start: int, stop: int) -> int:
        """Return how many pipes of rows stand between two places of ``text``."""
        return sum(self.places[start] < place < self.places[stop - 1] for place in self.pipes)


_ANY = ("*", "_", "`", "](", "<http", "|")
_CODE = re.compile(r"(?<![\w`\\=])(?:`([^`\s](?:[^`]{0,300}[^`\s])?)`|``([^`\s](?>(?:[^`]|`(?!`)){0,300}))``)(?![\w`])")
_LINK = re.compile(
    r"(?<![\w\]\\!])\[([^\[\]\n]{1,300}+)\]\((?=[^\s()]*[/.#:])([^\s()]{1,500}+)\)|<(https?://[^\s<>]{1,500}+)>"
)
_DELIMITER = re.compile(r"\*{1,3}|_{1,2}|\n[^\S\n]*\n")
_OPENS_AFTER, _OPENS_BEFORE = frozenset("([{\"'“‘«„—–-/|>*_"), frozenset("([\"'“‘«„`*_$€£<+−-¿¡@#")
_CLOSES_BEFORE, _CLOSES_AFTER = frozenset(".,;:!?)]}\"'”’»“—–-/|*_…، ؛؟"), frozenset(".,!?:;)]\"'”’»`%*_…>°")
_LONGEST, _DEEPEST = 3, 8


def without_markup(text: str) -> Unmarked | None:
    """A text without its emphasis, code ticks and links, and with tabs in rows of numbers; None if it has none.

    What is no markup stays: ``2*3*4``, ``*args``, ``__init__``, ``a[i](x)``; and so does what was struck out.

    >>> without_markup("the **red** `x_1` of [the lamp](https://example.org)").text
    'the red x_1 of the lamp'
    >>> without_markup("2*3*4, *args, __init__, src/*")
    """
    if not any(sign in text for sign in _ANY):
        return None
    hidden: list[tuple[int, int]] = []
    links: list[tuple[int, str]] = []
    code = bytearray(len(text))
    for match in _CODE.finditer(text):
        start, end = match.span(match.lastindex or 0)
        hidden += [(match.start(), start), (end, match.end())]
        code[match.start() : match.end()] = b"\1" * (match.end() - match.start())
    for match in _LINK.finditer(text):
        if not code[match.start()]:
            start, end = match.span(1) if match[1] else match.span(3)
            hidden += [(match.start(), start), (end, match.end())]
            code[match.start()] = 1
            code[end : match.end()] = b"\1" * (match.end() - end)
            if match[2]:
                links.append((start, match[2]))
    hidden += _emphasis(text, code)
    pipes = [place for place in _pipes(text) if not code[place]] if "|" in text else []
    if not (hidden or pipes):
        return None
    gone = bytearray(len(text))
    for start, end in hidden:
        gone[start:end] = b"\1" * (end - start)
    places = array("l", (i for i, is_gone in enumerate(gone) if not is_gone))
    seen = list(text)
    for place in pipes:
        seen[place] = "\t"
    return Unmarked("".join([seen[i] for i in places]), places, tuple(links), tuple(pipes))


def _pipes(text: str) -> Iterator[int]:
    """Yield the places of the pipes in rows of a name and numbers: a tab divides numbers as well as they do."""
    for row in _ROW.finditer(text):
        if _ENDS_NAME.search(row["name"]):
            yield from (match.start() for match in _PIPE.finditer(text, *row.span()))


_PIPE = re.compile(r"\|")
_SPACE = r"[^\S\n]*+"
_NUMBER = rf"[-−+]?(?:[$€£¥] ?)?\d++(?>(?:[.,]\d++)*)(?:[ \u00a0\u202f]?(?:[%‰°]|{AFTER_NUMBERS}))?"
_ROW = re.compile(rf"(?m)^{_SPACE}\|(?P<name>[^|\n]*+)\|(?>(?:{_SPACE}(?:{_NUMBER}){_SPACE}\|)+){_SPACE}$")
_ENDS_NAME = re.compile(r"[\w)*`%°]\s*\Z")


def _emphasis(text: str, code: bytearray) -> list[tuple[int, int]]:
    """Return the spans of asterisks and lines that stand in pairs around words of one paragraph."""
    hidden: list[tuple[int, int]] = []
    opened: list[tuple[int, int]] = []
    for match in _DELIMITER.finditer(text):
        start, end = match.span()
        if match[0][0] == "\n":
            opened = []
        elif not code[start]:
            start = _close(text, start, end, opened, hidden) if _may_close(text, start, end) else start
            if start < end and _may_open(text, start, end):
                opened = [*opened[1 - _DEEPEST :], (start, end)]
    return hidden


def _close(text: str, start: int, end: int, opened: list[tuple[int, int]], hidden: list[tuple[int, int]]) -> int:
    """Pair a closing run with the opening ones that are as long, or longer; how far it was used up."""
    while start < end and opened:
        first, last = opened[-1]
        count = min(end - start, last - first)
        if text[first] != text[start] or (last - first > end - start and last - first < _LONGEST):
            break
        opened.pop()
        if not _is_name(text[first:last], text[last:start]):
            hidden += [(last - count, last), (start, start + count)]
        start += count
        if last - count > first:
            opened.append((first, last - count))
    return start


def _is_name(run: str, inside: str) -> bool:
    """Return whether lines are part of a name: ``__init__``, ``_x1_``."""
    if run[0] != "_":
        return False
    if len(run) > 1:
        return inside in _NAMES or _PARTS.fullmatch(inside) is not None
    return _WORDS.fullmatch(inside) is None


_PARTS, _WORDS = re.compile(r"[a-z]*[0-9_][a-z0-9_]*"), re.compile(r"[^\d_]*|.*\s.*", re.DOTALL)
_TABLES = read_tables(__package__, "names.toml")
_NAMES = frozenset(_TABLES.words("between_lines"))
_TABLES.close()


def _may_open(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    outside = not before or before.isspace() or before in _OPENS_AFTER or (text[start] == "*" and _is_wide(before))
    return outside and bool(after) and (after.isalnum() or after in _OPENS_BEFORE)


def _may_close(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    outside = not after or after.isspace() or after in _CLOSES_BEFORE or (text[start] == "*" and _is_wide(after))
    return outside and bool(before) and (before.isalnum() or CLASSES[ord(before)] == "M" or before in _CLOSES_AFTER)


def _is_wide(character: str) -> bool:
    return CLASSES[ord(character)] in "CNK"
