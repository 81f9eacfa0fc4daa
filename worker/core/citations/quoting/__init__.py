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
    >>> finding.verdict, [difference.kind for difference in finding.place.differences], finding.place.after
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
    searched_quote = _SearchedQuote(quote, accepted)
    named_chunks = [(i, chunk) for i, chunk in enumerate(chunks) if chunk.chunk_hash == chunk_hash]
    if place := _best(searched_quote.stands(*chunk) for chunk in named_chunks):
        return QuoteFinding(place.verdict, (place,))
    other_chunks = [(i, chunk) for i, chunk in searched_quote.candidates(chunks) if chunk.chunk_hash != chunk_hash]
    elsewhere = tuple(place for chunk in other_chunks if (place := searched_quote.stands(*chunk)))
    if elsewhere:
        return QuoteFinding("misattributed", elsewhere)
    place = _best(searched_quote.altered(*chunk) for chunk in named_chunks)
    return QuoteFinding("altered", (place,)) if place else NOT_FOUND


_ORDER = ("verbatim", "normalised", "elided", "altered")


def _best(places: Iterator[Place | None]) -> Place | None:
    ranked_places = [place for place in places if place]
    if len(ranked_places) > 1:
        ranked_places.sort(key=lambda place: (_ORDER.index(place.verdict), len(place.differences)))
    return ranked_places[0] if ranked_places else None


# --- one quote ------------------------------------------------------------------------------------


