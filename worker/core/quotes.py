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
    letters and digits. What is put in may stand for up to three words, but then not for a number, and what says or
    takes back a denial or a limit (not, may, only, ...) can't be put in.
``misattributed``
    in none of these ways, but in another of the job's chunks.
``not_found``
    anything else; also a quote without any letter, digit or symbol.

A quote, and each part, begins and ends where words and numbers do: ``5 dB`` is not in ``15 dB``, ``able`` not in
``un-able``, ``5`` not in ``-5`` (`Prepared.cuts`). In scripts without spaces it may begin and end at any sign.

Time is linear in the lengths of quote and chunks, whatever they are: searching is `str.find`, which is linear, and
Knuth-Morris-Pratt where that would have to start again too often. Candidates are compared in full for as long as that
is eight times the text passed: where a text repeats itself at every few signs a quote may so be missed, never made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from worker.core.characters import DASHES
from worker.core.differences import KINDS, SAME, Kinds, Passage, dash_kinds, kinds_needed, trimmed_kinds
from worker.core.normal_forms import Form, Prepared, prepare
from worker.core.quote_marks import Part, Reading, hides_words, may_be_replaced, readings

if TYPE_CHECKING:
    from collections.abc import Sequence

Verdict = Literal["verbatim", "normalised", "elided", "misattributed", "not_found"]
Span = tuple[int, int]

SHORTEST_NORMALISED = (2, 4)
"""Words, or letters and digits, that a quote needs to be found by normalising."""

_TRIED, _PATIENCE, _WINDOW, _LONGEST_DASH = 8, 8, 200, 3


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


@dataclass(frozen=True, slots=True)
class _Match:
    span: Span
    kinds: Kinds


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
        if verbatim := _find_verbatim(self.text, chunk.text, 0, len(chunk.text.text)):
            return _place(i, chunk, "verbatim", [verbatim])
        if self._long_enough:
            for find in _ways(chunk.text, [self.text]):
                if match := find(self.text, chunk.text, 0, len(chunk.text.text)):
                    return _place(i, chunk, "normalised", [match])
        for reading in self._readings(chunk.text):
            if matches := _find_parts(reading, chunk.text):
                return _place(i, chunk, "elided", matches)
        return None


def _place(i: int, chunk: QuotedChunk, how: Verdict, matches: Sequence[_Match]) -> Place:
    kinds = frozenset[str]().union(*(match.kinds for match in matches))
    spans = tuple(match.span for match in matches)
    return Place(i, chunk.chunk_hash, how, spans, tuple(kind for kind in KINDS if kind in kinds))


def _find_parts(reading: Reading, chunk: Prepared) -> list[_Match]:
    """Where the parts stand in this order: each at the first place after the one before; none unless all do.

    One way of finding serves all parts, so that no way is tried in vain for each of many parts.
    """
    pieces = [piece for part in reading for piece in part.pieces]
    for find in (*_ways(chunk, pieces), _find_verbatim):
        matches: list[_Match] = []
        for part in reading:
            after = matches[-1].span[1] if matches else 0
            found = _find_part(part, chunk, after, find)
            if not found or (matches and not part.bracketed and hides_words(chunk.text[after : found[0].span[0]])):
                break
            matches += found
        else:
            return matches
    return []


def _find_part(part: Part, chunk: Prepared, after: int, find: _Find) -> list[_Match]:
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


def _find_verbatim(quote: Prepared, chunk: Prepared, after: int, before: int) -> _Match | None:
    for start in _occurrences(chunk.text, quote.text, after, before):
        stop = start + len(quote.text)
        if chunk.cuts[start] and chunk.cuts[stop]:
            return _Match((start, stop), SAME)
    return None


def _find_normalised(quote: Prepared, chunk: Prepared, after: int, before: int) -> _Match | None:
    return _find_form(quote, quote.form, chunk, chunk.form, (after, before))


def _find_look_alike(quote: Prepared, chunk: Prepared, after: int, before: int) -> _Match | None:
    forms = quote.one_script_form or quote.form, chunk.one_script_form or chunk.form
    return _find_form(quote, forms[0], chunk, forms[1], (after, before))


_Find = Callable[[Prepared, Prepared, int, int], _Match | None]


def _ways(chunk: Prepared, quotes: Sequence[Prepared]) -> tuple[_Find, ...]:
    """How to find quotes by normalising; look-alikes only where there are any."""
    look_alikes = chunk.one_script_form is not None or any(quote.one_script_form is not None for quote in quotes)
    return (_find_normalised, _find_look_alike) if look_alikes else (_find_normalised,)


