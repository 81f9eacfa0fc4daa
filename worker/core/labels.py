"""Labels in a generated answer: ``[S1]`` and its kin, and which of the given ones they are.

Time is linear in the answer, whatever it holds: regular expressions are possessive and brackets don't nest.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Span = tuple[int, int]
"""Start and end in characters of the text, end excluded."""

MAX_EXPANDED = 100_000
"""Labels that the ranges of one answer stand for, all in all; ranges past it are reported as unknown."""

MAX_NUMBER_DIGITS = 9
"""A label with more digits is none that was given."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label, or a range of labels, as it stands in an answer.

    Attributes:
        name: as written: ``S1``, ``S1-S3``.
        number: its number, a range's first one; ``None`` where it is like a label and is none that can have
            been given (``S0``, ``S01``, ``s1``, ``S3-S1``, ``S1†L2``).
        last: a range's last number, else ``number``.
        start: where ``name`` begins in the answer, without its bracket.
        end: where it ends; ``answer[start:end] == name``.
    """

    name: str
    number: int | None
    last: int | None
    start: int
    end: int

    @property
    def span(self) -> Span:
        """Where it stands in the answer."""
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class UsedLabel:
    """A given label that the answer uses, and each place where it does."""

    label: str
    chunk_hash: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class LabelReport:
    """What an answer did with the labels it was given.

    Attributes:
        used: by number.
        unused: names by number.
        unknown: what looks like a label and was not given, as written (of a range: the part that was not
            given, ``S6-S9``), and where it stands; in the answer's order.
    """

    used: tuple[UsedLabel, ...]
    unused: tuple[str, ...]
    unknown: tuple[tuple[str, Span], ...]


def classify(answer: str, given: Mapping[str, str]) -> LabelReport:
    """Which of the given labels an answer uses, and which it uses without having been given them.

    >>> report = classify("Hum [S1-S9], not code: `[S2]`; see [S0].", {"S1": "sha256:…", "S10": "sha256:…"})
    >>> report.used
    (UsedLabel(label='S1', chunk_hash='sha256:…', spans=((5, 10),)),)
    >>> report.unused, report.unknown
    (('S10',), (('S2-S9', (5, 10)), ('S0', (36, 38))))

    Args:
        answer: any text.
        given: label (``S`` and a number from 1 on, without leading zeros) → hash of its chunk.

    Raises:
        InvalidJob: a given label has another form, so that it could never be found.
    """
    names = _by_number(given)
    numbers = list(names)
    spans: defaultdict[int, list[Span]] = defaultdict(list)
    unknown: list[tuple[str, Span]] = []
    allowance = MAX_EXPANDED
    for label in find_labels(answer):
        if label.number is None or label.last is None:
            unknown.append((label.name, label.span))
        elif label.number == label.last:
            if label.number in names:
                spans[label.number].append(label.span)
            else:
                unknown.append((label.name, label.span))
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
    used = tuple(UsedLabel(names[n], given[names[n]], tuple(spans[n])) for n in numbers if n in spans)
    return LabelReport(used, tuple(names[n] for n in numbers if n not in spans), tuple(unknown))


def _by_number(given: Mapping[str, str]) -> dict[int, str]:
    """Names of the given labels by their numbers, in order."""
    names = {_number(name): name for name in given}
    if None in names:
        raise InvalidJob("expected labels of the form S1", "labels")
    return {number: names[number] for number in sorted(number for number in names if number is not None)}


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


# --- brackets -----------------------------------------------------------------------------------

_BRACKETS = re.compile(r"\[([^\[\]【】［］]*+)\]|【([^\[\]【】［］]*+)】|［([^\[\]【】［］]*+)］")
_ITEM = re.compile(r"[^,;，；、]++")
_DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212\uff0d"  # hyphens, figure, en and em dash, minus, full width
_LABEL = re.compile(rf"\s*+((?P<first>[SsＳｓ]\d++)(?:\s*+[{_DASHES}]\s*+(?P<last>[SsＳｓ]\d++))?)(?!\w)")
# What comes after a label before it is prose in brackets ("[S1 is the first …]") and no attempt at a label.
_LONGEST_ATTEMPT = 24
_SHORTEST = len("[S1]")


def find_labels(answer: str) -> list[Label]:
    r"""All labels of an answer in their order: ``[S1]``, ``[S1, S2]``, ``[S1; S2]``, ``[S1-S3]``, ``【S1】``.

    Not in fenced code blocks, not in inline code, not where the bracket is escaped (``\[S1]``). An item in a
    bracket that begins as a label and goes on otherwise (``[S1†L2]``, ``[S1-3]``, ``[S2 and S3]``) is a label
    without a number; items that do not begin as one (``[S1, p. 3]``: the second) are none.
    """
    return [label for _, labels in find_brackets(answer) for label in labels]


def find_brackets(answer: str) -> Iterator[tuple[Span, list[Label]]]:
    """Where the brackets with labels stand, as `find_labels` reads them, and the labels of each."""
    for start, end in _prose(answer):
        for bracket in _BRACKETS.finditer(answer, start, end):
            items = _ITEM.finditer(answer, *bracket.span(bracket.lastindex or 0))
            if labels := [label for item in items for label in _read_item(answer, *item.span())]:
                yield bracket.span(), labels


# A label is the beginning of an item, and items are what commas part.
_OPENED = re.compile(r"[\[【［][^\[\]【】［］]++")
_BEGINNING = re.compile(r"([\[【［,;，；、]\s*+[SsＳｓ])(?=\d)")


def defused(text: str) -> str:
    """A text in which nothing is read as a label, whatever part of it is copied to where: a dot parts S and number.

    In code, in inline code and after a backslash too, and where nothing closes the bracket: a copy may leave the
    backslash out, or add the bracket.

    >>> defused("As [S1, p. 3; s2] says of the S1 and `x[s3]`, 【S4")
    'As [S·1, p. 3; s·2] says of the S1 and `x[s·3]`, 【S·4'
    """
    return _OPENED.sub(lambda opened: _BEGINNING.sub(r"\1·", opened[0]), text)


def _read_item(answer: str, start: int, end: int) -> list[Label]:
    """The labels between two commas; white space alone separates labels too."""
    labels: list[Label] = []
    position = start
    while match := _LABEL.match(answer, position, end):
        number = last = _number(match["first"])
        if match["last"]:
            last = _number(match["last"])
            if number is None or last is None or last < number:
                number = last = None
        labels.append(Label(match[1], number, last, *match.span(1)))
        position = match.end()
    if not labels:
        return []
    rest = answer[position:end].rstrip()
    if not rest.strip():
        return labels
    first, stop = labels[0].start, position + len(rest)
    return [Label(answer[first:stop], None, None, first, stop)] if stop - first <= _LONGEST_ATTEMPT else []


# --- what is not code (CommonMark 0.31) ---------------------------------------------------------

_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++")
# A fence may stand in quotes and lists, and deeper than three spaces: what is indented there is code as well.
_FENCE = re.compile(
    r"[ \t]*+(?P<quote>(?:>[ \t]*+)*+)(?:(?:[-*+]|\d{1,9}+[.)])[ \t]++)*+(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\r\n]*+)"
)
# Inline code does not reach into the next block.
_BLOCK = re.compile(r"[ \t]*+(?:[>|]|\#{1,6}+[ \t]|[-*+][ \t]|\d{1,9}+[.)][ \t])")
_MARK = re.compile(r"\\[!-/:-@\[-`{-~]|`++")
_TICKS = re.compile(r"`++")


def _prose(answer: str) -> Iterator[Span]:
    """The pieces of an answer outside code, split at escaped characters as well."""
    for start, end in paragraphs(answer):
        closing: defaultdict[int, list[int]] = defaultdict(list)
        for ticks in _TICKS.finditer(answer, start, end):
            closing[len(ticks[0])].append(ticks.start())
        piece = position = start
        while mark := _MARK.search(answer, position, end):
            position = mark.end()
            if mark[0][0] == "`":
                same = closing[len(mark[0])]
                close = bisect_left(same, position)
                if close == len(same):
                    continue  # nothing closes it: these are plain characters
                position = same[close] + len(mark[0])
            if mark.start() - piece >= _SHORTEST:
                yield piece, mark.start()
            piece = position
        if end - piece >= _SHORTEST:
            yield piece, end


def paragraphs(answer: str) -> Iterator[Span]:
    """Where the runs of lines stand that are no fenced code, not blank, and of one block."""
    fence: re.Match[str] | None = None
    start: int | None = None
    for line in _LINE.finditer(answer):
        if fence is not None:
            if _closes(line[0], fence):
                fence = None
                continue
            if not fence["quote"] or line[0].lstrip(" \t").startswith(">"):
                continue
            fence = None  # the quote that it stood in has ended
        blank = not line[0].strip()
        fence = None if blank else _opening(line[0])
        if start is not None and (blank or fence or _BLOCK.match(line[0])):
            yield start, line.start()
            start = None
        if start is None and not blank and not fence:
            start = line.start()
    if start is not None:
        yield start, len(answer)


def _opening(line: str) -> re.Match[str] | None:
    opening = _FENCE.match(line)
    if opening and opening["fence"][0] == "`" and "`" in opening["info"]:
        return None  # inline code at the beginning of a line
    return opening


def _closes(line: str, fence: re.Match[str]) -> bool:
    marks = line.strip(" \t>\r\n")
    return len(marks) >= len(fence["fence"]) and not marks.strip(fence["fence"][0])
