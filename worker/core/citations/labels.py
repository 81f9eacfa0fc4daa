"""Labels in a generated answer: ``[S1]`` and its kin, and which of the given ones they are.

The rule: a label stands in brackets, outside code, and a bracket with labels is read whole or reported.

- **Whole** means that every word and number in it is understood: labels (``S1``, ``s1``, ``S 1``, ``Source 1``, in full
  width too), ranges of them, what separates or joins them (`worker.core.citations.label_words`), and places in a source
  (``p. 3``). A number without its S is a label only right after a word for *source*.
- **Square brackets** (lenticular and tortoise-shell ones too) are there for labels: a label alone between two
  separators counts, and if something else in the bracket is not understood, the bracket is reported as unreadable as
  well. A label with other words around it does not count.
- **Other brackets** are there for anything: ``(S1)`` is a train where no S1 was given. They count only if they are read
  whole, a label in them was given, and its S is a capital. Where a given label stands in them otherwise, they are
  reported as unreadable.
- ``Fig. S1``, ``line S1`` are names of their own, neither read nor reported.

Time is linear in the answer, whatever it holds: regular expressions are possessive and brackets are read once.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

from retrieval_client.errors import InvalidJob
from worker.core.citations.label_words import (
    EXAMPLE,
    JOINING,
    NUMERO,
    PLACE,
    PLACE_AFTER,
    RANGE,
    SEVERAL,
    SOURCE,
    THING,
)
from worker.core.text.brackets import OPENED, SQUARE
from worker.core.text.brackets import find_brackets as find_all_brackets
from worker.core.text.normal_forms import normal_form
from worker.core.text.unicode_data import known, restored, unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from worker.core.text.brackets import Bracket, Span

MAX_EXPANDED = 100_000
"""Labels that the ranges of one answer stand for, all in all; ranges past it are reported as unknown."""

MAX_NUMBER_DIGITS = 9
"""A label with more digits is none that was given."""

LabelForm = Literal["plain", "small", "apart", "worded"]
"""``S1``; ``s1``; ``S 1``; ``Source 1``."""


class Label(NamedTuple):
    """A label, or a range of labels, as it stands in an answer. A tuple: an answer may have thousands.

    Attributes:
        name: as written: ``S1``, ``S1-S3``, ``Source 1``.
        number: its number, a range's first one; ``None`` where it is like a label and is none that can have
            been given (``S0``, ``S01``, ``S3-S1``).
        last: a range's last number, else ``number``.
        start: where ``name`` begins in the answer, without its bracket.
        end: where it ends; ``answer[start:end] == name``.
        form: how it is written; of a range, how its end is that is written less plainly.
    """

    name: str
    number: int | None
    last: int | None
    start: int
    end: int
    form: LabelForm = "plain"

    @property
    def span(self) -> Span:
        """The place of the label in the answer."""
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class UsedLabel:
    """A given label that the answer uses, and each place where it does."""

    label: str
    chunk_hash: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class LabelReport:
    """The use that an answer makes of the labels it was given.

    Attributes:
        used: by number.
        unused: names by number.
        unknown: what looks like a label and was not given, as written (of a range: the part that was not
            given, ``S6-S9``), and where it stands; in the answer's order.
        unreadable: brackets that look like a list of labels and could not be read whole, with their signs, and where
            they stand; in the answer's order.
    """

    used: tuple[UsedLabel, ...]
    unused: tuple[str, ...]
    unknown: tuple[tuple[str, Span], ...]
    unreadable: tuple[tuple[str, Span], ...] = ()


class LabelBracket(NamedTuple):
    """A bracket that holds labels, or seems to. A tuple, as `Label` is.

    Attributes:
        span: where it stands in the answer, with its signs.
        labels: those that were read, in their order.
        whole: whether nothing else that could be a label is in it.
    """

    span: Span
    labels: tuple[Label, ...]
    whole: bool


def classify(answer: str, given: Mapping[str, str], cited: Collection[str] | None = None) -> LabelReport:
    """Tell which of the given labels an answer uses, and which it uses without having been given them.

    >>> report = classify("Hum [S1-S9], not code: `[S2]`; see [S0].", {"S1": "sha256:…", "S10": "sha256:…"})
    >>> report.used
    (UsedLabel(label='S1', chunk_hash='sha256:…', spans=((5, 10),)),)
    >>> report.unused, report.unknown
    (('S10',), (('S2-S9', (5, 10)), ('S0', (36, 38))))
    >>> classify("Hum [S1, S2, and S3] [S1, see 2].", dict.fromkeys(("S1", "S2", "S3"), "sha256:…")).unreadable
    (('[S1, see 2]', (21, 32)),)

    Args:
        answer: any text.
        given: label (``S`` and a number from 1 on, without leading zeros) → hash of its chunk.
        cited: hashes of the citations. A label of any other chunk leads to no source: where the answer uses it, it is
            unknown. Without ``cited`` every label given is good.

    Raises:
        InvalidJob: a given label has another form, so that it could never be found.
    """
    names = _by_number(given)
    return _report(answer, _read_brackets(answer, list(names)), given, names, cited)


def report_labels(
    answer: str, brackets: Sequence[LabelBracket], given: Mapping[str, str], cited: Collection[str] | None = None
) -> LabelReport:
    """The report of `classify` on brackets that `find_brackets` found in the answer with these labels."""
    return _report(answer, brackets, given, _by_number(given), cited)


def _report(
    answer: str,
    brackets: Sequence[LabelBracket],
    given: Mapping[str, str],
    all_names: Mapping[int, str],
    cited: Collection[str] | None,
) -> LabelReport:
    names = {n: name for n, name in all_names.items() if cited is None or given[name] in cited}
    numbers = list(names)
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    unknown: list[tuple[str, Span]] = []
    uncited: set[int] = set()
    allowance = MAX_EXPANDED
    for label in _in_order(brackets):
        if label.number is None or label.last is None:
            unknown.append((label.name, label.span))
        elif label.number == label.last:
            if label.number in names:
                spans[label.number].append(label.span)
            else:
                unknown.append((label.name, label.span))
                uncited.add(label.number)
        else:
            first, stop = bisect_left(numbers, label.number), bisect_right(numbers, label.last)
            allowance -= stop - first
            if allowance < 0:
                unknown.append((label.name, label.span))
                continue
            meant = numbers[first:stop]
            for number in meant:
                spans[number].append(label.span)
            unknown += [(gap, label.span) for gap in _gaps(label.number, label.last, meant)]
            uncited.update(n for n in all_names if label.number <= n <= label.last and n not in names)
    return LabelReport(
        tuple(UsedLabel(names[n], given[names[n]], tuple(spans[n])) for n in numbers if n in spans),
        tuple(name for n, name in all_names.items() if n not in spans and n not in uncited),
        tuple(unknown),
        tuple((answer[slice(*one.span)], one.span) for one in brackets if not one.whole),
    )


def find_labels(answer: str, given: Collection[str] = ()) -> list[Label]:
    """All labels of an answer in their order."""
    return _in_order(find_brackets(answer, given))


def _in_order(brackets: Sequence[LabelBracket]) -> list[Label]:
    return sorted([label for bracket in brackets for label in bracket.labels], key=attrgetter("start"))


def _by_number(given: Collection[str]) -> dict[int, str]:
    """Names of the given labels by their numbers, in order."""
    names: dict[int, str] = {}
    for name in given:
        number = _number(name[: MAX_NUMBER_DIGITS + 2])
        if number is None:
            raise InvalidJob("expected labels of the form S1", "labels")
        names[number] = name
    return dict(sorted(names.items()))


@functools.lru_cache(maxsize=1024)
def _number(name: str) -> int | None:
    """A label's number, where it has the form in which labels are given."""
    digits = name[1:]
    if not name.startswith("S") or not 0 < len(digits) <= MAX_NUMBER_DIGITS or digits[0] == "0":
        return None
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def _gaps(first: int, last: int, meant: list[int]) -> Iterator[str]:
    """The numbers of a range that were not given, as labels and ranges."""
    for before, after in zip([first - 1, *meant], [*meant, last + 1], strict=True):
        low, high = before + 1, after - 1
        if low == high:
            yield f"S{low}"
        elif low < high:
            yield f"S{low}-S{high}"


