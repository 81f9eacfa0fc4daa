"""Marks in a quote: of what was left out, and brackets around what was put in."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import SOFT_HYPHEN, ZERO_WIDTH
from worker.core.citations.quoting.forms import BRACKETS, Prepared, prepare
from worker.core.text.unicode_data import category, is_numeric

if TYPE_CHECKING:
    from collections.abc import Sequence

SHORTEST_PART = (3, 12)
"""Words, or letters and digits, of each part of a quote with something left out."""

LONGEST_REPLACED = (3, 60)
"""Words, and characters, that an insertion in brackets may stand for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part between marks of omission.

    Attributes:
        pieces: its text, with insertions between the pieces; mostly one piece.
        mark: the mark of omission before it; none before the first.
        opens, closes: words in brackets were put in before it, after it.
        insertions: what was put in, in its order.
    """

    pieces: tuple[Prepared, ...]
    mark: str
    opens: bool = False
    closes: bool = False
    insertions: tuple[Insertion, ...] = ()


@dataclass(frozen=True, slots=True)
class Insertion:
    """The writer's words in brackets.

    Attributes:
        text: the words, without their brackets.
        pieces: how many pieces of its part stand before it; `WITHIN` if it is within one.
        letters: of a letter in brackets (``[T]he``), how many letters of its part stand before it; else None.
    """

    text: str
    pieces: int
    letters: int | None = None


WITHIN = -1


Reading = tuple[Part, ...]


def readings(quote: str, own: frozenset[str] = frozenset()) -> tuple[Reading, ...]:
    """The ways to read a quote that has such marks, the most literal first; none if it has no marks.

    A mark may also be part of what is quoted: dots that the chunk has as well, or its own brackets.

    Args:
        quote: the quote.
        own: what stands in brackets in the chunk itself, and so is no insertion.

    >>> [[piece.text for part in parts for piece in part.pieces] for parts in readings("It may stay on … if it works")]
    [['It may stay on', 'if it works']]
    """
    beginnings = (match.start() for match in _BEGINS_MARK.finditer(quote))
    if not any(_ANY_MARK.match(quote, place) or _INSERTION.match(quote, place) for place in beginnings):
        return ()
    texts = dict.fromkeys([quote, quote if "sic" in own else without_sic(quote)])
    doubts = tuple(Insertion(match[0][1:-1], 0) for match in _SIC.finditer(quote))
    splits = [(text, split) for text in texts for split in _splits(text)]
    splits += [(text, _inner(text)) for text in texts]

    # Most splits share their parts.
    @functools.cache
    def part(way: _Way, text: str, mark: str) -> Part:
        return way(text, mark, own)

    ways = (_as_it_is, _joined, _apart, _inflected) if BRACKETS.search(quote) else (_as_it_is,)
    # What is only punctuation is no part: the quotation marks around a quote that begins with dots.
    found = dict.fromkeys(
        _with_doubts(
            tuple(one for one in (part(way, text, mark) for text, mark in split) if one.pieces or one.insertions),
            doubts if whole is not quote else (),
        )
        for way in ways
        for whole, split in dict.fromkeys(splits)
        if not _is_orphaned(split[0][0])
    )
    return tuple(
        reading
        for reading in found
        if _has_parts(reading) and _parts_long_enough(reading) and reading != (Part((prepare(quote.strip()),), ""),)
    )


def _with_doubts(reading: Reading, doubts: tuple[Insertion, ...]) -> Reading:
    """The reading of a quote without its [sic]s, with them among what was put in."""
    if not (reading and doubts):
        return reading
    return (replace(reading[0], insertions=doubts + reading[0].insertions), *reading[1:])


def _part(pieces: Sequence[str], mark: str, insertions: Sequence[Insertion] = ()) -> Part:
    telling = [_says_something(piece) for piece in pieces]
    texts = tuple(prepare(piece.strip()) for piece, says in zip(pieces, telling, strict=True) if says)
    if len(pieces) == 1:
        return Part(texts, mark, insertions=tuple(insertions))
    placed = tuple(replace(one, pieces=sum(telling[: one.pieces])) for one in insertions)
    return Part(texts, mark, opens=not telling[0], closes=not telling[-1], insertions=placed)


def _says_something(text: str) -> bool:
    """Return whether there is more than what a writer puts around a quote: quotation marks, punctuation."""
    return not _PUNCTUATION.fullmatch(text)


_UNSEEN = "\\s" + SOFT_HYPHEN + "".join(sorted(ZERO_WIDTH))
_PUNCTUATION = re.compile(f"[{_UNSEEN}\"'‘’‚‹›“”„«»「」『』,.;:!?，。、；：！？]*+")

_ENDS_SENTENCE = re.compile("[,;:!?，。、；：！？]")


def _is_orphaned(text: str) -> bool:
    """Return whether it is the end of a sentence: nobody begins a quote with that and then leaves something out."""
    return not _says_something(text) and _ENDS_SENTENCE.search(text) is not None


def _has_parts(reading: Reading) -> bool:
    """Return whether there are parts, and none is nothing but words in brackets: those would stand nowhere."""
    return bool(reading) and all(part.pieces for part in reading)


def _parts_long_enough(reading: Reading) -> bool:
    """Return whether the parts mean something each by itself; one alone is joined with no other."""
    return len(reading) == 1 or all(map(_long_enough, reading))


def _long_enough(part: Part) -> bool:
    """Return whether a part means something by itself."""
    words, letters = SHORTEST_PART
    return sum(piece.words for piece in part.pieces) >= words or sum(piece.letters for piece in part.pieces) >= letters


# --- what was left out --------------------------------------------------------------------------

# Between the dots a little white space, and what can't be seen.
_GAP = f"[{_UNSEEN}]{{0,6}}+"
# A dot more than three before a digit is its decimal point.
_DOT = r"[.．](?!\d)"
_DOTS, _SIGN = rf"[.．](?:{_GAP}[.．]){{2}}(?>(?:{_GAP}{_DOT})*)", rf"[…⋯](?>(?:[…⋯]|{_DOT})*)"
_BRACKETED = rf"[\[(［（]{_GAP}(?:{_SIGN}|{_DOTS}){_GAP}[\])］）]"
_KINDS_OF_MARKS = (_BRACKETED, _SIGN, _DOTS)
# No mark at all, marks of one kind, of two, of all three: the others are part of what is quoted.
_MARKS = [
    (kinds, re.compile("|".join(kinds) or r"(?!)"))
    for count in range(len(_KINDS_OF_MARKS) + 1)
    for kinds in itertools.combinations(_KINDS_OF_MARKS, count)
]
_ANY_MARK = _MARKS[-1][1]
_OPENING = "[(［（"


_Split = tuple[tuple[str, str], ...]
"""Texts between marks, each with the mark before it."""


def _splits(text: str) -> list[_Split]:
    """Split at the marks that it has, of some kinds and of others."""
    present = {kinds[0] for kinds, mark in _MARKS if len(kinds) == 1 and mark.search(text)}
    return [*(_split(mark, text) for kinds, mark in _MARKS if present.issuperset(kinds)), *_glued(text)]


def _split(mark: re.Pattern[str], text: str) -> _Split:
    matches = list(mark.finditer(text))
    starts, ends = [0, *(match.end() for match in matches)], [*(match.start() for match in matches), len(text)]
    marks = ["", *(match[0] for match in matches)]
    return tuple((text[start:end], before) for start, end, before in zip(starts, ends, marks, strict=True))


def _glued(text: str) -> list[_Split]:
    """Split at every mark but those beside what is too short for a part: they may be the chunk's own.

    Once each short text goes with the part before it, once with the one after.
    """
    between = [part for part in _split(_ANY_MARK, text) if _says_something(part[0])]
    short = [not _long_enough(_part([part], mark)) for part, mark in between]
    if not any(short) or all(short):
        return []
    to_the_left: list[tuple[str, str]] = []
    for (part, mark), is_short in zip(between, short, strict=True):
        if to_the_left and is_short:
            to_the_left[-1] = (to_the_left[-1][0] + mark + part, to_the_left[-1][1])
        else:
            to_the_left.append((part, mark))
    to_the_right: list[tuple[str, str]] = []
    for (part, mark), is_short in zip(reversed(between), reversed(short), strict=True):
        if to_the_right and is_short:
            following, mark_between = to_the_right[-1]
            to_the_right[-1] = (part + mark_between + following, mark)
        else:
            to_the_right.append((part, mark))
    return [tuple(to_the_left), tuple(reversed(to_the_right))]


def _inner(text: str) -> _Split:
    """Without a mark at its beginning and one at its end; those between are the chunk's own."""
    between = _split(_ANY_MARK, text)
    start = len(between[0][0]) + len(between[1][1]) if between[1:] and not _says_something(between[0][0]) else 0
    stop = len(text)
    if between[1:] and not _says_something(between[-1][0]):
        stop -= len(between[-1][0]) + len(between[-1][1])
    return ((text[start:stop], ""),)


