"""Quotes: what every face shows of one: both texts, what differs by kind, and the rest of the sentence around it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Literal

from worker.core.citations.answering import QuoteCheck
from worker.core.citations.budget import STEPS_PER_JOB, SearchBudget
from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.core.citations.quoting.differences import ACCEPTED, KINDS
from worker.core.citations.quoting.reading import MOST_AROUND
from worker.inspector.view.pieces import Piece, cut, ends, whole_words
from worker.inspector.view.wording import JOINS, said, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from worker.core.citations.quoting.differences import Difference
    from worker.core.text.spans import Span

Role = Literal["quoted", "left_out", "differs", "around"]
"""Part of a text: inside a quote; left out by one; not the same in quote and source; the sentence around a quote."""

QuoteFact = tuple[str, tuple[Piece[Role], ...]]
"""Name of a fact, and its texts."""

MOST_PIECES, AROUND = 400, 120
"""Most pieces of each text, and characters at both ends of one that is long."""

MOST_CHANGES, CHANGE = 6, 80
"""Most changes of a kind that are listed, and most characters of each text of one."""


def checked_quote(quote: str, text: str, accepted: frozenset[str] = ACCEPTED) -> QuoteCheck:
    """Check a quote against one text.

    >>> checked_quote("It hums … 50 Hz", "It hums, not at 50 Hz.").left_out[0].text
    ', not at '
    """
    finding = check_quote(quote, "", [QuotedChunk.of("", text)], SearchBudget(STEPS_PER_JOB, 1), accepted)
    return QuoteCheck.of(quote, finding, [""])


def quote_facts(quote: QuoteCheck, source: str) -> Iterator[QuoteFact]:
    """Yield what is to be said of a quote besides its verdict: nothing, of a whole sentence without a difference.

    >>> facts = dict(quote_facts(checked_quote("gain is 45 dB", "The gain is 3.5 dB."), "The gain is 3.5 dB."))
    >>> [(piece.text, *piece.marks) for piece in facts["source"]]
    [('The ', 'around'), ('gain is ',), ('3.5', 'differs'), (' dB',)]
    >>> "".join(piece.text for piece in facts["differs"])
    'other words or numbers: 45 for 3.5'

    Args:
        quote: the check.
        source: text of the source that its spans are of.
    """
    if quote.verdict != "verbatim":
        yield (
            "quote",
            _shown(cut(quote.quote, [(difference.quote_span, "differs") for difference in quote.differences])),
        )
    if quote.spans and (quote.verdict != "verbatim" or quote.before or quote.after):
        yield "source", _shown(_passage(quote, source))
    if quote.differences:
        yield "differs", tuple(_kinds(quote.differences))
    for put_in in quote.put_in:
        yield "put in", tuple(_change(put_in.text, put_in.replaces))
    if any(left_out.another_sentence for left_out in quote.left_out):
        yield "left out", (Piece(JOINS, 0),)
    if quote.elsewhere:
        yield "stands in", (Piece(", ".join(quote.elsewhere), 0),)


def sentences_of(quotes: Sequence[QuoteCheck], source: str) -> tuple[Piece[Role], ...]:
    """Return the sentences of a source in which quotes stand word for word, each once, with what is not quoted of them.

    >>> text = "The gain is 3.5 dB. It hums, and it buzzes."
    >>> quotes = [checked_quote(quote, text) for quote in ("it buzzes", "The gain is 3.5 dB.", "It hums")]
    >>> [(piece.text, *piece.marks) for piece in sentences_of(quotes, text) if piece.text.strip()]
    [('The gain is 3.5 dB.',), ('It hums',), (', and ', 'around'), ('it buzzes',), ('.', 'around')]

    Args:
        quotes: verbatim ones.
        source: text of the source that their spans are of.
    """
    bounds: list[Span] = []
    for start, end in sorted(map(_bounds, quotes)):
        if bounds and not source[bounds[-1][1] : start].strip():  # it goes on there, or before
            bounds[-1] = bounds[-1][0], max(bounds[-1][1], end)
        else:
            bounds.append((start, end))
    cut_places = {place for quote in quotes for place in _cut_places(quote, len(source.rstrip()))}
    quoted = [(span, "quoted") for quote in quotes for span in quote.spans]
    pieces: list[Piece[Role]] = []
    for start, end in bounds:
        if pieces or start in cut_places:
            pieces.append(Piece(" … " if pieces else "… ", start))
        cut_pieces = cut(source, quoted, *whole_words(source, start, end))
        pieces += [Piece(piece.text, piece.start, () if piece.marks else ("around",)) for piece in cut_pieces]
    if bounds[-1][1] in cut_places:
        pieces.append(Piece(" …", bounds[-1][1]))
    return _shown(pieces)


def _bounds(quote: QuoteCheck) -> Span:
    """Return start and end of what stands in a source of the sentences of a quote."""
    return quote.spans[0][0] - len(quote.before or ""), quote.spans[-1][1] + len(quote.after or "")


def _cut_places(quote: QuoteCheck, length: int) -> Iterator[int]:
    """Yield those ends of `_bounds` where the sentence goes on, in a source of a length."""
    for rest, place in zip((quote.before, quote.after), _bounds(quote), strict=True):
        if _is_cut(rest or "") and 0 < place < length:
            yield place


def marked_places(quotes: Sequence[QuoteCheck], source: str) -> list[tuple[Span, Role]]:
    """Return the spans of quotes in their source, and of the words between their parts, with their roles."""
    marked: list[tuple[Span, Role]] = []
    for quote in quotes:
        marked += [(span, "quoted") for span in quote.spans]
        marked += _gaps(quote, source)
    return marked


def _gaps(quote: QuoteCheck, source: str) -> Iterator[tuple[Span, Role]]:
    for (_, start), (end, _) in pairwise(quote.spans):
        gap = source[start:end]
        gap_start = end - len(gap.lstrip())
        yield (gap_start, gap_start + len(gap.strip())), "left_out"


def _passage(quote: QuoteCheck, source: str) -> Iterator[Piece[Role]]:
    """Yield the source's words from the first span to the last, between the rest of their sentence."""
    start, end = quote.spans[0][0], quote.spans[-1][1]
    if quote.before:
        yield Piece(_rest(quote.before, is_before=True), start - len(quote.before), ("around",))
    yield from cut(
        source,
        [*_gaps(quote, source), *((difference.chunk_span, "differs") for difference in quote.differences)],
        start,
        end,
    )
    if quote.after:
        yield Piece(_rest(quote.after, is_before=False), end, ("around",))


