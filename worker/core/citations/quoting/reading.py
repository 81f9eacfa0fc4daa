"""A text as a reader sees it: its signs and their keys, what is markup, where words, numbers and sentences end."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import (
    BLANKS,
    BLOCK,
    CLASSES,
    KEYED,
    KEYS,
    MARKUP,
    UNSEEN,
    WITHIN,
)
from worker.core.text.unicode_data import known

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Token:
    """What a reader sees as something else than its characters.

    Attributes:
        start, end: its place.
        kind: class of its first character: `MARKUP`, `BLOCK`, or of the sign that it shows.
        shown: the sign that an entity shows; empty for markup.
        target: where a link leads.
    """

    start: int
    end: int
    kind: str
    shown: str = ""
    target: str = ""


# --- markup -------------------------------------------------------------------------------------

_MAY_HAVE_MARKUP = re.compile(r"[&<\\\[\]*_~`|>#¹²³⁰⁴-⁹•‣◦▪●○■▸†‡]|^[ \t]*[-+=]", re.MULTILINE)
_LINE = re.compile(r"[^\n]*+(?:\n|\Z)")
_FENCE = re.compile(r"[ \t]*+(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)$", re.MULTILINE)
_RULE = re.compile(r"[ \t]*+(?:-{3,}+|={3,}+|\*{3,}+|_{3,}+|\|?[ \t]*+:?-{3,}[-| \t:]*+)[ \t\r]*+$", re.MULTILINE)
# A bullet before a number may be its sign.
_LINE_START = re.compile(r"[ \t]*+(?>(?:>[ \t]?+|\#{1,6}+[ \t]++|[-+*•‣◦▪●○■▸][ \t]++(?!\d))+)")
_TICKS = re.compile(r"(?<!\\)`++")
_INLINE = (
    "b i u s em strong del ins strike sub sup span a code cite q mark small big font abbr kbd samp var tt wbr time label"
)
_BLOCKS = (
    "p div br hr h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table caption thead tbody tfoot tr td th pre blockquote center img "
    "figure figcaption section article aside header footer nav main details summary"
)
_IS_BLOCK = frozenset(_BLOCKS.split())
_NAMES = "|".join(sorted({*_INLINE.split(), *_IS_BLOCK}, key=len, reverse=True))
_TOKEN = re.compile(
    r"(?P<entity>&(?:[A-Za-z][A-Za-z0-9]{1,31}|\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6});)"
    rf"|(?P<tag></?(?P<name>{_NAMES})(?>(?:\s++[A-Za-z][\w:-]{{0,40}}\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\s\"'<>=`]++))*)\s*+/?>)"
    r"|(?P<comment><!--|-->)"
    r"|(?P<escape>\\(?=[!-/:-@\[-`{-~]))"
    r"|(?P<label>[\[【［]S\d{1,3}+(?>(?:[,;–\-]\s?+(?:and\s)?+S?\d{1,3}+)*)[\]】］])"
    r"|(?P<note>\[\^?\d{1,3}+\]|[¹²³⁰⁴-⁹]++|[†‡])"
    r"|(?P<link>!?\[(?=[^\[\]\n]*+\]\([^()\s<>]*+(?:[ ]\"[^\"\n]*+\")?+\)))"
    r"|(?P<target>\]\([^()\s<>]*+(?:[ ]\"[^\"\n]*+\")?+\))"
    r"|(?P<run>\*{1,3}+|_{1,3}+|~~)",
    re.IGNORECASE,
)
# Beside fewer letters a raised digit or a number in brackets may be an exponent or an index.
_NOTED = re.compile(r"[^\W\d_]{4}[.,;:!?\"'’”»)]{0,2}$")
_NOTED_ONCE = re.compile(r"[^\W\d_]{2}[.,;:!?\"'’”»)]{0,2}$|[.,;:!?\"”»)]$")
_LETTERS_BEFORE = 8
_POWERS = ("²", "³")


def _is_note(text: str, start: int, note: str) -> bool:
    before = text[max(0, start - _LETTERS_BEFORE) : start]
    if note in _POWERS:
        return False
    return bool((_NOTED_ONCE if note in "¹†‡" else _NOTED).search(before)) or (note[0] == "[" and before[-1:].isspace())


def tokens(text: str) -> list[Token]:
    """Return markup and entities outside code, in their order. Linear: no expression looks at a sign twice."""
    if not _MAY_HAVE_MARKUP.search(text):
        return []
    found: list[Token] = []
    prose: list[Span] = []
    fence = ""
    for line in _LINE.finditer(text):
        if line.start() == len(text):
            break
        opened = _FENCE.match(text, line.start(), line.end())
        if opened and (not fence or (opened["fence"].startswith(fence) and not opened["info"].strip())):
            fence = "" if fence else opened["fence"]
            found.append(Token(line.start(), line.end(), BLOCK))
        elif not fence:
            prose.append(line.span())
    for paragraph in _paragraphs(text, prose):
        found += _inline(text, paragraph, found)
    return sorted(found, key=lambda token: token.start)


def _paragraphs(text: str, lines: list[Span]) -> Iterator[list[Span]]:
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


def _inline(text: str, lines: list[Span], blocks: list[Token]) -> list[Token]:
    """Return the markup of one paragraph."""
    found: list[Token] = []
    runs: list[tuple[int, str]] = []
    start, end = lines[0][0], lines[-1][1]
    code = list(_inline_code(text, start, end))
    for opening, closing in code:
        found += [Token(*opening, MARKUP), Token(*closing, MARKUP)]
    hidden = [(opening[0], closing[1]) for opening, closing in code]
    starts = [one[0] for one in hidden]

    def in_code(place: int) -> bool:
        at = bisect_left(starts, place + 1) - 1
        return at >= 0 and place < hidden[at][1]

    for line_start, line_end in lines:
        position = line_start
        if in_code(position):
            pass
        elif rule := _RULE.match(text, line_start, line_end):
            found.append(Token(line_start, rule.end(), BLOCK))
            continue
        elif lead := _LINE_START.match(text, line_start, line_end):
            found.append(Token(line_start, lead.end(), BLOCK))
            position = lead.end()
            if "#" in lead[0] and text[line_end - 1] == "\n":
                found.append(Token(line_end - 1, line_end, BLOCK))
        is_row = text[position:line_end].lstrip().startswith("|")
        for match in _TOKEN.finditer(text, position, line_end):
            if not in_code(match.start()):
                _take(text, match, found, runs)
        if is_row:
            found += [
                Token(pipe.start(), pipe.end(), BLOCK)
                for pipe in re.finditer(r"(?<!\\)\|", text[position:line_end])
                for pipe in [_Shifted(pipe, position)]
                if not in_code(pipe.start())
            ]
    return found + _paired(text, runs, start, end)


class _Shifted:
    def __init__(self, match: re.Match[str], by: int) -> None:
        self._match, self._by = match, by

    def start(self) -> int:
        return self._match.start() + self._by

    def end(self) -> int:
        return self._match.end() + self._by


def _take(text: str, match: re.Match[str], found: list[Token], runs: list[tuple[int, str]]) -> None:
    """Keep one token; runs of stars and underscores wait for their partners."""
    start, end = match.span()
    kind = match.lastgroup
    if match["entity"]:
        shown = html.unescape(match[0])
        if shown != match[0]:
            found.append(Token(start, end, known(shown).translate(CLASSES)[0], shown))
    elif match["tag"]:
        name = match["name"].lower()
        if name in ("sub", "sup"):
            return
        found.append(Token(start, end, BLOCK if name in _IS_BLOCK else MARKUP))
    elif match["run"]:
        runs.append((start, match[0]))
    elif match["note"]:
        if _is_note(text, start, match[0]):
            found.append(Token(start, end, MARKUP))
    elif kind == "target":
        found.append(Token(start, end, MARKUP, target=match[0]))
    else:
        found.append(Token(start, end, MARKUP))


def _inline_code(text: str, start: int, end: int) -> Iterator[tuple[Span, Span]]:
    """Yield opening and closing ticks of code inside a paragraph."""
    ticks = [match.span() for match in _TICKS.finditer(text, start, end)]
    places: dict[int, list[int]] = {}
    for i, (first, last) in enumerate(ticks):
        places.setdefault(last - first, []).append(i)
    i = 0
    while i < len(ticks):
        same = places[ticks[i][1] - ticks[i][0]]
        at = bisect_left(same, i + 1)
        if at < len(same):
            yield ticks[i], ticks[same[at]]
            i = same[at]
        i += 1


def _paired(text: str, runs: list[tuple[int, str]], start: int, end: int) -> list[Token]:
    """Return the delimiters of emphasis: a run before a word, and the next such run after one."""
    found: list[Token] = []
    open_at: dict[str, int] = {}
    for place, run in runs:
        before = text[place - 1] if place > start else " "
        after = text[place + len(run)] if place + len(run) < end else " "
        opens = not after.isspace() and not before.isalnum()
        closes = not before.isspace() and not after.isalnum()
        if closes and run in open_at:
            begin = open_at.pop(run)
            found += [Token(begin, begin + len(run), MARKUP), Token(place, place + len(run), MARKUP)]
        elif opens:
            open_at[run] = place
    return found


# --- a text read ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """A text, read once.

    Attributes:
        text: its own characters.
        tokens: its markup and entities.
    """

    text: str
    tokens: list[Token] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> Reading:
        """Read a text."""
        return cls(text, tokens(text))

    @cached_property
    def classes(self) -> str:
        """A class for each character, as `characters` names them."""
        classes = known(self.text).translate(CLASSES)
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
    def shown(self) -> dict[int, str]:
        """What the entity at a place shows."""
        return {token.start: token.shown for token in self.tokens if token.shown}

    @cached_property
    def targets(self) -> dict[int, str]:
        """Where the link whose text ends at a place leads."""
        return {token.start: token.target for token in self.tokens if token.target}

    @cached_property
    def _keyed(self) -> tuple[list[int], list[str]]:
        text, classes, shown = known(self.text), self.classes, self.shown
        places = [i for i, one in enumerate(classes) if one in KEYED or (one == "y" and text[i] == "×")]
        if shown:
            keys = ["".join(KEYS[ord(one)] for one in known(shown.get(i, text[i]))) for i in places]
        else:
            keys = [KEYS[ord(text[i])] for i in places]
        kept = [i for i, key in enumerate(keys) if key]
        if len(kept) < len(keys):
            places, keys = [places[i] for i in kept], [keys[i] for i in kept]
        return places, keys

    @cached_property
    def places(self) -> list[int]:
        """Where each sign that has a key begins."""
        return self._keyed[0]

    @cached_property
    def key(self) -> str:
        """The keys of all signs, without anything between."""
        return "".join(self._keyed[1])

    @cached_property
    def key_starts(self) -> list[int]:
        """Where the key of each sign begins in `key`; then its length."""
        return [0, *accumulate(map(len, self._keyed[1]))]

    def sign_end(self, sign: int) -> int:
        """Return where a sign ends, given by its number: after its marks."""
        place, classes = self.places[sign] + 1, self.classes
        while place < len(classes) and classes[place] in "xm":
            place += 1
        return place

    def sign_text(self, first: int, last: int) -> str:
        """Return what signs show, from one to another (excluded), with what stands between them."""
        start, end = self.places[first], self.sign_end(last - 1)
        if not any(start <= place < end for place in self.shown):
            return self.text[start:end]
        return self.visible(start, end)

    def visible(self, start: int, end: int) -> str:
        """Return what a reader sees of a part: without markup, entities as their signs, blocks as blanks."""
        classes, text, shown = self.classes, self.text, self.shown
        parts = []
        for i in range(start, end):
            one = classes[i]
            if one in UNSEEN or one == WITHIN:
                continue
            parts.append(" " if one in BLANKS else shown.get(i, text[i]))
        return "".join(parts)

    # --- ends of words, numbers and sentences -------------------------------------------------------

    def is_cut(self, place: int) -> bool:
        """Return whether a quote that begins or ends here cuts a word, a number, or what belongs to one."""
        if 0 < place < len(self.classes) and self.classes[place] in "xm":
            return True
        before = self._around(max(0, place - _NEAR), place)[-_SEEN:]
        after = self._around(place, min(len(self.text), place + _NEAR))[:_SEEN]
        return _CUT.search(f"{before}\0{after}") is not None

    def _around(self, start: int, end: int) -> str:
        seen = known(self.visible(start, end))
        return "".join(map(_as_cut, seen))

    def rest_before(self, place: int) -> str | None:
        """Return the beginning of the sentence before a place; None where a sentence begins there."""
        start = max(0, place - MOST_AROUND)
        for end in self._sentence_ends(max(0, place - MOST_AROUND), place):
            start = end if end <= place else start
        found = self.text[start:place].lstrip()
        return found if self._says_something(place - len(found), place) else None

    def rest_after(self, place: int) -> str | None:
        """Return the rest of the sentence after a place; None where the sentence ends there."""
        end = min(len(self.text), place + MOST_AROUND)
        for stop in self._sentence_ends(place, end):
            if stop > place:
                end = stop
                break
        found = self.text[place:end].rstrip()
        return found if self._says_something(place, place + len(found)) or _ASKS.search(found) else None

    def _says_something(self, start: int, end: int) -> bool:
        return any(one in "acdry" for one in self.classes[start:end])

    def _sentence_ends(self, start: int, end: int) -> Iterator[int]:
        """Yield where sentences end in a part, in order; as a guess it is generous: what may go on goes on."""
        for match in _SENTENCE_END.finditer(self.text, max(0, start - 1), min(len(self.text), end + 2)):
            if match["block"] or not self._goes_on(match):
                yield match.end()

    def _goes_on(self, match: re.Match[str]) -> bool:
        if match["stop"][0] != ".":
            return False
        word = re.search(r"\w*$", self.text[max(0, match.start() - _SEEN) : match.start()])
        before = word[0] if word else ""
        after = self.text[match.end() : match.end() + 4].lstrip()
        is_short = len(before) <= _SHORT and (before[:1].isupper() or before.isdigit() or len(before) == 1)
        return is_short or after[:1].islower() or after[:1].isdigit()

    def has_sentence_end(self, start: int, end: int) -> bool:
        """Return whether a sentence ends in a part."""
        return any(start < stop <= end for stop in self._sentence_ends(start, end))

    def ends_clause(self, place: int) -> bool:
        """Return whether a clause or its text ends at a place, after closing signs."""
        seen = self.text[place : place + _NEAR]
        return bool(_CLAUSE_END.match(seen)) or (place + len(seen) >= len(self.text) and not seen.strip())


MOST_AROUND = 200
"""Characters of the rest of a sentence at most."""

_NEAR, _SEEN, _SHORT = 64, 12, 4
_ASKS = re.compile("[?!？！؟]")
_SENTENCE_END = re.compile(
    r"(?P<stop>[.!?…؟।॥]++[\"'’”»)\]*_]{0,4}(?=\s|\Z)|[。！？｡]++[」』”）】]{0,4})|(?P<block>\n[ \t\r]*+(?:\n|[-*+•>|#]))"
)
_CLAUSE_END = re.compile(r"[\"'’”»)\]*_」』]{0,4}(?:[.,;:。।॥，；：、،؛]|\s*+\Z|[ \t\r]*+\n[ \t\r]*+(?:\n|[-*+•>|#]))")

_OF_CUT = {
    **dict.fromkeys("-\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d\u02d7", "-"),
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
    if one in "cdr":
        return one
    return _OF_CUT.get(character) or (" " if one in BLANKS else "p")


_CUT = re.compile(
    r"[aAd]\0[aAdr]|r\0[aAdr]"
    r"|[aAd]['_-]\0[aAd]|[aAd]\0['_-][aAd]"
    r"|[aA]\.\0a|[aA]\0\.a|d[.,:/']\0d|d\0[.,:/']d"
    r"|(?<!d)d{1,3}(?:\0[ ]|[ ]\0)ddd(?!d)"
    r"|(?<![aAcd])[-]\0\$?d|[+$]\0[ ]?d|\+[ ]\0d|(?<![aAcd])-\$\0d"
    r"|d\0[ ]?[%$]|d[ ]\0[%$]"
    r"|[aA]\0[+#]|[\#%]\0[aAd]"
)