def is_left_out(gap: str, mark: str) -> bool:
    """Return whether a mark in the quote stands for what the chunk has there, and not for dots of the chunk's own.

    Those are text first: beside them, or a word or two away, other words would be left out without a mark.

    >>> is_left_out(" for a week ", "…"), is_left_out(" Sunday ... ", "..."), is_left_out(" ... ", "...")
    (True, False, True)
    """
    dots = list(_ANY_MARK.finditer(gap))
    if not dots or mark[0] in _OPENING:
        return True
    before, after = gap[: dots[0].start()].strip(), gap[dots[-1].end() :].strip()
    if len(dots) == 1 and not before and not after:
        return _count_dots(mark) == _count_dots(gap)
    # More or fewer dots than any that the chunk has there are not its own.
    if all(_count_dots(own[0]) != _count_dots(mark) for own in dots):
        return True
    return not (_is_short(before) or _is_short(after))


def _count_dots(text: str) -> int:
    return sum(3 if c in "…⋯" else c in ".．" for c in text)


def _is_short(text: str) -> bool:
    """Return whether a text is as short as what an insertion may stand for."""
    words, length = LONGEST_REPLACED
    return len(text) <= length and len(text.split()) <= words


# --- what was put in ----------------------------------------------------------------------------

_SIC = re.compile(r"[\[(［（]sic!?[\])］）]", re.IGNORECASE)
_INSERTION = re.compile(f"{BRACKETS.pattern}|{_SIC.pattern}", re.IGNORECASE)
_BEGINS_MARK = re.compile(r"[.．…⋯\[(［（]")