def _rest(text: str, *, is_before: bool) -> str:
    """Return the rest of a sentence; of one that was cut, its whole words and a mark."""
    if not _is_cut(text):
        return text
    start, end = whole_words(text, 1, len(text)) if is_before else whole_words(text, 0, len(text) - 1)
    return f"… {text[start:]}" if is_before else f"{text[:end]} …"


def _is_cut(rest: str) -> bool:
    return len(rest) >= MOST_AROUND - 1  # a blank at the cut is not in it


def _shown(pieces: Iterable[Piece[Role]]) -> tuple[Piece[Role], ...]:
    """Return the first pieces, of a long one its ends."""
    shortened = [replace(piece, text=ends(piece.text, AROUND)) for piece in islice(pieces, MOST_PIECES + 1)]
    return tuple(shortened if len(shortened) <= MOST_PIECES else [*shortened[:MOST_PIECES], Piece(" …", 0)])


def _kinds(differences: Sequence[Difference]) -> Iterator[Piece[Role]]:
    """Yield each kind in words, on a line of its own, with its changes; what is never accepted stands first."""
    kinds = {difference.kind for difference in differences}
    for i, kind in enumerate(kind for kind in reversed(KINDS) if kind in kinds):
        changes = _changes([difference for difference in differences if difference.kind == kind])
        yield Piece(("\n" if i else "") + said("kind", kind).words + (": " if changes else ""), 0)
        yield from changes


def _changes(differences: Sequence[Difference]) -> list[Piece[Role]]:
    """Return the changes of a kind, each once; of blanks and of what is not seen the kind says enough."""
    changes = dict.fromkeys(
        (short(difference.quoted, CHANGE), short(difference.source, CHANGE)) for difference in differences
    )
    changes.pop(("", ""), None)
    pieces: list[Piece[Role]] = []
    for quoted, source_text in islice(changes, MOST_CHANGES):
        pieces += [*([Piece("; ", 0)] if pieces else []), *_change(quoted, source_text)]
    if (unlisted := len(changes) - MOST_CHANGES) > 0:
        pieces.append(Piece(f"; and {unlisted:,} more", 0))
    return pieces


def _change(quoted: str, source_text: str) -> Iterator[Piece[Role]]:
    if quoted:
        yield Piece(quoted, 0, ("differs",))
    if source_text:
        yield Piece(" for " if quoted else "without ", 0)
        yield Piece(source_text, 0, ("differs",))
