r"""Quotes: what stands where, and what differs, character by character; never what it means.

Three questions, in one pass:

1. Where? The passage whose signs have the quote's keys in order, at the ends of words: keys are letters and digits
   alone, without case, marks and look-alikes (`characters`), so that blanks which a PDF's reader tore or swallowed hide
   nothing. Where there is none, the nearest passage by words.
2. What differs? Everything between quote and passage, as a list of a closed set of kinds (`differences.KINDS`).
3. What stands around it? The rest of the source's sentence at either end.

The verdict is the first of these that holds:

``verbatim``
    in the chunk named, without a difference.
``normalised``
    there, with differences of accepted kinds only.
``elided``
    there, in parts with accepted differences, in order; marks of an editor (``…``, ``[…]``, ``[word]``, ``[sic]``) that
    the chunk does not have stand between them. What they leave out and put in is said.
``misattributed``
    in one of these ways in another of the job's chunks.
``altered``
    in the chunk named, or nearly, with other differences.
``not_found``
    anything else; also a quote without a letter, digit or symbol.
``not_checked``
    to say which of these, more steps would be needed than the quote may take (`budget.SearchBudget`).

Time is linear in the lengths of quote and chunks, whatever they are. What to read, each importing only from those
before it: `characters`, `reading`, `differences`, `placing`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from worker.core.citations.budget import BudgetSpentError, spend
from worker.core.citations.quoting.characters import CLASSES, DASH, PUNCTUATION, QUOTE, RAISED, SYMBOL
from worker.core.citations.quoting.differences import ACCEPTED, Difference, Pair
from worker.core.citations.quoting.placing import Passage, nearest, passages
from worker.core.citations.quoting.reading import Reading
from worker.core.text.unicode_data import known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from worker.core.citations.budget import SearchBudget
    from worker.core.text.spans import Span

Verdict = Literal["verbatim", "normalised", "altered", "elided", "misattributed", "not_found", "not_checked"]


@dataclass(frozen=True)
class QuotedChunk:
    """One of the job's chunks, read once for all quotes.

    Attributes:
        chunk_hash: its hash.
        text: its text, read.
    """

    chunk_hash: str
    text: Reading

    @classmethod
    def of(cls, chunk_hash: str, text: str) -> QuotedChunk:
        """Return a chunk of a text."""
        return cls(chunk_hash, Reading(text))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Text of the chunk that a mark of omission stands for.

    Attributes:
        span: all between two parts of the quote, in code points of the chunk's own text.
        text: that text.
        another_sentence: True if a sentence of the source ends in it: the quote joins two.
    """

    span: Span
    text: str
    another_sentence: bool


@dataclass(frozen=True, slots=True)
class PutIn:
    """Words in brackets that the chunk does not have.

    Attributes:
        text: the words, without their brackets.
        replaces: the chunk's words that they stand for; empty where they were only added.
    """

    text: str
    replaces: str


class Place(NamedTuple):
    """A place of a quote, and all that can be said of it.

    Attributes:
        chunk: the chunk's index among those given.
        chunk_hash: its hash.
        verdict: ``verbatim``, ``normalised``, ``elided`` or ``altered``.
        spans: start and end of each part, in code points of the chunk's own text.
        differences: all between quote and spans, in order; its marks are not among them.
        before, after: the rest of the source's sentence at either end, at most 200 characters; None where the quote
            begins, or ends, with it.
        left_out: what each mark between two parts left out.
        put_in: what was put in.
    """

    chunk: int
    chunk_hash: str
    verdict: Verdict
    spans: tuple[Span, ...]
    differences: tuple[Difference, ...] = ()
    before: str | None = None
    after: str | None = None
    left_out: tuple[LeftOut, ...] = ()
    put_in: tuple[PutIn, ...] = ()


