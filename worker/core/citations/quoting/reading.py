"""A text as a reader sees it: its signs and their keys, what is markup, where words, numbers and sentences end."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import (
    BLANKS,
    BLOCK,
    CLASSES,
    CONTINUED,
    DASH,
    HYPHENS,
    KEYED,
    KEYS,
    LETTER,
    MARKUP,
    MINUSES,
    UNSPACED,
    WITHIN,
)
from worker.core.text.unicode_data import cased, known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Token:
    """Characters that a reader sees as something else, or not at all.

    Attributes:
        start, end: its place.
        kind: class of its first character: `MARKUP`, `BLOCK`, or of the sign that it shows.
        shown: the sign that an entity shows; empty for markup.
    """

    start: int
    end: int
    kind: str
    shown: str = ""


# --- markup: CommonMark and HTML, as far as a reader does not see it ------------------------------

_MAY_HAVE_MARKUP = re.compile(r"[&<\\\[\]*_~`|>#¹⁰⁴-⁹•‣◦▪●○■▸†‡【［]|^[ \t]*[-+=]", re.MULTILINE)
_LINE = re.compile(r"[^\n]*+\n|[^\n]++")
_FENCE = re.compile(r"[ \t]*+(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)$", re.MULTILINE)
_RULE = re.compile(r"[ \t]*+(?:-{3,}+|={3,}+|\*{3,}+|_{3,}+|\|?[ \t]*+:?-{3,}[-| \t:]*+)[ \t\r]*+$", re.MULTILINE)
# A bullet before a number may be its sign; so may the mark of a cited line that stands alone.
_BEFORE_NUMBER = r"(?![^\w\s*`(\[]?\d)"
_HEAD_OR_BULLET = rf"\#{{1,6}}+[ \t]++|[-+*•‣◦▪●○■▸][ \t]++{_BEFORE_NUMBER}"
_LINE_START = re.compile(rf"[ \t]*+(?>(?:>[ \t]?+(?!=)|{_HEAD_OR_BULLET})+)")
_LONE_LINE_START = re.compile(rf"[ \t]*+(?>(?:>[ \t]?+(?!=){_BEFORE_NUMBER}|{_HEAD_OR_BULLET})+)")
_CITED = re.compile(r"[ \t]*+>")
_ROW, _PIPE = re.compile(r"[ \t]*+\|[^\n]*\|[ \t\r]*$"), re.compile(r"(?<!\\)\|")
_TICKS = re.compile(r"(?<!\\)`++")

# Elements of HTML whose tags are not seen; those of blocks divide words. Not sub and sup: 10<sup>2</sup> is not 102.
_INLINE = "b i u s em strong del ins strike span a code cite q mark small big font abbr kbd samp var tt wbr time label"
_OF_BLOCKS = (
    "p div br hr h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table caption thead tbody tfoot tr td th pre blockquote center "
    "img figure figcaption section article aside header footer nav main details summary"
)
_BLOCKS = frozenset(_OF_BLOCKS.split())
_NAMES = "|".join(sorted({*_INLINE.split(), *_BLOCKS}, key=lambda name: (-len(name), name)))
_ATTRIBUTE = r"""\s++[A-Za-z][A-Za-z0-9:-]{0,40}\s*+=\s*+(?:"[^"<>]*+"|'[^'<>]*+'|[^\s"'<>=`]++)"""
_TARGET = r"""\]\([^()\s<>]*+(?>(?:[ ]"[^"\n]*+")?)\)"""
_TOKEN = re.compile(
    r"(?P<entity>&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});)"
    rf"|(?P<tag></?(?P<name>{_NAMES})(?>(?:{_ATTRIBUTE})*)\s*+/?>)"
    r"|(?P<run>\*{1,3}+|_{1,3}+|~~)"
    r"|(?P<note>(?>(?:\[\^?[1-9]\d{0,2}\])+)(?!\(|\.\w|\s*+[=+]|\s[*/%<>]{1,2}=?\s)"
    r"|[¹²³⁰⁴-⁹]++(?![^\w\s]{0,4}\d)|[†‡])"
    r"|\\(?=[!-/:-@\[-`{-~])"
    r"|[\[【［]S\d{1,3}+(?>(?:[,;–\-][ ]?+(?>(?:and[ ])?)S?\d{1,3}+)*)[\]】］]"
    rf"|!?\[(?=[^\[\]\n]*+{_TARGET})|{_TARGET}",
    re.IGNORECASE | re.ASCII,
)
# After fewer letters, or in a name, a raised digit may be an exponent, and a number in brackets an index.
_NOTED = re.compile(r"(?:\A|\W)[^\W_]*[^\W\d_]{4}[.,;:!?\"'’”»)]{0,2}$|\w[.!?]$")
_NOTED_ONCE = re.compile(r"[^\W\d_]{2}[.,;:!?\"'’”»)]{0,2}$|[.,;:!?\"”»)]$")
_POWERS, _ONCE = frozenset("²³"), frozenset("¹†‡")
_LETTERS_BEFORE = 8
_IN_NUMBER = re.compile(r"\d[.,:]$")
_OPERATORS = frozenset("=+-*/%<>&|^~")


