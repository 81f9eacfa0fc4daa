r"""Quotes: what stands where, character by character; never what it means. (see module docs)"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from worker.core.citations.budget import BudgetSpentError, spend
from worker.core.citations.quoting.differences import ACCEPTED, Difference, Pair
from worker.core.citations.quoting.placing import Passage, Words, nearest, passages
from worker.core.citations.quoting.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from worker.core.citations.budget import SearchBudget
    from worker.core.citations.quoting.reading import Span

Verdict = Literal["verbatim", "normalised", "altered", "elided", "misattributed", "not_found", "not_checked"]


@dataclass(frozen=True)
class QuotedChunk:
    """One of the job's chunks, read once for all quotes."""

    chunk_hash: str
    text: Reading

    @classmethod
    def of(cls, chunk_hash: str, text: str) -> QuotedChunk:
        """Return a chunk of a text."""
        return cls(chunk_hash, Reading.of(text))

    @cached_property
    def words(self) -> Words:
        """Its words."""
        return Words.of(self.text)

    @cached_property
    def index(self) -> dict[str, list[int]]:
        """Where each word stands."""
        found: dict[str, list[int]] = {}
        for i, key in enumerate(self.words.keys):
            found.setdefault(key, []).append(i)
        return found


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


@dataclass(frozen=True, slots=True)
class Place:
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


@dataclass(frozen=True, slots=True)
class QuoteFinding:
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
    accepted: Set[str] = ACCEPTED,
) -> QuoteFinding:
    """Say where a quote stands and what differs."""
    if budget is None:
        return _check(quote, chunk_hash, chunks, accepted)
    try:
        with budget.share():
            return _check(quote, chunk_hash, chunks, accepted)
    except BudgetSpentError:
        return NOT_CHECKED


def _check(quote: str, chunk_hash: str, chunks: Sequence[QuotedChunk], accepted: Set[str]) -> QuoteFinding:
    spend(len(chunks) + len(quote))
    asked = _Asked(quote, accepted)
    own = [(i, chunk) for i, chunk in enumerate(chunks) if chunk.chunk_hash == chunk_hash]
    others = [(i, chunk) for i, chunk in enumerate(chunks) if chunk.chunk_hash != chunk_hash]
    if place := _best(asked.stands(i, chunk) for i, chunk in own):
        return QuoteFinding(place.verdict, (place,))
    elsewhere = tuple(place for i, chunk in others if (place := asked.stands(i, chunk)))
    if elsewhere:
        return QuoteFinding("misattributed", elsewhere)
    place = _best(asked.altered(i, chunk) for i, chunk in own)
    return QuoteFinding("altered", (place,)) if place else NOT_FOUND


_ORDER = ("verbatim", "normalised", "elided", "altered")


def _best(places: Iterator[Place | None]) -> Place | None:
    found = [place for place in places if place]
    return min(found, key=lambda place: (_ORDER.index(place.verdict), len(place.differences)), default=None)


# --- one quote ------------------------------------------------------------------------------------

_MARK = re.compile(
    r"[\[(]\s?(?:…|\.{3}|\. \. \.)\s?[\])]|…|\.{3,}|\. \. \.|\[(?P<sic>sic!?)\]|\(sic!?\)|\[(?P<word>[^\[\]]{1,200})\](?!\()"
)
_LABEL = re.compile(r"S\d|\^?\d{1,3}$")