class QuoteFinding(NamedTuple):
    """The verdict on a quote.

    Attributes:
        verdict: as this package says.
        places: one in the chunk named; or, for ``misattributed``, one in each other chunk where it stands, in the order
            of the chunks; none for ``not_found`` and ``not_checked``.
    """

    verdict: Verdict
    places: tuple[Place, ...] = ()

    @property
    def place(self) -> Place | None:
        """Its place in the chunk named; None if there is none."""
        return None if self.verdict == "misattributed" or not self.places else self.places[0]

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Hashes of the other chunks where a misattributed quote stands, each once."""
        hashes = [place.chunk_hash for place in self.places] if self.verdict == "misattributed" else []
        return tuple(dict.fromkeys(hashes))


NOT_FOUND = QuoteFinding("not_found")
NOT_CHECKED = QuoteFinding("not_checked")


def check_quote(
    quote: str,
    chunk_hash: str,
    chunks: Sequence[QuotedChunk],
    budget: SearchBudget | None = None,
    accepted: AbstractSet[str] = ACCEPTED,
) -> QuoteFinding:
    """Say where a quote stands, in the chunk it names or else in the others, and what differs.

    >>> chunks = [QuotedChunk.of("a", "The gain is 3.5 dB, not more."), QuotedChunk.of("b", "Nothing was measured.")]
    >>> finding = check_quote("the  gain is 3.5 dB", "a", chunks)
    >>> finding.verdict, [one.kind for one in finding.place.differences], finding.place.after
    ('normalised', ['first_letter', 'white_space'], ', not more.')
    >>> check_quote("The gain is 35 dB", "a", chunks).verdict, check_quote("Nothing was", "a", chunks).elsewhere
    ('altered', ('b',))

    Args:
        quote: the words.
        chunk_hash: of the chunk named.
        chunks: all chunks of the job.
        budget: of the job's quotes; without one, every quote is searched for to the end.
        accepted: kinds of differences (`differences.KINDS`) that a ``normalised`` quote may have.
    """
    if budget is None:
        return _check(quote, chunk_hash, chunks, accepted)
    try:
        with budget.share():
            return _check(quote, chunk_hash, chunks, accepted)
    except BudgetSpentError:
        return NOT_CHECKED


def _check(quote: str, chunk_hash: str, chunks: Sequence[QuotedChunk], accepted: AbstractSet[str]) -> QuoteFinding:
    spend(len(chunks) + len(quote))
    asked = _Asked(quote, accepted)
    own = [(i, chunk) for i, chunk in enumerate(chunks) if chunk.chunk_hash == chunk_hash]
    if place := _best(asked.stands(*chunk) for chunk in own):
        return QuoteFinding(place.verdict, (place,))
    others = [(i, chunk) for i, chunk in asked.candidates(chunks) if chunk.chunk_hash != chunk_hash]
    elsewhere = tuple(place for chunk in others if (place := asked.stands(*chunk)))
    if elsewhere:
        return QuoteFinding("misattributed", elsewhere)
    place = _best(asked.altered(*chunk) for chunk in own)
    return QuoteFinding("altered", (place,)) if place else NOT_FOUND


_ORDER = ("verbatim", "normalised", "elided", "altered")


def _best(places: Iterator[Place | None]) -> Place | None:
    found = [place for place in places if place]
    if len(found) > 1:
        found.sort(key=lambda place: (_ORDER.index(place.verdict), len(place.differences)))
    return found[0] if found else None


# --- one quote ------------------------------------------------------------------------------------


class _Asked:
    """A quote, read once for all chunks."""

    def __init__(self, quote: str, accepted: AbstractSet[str]) -> None:
        self._quote = quote
        self._accepted = accepted
        self._reading = Reading(quote)
        self._passages: dict[int, Passage | None] = {}

    @cached_property
    def _parts(self) -> list[_Part]:
        return _parts(self._quote) if _MARK.search(self._quote) else []

    def candidates(self, chunks: Sequence[QuotedChunk]) -> list[tuple[int, QuotedChunk]]:
        """Return the chunks where the quote may stand, with their numbers: those with its characters or its keys."""
        if len(self._parts) >= _FEWEST_PARTS:
            return [*enumerate(chunks)]
        quote, key = self._quote, self._reading.key
        return [(i, one) for i, one in enumerate(chunks) if quote in one.text.text or key in one.text.key]

    def stands(self, index: int, chunk: QuotedChunk) -> Place | None:
        """Return the place where the quote stands with accepted differences only."""
        best = self._passages[index] = self._passage(chunk)
        if best and not best.unaccepted(self._accepted):
            return self._place(index, chunk, best, "normalised" if best.differences else "verbatim")
        return self._elided(index, chunk)

    def altered(self, index: int, chunk: QuotedChunk) -> Place | None:
        """Return the place where its words stand, or nearly."""
        best = self._passages.get(index)
        if best is None and self._reading.key:
            best = nearest(Pair(self._reading, chunk.text))
        return self._place(index, chunk, best, "altered") if best else None

    def _passage(self, chunk: QuotedChunk) -> Passage | None:
        """Return the first passage of its keys with accepted differences only, or else the one that differs least."""
        if exact := self._exact(chunk.text):
            return exact
        found: Passage | None = None
        if not self._reading.key or self._reading.key not in chunk.text.key:
            return None
        for passage in passages(Pair(self._reading, chunk.text), (0, len(chunk.text.places))):
            if found is None or self._cost(passage) < self._cost(found):
                found = passage
            if not found.unaccepted(self._accepted):
                break
        return found

    def _cost(self, passage: Passage) -> tuple[int, int]:
        return passage.unaccepted(self._accepted), len(passage.differences)

    def _exact(self, source: Reading) -> Passage | None:
        """Return where the quote's characters stand as they are, if one of the first such places cuts nothing."""
        start = source.text.find(self._quote)
        if start < 0 or not (self._reading.key or any(one in _SEEN for one in self._reading.classes)):
            return None
        for _ in range(_MOST_TRIES):
            end = start + len(self._quote)
            if start < 0:
                break
            if not (self._reading.key and (source.is_cut(start) or source.is_cut(end))):
                return Passage((start, end), (0, 0), ())
            start = source.text.find(self._quote, start + 1)
        return None

    @staticmethod
    def _place(index: int, chunk: QuotedChunk, passage: Passage, verdict: Verdict) -> Place:
        spend(_STEPS_TO_TELL * (1 + len(passage.differences)))
        before, after = chunk.text.rest_before(passage.span[0]), chunk.text.rest_after(passage.span[1])
        return Place(index, chunk.chunk_hash, verdict, (passage.span,), passage.differences, before, after)

    # --- marks of an editor -------------------------------------------------------------------------

    def _elided(self, index: int, chunk: QuotedChunk) -> Place | None:
        if len(self._parts) < _FEWEST_PARTS or not (found := self._in_order(chunk)):
            return None
        text, spans = chunk.text, tuple(passage.span for _, passage in found)
        # What is left out is told, so that it takes memory.
        spend(spans[-1][1] - spans[0][0] + sum(_STEPS_TO_TELL * (1 + len(passage.differences)) for _, passage in found))
        differences = tuple(
            one._replace(quote_span=(one.quote_span[0] + part.start, one.quote_span[1] + part.start))
            for part, passage in found
            for one in passage.differences
        )
        before, after = text.rest_before(spans[0][0]), text.rest_after(spans[-1][1])
        marks = _left_out(found, text), _put_in(self._parts, found, text)
        return Place(index, chunk.chunk_hash, "elided", spans, differences, before, after, *marks)

    def _in_order(self, chunk: QuotedChunk) -> list[tuple[_Part, Passage]]:
        """Return the earliest places of the parts, one after another, each then as near to the next as it can be."""
        spend(len(self._parts))
        found: list[tuple[_Part, Passage]] = []
        sign, rest = 0, ""
        for part in self._parts:
            if part.reading.key:
                until = len(chunk.text.places) if part.is_free or not found else sign + len(part.reading.places)
                place = self._place_of(part, chunk, (sign, min(until, len(chunk.text.places))))
                if place is None:
                    return []
                found.append((part, place))
                sign, rest = place.signs[1], ""
            elif part.says_something:
                # It has no letter: the sentence must end like it, with a question mark.
                rest = rest or (found and chunk.text.rest_after(found[-1][1].span[1])) or ""
                if not rest.endswith(part.reading.text):
                    return []
        for i in range(len(found) - 2, -1, -1):
            part, place = found[i]
            if found[i + 1][0].is_free and (i == 0 or part.is_free):
                found[i] = part, self._last_place_of(part, chunk, (place.signs[0], found[i + 1][1].signs[0])) or place
        return found

    def _last_place_of(self, part: _Part, chunk: QuotedChunk, within: Span) -> Passage | None:
        """Return the last place of a part, in a range that grows from its end: what others search is not searched."""
        (start, end), count = within, len(part.reading.places) + _NEAR
        while not (place := self._place_of(part, chunk, (max(start, end - count), end), last=True)):
            if end - count <= start:
                break
            count *= 2
        return place

    def _place_of(self, part: _Part, chunk: QuotedChunk, within: Span, *, last: bool = False) -> Passage | None:
        """Return the first or the last place of a part whose differences are accepted."""
        found: Passage | None = None
        for passage in passages(Pair(part.reading, chunk.text), within, glued=part.glued):
            if not passage.unaccepted(self._accepted):
                found = passage
                if not last:
                    break
        return found


