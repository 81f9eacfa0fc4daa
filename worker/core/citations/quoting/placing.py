"""Placing: find one quote in one chunk, and say how it stands there."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import CLASSES
from worker.core.citations.quoting.differences import FINAL_STOP, KINDS
from worker.core.citations.quoting.findings import LeftOut, Place, PutIn
from worker.core.citations.quoting.forms import AFTER_DENIAL, Prepared, prepare
from worker.core.citations.quoting.insertions import may_stand_at_edge, may_stand_between, words_after, words_before
from worker.core.citations.quoting.limits import counts, denies
from worker.core.citations.quoting.marks import (
    WITHIN,
    Insertion,
    Part,
    Reading,
    has_brackets_beside,
    is_left_out,
    may_be_replaced,
    readings,
    without_sic,
)
from worker.core.citations.quoting.searching import find_verbatim, ways_to_normalise

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from worker.core.citations.quoting.findings import QuotedChunk, Verdict
    from worker.core.citations.quoting.searching import Find, Match
    from worker.core.text.brackets import Span

SHORTEST_NORMALISED = (2, 4, 6)
"""Words, or letters and digits, or visible characters of any kind, that a quote needs to be found by normalising."""

# An insertion may have been preceded by so many places of the piece before it, and be followed by the next piece at
# most so far away.
_TRIED, _WINDOW = 8, 200

# So many characters at the end of a quote may be folded in another way once its full stop is gone.
_END = 8


class AskedQuote:
    """A quote, with what is made of it once for all chunks."""

    def __init__(self, text: str) -> None:
        self.text = prepare(text)
        self._bracketed = self.text.bracketed and self.text.bracketed | prepare(without_sic(text)).bracketed
        self._read: dict[frozenset[str], tuple[Reading, ...]] = {}

    @cached_property
    def _stop(self) -> int | None:
        """The place of the full stop or comma at its end, which its writer may have added."""
        stripped = self.text.text.rstrip()
        ends = stripped[-1:] in _STOPS and stripped[-2:-1] not in _NEVER_STOPPED and not stripped[-2:-1].isspace()
        return len(stripped) - 1 if ends else None

    @cached_property
    def _inside_marks(self) -> AskedQuote | None:
        """Return the text inside the one pair of quotation marks around all of it; a full stop may follow these."""
        text = self.text.text[: self._stop].strip()
        if _IN_MARKS.fullmatch(text) is None:
            return None
        return AskedQuote(text[1:-1].strip() + ("" if self._stop is None else self.text.text[self._stop]))

    @cached_property
    def _without_stop(self) -> AskedQuote:
        return AskedQuote(self.text.text[: self._stop])

    def _readings(self, chunk: Prepared) -> tuple[Reading, ...]:
        own = self._bracketed & chunk.bracketed if self._bracketed else self._bracketed
        if own not in self._read:
            self._read[own] = readings(self.text.text, own)
        return self._read[own]

    @cached_property
    def _long_enough(self) -> bool:
        words, letters, signs = SHORTEST_NORMALISED
        return self.text.words >= words or self.text.letters >= letters or self.text.signs >= signs

    def place(self, i: int, chunk: QuotedChunk) -> Place | None:
        """Return its place in a chunk."""
        place = self._place(i, chunk)
        if place is None and self._stop is not None and self._begins_in(chunk.text):
            place = self._without_stop.place_before_stop(i, chunk)
        if place is None and self._inside_marks is not None:
            place = self._inside_marks.place_inside_marks(i, chunk)
        return place

    def _begins_in(self, chunk: Prepared) -> bool:
        """Return whether its beginning may stand there: cheaper than to look for all of it again without its stop."""
        if len(ways_to_normalise(chunk, self.text)) > 1:
            return True
        if _beginning(self.text) in chunk.form.text:
            return True
        firsts = (next(piece for part in reading for piece in part.pieces) for reading in self._readings(chunk))
        return any(_beginning(first) in chunk.form.text for first in firsts)

    def place_inside_marks(self, i: int, chunk: QuotedChunk) -> Place | None:
        """Return its place in a chunk if a writer may put quotation marks around it."""
        place = self.place(i, chunk) if self._long_enough and self._begins_in(chunk.text) else None
        return place and _also_normalised(place, "quotes")

    def place_before_stop(self, i: int, chunk: QuotedChunk) -> Place | None:
        """Return its place in a chunk if a writer may end a sentence after it; a question may not be ended so."""
        place = self._place(i, chunk) if self._long_enough else None
        if place is None or _ASKED.match(chunk.text.text, place.spans[-1][1]) or _goes_on(chunk, place.spans[-1][1]):
            return None
        return _also_normalised(place, FINAL_STOP)

    def _place(self, i: int, chunk: QuotedChunk) -> Place | None:
        if verbatim := _find_whole(self.text, chunk.text, find_verbatim):
            return _place(i, chunk, "verbatim", [verbatim])
        if self._long_enough:
            for find in ways_to_normalise(chunk.text, self.text):
                if match := _find_whole(self.text, chunk.text, find):
                    return _place(i, chunk, "normalised", [match])
        for reading in self._readings(chunk.text):
            if parts := _find_parts(reading, chunk.text):
                return _elided_place(i, chunk, reading, parts)
        return None


def _also_normalised(place: Place, kind: str) -> Place:
    """The place with one kind more that had to be normalised."""
    how: Verdict = "normalised" if place.how == "verbatim" else place.how
    return replace(place, how=how, normalised=_in_order({*place.normalised, kind}))


def _in_order(kinds: Collection[str]) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind in kinds)


def _beginning(text: Prepared) -> str:
    return text.core.text[:-_END].strip("-")


def _find_whole(quote: Prepared, chunk: Prepared, find: Find) -> Match | None:
    """Find the first place of a whole quote where it does not begin right after a denial; after a few, none."""
    after = 0
    for _ in range(_TRIED):
        match = find(quote, chunk, after, len(chunk.text))
        if match is None or chunk.cuts[match.span[0]] != AFTER_DENIAL:
            return match
        after = match.span[0] + 1
    return None


def _goes_on(chunk: QuotedChunk, end: int) -> bool:
    """Return whether a text in a script without spaces goes on without a break: nobody can tell where its words end."""
    around = chunk.text.text[max(0, end - 1) : end + 1].translate(CLASSES)
    return _BOTH_SIGNS.fullmatch(around) is not None


_BOTH_SIGNS = re.compile("[CNM][CN]")
_IN_MARKS = re.compile(
    "|".join(
        f"{opening}[^{opening}{closing}]+{closing}"
        for opening, closing in ("“”", "„“", "„”", "””", "«»", "»«", "「」", "『』", '""')
    )
)
_STOPS = frozenset(".,，。、،।۔։።．｡")
_NEVER_STOPPED = _STOPS | {"", "…", "⋯"}
# A Greek question ends with a semicolon.
_ASKED = re.compile(r"""["'’”»)\]\s]{0,4}[?!？！؟՞\u037e]|(?<=[\u0370-\u03ff\u1f00-\u1fff])["'’”»)\]]{0,2};""")


def _place(i: int, chunk: QuotedChunk, how: Verdict, matches: Sequence[Match]) -> Place:
    kinds = frozenset[str]().union(*(match.kinds for match in matches))
    spans = tuple(match.span for match in matches)
    return Place(i, chunk.chunk_hash, how, spans, _in_order(kinds))


def _elided_place(i: int, chunk: QuotedChunk, reading: Reading, parts: Sequence[Sequence[Match]]) -> Place:
    """Return the place of all parts, with what lies between them and what was put into them."""
    text = chunk.text.text
    put_in = [
        _put_in(insertion, [text[slice(*match.span)] for match in matches], _gaps(matches, text), chunk.text)
        for part, matches in zip(reading, parts, strict=True)
        for insertion in part.insertions
    ]
    left_out = [_left_out((one[-1].span[1], other[0].span[0]), chunk.text) for one, other in itertools.pairwise(parts)]
    place = _place(i, chunk, "elided", [match for matches in parts for match in matches])
    return replace(place, left_out=tuple(left_out), put_in=tuple(put_in))


def _left_out(span: Span, chunk: Prepared) -> LeftOut:
    between = chunk.text[slice(*span)]
    denied = denies(between, chunk.languages, chunk.shared_words) or counts(between, chunk.languages)
    return LeftOut(span, prepare(between).words, denied)


def _gaps(matches: Sequence[Match], text: str) -> list[str]:
    """Texts between the pieces of a part."""
    return [text[one.span[1] : other.span[0]].strip() for one, other in itertools.pairwise(matches)]


def _put_in(insertion: Insertion, pieces: Sequence[str], gaps: Sequence[str], chunk: Prepared) -> PutIn:
    if insertion.letters is None:
        replaced = gaps[insertion.pieces - 1] if 0 < insertion.pieces < len(pieces) else ""
    else:
        letters = "".join(filter(str.isalpha, "".join(pieces)))
        replaced = letters[insertion.letters : insertion.letters + len(insertion.text)]
    both = f"{insertion.text} {replaced}"
    return PutIn(insertion.text, replaced, denies(both, (), chunk.shared_words) or counts(both))


def _find_parts(reading: Reading, chunk: Prepared) -> list[list[Match]]:
    """Find the parts in this order: each at the first place after the one before; none unless all are there.

    One way of finding serves all parts, so that no way is tried in vain for each of many parts.
    """
    pieces = [piece for part in reading for piece in part.pieces]
    ways = (*ways_to_normalise(chunk, *pieces), find_verbatim)
    return next((parts for find in ways if (parts := _find_in_order(reading, chunk, find))), [])


def _find_in_order(reading: Reading, chunk: Prepared, find: Find) -> list[list[Match]]:
    """The parts by one way of finding; where what is around a part does not fit, its next place is tried.

    After so many places in vain there is an end, so that it takes linear time.
    """
    parts: list[list[Match]] = []
    after, tries = 0, 0
    while len(parts) < len(reading):
        part = reading[len(parts)]
        found = _find_part(part, chunk, after, find)
        if found and _fits(part, found, parts[-1] if parts else None, chunk):
            parts.append(found)
            after = found[-1].span[1]
            continue
        tries += 1
        if not found and (not parts or after == parts[-1][-1].span[1]):
            return []  # it stands nowhere behind the part before, wherever that may be
        after = (found or parts.pop())[0].span[0] + 1
        if tries > _TRIED:
            return []
    return parts


def _fits(part: Part, found: Sequence[Match], before: Sequence[Match] | None, chunk: Prepared) -> bool:
    """Return whether a mark may stand for what lies before a part, and its insertions for what is beside it."""
    text, start, stop = chunk.text, found[0].span[0], found[-1].span[1]
    if before is None and chunk.cuts[start] == AFTER_DENIAL:
        return False
    if before and not is_left_out(text[before[-1].span[1] : start], part.mark):
        return False
    return not has_brackets_beside(text, part, start, stop)


def _may_stand(insertion: Insertion, part: Part, matches: Sequence[Match], chunk: Prepared) -> bool:
    """Return whether words may be put in where they are."""
    if insertion.letters is not None:
        return True
    start, stop = matches[0].span[0], matches[-1].span[1]
    if insertion.pieces == 0:
        return may_stand_at_edge(insertion.text, words_before(chunk.text, start), chunk, (start, stop))
    if insertion.pieces == len(part.pieces):
        return may_stand_at_edge(insertion.text, words_after(chunk.text, stop), chunk, (start, stop))
    gap = "" if insertion.pieces == WITHIN else _gaps(matches, chunk.text)[insertion.pieces - 1]
    return may_stand_between(insertion.text, gap, chunk, (start, stop))


def _find_part(part: Part, chunk: Prepared, after: int, find: Find) -> list[Match]:
    """The first place of a part; of several pieces, where each is near the one before."""
    pieces = part.pieces
    for _ in range(_TRIED if part.insertions else 1):
        first = find(pieces[0], chunk, after, len(chunk.text))
        if first is None:
            break
        matches = [first]
        for piece in pieces[1:]:
            end = matches[-1].span[1]
            near = find(piece, chunk, end, end + _WINDOW + 2 * len(piece.text))
            if near is None or not may_be_replaced(chunk.text[end : near.span[0]]):
                break
            matches.append(near)
        else:
            if all(_may_stand(insertion, part, matches, chunk) for insertion in part.insertions):
                return matches
        after = first.span[0] + 1
    return []
