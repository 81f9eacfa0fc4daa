"""Brackets in a Markdown text, outside its code: the start and end of each, and the text directly inside it.

Time is linear in any text: regular expressions are possessive, and each piece of text is passed on at most once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]
"""Start and end in characters of the text, end excluded."""

SQUARE = "["
"""Kind of square brackets, including lenticular and tortoise-shell ones: any of them may close any other."""

_KINDS = {
    SQUARE: ("[［【〔〖〘〚⟦❲﹝", "]］】〕〗〙〛⟧❳﹞"),
    "(": ("(（❨﹙｟", ")）❩﹚｠"),
    "{": ("{｛❴﹛", "}｝❵﹜"),
    "<": ("<＜⟨〈《❬〈", ">＞⟩〉》❭〉"),
    "「": ("「『｢", "」』｣"),
}
_OPENING = {sign: kind for kind, (opening, _) in _KINDS.items() for sign in opening}
_CLOSING = {sign: kind for kind, (_, closing) in _KINDS.items() for sign in closing}
_SIGNS = re.compile(f"[{re.escape(''.join([*_OPENING, *_CLOSING]))}]")
# A comparison sign is not a bracket.
_COMPARES = re.compile(r"<[\s=]")

_NO_SIGN = f"[^{re.escape(''.join([*_OPENING, *_CLOSING]))}`\\\\]*+"
_CLOSED = "|".join(f"[{re.escape(opening)}]{_NO_SIGN}[{re.escape(closing)}]" for opening, closing in _KINDS.values())
_SIMPLE = re.compile(rf"(?!{_COMPARES.pattern})(?:{_CLOSED})")
OPENED = re.compile(rf"{_CLOSED}|(?!{_COMPARES.pattern})[{re.escape(''.join(_OPENING))}].*+", re.DOTALL)
"""Text that may be inside a bracket, however the text continues: a closed bracket without inner brackets or code; else
all that follows an opening sign."""


@dataclass(slots=True)
class Bracket:
    """Closed bracket.

    Attributes:
        kind: the ASCII opening sign of its kind; ``「`` for corner brackets.
        start: position of its opening sign.
        end: position after its closing sign.
        own: spans of the text in it that are in no inner bracket.
        interrupted: True if it contains code or an escaped sign.
        parent: the enclosing bracket, if there is one; it may never be closed.
    """

    kind: str
    start: int
    end: int = 0
    own: list[Span] = field(default_factory=list)
    interrupted: bool = False
    parent: Bracket | None = None


def find_brackets(text: str) -> Iterator[Bracket]:
    """Return the brackets of a text, inner ones before outer ones.

    Code blocks (fenced or indented), inline code and escaped signs are skipped, and no bracket extends past its
    paragraph. Inside an open square bracket, other brackets close only those opened inside it.

    >>> [(bracket.kind, bracket.start, bracket.end) for bracket in find_brackets("(a [b] `[c]`) [d")]
    [('[', 3, 6), ('(', 0, 13)]
    """
    return chain.from_iterable(_OpenBrackets(text).close_all(start, end) for start, end in paragraphs(text))


class _OpenBrackets:
    """Open brackets at one position of a paragraph."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._stack: list[Bracket] = []
        # Number of open brackets of each kind, inside each open square bracket.
        self._counts: list[dict[str, int]] = [{}]

    def close_all(self, start: int, end: int) -> Iterator[Bracket]:
        """Read a paragraph and yield its closed brackets."""
        after = start
        for begin, stop in _prose(self._text, start, end):
            if self._stack and begin > after:
                self._stack[-1].interrupted = True
            after = stop
            position = begin
            while match := _SIGNS.search(self._text, position, stop):
                place = match.start()
                self._keep(position, place)
                position = place + 1
                kind = _OPENING.get(match[0])
                if kind is None:
                    if closed := self._close(_CLOSING[match[0]], place):
                        yield closed
                elif simple := _SIMPLE.match(self._text, place, stop):
                    # As most are: nothing to remember until it is closed.
                    position = simple.end()
                    yield self._simple(kind, place, position)
                else:
                    self._open(kind, place)
            self._keep(position, stop)

    def _keep(self, start: int, end: int) -> None:
        if self._stack and start < end:
            self._stack[-1].own.append((start, end))

    def _simple(self, kind: str, start: int, end: int) -> Bracket:
        own = [(start + 1, end - 1)] if end - start > len("[]") else []
        return Bracket(kind, start, end, own, parent=self._stack[-1] if self._stack else None)

    def _open(self, kind: str, place: int) -> None:
        if kind == "<" and _COMPARES.match(self._text, place):
            return
        self._stack.append(Bracket(kind, place, parent=self._stack[-1] if self._stack else None))
        if kind == SQUARE:
            self._counts.append({})
        else:
            self._counts[-1][kind] = self._counts[-1].get(kind, 0) + 1

    def _close(self, kind: str, place: int) -> Bracket | None:
        """Close the innermost bracket of a kind; unclosed ones inside it become its own text."""
        if len(self._counts) == 1 if kind == SQUARE else not self._counts[-1].get(kind):
            return None
        unclosed: list[Bracket] = []
        while self._stack[-1].kind != kind:
            unclosed.append(self._stack.pop())
            self._counts[-1][unclosed[-1].kind] -= 1
        closed = self._stack.pop()
        if kind == SQUARE:
            self._counts.pop()
        else:
            self._counts[-1][kind] -= 1
        for inner in reversed(unclosed):
            closed.own += inner.own
            closed.interrupted |= inner.interrupted
        closed.end = place + 1
        return closed