def _find_form(quote: Prepared, asked: Form, chunk: Prepared, form: Form, within: Span) -> _Match | None:
    """The first place where the folded quote stands, whole words, with differences that may be normalised."""
    core = _trimmed(asked)
    text = core.text
    before, after = int(text[:1] == "-"), int(text[-1:] == "-")
    found = _find_core(quote, core, chunk, form, within)
    if found or not (before or after):
        return found
    # Between letters a dash is left out of folded text: "Haupt-" of "Haupt- und Nebenfach", "—the" of "desk—the".
    inner = core.slice(before, len(text) - after)
    match = _find_core(quote, inner, chunk, form, within)
    if match is None:
        return None
    edges = quote.text[core.starts[0] : inner.starts[0]], quote.text[inner.ends[-1] : core.ends[-1]]
    return _with_dashes(match, edges, chunk)


def _with_dashes(match: _Match, edges: tuple[str, str], chunk: Prepared) -> _Match | None:
    """The match with the dashes around it, if they are there and a quote may begin and end beside them."""
    start, stop = match.span
    before, after = chunk.text[max(0, start - _LONGEST_DASH) : start], chunk.text[stop : stop + _LONGEST_DASH]
    own = before[len(before.rstrip(DASHES)) :], after[: len(after) - len(after.lstrip(DASHES))]
    kinds = [dash_kinds(edge, dash) if edge else SAME for edge, dash in zip(edges, own, strict=True)]
    start, stop = start - len(own[0] if edges[0] else ""), stop + len(own[1] if edges[1] else "")
    if None in kinds or not (chunk.cuts[start] and chunk.cuts[stop]):
        return None
    return _Match((start, stop), match.kinds.union(*filter(None, kinds)))


def _find_core(quote: Prepared, core: Form, chunk: Prepared, form: Form, within: Span) -> _Match | None:
    begin, end = map(form.position, within)
    compared = 0
    for start in _occurrences(form.text, core.text, begin, end):
        stop = start + len(core.text)
        if not _whole(chunk, form, start, stop):
            continue
        passage = Passage(chunk.text, form.slice(start, stop))
        kinds = kinds_needed(Passage(quote.text, core), passage)
        if kinds is not None:
            return _Match(passage.span, kinds | _outer_kinds(quote.text, core, passage))
        compared += len(core.text)
        if compared > _PATIENCE * (stop - begin):
            break
    return None


def _trimmed(form: Form) -> Form:
    """Without the white space around it."""
    stripped = form.text.lstrip(" ")
    start = len(form.text) - len(stripped)
    return form.slice(start, start + len(stripped.rstrip(" ")))


def _whole(chunk: Prepared, form: Form, start: int, stop: int) -> bool:
    """Whether a place of the folded text begins and ends where a quote may."""
    if not (form.opens(start) and form.opens(stop)):
        return False
    return bool(chunk.cuts[form.starts[start]] and chunk.cuts[form.ends[stop - 1]])


def _outer_kinds(quote: str, core: Form, found: Passage) -> Kinds:
    """What was trimmed off the quote, unless the chunk has the same there."""
    before, after = quote[: core.starts[0]], quote[core.ends[-1] :]
    start, stop = found.span
    kinds: Kinds = frozenset()
    if found.text[max(0, start - len(before)) : start] != before:
        kinds |= trimmed_kinds(before)
    if found.text[stop : stop + len(after)] != after:
        kinds |= trimmed_kinds(after)
    return kinds


# --- searching ----------------------------------------------------------------------------------


def _occurrences(text: str, wanted: str, start: int, stop: int) -> Iterator[int]:
    """Where a string stands in a part of a text, overlapping places too, in linear time; an empty one nowhere."""
    for _ in range(_TRIED if wanted else 0):
        start = text.find(wanted, start, stop)
        if start < 0:
            return
        yield start
        start += 1
    if wanted:
        yield from _all_occurrences(text, wanted, start, stop)


def _all_occurrences(text: str, wanted: str, start: int, stop: int) -> Iterator[int]:
    """The same by Knuth, Morris and Pratt, "Fast Pattern Matching in Strings", SIAM J. Comput. 6 (1977)."""
    borders = _borders(wanted)
    matched = 0
    for i in range(start, min(stop, len(text))):
        while matched and (matched == len(wanted) or text[i] != wanted[matched]):
            matched = borders[matched - 1]
        if text[i] == wanted[matched]:
            matched += 1
        if matched == len(wanted):
            yield i + 1 - matched


def _borders(wanted: str) -> list[int]:
    """For each prefix, how long its longest border is."""
    borders, matched = [0], 0
    for character in wanted[1:]:
        while matched and character != wanted[matched]:
            matched = borders[matched - 1]
        if character == wanted[matched]:
            matched += 1
        borders.append(matched)
    return borders