_SEEN = frozenset({RAISED, PUNCTUATION, SYMBOL, DASH})
_FEWEST_PARTS, _MOST_TRIES, _NEAR = 2, 8, 64
_STEPS_TO_TELL = 200
"""Steps that it takes to tell one difference, or a place."""

_OMISSION = r"[\[(][ ]?(?:…|\.{3}|\.[ ]\.[ ]\.)[ ]?[\])]|…|\.{3,}+|\.[ ]\.[ ]\."
_MARK = re.compile(
    rf"(?=[\[(….])(?:(?P<omission>{_OMISSION})|\[sic!?\]|\(sic!?\)|\[(?!S[0-9]|\^?[0-9]{{1,3}}\])(?P<word>[^\[\]]{{1,200}})\](?!\())"
)
_STOP = re.compile(r"\s*[.,:。]?[\"'’”»)]?\s*")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a quote, and the marks before it.

    Attributes:
        reading: the part, without white space at its ends.
        start: where it stands in the quote.
        omits: whether a mark of omission stands before it.
        put_in: what stands in brackets before it.
        glued: whether a bracket touches its first, and its last letter.
    """

    reading: Reading
    start: int
    omits: bool
    put_in: tuple[str, ...]
    glued: tuple[bool, bool]

    @property
    def is_free(self) -> bool:
        """True if text of the source may stand before it; before ``[sic]`` none may."""
        return self.omits or bool(self.put_in)

    @property
    def says_something(self) -> bool:
        """True if it has more than a stop."""
        return _STOP.fullmatch(self.reading.text) is None


def _parts(quote: str) -> list[_Part]:
    """Divide a quote, without quotation marks around it, at the marks of an editor; one without any is one part."""
    found: list[_Part] = []
    start, end, omits = len(quote) - len(quote.lstrip()), len(quote.rstrip()), False
    if end - start > 1 and quote[start : end : end - start - 1].translate(CLASSES) == QUOTE * 2:
        start, end = start + 1, end - 1
    before: re.Match[str] | None = None
    put_in: list[str] = []
    for mark in (*_MARK.finditer(quote, start, end), None):
        text = quote[start : mark.start() if mark else end]
        after = bool(mark and mark["word"])
        if text.strip() or not mark:
            glued = bool(before and before["word"]) and known(text[:1]).isalnum(), after and known(text[-1:]).isalnum()
            place = start + len(text) - len(text.lstrip())
            reading = Reading(text.strip(), begins_line=not before or "\n" in quote[start:place])
            found.append(_Part(reading, place, omits, tuple(put_in), glued))
            omits, put_in = False, []
        elif not found:
            found.append(_Part(Reading(""), 0, False, (), (False, False)))
        if mark:
            omits |= mark["omission"] is not None
            put_in += [mark["word"]] if after else []
            start, before = mark.end(), mark
    return found


def _left_out(found: Sequence[tuple[_Part, Passage]], source: Reading) -> tuple[LeftOut, ...]:
    """Return what stands between two parts where nothing was put in instead."""
    gaps = [
        (one[1].span[1], other[1].span[0]) for one, other in pairwise(found) if not other[0].put_in or other[0].omits
    ]
    return tuple(
        LeftOut(gap, source.text[slice(*gap)], source.has_sentence_end(*gap))
        for gap in gaps
        if source.visible(*gap).strip()
    )


def _put_in(parts: Sequence[_Part], found: Sequence[tuple[_Part, Passage]], source: Reading) -> tuple[PutIn, ...]:
    """Return what stands in brackets, and for what of the source."""
    ends = {id(part): passage.span for part, passage in found}
    marks: list[PutIn] = []
    last: int | None = None
    for part in parts:
        span = ends.get(id(part))
        replaces = source.text[last : span[0]].strip() if span and last is not None and not part.omits else ""
        marks += [PutIn(text, replaces if i == 0 else "") for i, text in enumerate(part.put_in)]
        last = span[1] if span else last
    return tuple(marks)
