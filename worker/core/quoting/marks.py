"""What a quote says of itself: marks of what was left out, and brackets around what was put in."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from worker.core.quoting.characters import SOFT_HYPHEN, ZERO_WIDTH
from worker.core.quoting.forms import BRACKETS, Prepared, prepare

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """

    pieces: tuple[Prepared, ...]
    mark: str
    opens: bool = False
    closes: bool = False


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
    if not (_ANY_MARK.search(quote) or _INSERTION.search(quote)):
        return ()
    texts = dict.fromkeys([quote, quote if "sic" in own else without_sic(quote)])
    splits = [split for text in texts for split in (*(_split(mark, text) for mark in _MARKS), *_glued(text))]
    found = dict.fromkeys(reading for way in (_as_it_is, _joined, _apart) for reading in _read(way, splits, own))
    return tuple(
        reading
        for reading in found
        if reading and all(map(_long_enough, reading)) and reading != (Part((prepare(quote.strip()),), ""),)
    )


def _read(way: _Way, splits: Sequence[_Split], own: frozenset[str]) -> Iterator[Reading]:
    """Each split with what was put in taken out in one way, and without what is only punctuation.

    Such are the quotation marks around a quote that begins with dots.
    """
    for split in splits:
        parts = [way(text, mark, own) for text, mark in split]
        if None not in parts:
            yield tuple(part for part in parts if part and part.pieces)


def _part(pieces: Sequence[str], mark: str) -> Part:
    telling = [_says_something(piece) for piece in pieces]
    texts = tuple(prepare(piece.strip()) for piece, says in zip(pieces, telling, strict=True) if says)
    return Part(texts, mark, opens=not telling[0], closes=not telling[-1]) if len(pieces) > 1 else Part(texts, mark)


def _says_something(text: str) -> bool:
    """Whether there is more than what a writer puts around a quote: quotation marks, the punctuation of sentences."""
    return not _PUNCTUATION.fullmatch(text)


_UNSEEN = "\\s" + SOFT_HYPHEN + "".join(sorted(ZERO_WIDTH))
_PUNCTUATION = re.compile(f"[{_UNSEEN}\"'‘’‚‹›“”„«»「」『』,.;:!?，。、；：！？]*+")


def _long_enough(part: Part) -> bool:
    """Whether a part means something by itself."""
    words, letters = SHORTEST_PART
    return sum(piece.words for piece in part.pieces) >= words or sum(piece.letters for piece in part.pieces) >= letters


# --- what was left out --------------------------------------------------------------------------

# Between the dots a little white space, and what can't be seen.
_GAP = f"[{_UNSEEN}]{{0,6}}+"
# A dot more than three before a digit is its decimal point.
_DOT = r"[.．](?!\d)"
_DOTS, _SIGN = rf"[.．](?:{_GAP}[.．]){{2}}(?:{_GAP}{_DOT})*+", rf"[…⋯](?:[…⋯]|{_DOT})*+"
_BRACKETED = rf"[\[(［（]{_GAP}(?:{_SIGN}|{_DOTS}){_GAP}[\])］）]"
_KINDS_OF_MARKS = (_BRACKETED, _SIGN, _DOTS)
# No mark at all, marks of one kind, of two, of all three: the others are part of what is quoted.
_MARKS = [
    re.compile("|".join(f"({mark})" for mark in marks) or r"(?!)")
    for count in range(len(_KINDS_OF_MARKS) + 1)
    for marks in itertools.combinations(_KINDS_OF_MARKS, count)
]
_ANY_MARK = _MARKS[-1]
_OPENING = "[(［（"


_Split = tuple[tuple[str, str], ...]
"""Texts between marks, each with the mark before it."""


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