def may_be_replaced(text: str) -> bool:
    """Return whether an insertion may stand for so much, without a bracket; `insertions` says for which words."""
    return _is_short(text) and not _BRACKET.search(text)


def has_brackets_beside(chunk: str, part: Part, start: int, stop: int) -> bool:
    """Return whether the chunk has brackets of its own where the quote puts words in at the edges of a part.

    Those would be other words in the chunk's brackets.
    """
    while part.opens and start and chunk[start - 1].isspace():
        start -= 1
    while part.closes and chunk[stop : stop + 1].isspace():
        stop += 1
    closing, opening = chunk[max(0, start - 1) : start], chunk[stop : stop + 1]
    return (part.opens and closing in ("]", "］")) or (part.closes and opening in ("[", "［"))


_BRACKET = re.compile(r"[\[\]［］]")


def without_sic(quote: str) -> str:
    """The quote without any [sic]."""
    return _put_together(_SIC.split(quote))


_Way = Callable[[str, str, frozenset[str]], Part]


def _as_it_is(text: str, mark: str, _: frozenset[str]) -> Part:
    return _part([text], mark)


def _joined(text: str, mark: str, own: frozenset[str]) -> Part:
    """Without insertions, as it was before they were put in."""
    pieces, insertions = _taken_apart(text, own)
    edges = _part(pieces, mark, insertions)
    last = len(edges.pieces)
    places = {0: 0, last: 1}
    added = [replace(one, pieces=places.get(one.pieces, WITHIN)) for one in edges.insertions]
    return replace(_part([_put_together(pieces)], mark, added), opens=edges.opens, closes=edges.closes)


def _apart(text: str, mark: str, own: frozenset[str]) -> Part:
    """The pieces between insertions, since these may stand for something."""
    pieces, insertions = _taken_apart(text, own)
    return _part(pieces, mark, insertions)


def _inflected(text: str, mark: str, own: frozenset[str]) -> Part:
    """The same, but a word with an ending in brackets (``walk[ed]``) is all put in."""
    return _apart(_ENDING.sub(r"[\1\2]", text), mark, own)


_ENDING = re.compile(r"([^\W\d_]{2,40}+)\[([^\W\d_]{1,8})\](?!\w)")


def _taken_apart(text: str, own: frozenset[str]) -> tuple[list[str], list[Insertion]]:
    """The texts around insertions, and these. Letters in brackets (``[T]he``) are letters."""
    pieces: list[list[str]] = [[]]
    insertions: list[Insertion] = []
    last = letters = 0
    for match in BRACKETS.finditer(text):
        inside = match[1]
        around = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
        if inside in own:
            continue
        if all(map(_is_letter, inside)) and any(map(_is_letter, around)):
            letters += sum(map(str.isalpha, text[last : match.start()]))
            insertions.append(Insertion(inside, 0, letters))
            pieces[-1] += [text[last : match.start()], inside]
            letters += len(inside)
        elif _is_insertion(inside, around):
            letters += sum(map(str.isalpha, text[last : match.start()]))
            insertions.append(Insertion(inside, len(pieces)))
            pieces[-1].append(text[last : match.start()])
            pieces.append([])
        else:
            continue
        last = match.end()
    pieces[-1].append(text[last:])
    return ["".join(piece) for piece in pieces], insertions


def _is_letter(text: str) -> bool:
    """Return whether a character is a letter or the mark of one."""
    return text.isalpha() or category(text or " ")[0] == "M"


def _is_insertion(inside: str, around: tuple[str, str]) -> bool:
    """Return whether brackets may hold an editor's words: not glued to a number, no text of a link."""
    glued = any(map(is_numeric, around)) or around[1] in _LINKED
    return any(map(str.isalpha, inside)) and not glued


_LINKED = ("(", "[", ":")


def _put_together(pieces: Sequence[str]) -> str:
    """One text of the pieces between insertions, with the spaces that stood around them."""
    texts = [pieces[0].rstrip()]
    for before, piece in itertools.pairwise(pieces):
        apart = piece[:1].isspace() or (before[-1:].isspace() and piece[:1].isalnum())
        texts.append((" " if apart else "") + piece.strip())
    return "".join(texts) + (" " if pieces[-1][-1:].isspace() else "")