# --- text outside code (CommonMark 0.31) --------------------------------------------------------

_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
# A fence may be in quotes and lists, and indented more than three spaces: that is code as well.
_FENCE = re.compile(
    r"[ \t]*+(?P<quote>(?>(?:>[ \t]*+)*))(?>(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*)"
    r"(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\r\n]*+)"
)
# Inline code does not reach into the next block.
_BLOCK = re.compile(r"[ \t]*+(?:[>|]|\#{1,6}+[ \t]|[-*+][ \t]|\d{1,9}+[.)][ \t])")
_MARK = re.compile(r"\\[!-/:-@\[-`{-~]|`++")
_TICKS = re.compile(r"`++")


def _prose(text: str, start: int, end: int) -> Iterator[Span]:
    """Yield the pieces of a paragraph outside code, split at escaped characters as well."""
    closing: defaultdict[int, list[int]] = defaultdict(list)
    for ticks in _TICKS.finditer(text, start, end):
        closing[len(ticks[0])].append(ticks.start())
    piece = position = start
    while mark := _MARK.search(text, position, end):
        position = mark.end()
        if mark[0][0] == "`":
            same = closing[len(mark[0])]
            close = bisect_left(same, position)
            if close == len(same):
                if _runs_into_fence(text, mark[0], end):
                    break
                continue  # not closed: plain characters
            position = same[close] + len(mark[0])
        yield piece, mark.start()
        piece = position
    else:
        yield piece, end
        return
    yield piece, mark.start()


def _runs_into_fence(text: str, ticks: str, end: int) -> bool:
    """Return whether unmatched ticks of a paragraph are followed at once by an unclosed fence of as many ticks.

    The text is probably inline code over several lines, though CommonMark begins a block there: neither is read.
    """
    if len(ticks) < _FEWEST_TICKS:
        return False
    line = _LINE.match(text, end)
    fence = line and _opening(line[0])
    if not fence or fence["fence"] != ticks:
        return False
    return not any(_closes(after[0], fence) for after in _LINE.finditer(text, line.end() if line else end))


_FEWEST_TICKS = 3