class _SearchedQuote:
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
        return [(i, chunk) for i, chunk in enumerate(chunks) if quote in chunk.text.text or key in chunk.text.key]

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
        best_passage: Passage | None = None
        if not self._reading.key or self._reading.key not in chunk.text.key:
            return None
        for passage in passages(Pair(self._reading, chunk.text), (0, len(chunk.text.places))):
            if best_passage is None or self._cost(passage) < self._cost(best_passage):
                best_passage = passage
            if not best_passage.unaccepted(self._accepted):
                break
        return best_passage

    def _cost(self, passage: Passage) -> tuple[int, int]:
        return passage.unaccepted(self._accepted), len(passage.differences)

    def _exact(self, source: Reading) -> Passage | None:
        """Return where the quote's characters stand as they are, if one of the first such places cuts nothing."""
        start = source.text.find(self._quote)
        if start < 0 or not (self._reading.key or any(char_class in _SEEN for char_class in self._reading.classes)):
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
        rest_before, rest_after = chunk.text.rest_before(passage.span[0]), chunk.text.rest_after(passage.span[1])
        return Place(index, chunk.chunk_hash, verdict, (passage.span,), passage.differences, rest_before, rest_after)

    # --- marks of an editor -------------------------------------------------------------------------

    def _elided(self, index: int, chunk: QuotedChunk) -> Place | None:
        if len(self._parts) < _FEWEST_PARTS or not (placed_parts := self._in_order(chunk)):
            return None
        text, spans = chunk.text, tuple(passage.span for _, passage in placed_parts)
        # What is left out is told, so that it takes memory.
        spend(
            spans[-1][1]
            - spans[0][0]
            + sum(_STEPS_TO_TELL * (1 + len(passage.differences)) for _, passage in placed_parts)
        )
        differences = tuple(
            difference._replace(
                quote_span=(difference.quote_span[0] + quote_part.start, difference.quote_span[1] + quote_part.start)
            )
            for quote_part, passage in placed_parts
            for difference in passage.differences
        )
        rest_before, rest_after = text.rest_before(spans[0][0]), text.rest_after(spans[-1][1])
        marks = _left_out(placed_parts, text), _put_in(self._parts, placed_parts, text)
        return Place(index, chunk.chunk_hash, "elided", spans, differences, rest_before, rest_after, *marks)

    def _in_order(self, chunk: QuotedChunk) -> list[tuple[_Part, Passage]]:
        """Return the earliest places of the parts, one after another, each then as near to the next as it can be."""
        spend(len(self._parts))
        placed_parts: list[tuple[_Part, Passage]] = []
        sign, rest = 0, ""
        for quote_part in self._parts:
            if quote_part.reading.key:
                until = (
                    len(chunk.text.places)
                    if quote_part.is_free or not placed_parts
                    else sign + len(quote_part.reading.places)
                )
                place = self._place_of(quote_part, chunk, (sign, min(until, len(chunk.text.places))))
                if place is None:
                    return []
                placed_parts.append((quote_part, place))
                sign, rest = place.signs[1], ""
            elif quote_part.says_something:
                # It has no letter: the sentence must end like it, with a question mark.
                rest = rest or (placed_parts and chunk.text.rest_after(placed_parts[-1][1].span[1])) or ""
                if not rest.endswith(quote_part.reading.text):
                    return []
        for i in range(len(placed_parts) - 2, -1, -1):
            quote_part, place = placed_parts[i]
            if placed_parts[i + 1][0].is_free and (i == 0 or quote_part.is_free):
                placed_parts[i] = (
                    quote_part,
                    self._last_place_of(quote_part, chunk, (place.signs[0], placed_parts[i + 1][1].signs[0])) or place,
                )
        return placed_parts

    def _last_place_of(self, quote_part: _Part, chunk: QuotedChunk, within: Span) -> Passage | None:
        """Return the last place of a part, in a range that grows from its end: what others search is not searched."""
        (start, end), count = within, len(quote_part.reading.places) + _NEAR
        while not (place := self._place_of(quote_part, chunk, (max(start, end - count), end), is_last=True)):
            if end - count <= start:
                break
            count *= 2
        return place

    def _place_of(
        self, quote_part: _Part, chunk: QuotedChunk, within: Span, *, is_last: bool = False
    ) -> Passage | None:
        """Return the first or the last place of a part whose differences are accepted."""
        accepted_passage: Passage | None = None
        for passage in passages(Pair(quote_part.reading, chunk.text), within, glued=quote_part.glued):
            if not passage.unaccepted(self._accepted):
                accepted_passage = passage
                if not is_last:
                    break
        return accepted_passage


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
    quote_parts: list[_Part] = []
    start, end, omits = len(quote) - len(quote.lstrip()), len(quote.rstrip()), False
    if end - start > 1 and quote[start : end : end - start - 1].translate(CLASSES) == QUOTE * 2:
        start, end = start + 1, end - 1
    previous_mark: re.Match[str] | None = None
    put_in: list[str] = []
    for mark in (*_MARK.finditer(quote, start, end), None):
        text = quote[start : mark.start() if mark else end]
        ends_at_word = bool(mark and mark["word"])
        if text.strip() or not mark:
            glued = (
                bool(previous_mark and previous_mark["word"]) and known(text[:1]).isalnum(),
                ends_at_word and known(text[-1:]).isalnum(),
            )
            place = start + len(text) - len(text.lstrip())
            reading = Reading(text.strip(), begins_line=not previous_mark or "\n" in quote[start:place])
            quote_parts.append(_Part(reading, place, omits, tuple(put_in), glued))
            omits, put_in = False, []
        elif not quote_parts:
            quote_parts.append(_Part(Reading(""), 0, False, (), (False, False)))
        if mark:
            omits |= mark["omission"] is not None
            put_in += [mark["word"]] if ends_at_word else []
            start, previous_mark = mark.end(), mark
    return quote_parts


def _left_out(placed_parts: Sequence[tuple[_Part, Passage]], source: Reading) -> tuple[LeftOut, ...]:
    """Return what stands between two parts where nothing was put in instead."""
    gaps = [
        (placed_part[1].span[1], next_part[1].span[0])
        for placed_part, next_part in pairwise(placed_parts)
        if not next_part[0].put_in or next_part[0].omits
    ]
    return tuple(
        LeftOut(gap, source.text[slice(*gap)], source.has_sentence_end(*gap))
        for gap in gaps
        if source.visible(*gap).strip()
    )


def _put_in(
    quote_parts: Sequence[_Part], placed_parts: Sequence[tuple[_Part, Passage]], source: Reading
) -> tuple[PutIn, ...]:
    """Return what stands in brackets, and for what of the source."""
    ends = {id(quote_part): passage.span for quote_part, passage in placed_parts}
    marks: list[PutIn] = []
    previous_end: int | None = None
    for quote_part in quote_parts:
        span = ends.get(id(quote_part))
        replaces = (
            source.text[previous_end : span[0]].strip()
            if span and previous_end is not None and not quote_part.omits
            else ""
        )
        marks += [PutIn(text, replaces if i == 0 else "") for i, text in enumerate(quote_part.put_in)]
        previous_end = span[1] if span else previous_end
    return tuple(marks)