def tokens(text: str) -> list[Token]:
    """Return markup and entities outside code, in their order. Linear: no expression looks at a sign twice."""
    if not _MAY_HAVE_MARKUP.search(text):
        return []
    found: list[Token] = []
    prose: list[Span] = []
    fence = ""
    for line in _LINE.finditer(text):
        opened = _FENCE.match(text, *line.span())
        if opened and (not fence or (opened["fence"].startswith(fence) and not opened["info"].strip())):
            fence = "" if fence else opened["fence"]
            found.append(Token(*line.span(), BLOCK))
        elif not fence:
            prose.append(line.span())
    for paragraph in _paragraphs(text, prose):
        found += _Paragraph(text, paragraph).read()
    return sorted(found, key=lambda token: token.start)


def _paragraphs(text: str, lines: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield the lines of each paragraph; a blank line or code ends one."""
    paragraph: list[Span] = []
    for line in lines:
        is_blank = text[slice(*line)].isspace()
        if paragraph and (is_blank or paragraph[-1][1] != line[0]):
            yield paragraph
            paragraph = []
        if not is_blank:
            paragraph.append(line)
    if paragraph:
        yield paragraph


class _Paragraph:
    """Markup of one paragraph."""

    def __init__(self, text: str, lines: Sequence[Span]) -> None:
        self._text = text
        self._lines = lines
        self._start, self._end = lines[0][0], lines[-1][1]
        self._found: list[Token] = []
        self._runs: list[tuple[int, str]] = []
        self._code = self._inline_code()

    def read(self) -> list[Token]:
        """Return its markup and entities, in any order."""
        cited = [_CITED.match(self._text, *line) is not None for line in self._lines]
        for i, (start, end) in enumerate(self._lines):
            is_lone = not any(cited[max(0, i - 1) : i] + cited[i + 1 : i + 2])
            begin = self._line_start(start, end, _LONE_LINE_START if is_lone else _LINE_START)
            for match in _TOKEN.finditer(self._text, begin, end):
                if not self._is_code(match.start()):
                    self._take(match)
            for pipe in _PIPE.finditer(self._text, begin, end) if _ROW.match(self._text, begin, end) else ():
                if not self._is_code(pipe.start()):
                    self._keep(pipe.start(), pipe.end(), BLOCK)
        self._pair_runs()
        return self._found

    def _keep(self, start: int, end: int, kind: str = MARKUP, shown: str = "") -> None:
        self._found.append(Token(start, end, kind, shown))

    def _inline_code(self) -> list[Span]:
        """Return where code inside the paragraph begins and ends, its ticks included; keep these."""
        ticks = [match.span() for match in _TICKS.finditer(self._text, self._start, self._end)]
        same: dict[int, list[int]] = {}
        for i, (first, last) in enumerate(ticks):
            same.setdefault(last - first, []).append(i)
        code, i = [], 0
        while i < len(ticks):
            (first, last), others = ticks[i], same[ticks[i][1] - ticks[i][0]]
            at = bisect_right(others, i)
            if at < len(others):
                i = others[at]
                self._keep(first, last)
                self._keep(*ticks[i])
                code.append((first, ticks[i][1]))
            i += 1
        return code

    def _is_code(self, place: int) -> bool:
        at = bisect_right(self._code, (place, self._end)) - 1
        return at >= 0 and place < self._code[at][1]

    def _line_start(self, start: int, end: int, pattern: re.Pattern[str]) -> int:
        """Keep what a line begins with; return where its text begins."""
        text = self._text
        if self._is_code(start):
            return start
        if rule := _RULE.match(text, start, end):
            self._keep(start, rule.end(), BLOCK)
            return end
        if lead := pattern.match(text, start, end):
            self._keep(start, lead.end(), BLOCK)
            if "#" in lead[0] and text[end - 1] == "\n":
                self._keep(end - 1, end, BLOCK)
            return lead.end()
        return start

    def _take(self, match: re.Match[str]) -> None:
        """Keep one token; runs of stars and underscores wait for their partners."""
        start, end = match.span()
        if match["entity"]:
            shown = html.unescape(match[0])
            if shown != match[0]:
                self._keep(start, end, known(shown).translate(CLASSES)[0], shown)
        elif match["run"]:
            self._runs.append((start, match[0]))
        elif match["note"]:
            if self._is_note(start, match[0]):
                self._keep(start, end)
        else:
            self._keep(start, end, BLOCK if match["tag"] and match["name"].lower() in _BLOCKS else MARKUP)

    def _is_note(self, start: int, note: str) -> bool:
        before, after = (
            self._text[max(0, start - _LETTERS_BEFORE) : start],
            self._text[start + len(note) : start + len(note) + 1],
        )
        if _IN_NUMBER.search(before) and after.strip():
            return False
        is_apart = note[0] == "[" and before[-1:].isspace() and before.rstrip()[-1:] not in _OPERATORS
        return note not in _POWERS and bool(is_apart or (_NOTED_ONCE if note in _ONCE else _NOTED).search(before))

    def _pair_runs(self) -> None:
        """Keep the delimiters of emphasis: a run before a word, and the next such run after one."""
        open_at: dict[str, int] = {}
        for place, run in self._runs:
            before = self._text[place - 1] if place > self._start else " "
            after = self._text[place + len(run)] if place + len(run) < self._end else " "
            if not before.isspace() and not after.isalnum() and run in open_at:
                begin = open_at.pop(run)
                self._keep(begin, begin + len(run))
                self._keep(place, place + len(run))
            elif not after.isspace() and not before.isalnum():
                open_at[run] = place


# --- a text read ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """A text, read once.

    Attributes:
        text: its own characters.
        tokens: its markup and entities.
    """

    text: str
    tokens: Sequence[Token] = ()

    @classmethod
    def of(cls, text: str) -> Reading:
        """Read a text."""
        return cls(text, tokens(known(text)))

    @classmethod
    def inside_line(cls, text: str) -> Reading:
        """Read a text that stands inside a line: a sign that it begins with is no bullet."""
        return cls(text, [one for one in tokens(known(text)) if one.start or one.kind != BLOCK or text[0] == "<"])

    @cached_property
    def classes(self) -> str:
        """A class for each character, as `characters` names them."""
        classes = self._known.translate(CLASSES)
        if not self.tokens:
            return classes
        parts, position = [], 0
        for token in self.tokens:
            if token.start < position:
                continue
            parts += [classes[position : token.start], token.kind, WITHIN * (token.end - token.start - 1)]
            position = token.end
        return "".join([*parts, classes[position:]])

    @cached_property
    def _known(self) -> str:
        return known(self.text)

    @cached_property
    def shown(self) -> dict[int, str]:
        """Signs that entities show, by their places."""
        return {token.start: token.shown for token in self.tokens if token.shown}

    @cached_property
    def _keyed(self) -> tuple[Sequence[int], str, Sequence[int]]:
        """Places, keys, and where the key of each place begins."""
        text, shown = self._known, self.shown
        if not self.tokens:
            places = [i for i, one in enumerate(self.classes) if one in KEYED]
            if len(self.key) == len(places):
                return places, self.key, range(len(places) + 1)
        signs = [(i, "".join(KEYS[ord(part)] for part in known(shown.get(i, text[i])))) for i in self._may_be_keyed]
        signs = [(i, key) for i, key in signs if key]
        keys = [key for _, key in signs]
        return [i for i, _ in signs], "".join(keys), [0, *accumulate(map(len, keys))]

    @property
    def _may_be_keyed(self) -> Iterator[int]:
        """Letters, digits and symbols: one of these, ×, has a key."""
        return (match.start() for match in _MAY_BE_KEYED.finditer(self.classes))

    @cached_property
    def places(self) -> Sequence[int]:
        """Where each sign that has a key begins."""
        return self._keyed[0]

    @cached_property
    def key(self) -> str:
        """The keys of all signs, without anything between."""
        return self._keyed[1] if self.tokens else self._known.translate(KEYS)

    @cached_property
    def key_starts(self) -> Sequence[int]:
        """Where the key of each sign begins in `key`; then its length."""
        return self._keyed[2]

    def pieces(self, first: int, last: int) -> list[str]:
        """Return each sign from one to another (excluded), with all up to the next; without the last of these."""
        return [self.text[start:end] for start, end in pairwise(self.places[first:last])]

    def sign_end(self, sign: int) -> int:
        """Return where a sign ends, given by its number: after its marks."""
        return self._ends[sign]

    @cached_property
    def _ends(self) -> Sequence[int]:
        if not _CONTINUED.search(self.classes):
            return [place + 1 for place in self.places]
        return [_CONTINUED_HERE.match(self.classes, place + 1).end() for place in self.places]  # type: ignore[union-attr]

    def sign_text(self, first: int, last: int) -> str:
        """Return what signs show, from one to another (excluded), with what stands between them."""
        start, end = self.places[first], self.sign_end(last - 1)
        return (
            self.visible(start, end)
            if any(place in self.shown for place in range(start, end))
            else self.text[start:end]
        )

    def visible(self, start: int, end: int) -> str:
        """Return what a reader sees of a part: without markup, entities as their signs, blocks as blanks."""
        text, shown = self.text, self.shown
        parts = []
        for run in _RUN.finditer(self.classes, start, end):
            first, last = run.span()
            if run["blanks"]:
                parts.append(" " * (last - first))
            elif last - 1 in shown:
                parts += [text[first : last - 1], shown[last - 1]]
            else:
                parts.append(text[first:last])
        return "".join(parts)

    # --- ends of words, numbers and sentences -------------------------------------------------------

    def is_cut(self, place: int) -> bool:
        """Return whether a quote that begins or ends here cuts a word, a number, or what belongs to one."""
        sides = self.classes[place - 1 : place + 1] if place else ""
        if len(sides) <= 1:
            return False
        if sides not in _NO_CUT and (sides[1] in CONTINUED or _CUT.search(self.around(place, place))):
            return True
        near = f"{self._known[max(0, place - _NEAR) : place]}\0{self._known[place : place + _NEAR]}"
        return any("\0" in match[0] for match in _DIVIDED.finditer(near))

    def around(self, start: int, end: int) -> str:
        """Return what is seen on both sides of a part, with a NUL in its place, a sign of `_CUT` for each character."""
        near = _NEAR
        while len(before := self.visible(max(0, start - near), start)) < _SEEN and near < start:
            near *= 4
        while len(after := self.visible(end, min(len(self.text), end + near))) < _SEEN and end + near < len(self.text):
            near *= 4
        before, after = before[-_SEEN:], after[:_SEEN]
        return "".join(_as_cut(one) if one != "\0" else one for one in cased(known(f"{before}\0{after}")))

    def rest_before(self, place: int) -> str | None:
        """Return the beginning of the sentence before a place; None where a sentence begins there."""
        first = max(0, place - MOST_AROUND)
        start = max((end for end in self._sentence_ends(first, place, is_sure=True) if end <= place), default=first)
        if first == start > 0 and not self.visible(start, place).strip():
            # All that is near is unseen.
            while place and self.classes[place - 1] in _UNSEEN:
                place -= 1
            return self.text[max(0, place + 1 - MOST_AROUND) : place + 1].lstrip() if place else None
        found = self.text[start:place].lstrip()
        is_sign = DASH in self.classes[start:place] and self.classes[place : place + 1] not in (LETTER, UNSPACED)
        return found if is_sign or first == start > 0 or self._says_something(start, place) else None

    def rest_after(self, place: int) -> str | None:
        """Return the rest of the sentence after a place; None where the sentence ends there."""
        last = min(len(self.text), place + MOST_AROUND)
        ends = self._sentence_ends(place - _CLOSING, last, is_sure=True)
        end = next((end for end in ends if end >= place), last)
        if end == last < len(self.text) and not self.visible(place, end).strip():
            # All that is near is unseen.
            place = _UNSEEN_RUN.match(self.classes, place).end() - 1  # type: ignore[union-attr]
            return self.text[place : place + MOST_AROUND].rstrip() or None
        found = self.text[place:end].rstrip()
        return found if end == last < len(self.text) or self._says_something(place, end) else None

    def _says_something(self, start: int, end: int) -> bool:
        is_word = any(one in "acdry" for one in self.classes[start:end])
        return is_word or _ASKS.search(self.visible(start, end)) is not None

    def _sentence_ends(self, start: int, end: int, *, is_sure: bool = False) -> Iterator[int]:
        """Yield where sentences end in a part, in order; surely: what may go on goes on."""
        for match in _SENTENCE_END.finditer(self.text, max(0, start - 1), min(len(self.text), end + 2)):
            if match["block"]:
                # A bullet that is none is a sign.
                is_end = self.classes[match.end() - 1] in (*BLANKS, WITHIN)
            else:
                is_end = self.classes[match.start()] != WITHIN and not self._goes_on(match, is_sure=is_sure)
            if is_end:
                yield match.end()

    def _goes_on(self, match: re.Match[str], *, is_sure: bool) -> bool:
        if match["stop"][0] != ".":
            after = cased(known(self.text[match.end() : match.end() + 4]))
            is_joined = match["stop"][-1] in _WIDE_CLOSING and after[:1].isalnum()
            return is_sure and (is_joined or after.lstrip()[:1].islower())
        word = re.search(r"\w*$", cased(known(self.text[max(0, match.start() - _SEEN) : match.start()])))
        before = word[0] if word else ""
        after = cased(known(self.text[match.end() : match.end() + 4])).lstrip()
        is_short = len(before) <= _SHORT and (before[:1].isupper() or before.isdigit() or len(before) == 1)
        return is_short or after[:1].islower() or after[:1].isdigit()

    def has_sentence_end(self, start: int, end: int) -> bool:
        """Return whether a sentence ends in a part."""
        return any(start <= stop <= end for stop in self._sentence_ends(start - _CLOSING, end))

    def asks_in_greek(self, place: int) -> bool:
        """Return whether a Greek question mark, which is a semicolon elsewhere, stands at a place."""
        found = _GREEK_QUESTION.search(self.text, max(0, place - _CLOSING - 1), place + _CLOSING + 1)
        return found is not None and found.end() > place

    def ends_clause(self, place: int) -> bool:
        """Return whether a clause or its text ends at a place, after closing signs."""
        seen = self.text[place : place + _NEAR]
        return bool(_CLAUSE_END.match(seen)) or (place + len(seen) >= len(self.text) and not seen.strip())


_MAY_BE_KEYED = re.compile("[acdy]")
_CONTINUED, _CONTINUED_HERE = re.compile("[xm]"), re.compile("[xm]*+")
# Blanks, and what is seen; an entity is one of the last signs of what is seen, as the rest of it continues that sign.
_RUN = re.compile(r"(?P<blanks>[snB]+)|[^snBihMx]+")
_NO_CUT = frozenset({"as", "an", "sa", "na", "ps", "pn"})
# A word that a line divides; a NUL is where a quote begins or ends.
_DIVIDED = re.compile(r"[^\W\d_]\0?[-\u2010\u00ad]\0?[^\S\n]*+\0?\n\s*+\0?\s*+[^\W\d_]")

MOST_AROUND = 200
"""Characters of the rest of a sentence at most."""

_NEAR, _SEEN, _SHORT, _CLOSING = 64, 12, 4, 4
_ASKS = re.compile("[?!？！؟¿¡;\u037e՞፧‽]")
_UNSEEN = "snBihMx"
_UNSEEN_RUN = re.compile(f"[{_UNSEEN}]*+")
_WIDE_CLOSING = "」』”）】"
_NEXT_BLOCK = r"\n[ \t\r]*+(?:\n|[-*+•>|#])"
_SENTENCE_END = re.compile(
    r"(?P<stop>[.!?…؟।॥]++[\"'’”»)\]*_]{0,4}(?=\s|\Z)"
    rf"|[。！？｡]++[{_WIDE_CLOSING}]{{0,4}})|(?P<block>{_NEXT_BLOCK})"
)
_GREEK_QUESTION = re.compile("[\u0370-\u03ff\u1f00-\u1fff][\"'’”»)]{0,4}[ ]?;|\u037e")
_CLAUSE_END = re.compile(rf"[\"'’”»)\]*_」』]{{0,4}}(?:[.,;:。।॥，；：、،؛]|\s*+\Z|[ \t\r]*+{_NEXT_BLOCK})")

_OF_CUT = {
    **dict.fromkeys(HYPHENS, "-"),
    **dict.fromkeys(MINUSES + "\u2012\u2013", "~"),
    **dict.fromkeys("'’ʼ", "'"),
    **dict.fromkeys("%‰‱°º˚′″℃℉\u066a％", "%"),
    **dict.fromkeys("+±<>≤≥≈~＋＜＞", "+"),
    **dict.fromkeys("$€£¥￥₹₽", "$"),
    **{sign: sign for sign in ".,:/_#"},
    "٫": ".",
    "٬": ",",
}


def _as_cut(character: str) -> str:
    one = CLASSES[ord(character)]
    if one == "a":
        return "a" if character.islower() or not character.isupper() else "A"
    if one in "cdrm":
        return one
    return _OF_CUT.get(character) or (" " if one in BLANKS else "p")


# A NUL is where a quote begins or ends: inside a word, beside a hyphen or an apostrophe in one, inside a domain's name;
# inside a number, its groups of three digits, after its sign or before its per cent, degree or currency sign.
_CUT = re.compile(
    r"[aAd]\0[aAdr]|r\0[aAdr]|[aAcdr]\0m"
    r"|[aAd]['_-]\0[aAd]|[aAd]\0['_-][aAd]"
    r"|[aA]\.\0a|[aA]\0\.a|[aA]\0[+#]|[\#%]\0[aAd]"
    r"|d[.,:/'~]\0d|d\0[.,:/'~]d"
    r"|(?<!d)d{1,3}(?:\0[ ]|[ ]\0)ddd(?!d)"
    r"|(?<![aAcd])[-~]\$?\0\$?d|[+$]\0[ ]?d|\+[ ]\0d"
    r"|d\0[ ]?[%$]|d[ ]\0[%$]"
)