class _Containers:
    """Quotes and list items around a line, as far as they determine which lines are indented code."""

    def __init__(self) -> None:
        self._quotes = 0
        # Column at which the content of each open item begins.
        self._items: list[int] = []
        self._in_paragraph = False

    def end_paragraph(self) -> None:
        """Read a blank line, or the beginning of another block."""
        self._in_paragraph = False

    def is_code(self, line: str) -> bool:
        """Return whether a line that is neither blank nor a fence is indented code.

        It is if it is indented by four columns more than its container and does not continue a paragraph. Lines after a
        list item may belong to the item.
        """
        if line[0] not in _MAY_CONTAIN:
            if not self._in_paragraph:
                self._items.clear()
            self._quotes, self._in_paragraph = 0, True
            return False
        quote = _QUOTE.match(line)
        content = line[quote.end() :] if quote else line
        quotes = line.count(">", 0, quote.end()) if quote else 0
        if quotes != self._quotes and (quotes or not self._in_paragraph):
            self._quotes, self._items, self._in_paragraph = quotes, [], False
        if not content.strip():
            self._in_paragraph = False
            return False
        return self._is_code_inside(content)

    def _is_code_inside(self, content: str) -> bool:
        column = _columns(content)
        if not self._in_paragraph:
            while self._items and column < self._items[-1]:
                self._items.pop()
            if column - (self._items[-1] if self._items else 0) >= _CODE_INDENT:
                return True
        content = content.lstrip(" \t")
        if _RULE.match(content):
            self._in_paragraph = False
            return False
        while item := _ITEM.match(content):
            while self._items and column < self._items[-1]:
                self._items.pop()
            column += len(item["marker"])
            gap, content = _columns(" " * column + item["gap"]) - column, content[item.end() :]
            if gap > _CODE_INDENT or not content.strip():
                self._items.append(column + 1)
                self._in_paragraph = False
                return gap > _CODE_INDENT and bool(content.strip())
            column += gap
            self._items.append(column)
        self._in_paragraph = not content.startswith("#")
        return False


_CODE_INDENT = 4
_MAY_CONTAIN = frozenset(" \t>-*+#_=0123456789")
_QUOTE = re.compile(r"(?>(?: {0,3}>[ \t]?)+)")
_ITEM = re.compile(r"(?P<marker>[-*+]|\d{1,9}+[.)])(?P<gap>[ \t]++|(?=[\r\n]|\Z))")


# A thematic break, or the underline of a heading.
_RULE = re.compile(r"(?:(?>(?:-[ \t]*+){3,})|(?>(?:\*[ \t]*+){3,})|(?>(?:_[ \t]*+){3,})|=++[ \t]*+)[\r\n]*+\Z")


def _columns(text: str) -> int:
    """Return the width in columns of a text's leading white space; a tab extends to the next multiple of four."""
    return len(text[: len(text) - len(text.lstrip(" \t"))].expandtabs(_CODE_INDENT))


def paragraphs(text: str) -> Iterator[Span]:
    """Yield the spans of paragraphs: runs of non-blank lines of one block, outside code blocks."""
    fence: re.Match[str] | None = None
    start: int | None = None
    containers = _Containers()
    for line in _LINE.finditer(text):
        if fence is not None:
            if _closes(line[0], fence):
                fence = None
                continue
            if not fence["quote"] or line[0].lstrip(" \t").startswith(">"):
                continue
            fence = None  # the quote that contained it has ended
        blank = not line[0].strip()
        fence = None if blank else _opening(line[0])
        if blank or fence:
            containers.end_paragraph()
        code = not blank and not fence and containers.is_code(line[0])
        if start is not None and (blank or fence or code or _BLOCK.match(line[0])):
            yield start, line.start()
            start = None
        if start is None and not (blank or fence or code):
            start = line.start()
    if start is not None:
        yield start, len(text)


def _opening(line: str) -> re.Match[str] | None:
    opening = _FENCE.match(line)
    if opening and opening["fence"][0] == "`" and "`" in opening["info"]:
        return None  # inline code at the beginning of a line
    return opening


def _closes(line: str, fence: re.Match[str]) -> bool:
    marks = line.strip(" \t>\r\n")
    return len(marks) >= len(fence["fence"]) and not marks.strip(fence["fence"][0])
