"""Markup: CommonMark and HTML, as far as a reader of a text does not see it."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Token(NamedTuple):
    """Characters that a reader sees as something else, or not at all.

    Attributes:
        start, end: its place.
        is_block: whether it ends a line or a cell, as the mark of a list item does.
        sign: the sign that an entity shows; empty for markup.
    """

    start: int
    end: int
    is_block: bool
    sign: str


_MAY_BE_MARKUP = re.compile(r"[&<\\\[\]*_~`|>#¹⁰⁴-⁹•‣◦▪●○■▸†‡【［]")
_MAY_BEGIN_LINE = re.compile(r"^[ \t]*+[-+=]", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*+(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)(?:\n|\Z)", re.MULTILINE)
_BLANK_LINE = re.compile(r"\n[^\S\n]*+\n")

# Elements of HTML whose tags are not seen; those of blocks divide words. Not sub and sup: 10<sup>2</sup> is not 102.
_INLINE = "b i u s em strong del ins strike span a code cite q mark small big font abbr kbd samp var tt wbr time label"
_OF_BLOCKS = (
    "p div br hr h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table caption thead tbody tfoot tr td th pre blockquote center "
    "img figure figcaption section article aside header footer nav main details summary"
)
_BLOCKS = frozenset(_OF_BLOCKS.split())
_NAMES = "|".join(sorted({*_INLINE.split(), *_BLOCKS}, key=lambda name: (-len(name), name)))
_TARGET = r"""\]\([^()\s<>]*+(?>(?:[ ]"[^"\n]*+")?)\)"""
# A bullet before a number may be its sign; so may the mark of a cited line that stands alone.
_NUMBER = r"(?u:[^\w\s*`(\[]?\d)"
_CITED = r">[ \t]?+(?!=)"
_TOKEN = re.compile(
    rf"""
    (?=[&<*_~\[\]¹²³⁰⁴-⁹†‡\\【［!|`] | ^)                # what any of these begins with: most places have none
    (?:(?P<entity>&(?:[A-Za-z][A-Za-z0-9]{{1,31}}|\#[0-9]{{1,7}}|\#[xX][0-9A-Fa-f]{{1,6}});)
    | ^[ \t]*+(?P<rule>(?:-{{3,}}+|={{3,}}+|\*{{3,}}+|_{{3,}}+|\|?[ \t]*+:?-{{3}}[-| \t:]*+)[ \t\r]*+)$
    | ^[ \t]*+(?P<lead>(?>(?:{_CITED}(?!{_NUMBER})|\#{{1,6}}+[ \t]++|[-+*•‣◦▪●○■▸][ \t]++(?!{_NUMBER}))*)
      (?P<cited>(?>(?:{_CITED})+))?)(?P<row>[ \t]*+\|(?=[^\n]*\|[ \t\r]*$))?
    | (?P<pipe>(?<!\\)\|)
    | (?P<ticks>(?<!\\)`++)
    | (?P<tag></?(?P<name>{_NAMES})
      (?>(?:[ \t\r\f\v]++[A-Z][A-Z0-9:-]{{0,40}}[ \t\r\f\v]*+=[ \t\r\f\v]*+
        (?:"[^"<>\n]*+"|'[^'<>\n]*+'|[^\s"'<>=`]++))*)[ \t\r\f\v]*+/?>)
    | (?P<run>\*{{1,3}}+|_{{1,3}}+|~~)
    | (?P<note>(?<!\])(?>(?:\[\^?[1-9]\d{{0,2}}\])+)(?!\(|\.\w|[^\S\n]*+[=+]|[^\S\n][*/%<>]{{1,2}}=?\s)
      | (?<![¹²³⁰⁴-⁹])[¹²³⁰⁴-⁹]++(?![^\w\s]{{0,4}}\d)|[†‡])
    | (?P<sign>\\(?=[!-/:-@\[-`{{-~])
      | [\[【［]S\d{{1,3}}+(?>(?:[,;–\-][ ]?+(?>(?:and[ ])?)S?\d{{1,3}}+)*)[\]】］]
      | !?\[(?=[^\[\]\n]*+{_TARGET})|{_TARGET}))""",
    re.IGNORECASE | re.ASCII | re.MULTILINE | re.VERBOSE,
)
# After fewer letters, or in a name, a raised digit may be an exponent, and a number in brackets an index.
_NOTED = re.compile(r"(?:\A|\W)[^\W_]*[^\W\d_]{4}[.,;:!?\"'’”»)]{0,2}$|\w[.!?]$")
_NOTED_ONCE = re.compile(r"[^\W\d_]{2}[.,;:!?\"'’”»)]{0,2}$|[.,;:!?\"”»)]$")
_POWERS, _ONCE = frozenset("²³"), frozenset("¹†‡")
_LETTERS_BEFORE = 8
_IN_NUMBER = re.compile(r"\d[.,:]$")
_OPERATORS = frozenset("=+-*/%<>&|^~")
_CITED_LINE = re.compile(r"[ \t]*+>")


def markup_of(text: str, *, begins_line: bool = True) -> list[Token]:
    """Return markup and entities outside code, in their order. Linear: no expression looks at a sign twice.

    Args:
        text: to read.
        begins_line: if not, it stands inside a line: a sign that it begins with is no bullet.
    """
    if not (_MAY_BE_MARKUP.search(text) or _MAY_BEGIN_LINE.search(text)):
        return []
    tokens: list[Token] = []
    start, fence = 0, ""
    for line in _FENCE.finditer(text) if "```" in text or "~~~" in text else ():
        if not fence:
            tokens += _of_prose(text, start, line.start())
        elif not line["fence"].startswith(fence) or line["info"].strip():
            continue
        fence, start = "" if fence else line["fence"], line.end()
        tokens.append(Token(*line.span(), is_block=True, sign=""))
    tokens = sorted(tokens if fence else [*tokens, *_of_prose(text, start, len(text))])
    is_sign = not begins_line and text[0] != "<" and tokens and tokens[0].is_block and not tokens[0].start
    return tokens[1:] if is_sign else tokens


def _of_prose(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the markup of each paragraph."""
    for blank in _BLANK_LINE.finditer(text, start, end):
        yield from _Paragraph(text, start, blank.start() + 1).tokens
        start = blank.end()
    yield from _Paragraph(text, start, end).tokens


class _Paragraph:
    """Markup of one paragraph: its tokens, in any order."""

    def __init__(self, text: str, start: int, end: int) -> None:
        self._text, self._start, self._end = text, start, end
        self._row_end = 0
        self._open_runs: dict[str, int] = {}
        self._ticks: dict[int, list[int]] = {}
        self.tokens: list[Token] = []
        matches = [*_TOKEN.finditer(text, start, end)]
        for match in matches:
            if match["ticks"]:
                self._ticks.setdefault(len(match["ticks"]), []).append(match.start())
        code_end = start
        for match in matches:
            if match["row"]:
                line_end = text.find("\n", match.end(), end)
                self._row_end = line_end if line_end >= 0 else end
            if match.start() >= code_end:
                code_end = self._take(match)

    def _keep(self, start: int, end: int, *, is_block: bool = False, sign: str = "") -> None:
        self.tokens.append(Token(start, end, is_block, sign))

    def _take(self, match: re.Match[str]) -> int:
        """Keep one token; return where the code ends that it begins, or else where it begins itself."""
        start, end = match.span()
        match match.lastgroup:
            case "ticks":
                return self._take_code(start, end)
            case "lead" | "row":
                self._take_line(match)
            case "entity":
                sign = html.unescape(match[0])
                if sign not in ("", match[0]):
                    self._keep(start, end, sign=sign)
            case "run":
                self._take_run(start, match[0])
            case "note" if not self._is_note(start, match[0]):
                pass
            case "pipe" if start >= self._row_end:
                pass
            case kind:
                is_block = kind in ("rule", "pipe") or (kind == "tag" and match["name"].lower() in _BLOCKS)
                self._keep(start, end, is_block=is_block)
        return start

    def _take_code(self, start: int, end: int) -> int:
        """Keep the ticks around code, if as many stand after it; return where it ends."""
        same = self._ticks[end - start]
        at = bisect_right(same, start)
        if at == len(same):
            return start
        self._keep(start, end)
        self._keep(same[at], same[at] + end - start)
        return same[at] + end - start

    def _take_line(self, match: re.Match[str]) -> None:
        """Keep what a line begins with."""
        end = match.end("lead")
        if match["cited"] and not self._is_beside_cited(match.start(), end):
            end = match.start("cited")
        if end > match.start("lead"):
            self._keep(match.start(), end, is_block=True)
        if match["row"]:
            self._keep(match.end() - 1, match.end(), is_block=True)
        if "#" in match["lead"] and (line_end := self._text.find("\n", match.end(), self._end)) >= 0:
            self._keep(line_end, line_end + 1, is_block=True)

    def _is_beside_cited(self, start: int, end: int) -> bool:
        """Return whether the line before or after a line, of which a part is given, is cited, too."""
        previous_line = self._text.rfind("\n", self._start, max(self._start, start - 1)) + 1 or self._start
        next_line = self._text.find("\n", end, self._end) + 1 or self._end
        return any(_CITED_LINE.match(self._text, line, self._end) for line in {previous_line, next_line} - {start})

    def _is_note(self, start: int, note: str) -> bool:
        text_before, end = self._text[max(0, start - _LETTERS_BEFORE) : start], start + len(note)
        if _IN_NUMBER.search(text_before) and self._text[end : end + 1].strip():
            return False
        is_apart = note[0] == "[" and text_before[-1:].isspace() and text_before.rstrip()[-1:] not in _OPERATORS
        return note not in _POWERS and bool(is_apart or (_NOTED_ONCE if note in _ONCE else _NOTED).search(text_before))

    def _take_run(self, place: int, run: str) -> None:
        """Keep the delimiters of emphasis: a run before a word, and the next such run after one."""
        sign_before = self._text[place - 1] if place > self._start else " "
        sign_after = self._text[place + len(run)] if place + len(run) < self._end else " "
        if not sign_before.isspace() and not sign_after.isalnum() and run in self._open_runs:
            begin = self._open_runs.pop(run)
            self._keep(begin, begin + len(run))
            self._keep(place, place + len(run))
        elif not sign_after.isspace() and not sign_before.isalnum():
            self._open_runs[run] = place