# --- what brackets hold -------------------------------------------------------------------------

# Scripts whose words are not parted by spaces, or that set their endings right after a label.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# To a regular expression the marks of these scripts are no letters.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f"
_DASHES = "\\-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d"
_LETTER = rf"[^\W\d_{_UNSPACED}]"
_S = "[SsＳｓЅѕ]"  # the last are Cyrillic
_SMALL_S = frozenset("sｓѕ")
_GAP = r"[ \t\u00a0\u3000\u200b-\u200d\u2060\ufeff#-]{0,2}+"
# Another letter or digit, or decimals, make something else of it; but another label may follow.
_ENDS = rf"(?!(?!{_S}\d)[^\W_{_UNSPACED}]|_\w|[.．]\d)"


def _any_of(words: Collection[str]) -> str:
    """A pattern of words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


_RUN_ON = [*filter(re.compile(f"[{_UNSPACED}]+").fullmatch, JOINING | RANGE | SOURCE | PLACE | THING)]
_WORD = rf"(?>(?:{_LETTER}|[{_MARKS}])+)|§++|{_any_of(_RUN_ON)}"
_EXAMPLE = "|".join(re.escape(word).replace(r"\.", r"\.\ ?") for word in EXAMPLE)
_TOKEN = re.compile(
    rf"""
    (?P<label>     {_S}(?P<gap>{_GAP})(?P<digits>\d++){_ENDS} )
  | (?P<near>      {_S}(?:_?\d++|[₀-₉]++)[\w.]*+ )
  | (?P<left_out>  [.．]{{2,}}+ | […⋯] )
  | (?P<instance>  (?:{_EXAMPLE})\b\.? )
  | (?P<separator> [,;:，；：、؛،/／|｜+&＆•{_DASHES}] )
  | (?P<mark>      [\s.．^*~_\#@"'“”‘’„‟«»†‡]++ )
  | (?P<suffixed>  第?+\s*+\d++\s*+(?:{_any_of(PLACE_AFTER)}) )
  | (?P<word>      {_WORD} )
  | (?P<other>     \d++ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBERED = re.compile(rf"[\s.:：#_-]{{0,3}}+(?>(?:(?i:{_any_of(NUMERO)})[.\s]{{0,2}}+)?)(?P<digits>\d++){_ENDS}")
_PLACE = re.compile(
    rf"[\s.:：#]{{0,3}}+(?>(?:(?!{_S}\d)[a-zA-Z])?)\d++[a-z]?(?>(?:\s*+[,{_DASHES}]\s*+[lL]?\d++)*)(?!\w)"
)
_THING = re.compile(rf"[\s.:：#]{{0,3}}+{_S}?\d++[a-zA-Z]?(?>(?:\s*+[{_DASHES}]\s*+{_S}?\d++[a-z]?)*)")
_MORE = re.compile(rf"(?>(?:\s*+(?>(?:[,&{_DASHES}]\s*+)?)(?>(?:(?!{_S}\d)\w{{1,3}}+\s++)?){_S}\d++[a-z]?(?!\w))*)")
_TO = re.compile(
    rf"\s*+(?:[{_DASHES}~～〜]|[.．]{{2,3}}+|…"
    rf"|\b(?i:{_any_of(RANGE - {*_RUN_ON})})\b|{_any_of(RANGE & {*_RUN_ON})})\s*+"
)
# Most brackets with labels hold nothing else than these, and most brackets have neither of the others.
_LIST = re.compile(rf"(?>(?:[\s,;]*+S\d++(?>(?:[{_DASHES}]S\d++)?))+)[\s,;]*+")
_LISTED = re.compile(rf"S(\d++)(?>(?:[{_DASHES}]S(\d++))?)")
_S_AND_NUMBER, _SOURCE_WORD, _DIGIT = (
    re.compile(rf"{_S}(?:(?:{_GAP}|_)\d|[₀-₉])"),
    re.compile(f"(?i:{_any_of(SOURCE)})"),
    re.compile(r"[\d₀-₉]"),
)
_FORMS: tuple[LabelForm, ...] = ("plain", "worded", "small", "apart")
"""The plainest first."""


@dataclass(slots=True)
class _Content:
    """The content of a bracket.

    Attributes:
        labels: those that stand alone between separators, in their order.
        beside: those with other words around them.
        whole: whether everything was understood.
        things: whether there is a number with an S that is the name of something else.
    """

    labels: list[Label] = field(default_factory=list)
    beside: list[Label] = field(default_factory=list)
    whole: bool = True
    things: bool = False


def find_brackets(answer: str, given: Collection[str] = ()) -> list[LabelBracket]:
    """The brackets of an answer that hold labels or seem to, in their order.

    Args:
        answer: any text.
        given: names of the labels given; without any, only square brackets are read.

    Raises:
        InvalidJob: a given label has another form than ``S1``.
    """
    return _read_brackets(answer, list(_by_number(given)))


def _read_brackets(answer: str, numbers: Sequence[int]) -> list[LabelBracket]:
    answer = known(answer)
    found: list[LabelBracket] = []
    for bracket in find_all_brackets(answer):
        if listed := _read_list(answer, bracket):
            found.append(listed)
            continue
        content = _read(answer, bracket)
        if content is None:
            continue
        if read := _judged(answer, bracket, content, numbers):
            found.append(read)
        elif bracket.parent and not content.whole:
            bracket.parent.interrupted = True
    return sorted(found, key=attrgetter("span"))


def _read_list(answer: str, bracket: Bracket) -> LabelBracket | None:
    """A bracket as labels are asked for, ``[S1, S2-S4]``: in a tenth of the time that reading any other takes."""
    if bracket.kind != SQUARE or bracket.interrupted or len(bracket.own) != 1:
        return None
    start, end = bracket.own[0]
    if not _LIST.fullmatch(answer, start, end):
        return None
    labels = []
    for match in _LISTED.finditer(answer, start, end):
        number = _value(match[1])
        last = number if match[2] is None else _value(match[2])
        if number is None or last is None or last < number:
            number = last = None
        labels.append(Label(match[0], number, last, match.start(), match.end()))
    return LabelBracket((bracket.start, bracket.end), tuple(labels), whole=True)


def _judged(answer: str, bracket: Bracket, content: _Content, numbers: Sequence[int]) -> LabelBracket | None:
    """A bracket by the rule of this module; none if it is ordinary text."""
    span = bracket.start, bracket.end
    whole = content.whole and not bracket.interrupted
    glued = _is_glued(answer, bracket.start)
    doubtful = [*content.beside]
    if any(map(_has_index, doubtful)) and (bracket.kind != SQUARE or _is_in_maths(answer, *span)):
        doubtful = [label for label in doubtful if not _has_index(label)]
    labels = content.labels
    if bracket.kind == SQUARE:
        if glued:
            # Lower case and glued to a word it may be an index.
            doubtful += [label for label in labels if label.form == "small"]
            labels = [label for label in labels if label.form != "small"]
        if any(_counts(label, numbers) for label in labels):
            return LabelBracket(span, tuple(labels), whole and not doubtful)
    else:
        plain = all(label.form in {"plain", "worded"} for label in labels)
        if whole and plain and not glued and not content.things and any(_is_given(one, numbers) for one in labels):
            return LabelBracket(span, tuple(labels), whole=True)
        doubtful += labels
    return LabelBracket(span, (), whole=False) if any(_is_given(one, numbers) for one in doubtful) else None


def _is_glued(answer: str, start: int) -> bool:
    """Return whether a bracket in ASCII stands right after a letter, a digit or an underscore: an index, a call."""
    return answer[start] in "([{<" and _GLUE.match(answer, start - 1) is not None if start else False


_GLUE = re.compile(r"[A-Za-z0-9_]")


def _has_index(label: Label) -> bool:
    """Return whether a label is written as a variable with an index: S_1, S₁."""
    return label.name[1] in "_₀₁₂₃₄₅₆₇₈₉"


def _is_in_maths(answer: str, start: int, end: int) -> bool:
    """Return whether a bracket stands in TeX: between dollars or escaped brackets, or as the option of a command."""
    first = max(0, start - _LONGEST_FORMULA)
    formulas = _FORMULA.finditer(answer, first, end + _LONGEST_FORMULA)
    return any(one.start() < start and end < one.end() for one in formulas) or (
        _COMMAND.search(answer[first:start]) is not None
    )


_LONGEST_FORMULA = 300
_FORMULA = re.compile(
    r"""
    \$\$[^$]++\$\$ | \$(?![\s$])(?>(?:[^$\\\n]|\\.)+)(?<!\s)\$(?!\d)
  | \\\((?>(?:[^\\]|\\(?![()]))*)\\\) | \\\[(?>(?:[^\\]|\\(?![\[\]]))*)\\\]
    """,
    re.VERBOSE,
)
_COMMAND = re.compile(r"\\[A-Za-z]{1,20}\Z")


def _counts(label: Label, numbers: Sequence[int]) -> bool:
    """Return whether a label in square brackets is one, given or not."""
    if label.form == "apart" or (label.form == "worded" and not numbers):
        return _is_given(label, numbers)
    return True


def _is_given(label: Label, numbers: Sequence[int]) -> bool:
    """Return whether a label, or one of a range, was given."""
    if label.number is None or label.last is None:
        return False
    return bisect_left(numbers, label.number) < bisect_right(numbers, label.last)


def _read(answer: str, bracket: Bracket) -> _Content | None:
    """Return the content of a bracket; none if nothing in it could be taken for a label, nor a bracket is around it."""
    if not bracket.parent and not any(_may_hold_a_label(answer, *span) for span in bracket.own):
        return None
    content = _Content()
    for start, end in bracket.own:
        _Reader(answer, end, content).read(start)
    return content


def _may_hold_a_label(answer: str, start: int, end: int) -> bool:
    if not _DIGIT.search(answer, start, end):
        return False
    return bool(_S_AND_NUMBER.search(answer, start, end) or _SOURCE_WORD.search(answer, start, end))


class _Reader:
    """Reads a piece of a bracket's own text."""

    def __init__(self, answer: str, end: int, content: _Content) -> None:
        self._answer = answer
        self._end = end
        self._content = content
        self._item: list[Label] = []
        self._understood = True

    def read(self, start: int) -> None:
        """Read on from a place to the end."""
        position = start
        while token := _TOKEN.match(self._answer, position, self._end):
            position = token.end()
            if token["label"]:
                position = self._label(self._of(token, token.start()))
            elif token["word"]:
                position = self._word(token)
            elif token["near"]:
                self._label(self._near(token))
                self._understood = False
            elif token["separator"]:
                self._end_item()
            elif token["left_out"] or token["other"]:
                self._understood = False
        self._end_item()

    def _end_item(self) -> None:
        (self._content.labels if self._understood else self._content.beside).extend(self._item)
        self._content.whole &= self._understood
        self._item = []
        self._understood = True

    def _word(self, token: re.Match[str]) -> int:
        """Understand a word, with the number after it where it has one; where to read on."""
        word = normal_form("NFC", token[0]).casefold()
        end = token.end()
        if word in SOURCE and (number := _NUMBERED.match(self._answer, end, self._end)):
            return self._label(self._of(number, token.start()))
        if word in THING and (number := _THING.match(self._answer, end, self._end)):
            return self._thing(number, several=word in SEVERAL)
        if (word in PLACE or word == "§" * len(word)) and (number := _PLACE.match(self._answer, end, self._end)):
            return number.end()
        if word not in JOINING and word not in SOURCE:
            self._understood = False
        return end

    def _thing(self, number: re.Match[str], *, several: bool) -> int:
        more = _MORE.match(self._answer, number.end(), self._end) if several else None
        self._content.things |= re.search(_S, number[0]) is not None
        return more.end() if more else number.end()

    def _label(self, label: Label) -> int:
        """Keep a label, or the range that it begins; where to read on."""
        last = self._last_of_range(label.end)
        self._item.append(_range(self._answer, label, last) if last else label)
        return self._item[-1].end

    def _last_of_range(self, position: int) -> Label | None:
        to = _TO.match(self._answer, position, self._end)
        if to is None:
            return None
        token = _TOKEN.match(self._answer, to.end(), self._end)
        if token and token["label"]:
            return self._of(token, token.start())
        if token and token["word"] and normal_form("NFC", token[0]).casefold() in SOURCE:
            number = _NUMBERED.match(self._answer, token.end(), self._end)
            return self._of(number, token.start()) if number else None
        return None

    def _of(self, match: re.Match[str], start: int) -> Label:
        """A label from where it, or its word, begins."""
        name = self._answer[start : match.end()]
        form: LabelForm = "worded"
        if match.re is _TOKEN:
            form = "apart" if match["gap"] else "small" if name[0] in _SMALL_S else "plain"
        number = _value(match["digits"])
        return Label(name, number, number, start, match.end(), form)

    def _near(self, token: re.Match[str]) -> Label:
        digits = _DIGITS.search(token[0].translate(_LOWERED))
        number = _value(digits[0]) if digits else None
        return Label(token[0], number, number, *token.span(), "apart")


_DIGITS = re.compile(r"\d++")
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def _value(digits: str) -> int | None:
    """The number that digits of any script say, if it is one that can have been given."""
    return int(digits) if len(digits) <= MAX_NUMBER_DIGITS and int(digits[0]) else None


def _range(answer: str, first: Label, last: Label) -> Label:
    form = max(first.form, last.form, key=_FORMS.index)
    number, end = first.number, last.number
    if number is None or end is None or end < number:
        number = end = None
    return Label(answer[first.start : last.end], number, end, first.start, last.end, form)


# --- the other way ------------------------------------------------------------------------------

_READABLE = re.compile(
    rf"(?P<thing>(?i:\b(?:{_any_of(THING)})){_THING.pattern})"
    rf"|(?P<word>(?i:{_any_of(SOURCE)})[\s.:：#_-]{{0,3}}+(?>(?:(?i:{_any_of(NUMERO)})[.\s]{{0,2}}+)?)(?=\d))"
    rf"|(?P<label>(?:(?<!\w)|(?<=[\d_{_UNSPACED}])){_S}{_GAP}(?=\d))"
)


def defused(text: str) -> str:
    """A text in which nothing is read as a label, whatever part of it is copied to where: a dot parts S and number.

    In code, in inline code and after a backslash too, and where nothing closes the bracket: a copy may leave the
    backslash out, or add the bracket.

    >>> defused("As [S1, p. 3; s2] says of the S1 and `x[s3]`, 【S4 (Fig. S5)")
    'As [S·1, p. 3; s·2] says of the S1 and `x[s·3]`, 【S·4 (Fig. S5)'
    """
    parted = OPENED.sub(lambda opened: _READABLE.sub(_parted, opened[0]), known(text))
    return restored(parted, unknown(text))


def _parted(match: re.Match[str]) -> str:
    return match[0] if match["thing"] else match[0] + "·"