@dataclass
class _Asked:
    quote: str
    accepted: Set[str]

    @cached_property
    def reading(self) -> Reading:
        return Reading.of(self.quote)

    @cached_property
    def words(self) -> Words:
        return Words.of(self.reading)

    @cached_property
    def marks(self) -> list[re.Match[str]]:
        return [one for one in _MARK.finditer(self.quote) if not (one["word"] and _LABEL.match(one["word"]))]

    @cached_property
    def parts(self) -> list[_Part]:
        return list(_parts(self.quote, self.marks))

    def stands(self, index: int, chunk: QuotedChunk) -> Place | None:
        """Return the place where the quote stands with accepted differences only."""
        best = self._passage(chunk)
        if best and not best.unaccepted(self.accepted):
            return self._place(index, chunk, best, "normalised" if best.differences else "verbatim")
        return self._elided(index, chunk)

    def altered(self, index: int, chunk: QuotedChunk) -> Place | None:
        """Return the place where its words stand, or nearly."""
        best = self._passage(chunk)
        if best is None and self.reading.places:
            best = nearest(Pair(self.reading, chunk.text), self.words, chunk.words, chunk.index)
        return best and self._place(index, chunk, best, "altered")

    def _passage(self, chunk: QuotedChunk) -> Passage | None:
        if not self.reading.places:
            return self._of_signs(chunk)
        found: Passage | None = None
        pair = Pair(self.reading, chunk.text)
        for passage in passages(pair, (0, len(chunk.text.places))):
            if not passage.differences:
                return passage
            if found is None or self._cost(passage) < self._cost(found):
                found = passage
        return found

    def _cost(self, passage: Passage) -> tuple[int, int]:
        return passage.unaccepted(self.accepted), len(passage.differences)

    def _of_signs(self, chunk: QuotedChunk) -> Passage | None:
        """A quote without letters and digits stands where its characters do."""
        start = chunk.text.text.find(self.quote) if any(one in "ryp-" for one in self.reading.classes) else -1
        return None if start < 0 else Passage((start, start + len(self.quote)), (0, 0), ())

    def _place(self, index: int, chunk: QuotedChunk, passage: Passage, verdict: Verdict) -> Place:
        start, end = passage.span
        before, after = chunk.text.rest_before(start), chunk.text.rest_after(end)
        return Place(index, chunk.chunk_hash, verdict, (passage.span,), passage.differences, before, after)

    # --- marks of an editor ---------------------------------------------------------------------------

    def _elided(self, index: int, chunk: QuotedChunk) -> Place | None:
        parts = self.parts
        if not self.marks or not any(part.reading.places for part in parts):
            return None
        found = self._in_order(parts, chunk)
        if found is None:
            return None
        left_out, put_in = _marks(parts, found, chunk.text)
        spans = tuple(passage.span for passage in found if passage)
        moved = tuple(
            _moved(one, part.start) for part, passage in zip(parts, found, strict=True) if passage
            for one in passage.differences
        )
        text = chunk.text
        before, after = text.rest_before(spans[0][0]), text.rest_after(spans[-1][1])
        return Place(index, chunk.chunk_hash, "elided", spans, moved, before, after, left_out, put_in)

    def _in_order(self, parts: Sequence[_Part], chunk: QuotedChunk) -> list[Passage | None] | None:
        """Return the earliest places of the parts one after another, each then moved as near as it can be to the next."""
        found: list[Passage | None] = []
        sign, count = 0, len(chunk.text.places)
        for part in parts:
            place = self._accepted(part, chunk, (sign, count)) if part.reading.places else None
            if part.reading.places and place is None:
                return None
            found.append(place)
            sign = place.signs[1] if place else sign
        return found

    def _accepted(self, part: _Part, chunk: QuotedChunk, within: Span) -> Passage | None:
        pair = Pair(part.reading, chunk.text)
        for passage in passages(pair, within, glued=part.glued):
            if not passage.unaccepted(self.accepted):
                return passage
        return None


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a quote, and the mark before it.

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


def _parts(quote: str, marks: Sequence[re.Match[str]]) -> Iterator[_Part]:
    omits, put_in, start, touches = False, [], 0, False
    for mark in (*marks, None):
        end = mark.start() if mark else len(quote)
        text = quote[start:end]
        is_word = bool(mark and mark["word"])
        ends_glued = is_word and text[-1:].isalnum()
        if text.strip() or (mark is None and (omits or put_in)):
            lead = len(text) - len(text.lstrip())
            yield _Part(
                Reading.of(text.strip()), start + lead, omits, tuple(put_in),
                (touches and text[:1].isalnum(), ends_glued),
            )
            omits, put_in = False, []
        if mark:
            if mark["word"]:
                put_in.append(mark["word"])
            elif "sic" not in mark[0].lower():
                omits = True
            start, touches = mark.end(), is_word


def _moved(one: Difference, by: int) -> Difference:
    return replace(one, quote_span=(one.quote_span[0] + by, one.quote_span[1] + by))


def _marks(
    parts: Sequence[_Part], found: Sequence[Passage | None], source: Reading
) -> tuple[tuple[LeftOut, ...], tuple[PutIn, ...]]:
    left_out: list[LeftOut] = []
    put_in: list[PutIn] = []
    last: int | None = None
    for part, passage in zip(parts, found, strict=True):
        between = (last, passage.span[0]) if passage and last is not None else None
        says = bool(between and source.visible(*between).strip())
        replaces = ""
        if part.put_in:
            if says and not part.omits and between:
                replaces = source.text[slice(*between)].strip()
            put_in += [PutIn(text, replaces if i == 0 else "") for i, text in enumerate(part.put_in)]
        elif says and between:
            text = source.text[slice(*between)]
            left_out.append(LeftOut(between, text, source.has_sentence_end(*between)))
        last = passage.span[1] if passage else last
    return tuple(left_out), tuple(put_in)
