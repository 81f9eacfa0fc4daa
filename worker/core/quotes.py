r"""Whether a quote stands in the chunk it is said to stand in, and where.

The verdict is the first of these that holds, in the chunk named:

``verbatim``
    character for character.
``normalised``
    but for what a quote survives on its way: see `worker.core.differences.KINDS`, and which of them were needed. The
    quote has at least two words or four letters and digits.
``elided``
    with honest marks of what was left out (``…``, ``...``, ``[...]``) or put in (``[sic]``, ``[the mayor]``,
    ``[T]he``): the parts stand there in this order, verbatim or normalised, and each has at least three words or twelve
    letters and digits. Words in brackets are put in between two words, or stand for up to three, but not for a number;
    a number is only put in between words. What denies or limits (not, may, only, ...) is neither put in nor replaced.
    Dots and brackets that the chunk has itself are no marks. How much a mark of omission leaves out is its writer's.
``misattributed``
    in none of these ways, but in another of the job's chunks.
``not_found``
    anything else; also a quote without any letter, digit or symbol.

A quote, and each part, begins and ends where words and numbers do, verbatim too: ``5 dB`` is not in ``15 dB``,
``toxic`` not in ``non-toxic``, ``5`` not in ``-5`` (`Prepared.cuts`). In scripts without spaces between words it may
begin and end at any sign.

Time is linear in the lengths of quote and chunks, whatever they are: searching is `str.find`, which is linear, and
Knuth-Morris-Pratt where that would have to start again too often. Candidates are compared in full for as long as that
is eight times the text passed: where a text repeats itself at every few signs a quote may so be missed, never made up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from worker.core.differences import KINDS
from worker.core.normal_forms import Prepared, prepare
from worker.core.quote_marks import Part, Reading, hides_words, may_be_replaced, readings
from worker.core.quote_search import find_verbatim, ways_to_normalise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worker.core.quote_search import Find, Match, Span

Verdict = Literal["verbatim", "normalised", "elided", "misattributed", "not_found"]

SHORTEST_NORMALISED = (2, 4)
"""Words, or letters and digits, that a quote needs to be found by normalising."""

# An insertion may have been preceded by so many places of the piece before it, and be followed by the next piece at
# most so far away.
_TRIED, _WINDOW = 8, 200


@dataclass(frozen=True, slots=True)
class QuotedChunk:
    """One of the job's chunks, prepared once for all quotes."""

    chunk_hash: str
    text: Prepared

    @classmethod
    def of(cls, chunk_hash: str, text: str) -> QuotedChunk:
        """A chunk from its raw text."""
        return cls(chunk_hash, prepare(text))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a quote stands.

    Attributes:
        chunk: the chunk's index among those given.
        chunk_hash: its hash.
        how: ``verbatim``, ``normalised`` or ``elided``.
        spans: start and end of each part, in code points of the chunk's own text.
        normalised: what was normalised, in the order of `worker.core.differences.KINDS`.
    """

    chunk: int
    chunk_hash: str
    how: Verdict
    spans: tuple[Span, ...]
    normalised: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuoteFinding:
    """What became of a quote.

    Attributes:
        verdict: as this module says.
        places: one in the chunk named; or, for ``misattributed``, one in each other chunk where it stands, in the
            order of the chunks; none for ``not_found``.
    """

    verdict: Verdict
    places: tuple[Place, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where it stands in the chunk named."""
        return () if self.verdict == "misattributed" or not self.places else self.places[0].spans

    @property
    def chunk(self) -> int | None:
        """Index of the chunk whose text the spans are of; several chunks may have the hash that was named."""
        return None if self.verdict == "misattributed" or not self.places else self.places[0].chunk

    @property
    def normalised(self) -> tuple[str, ...]:
        """What was normalised to find it in the chunk named."""
        return () if self.verdict == "misattributed" or not self.places else self.places[0].normalised

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Hashes of the other chunks where a misattributed quote stands, each once."""
        hashes = [place.chunk_hash for place in self.places] if self.verdict == "misattributed" else []
        return tuple(dict.fromkeys(hashes))


NOT_FOUND = QuoteFinding("not_found")


def check_quote(quote: str, chunk_hash: str, chunks: Sequence[QuotedChunk]) -> QuoteFinding:
    """Find a quote in the chunk it names, or else in the others.

    >>> chunks = [QuotedChunk.of("a", "The gain is 3.5 dB."), QuotedChunk.of("b", "Nothing was measured.")]
    >>> finding = check_quote("the  GAIN is 3.5 dB", "a", chunks)
    >>> finding.verdict, finding.spans, finding.normalised
    ('normalised', ((0, 18),), ('white_space', 'case'))
    >>> check_quote("The gain is 35 dB", "a", chunks).verdict, check_quote("Nothing was", "a", chunks).elsewhere
    ('not_found', ('b',))
    """
    asked = _Quote(quote)
    if not asked.text.says_something:
        return NOT_FOUND
    own = _first_place(asked, ((i, chunk) for i, chunk in enumerate(chunks) if chunk.chunk_hash == chunk_hash))
    if own:
        return QuoteFinding(own.how, (own,))
    others = (asked.place(i, chunk) for i, chunk in enumerate(chunks) if chunk.chunk_hash != chunk_hash)
    elsewhere = tuple(place for place in others if place)
    return QuoteFinding("misattributed", elsewhere) if elsewhere else NOT_FOUND


def _first_place(asked: _Quote, chunks: Iterator[tuple[int, QuotedChunk]]) -> Place | None:
    """The most literal place; several chunks may have one hash and differ in white space."""
    found = [place for place in (asked.place(i, chunk) for i, chunk in chunks) if place]
    return min(found, key=lambda place: _HOW.index(place.how), default=None)


_HOW = ("verbatim", "normalised", "elided")


# --- one quote, one chunk -----------------------------------------------------------------------


class _Quote:
    """A quote, with what is made of it once for all chunks."""

    def __init__(self, text: str) -> None:
        self.text = prepare(text)
        self._read: dict[frozenset[str], tuple[Reading, ...]] = {}

    def _readings(self, chunk: Prepared) -> tuple[Reading, ...]:
        own = self.text.bracketed & chunk.bracketed if self.text.bracketed else self.text.bracketed
        if own not in self._read:
            self._read[own] = readings(self.text.text, own)
        return self._read[own]

    @property
    def _long_enough(self) -> bool:
        return self.text.words >= SHORTEST_NORMALISED[0] or self.text.letters >= SHORTEST_NORMALISED[1]

    def place(self, i: int, chunk: QuotedChunk) -> Place | None:
        """Where and how it stands in a chunk."""
        if verbatim := find_verbatim(self.text, chunk.text, 0, len(chunk.text.text)):
            return _place(i, chunk, "verbatim", [verbatim])
        if self._long_enough:
            for find in ways_to_normalise(chunk.text, [self.text]):
                if match := find(self.text, chunk.text, 0, len(chunk.text.text)):
                    return _place(i, chunk, "normalised", [match])
        for reading in self._readings(chunk.text):
            if matches := _find_parts(reading, chunk.text):
                return _place(i, chunk, "elided", matches)
        return None


def _place(i: int, chunk: QuotedChunk, how: Verdict, matches: Sequence[Match]) -> Place:
    kinds = frozenset[str]().union(*(match.kinds for match in matches))
    spans = tuple(match.span for match in matches)
    return Place(i, chunk.chunk_hash, how, spans, tuple(kind for kind in KINDS if kind in kinds))


def _find_parts(reading: Reading, chunk: Prepared) -> list[Match]:
    """Where the parts stand in this order: each at the first place after the one before; none unless all do.

    One way of finding serves all parts, so that no way is tried in vain for each of many parts.
    """
    pieces = [piece for part in reading for piece in part.pieces]
    for find in (*ways_to_normalise(chunk, pieces), find_verbatim):
        matches: list[Match] = []
        for part in reading:
            after = matches[-1].span[1] if matches else 0
            found = _find_part(part, chunk, after, find)
            if not found or (matches and not part.bracketed and hides_words(chunk.text[after : found[0].span[0]])):
                break
            matches += found
        else:
            return matches
    return []


def _find_part(part: Part, chunk: Prepared, after: int, find: Find) -> list[Match]:
    """The first place of a part; of several pieces, where each is near the one before."""
    pieces = part.pieces
    for _ in range(1 if len(pieces) == 1 else _TRIED):
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
            return matches
        after = first.span[0] + 1
    return []
