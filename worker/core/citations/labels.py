"""Labels in a generated answer: ``[S1]`` and its kin, and which of the given ones they are.

- **Read** are square brackets, ASCII or full width, with labels, ranges of them and what lists them: blanks, commas,
  semicolons, ``&``, "and". Any other word may choose or deny, and no list of words knows them all.
- **Unreadable** is whatever else looks like a label inside brackets of any kind, code, tags, elements or comments: said
  with its place, never lost and never taken for use. Outside of these it is a train or a figure.
- **A closing list of sources** is no use: the last lines, under a heading or a colon, that begin with labels and do not
  end as sentences, if one of these labels stands above as well. Labels that stand only there are unreadable.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from retrieval_client.errors import InvalidJob
from worker.core.text.spans import Span, paragraphs
from worker.core.text.unicode_data import known

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

MAX_EXPANDED = 100_000
"""Labels that the ranges of one answer stand for, all in all; further ranges are reported as unknown."""


class Label(NamedTuple):
    """A label, or a range of labels, that was read.

    Attributes:
        name: as written: ``S1``, ``S1-S3``.
        number: its number, a range's first one; 0 where none can have been given (``S0``, ``S01``).
        last_number: a range's last one, else ``number``.
        span: where it stands in the answer, without its bracket.
    """

    name: str
    number: int
    last_number: int
    span: Span


class UsedLabel(NamedTuple):
    """A given label that the answer uses, and each place where it does."""

    label: str
    chunk_hash: str
    spans: tuple[Span, ...]


class LabelReport(NamedTuple):
    """The use that an answer makes of the labels it was given.

    Attributes:
        used: by number.
        unused: names by number.
        unknown: labels that were not given, as written (of a range: the part that was not given, ``S6-S9``), and where
            they stand; in the answer's order.
        unreadable: what else looks like a label, with the signs around it, and where it stands; in the answer's order.
    """

    used: tuple[UsedLabel, ...]
    unused: tuple[str, ...]
    unknown: tuple[tuple[str, Span], ...]
    unreadable: tuple[tuple[str, Span], ...] = ()


def classify(
    answer: str, hashes: Mapping[str, str], cited: Collection[str] | None = None, reading: LabelReading | None = None
) -> LabelReport:
    """Tell which of the given labels an answer uses, in time linear in it.

    >>> report = classify("Hum [S1-S9], not code: `[S2]`; see [S0].", {"S1": "sha256:…", "S10": "sha256:…"})
    >>> report.used
    (UsedLabel(label='S1', chunk_hash='sha256:…', spans=((5, 10),)),)
    >>> report.unused, report.unknown, report.unreadable
    (('S10',), (('S2-S9', (5, 10)), ('S0', (36, 38))), (('`[S2]`', (23, 29)),))

    Args:
        answer: any text.
        hashes: label (``S`` and a number of at most nine digits, from 1 on, without leading zeros) → hash of its
            chunk.
        cited: hashes of the citations. A label of any other chunk leads to no source: where the answer uses it, it is
            unknown. Without ``cited`` every label given is good.
        reading: of the answer, where it has been read.

    Raises:
        InvalidJob: a given label has another form, so that it could never be found.
    """
    if not all(map(_GIVEN.fullmatch, hashes)):
        raise InvalidJob("expected labels of the form S1", "labels")
    names = {int(name[1:]): name for name in sorted(hashes, key=lambda name: int(name[1:]))}
    good = {number for number, name in names.items() if cited is None or hashes[name] in cited}
    numbers, named_numbers = list(names), set[int]()
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    unknown_labels, allowance = list[tuple[str, Span]](), MAX_EXPANDED
    reading = reading or LabelReading(answer)
    for name, number, last_number, span in reading.labels:
        is_read = number == last_number or allowance > 0
        among = numbers[bisect_left(numbers, number) : bisect_right(numbers, last_number)] if is_read else []
        allowance -= len(among) * (number != last_number)
        named_numbers.update(among)
        good_numbers = [n for n in among if n in good]
        for n in good_numbers:
            spans[n].append(span)
        unknown_labels += [
            (gap, span) for gap in (_gaps(number, last_number, good_numbers) if good_numbers else [name])
        ]
    return LabelReport(
        tuple(UsedLabel(names[n], hashes[names[n]], tuple(spans[n])) for n in numbers if n in spans),
        tuple(name for n, name in names.items() if n not in named_numbers),
        tuple(unknown_labels),
        tuple((answer[slice(*span)], span) for span in reading.unreadable),
    )


def _gaps(first_number: int, last_number: int, good_numbers: list[int]) -> Iterator[str]:
    """The numbers of a range that were not given, as labels and ranges."""
    for lower, upper in zip([first_number - 1, *good_numbers], [*good_numbers, last_number + 1], strict=True):
        if (low := lower + 1) <= (high := upper - 1):
            yield f"S{low}" if low == high else f"S{low}-S{high}"


# --- reading ------------------------------------------------------------------------------------

_PAIRS = (
    "[]［］【】〔〕〖〗〘〙〚〛⟦⟧()（）{}｛｝<>＜＞⟨⟩〈〉《》「」『』｢｣"
    "༺༻༼༽᚛᚜⁅⁆⁽⁾₍₎⌈⌉⌊⌋❨❩❪❫❬❭❮❯❰❱❲❳❴❵⟅⟆⟪⟫⟬⟭⟮⟯⦃⦄⦅⦆⦇⦈⦉⦊⦋⦌⦍⦎⦏⦐⦑⦒⦓⦔⦕⦖⦗⦘⧘⧙⧚⧛⧼⧽⸢⸣⸤⸥⸦⸧⸨⸩⹕⹖⹗⹘⹙⹚⹛⹜〝〞︗︘︵︶︷︸︹︺︻︼︽︾︿﹀﹁﹂﹃﹄﹇﹈﹙﹚﹛﹜﹝﹞｟｠﴾﴿"
)
_OPENED_BY = dict(zip(_PAIRS[1::2], _PAIRS[::2], strict=True))

_GIVEN = re.compile("S[1-9][0-9]{0,8}")
_NAME = "[SＳ]([0-9０-９]++)"
_RANGE = rf"{_NAME}(?>(?:\s*+[-‐‑‒–—―−－~～〜]\s*+{_NAME})?)"
_BETWEEN = r"(?>\s*+[,;，；、&]\s*+|\s++)(?>(?:and\s++)?)"
_READ = rf"[\[［【]\s*+{_RANGE}(?>(?:{_BETWEEN}{_RANGE})*)\s*+[\]］】]"
_UNSEEN = "[\u00ad\u0300-\u036f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]{0,9}+"
_BETWEEN_S_AND_DIGIT = r"(?:\\?[\s._:#/|^~'’\-‐-―−]|\*\*?|\s{2,4})?"
_SOURCE = r"(?i:sources?|src)[\s.:#№_(–-]{0,3}"
_TOKEN = re.compile(
    rf"""
    (?P<read>    {_READ}(?!:\s*+<?\w++://) )
  | (?P<comment> <!-- )
  | (?P<tag>     \\?<(?:(?P<name>/?[A-Za-z][\w-]*+)(?=[\s/>])|[A-Za-z])[^<>]*+> )
  | (?P<ticks>   `++ )
  | (?P<tick>    \\` )
  | (?P<sign>    \\?(?!<[\s=])[{re.escape(_PAIRS)}] )
  | \\\\
    # Other letters, signs and digits than those that are read look like a label, too.
  | (?P<label>   (?<![A-Za-z0-9])(?:[SＳЅ]{_UNSEEN}{_BETWEEN_S_AND_DIGIT}|[sｓѕ]{_UNSEEN}[._#-]?|{_SOURCE})
                 {_UNSEEN}[\d₀-₉]++ )
    """,
    re.VERBOSE,
)
_RANGES, _WORD = re.compile(_RANGE), re.compile(r"\w")
_CODE_END = re.compile(r"(?P<ticks>`++)|</(?P<name>code|pre|kbd|samp)\s*+>", re.IGNORECASE)
_IN_CODE = re.compile(r"(?<![A-Za-z0-9_])[SＳ]\d++(?![A-Za-z0-9_])")
_IN_SQUARE = re.compile(r"[\[［【][^\]］】]*+")
_S_AND_DIGIT = re.compile("(?<=[SＳ])(?<![A-Za-z0-9].)(?=[0-9０-９])")
_MOST_DIGITS, _LONGEST_SHOWN = 9, 200
# Lines that begin with labels and do not end as sentences, under a heading, a colon or bold letters.
_CLOSING_LIST = re.compile(
    r"^(?:\#{1,6}[ ][^\n\[［【]*+|[^\n\[［【:：]*+[:：][ *_]*+|\*\*[^\n\[［【*]++\*\*)"
    rf"(?>(?:\s*+(?>(?:(?:[-*+•>]|\d{{1,3}}+[.)])\s++)?)\**+{_READ}[^\n]*+(?<![.!?。！？])(?<![.!?。！？]\s))+)\s*+\Z",
    re.MULTILINE,
)


class LabelReading:
    """All that looks like a label in an answer, in its order.

    Attributes:
        labels: those that were read.
        brackets: where they stand, with their signs.
        unreadable: where the others stand, with the signs around them if these are near.
        end: where the answer ends, or its closing list of sources begins.
    """

    def __init__(self, answer: str) -> None:
        self.labels: list[Label] = []
        self.brackets: list[Span] = []
        self._text = text = known(answer)
        self._looks: list[Span] = []
        self._around: list[Span] = []
        # Where each sign or tag opened that is not closed yet; each kind for itself, whatever stands between.
        self._open: defaultdict[str, list[int]] = defaultdict(list)
        position, ends, last_comment = 0, [], text.rfind("-->")
        for start, end in paragraphs(text):
            self._hide(position, start)
            position = self._read(max(position, start), end, last_comment)
            ends.append(end)
        self._hide(position, len(text))
        # Brackets that are never closed reach to the last label of their paragraph.
        stops = [0, *(stop for _, stop in self._looks)]
        for start in chain.from_iterable(self._open.values()):
            last_stop = stops[bisect_right(stops, ends[bisect_right(ends, start)]) - 1]
            self._around += [(start, last_stop)] if last_stop > start else []
        self.unreadable = self._unreadable()
        self.end = len(text)
        if closing_list := _CLOSING_LIST.search(text):
            self._leave_out(closing_list.start())

    def _leave_out(self, end: int) -> None:
        """Leave out the labels of a closing list, if it names again what stands above."""
        above = [label for label in self.labels if label.span[0] < end]
        numbers = {label.number for label in above}
        new = [label.span for label in self.labels[len(above) :] if label.number not in numbers]
        if len(above) + len(new) < len(self.labels):
            self.labels, self.unreadable, self.end = above, sorted([*self.unreadable, *new]), end
            self.brackets = [span for span in self.brackets if span[0] < end]

    def _read(self, start: int, end: int, last_comment: int) -> int:
        """Read a paragraph; return where to read on: a comment may be longer."""
        text, position = self._text, start
        ends: defaultdict[str, list[int]] = defaultdict(list)
        for run in reversed([*_CODE_END.finditer(text, start, end)]):
            ends[run["ticks"] or run["name"].lower()].append(run.end())
        while token := _TOKEN.search(text, position, end):
            place, position = token.span()
            hidden = 0
            if token["comment"] and position <= last_comment:
                hidden = text.index("-->", position) + len("-->")
            elif same := ends[token["ticks"] or (token["name"] or "").lower()]:
                while same and same[-1] <= position:
                    same.pop()
                hidden = same[-1] if same else 0
            if hidden:
                position = hidden
                self._hide(place, position, around=True)
            elif token["ticks"] or token["tick"]:
                self._open["`"].append(start)  # which of the others it may belong to can't be known
            else:
                self._take(token)
        return max(position, end)

    def _take(self, token: re.Match[str]) -> None:
        if token["read"]:
            self.brackets.append(token.span())
            self.labels += map(_label, _RANGES.finditer(self._text, *token.span()))
        elif token["label"]:
            self._looks.append(token.span())
        elif token["tag"]:
            self._hide(*token.span(), around=True)
            if (name := token["name"]) and token[0][-2] != "/":
                self._mark(name.lower().lstrip("/"), token.span(), closes=name[0] == "/")
        elif sign := (token["sign"] or token["comment"] or "").lstrip("\\")[:1]:
            self._mark(_OPENED_BY.get(sign, sign), token.span(), closes=sign in _OPENED_BY)

    def _mark(self, opened: str, span: Span, *, closes: bool) -> None:
        if not closes:
            self._open[opened].append(span[0])
        elif self._open[opened]:
            self._around.append((self._open[opened].pop(), span[1]))

    def _hide(self, start: int, end: int, *, around: bool = False) -> None:
        """Look into code, tags and comments, in which nothing is read; only fenced code is too long to be shown."""
        looks = [match.span() for match in _IN_CODE.finditer(self._text, start, max(start, end))]
        self._looks += looks
        self._around += [(start, end)] if around else looks

    def _unreadable(self) -> list[Span]:
        around = sorted(self._around, key=lambda span: (-span[0], span[1]))
        inside: list[Span] = []
        shown_spans: set[Span] = set()
        for label in self._looks:
            while around and around[-1][0] <= label[0]:
                inside.append(around.pop())
            while inside and inside[-1][1] < label[1]:
                inside.pop()
            if inside:
                shown_spans.add(self._shown(label, inside))
        return sorted(shown_spans)

    def _shown(self, label: Span, inside: list[Span]) -> Span:
        """The innermost of what a label stands in, and what adds nothing but signs to that; nothing long."""
        text, outer = self._text, label
        for start, end in reversed(inside):
            is_near = end - start <= _LONGEST_SHOWN and end >= outer[1]
            if not is_near or (outer != label and _WORD.search(text[start : outer[0]] + text[outer[1] : end])):
                break
            outer = start, end
        return outer


def _label(match: re.Match[str]) -> Label:
    digits = match[1], match[2] or match[1]
    is_good = all(numeral[0] not in "0０" and len(numeral) <= _MOST_DIGITS for numeral in digits)
    first_number, last_number = map(int, digits) if is_good else (0, 0)
    return Label(match[0], first_number, last_number, match.span())


def defused(text: str) -> str:
    """A text of which no part is read as a label, wherever it is copied to: a dot parts S and number in brackets.

    >>> defused("As [S1, p. 3; s2] says of the S1 and `x[S3]`, 【S4 (Fig. S5)")
    'As [S·1, p. 3; s2] says of the S1 and `x[S·3]`, 【S·4 (Fig. S·5)'
    """
    return _IN_SQUARE.sub(lambda inside: _S_AND_DIGIT.sub("·", inside[0]), text)