def is_left_out(gap: str, mark: str) -> bool:
    """Whether a mark in the quote stands for what the chunk has there, and not for dots of the chunk's own.

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
    return not (_is_short(before) or _is_short(after))


def _count_dots(text: str) -> int:
    return sum(3 if c in "…⋯" else c in ".．" for c in text)


def _is_short(text: str) -> bool:
    """Whether a text is as short as what an insertion may stand for."""
    words, length = LONGEST_REPLACED
    return len(text) <= length and len(text.split()) <= words


_LETTER = re.compile(r"[^\W_]")


# --- what was put in ----------------------------------------------------------------------------

_SIC = re.compile(r"[\[(［（]sic!?[\])］）]", re.IGNORECASE)
_INSERTION = re.compile(f"{BRACKETS.pattern}|{_SIC.pattern}", re.IGNORECASE)

_DENYING = frozenset(
    word
    for line in (
        "not no none never neither nor nothing nobody cannot without only except unless hardly barely rarely seldom",
        "may might must shall should can could would if",
        "nicht kein keine keinen keiner keines nie niemals ohne nur kaum ausser außer darf soll muss kann",
        "ne pas non jamais sans aucun aucune sin nunca ni nessun mai senza değil yok hayır не нет ни без никогда",
        "δεν δε μη μην όχι χωρίς לא אין בלי لا لم لن ليس غير بدون 不 没 沒 非 无 無 未 勿 别 別",
    )
    for word in line.split()
)
_NUMBER_WORDS = frozenset(
    word
    for line in (
        "zero one two three four five six seven eight nine ten eleven twelve dozen twenty thirty forty fifty sixty",
        "seventy eighty ninety hundred thousand million billion half third quarter double twice once per percent",
        "null eins ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert tausend million halb prozent",
    )
    for word in line.split()
)
_MONTH = "May"
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text.replace("’", "'")) if word != _MONTH]


def denies(text: str) -> bool:
    """Whether a text denies or limits something, by the word list above.

    >>> denies("can't"), denies("does NOT"), denies("the mayor")
    (True, True, False)
    """
    return any(word in _DENYING or word.endswith("n't") for word in _words(text)) or any(c in _DENYING for c in text)


def counts(text: str) -> bool:
    """Whether a text has a number in it.

    >>> counts("ten dB"), counts("№ 5"), counts("the mayor")
    (True, True, False)
    """
    return any(map(str.isnumeric, text)) or any(word in _NUMBER_WORDS for word in _words(text))


def may_be_replaced(text: str) -> bool:
    """Whether an insertion may stand for this: few words, no number, denial, limit or bracket."""
    return _is_short(text) and not (_BRACKET.search(text) or counts(text) or denies(text))


def has_brackets_beside(chunk: str, part: Part, start: int, stop: int) -> bool:
    """Whether the chunk has brackets of its own where the quote puts words in at the edges of a part.

    Those would be other words in the chunk's brackets.
    """
    while part.opens and start and chunk[start - 1].isspace():
        start -= 1
    while part.closes and chunk[stop : stop + 1].isspace():
        stop += 1
    closing, opening = chunk[max(0, start - 1) : start], chunk[stop : stop + 1]
    return (part.opens and closing in ("]", "］")) or (part.closes and opening in ("[", "［"))


_BRACKET = re.compile(r"[\[\]［］]")
_NEAR = 20


def without_sic(quote: str) -> str:
    """The quote without any [sic]."""
    return _put_together(_SIC.split(quote))


_Way = Callable[[str, str, frozenset[str]], Part | None]


def _as_it_is(text: str, mark: str, _: frozenset[str]) -> Part | None:
    return _part([text], mark)


def _joined(text: str, mark: str, own: frozenset[str]) -> Part | None:
    """Without insertions, as it was before they were put in; None where a number was put in for something."""
    pieces, inserted = _taken_apart(text, own)
    if not inserted:
        return _part(["".join(pieces)], mark)
    numbers = [i for i, put_in in enumerate(inserted) if counts(put_in)]
    telling = [i for i, piece in enumerate(pieces) if _LETTER.search(piece)]
    if numbers and not (telling and telling[0] <= numbers[0] and numbers[-1] < telling[-1]):
        return None
    # A number may be put in only between words that follow on each other: nowhere may it stand for another number.
    if any(counts(pieces[i][-_NEAR:] + " " + pieces[i + 1][:_NEAR]) for i in numbers):
        return None
    edges = _part(pieces, mark)
    return replace(_part([_put_together(pieces)], mark), opens=edges.opens, closes=edges.closes)


def _apart(text: str, mark: str, own: frozenset[str]) -> Part | None:
    """The pieces between insertions, since these may stand for something; None where one is a number."""
    pieces, inserted = _taken_apart(text, own)
    return None if any(map(counts, inserted)) else _part(pieces, mark)


def _taken_apart(text: str, own: frozenset[str]) -> tuple[list[str], list[str]]:
    """The texts around insertions, and these. Letters in brackets (``[T]he``) are letters."""
    pieces: list[list[str]] = [[]]
    inserted: list[str] = []
    last = 0
    for match in BRACKETS.finditer(text):
        inside = match[1]
        around = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
        if inside in own:
            continue
        if all(map(_is_letter, inside)) and any(map(_is_letter, around)):
            pieces[-1] += [text[last : match.start()], inside]
        elif _is_insertion(inside, around):
            pieces[-1].append(text[last : match.start()])
            pieces.append([])
            inserted.append(inside)
        else:
            continue
        last = match.end()
    pieces[-1].append(text[last:])
    return ["".join(piece) for piece in pieces], inserted


def _is_letter(text: str) -> bool:
    """Whether a character is a letter or the mark of one."""
    return text.isalpha() or unicodedata.category(text or " ")[0] == "M"


def _is_insertion(inside: str, around: tuple[str, str]) -> bool:
    """Whether brackets hold an editor's words: none that deny, not glued to a number, and not the text of a link."""
    glued = any(map(str.isnumeric, around)) or around[1] in _LINKED
    return any(map(str.isalpha, inside)) and not denies(inside) and not glued


_LINKED = ("(", "[", ":")


def _put_together(pieces: Sequence[str]) -> str:
    """One text of the pieces between insertions, with the spaces that stood around them."""
    texts = [pieces[0].rstrip()]
    for before, piece in itertools.pairwise(pieces):
        apart = piece[:1].isspace() or (before[-1:].isspace() and piece[:1].isalnum())
        texts.append((" " if apart else "") + piece.strip())
    return "".join(texts) + (" " if pieces[-1][-1:].isspace() else "")
