"""Sources: the text that a quote stands in, with the exact places of each quote and of what it left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from worker.core.citations.quoting import check_quote
from worker.core.citations.budget import STEPS_PER_JOB, SearchBudget
from worker.core.citations.quoting.findings import QuotedChunk
from worker.inspector.view.pieces import Piece, cut

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from retrieval_client.contract.pinned import QuoteCheck
    from worker.core.citations.quoting.findings import QuoteFinding
    from worker.core.text.spans import Span

Role = Literal["quoted", "left_out", "denied"]
"""Part of a source: inside a quote; left out by one; left out, with a denial, a limit or a number in it."""

EXCERPT, BEFORE = 1200, 240
"""Characters of a source that a card shows, and how many of them stand before its first quote."""

SpanPiece = tuple["Span", Role]


@dataclass(frozen=True, slots=True)
class PutInView:
    """Words in brackets that a quote has and its source does not; see `retrieval_client.contract.pinned.PutIn`."""

    text: str
    replaces: str
    denies: bool


@dataclass(frozen=True, slots=True)
class QuoteView:
    """Quote, and what became of it.

    Attributes:
        quote: its words.
        verdict: ``verbatim``, ``normalised``, ``elided``, ``misattributed``, ``not_found`` or ``not_checked``.
        spans: its places in the source's own text, one for each part, in code points.
        left_out: places of the text that it leaves out, and whether a denial, a limit or a number is among it.
        put_in: words that it has in brackets.
        normalised: kinds of differences that were normalised to find it.
        found_in: other sources where a misattributed quote stands: labels or hashes.
    """

    quote: str
    verdict: str
    spans: tuple[Span, ...] = ()
    left_out: tuple[tuple[Span, bool], ...] = ()
    put_in: tuple[PutInView, ...] = ()
    normalised: tuple[str, ...] = ()
    found_in: tuple[str, ...] = ()

    @property
    def denies(self) -> bool:
        """True if it leaves out or puts in a denial, a limit or a number."""
        return any(denies for _, denies in self.left_out) or any(mark.denies for mark in self.put_in)


@dataclass(frozen=True, slots=True)
class SourceView:
    """Source of an answer.

    Attributes:
        label: its label, ``""`` without one.
        corpus: its corpus, or the name of a remote source.
        chunk_id: the chunk; None for a remote source.
        document_id: the document; None for a remote source.
        title: readable name or path of the document.
        page, section: its place; None if unknown.
        url: URL or DOI; None without one.
        text: its whole text, as stored.
        verdict: the worst verdict on what is quoted from it; None if nothing is quoted word for word.
        quotes: the quotes.
        is_cited: True if the answer cites it.
    """

    label: str
    corpus: str
    chunk_id: str | None
    document_id: str | None
    title: str
    page: int | None
    section: str | None
    url: str | None
    text: str
    verdict: str | None = None
    quotes: tuple[QuoteView, ...] = ()
    is_cited: bool = False

    @property
    def pieces(self) -> tuple[Piece[Role], ...]:
        """The whole text, cut at the places of the quotes."""
        return cut(self.text, marked_places(self.quotes))

    @property
    def excerpt(self) -> tuple[Piece[Role], ...]:
        """The text around the quotes, at most `EXCERPT` characters beyond them."""
        start, end = excerpt_bounds(self.text, [span for quote in self.quotes for span in quote.spans])
        return cut(self.text, marked_places(self.quotes), start, end)


def marked_places(quotes: Iterable[QuoteView]) -> list[SpanPiece]:
    """Return the spans of quotes, and of what they leave out, with their roles."""
    marked: list[SpanPiece] = []
    for quote in quotes:
        marked += [(span, "quoted") for span in quote.spans]
        marked += [(span, "denied" if denies else "left_out") for span, denies in quote.left_out]
    return marked


def excerpt_bounds(text: str, spans: Sequence[Span]) -> tuple[int, int]:
    """Return start and end of the part of a text to show: from shortly before the first span, with all of it."""
    first = min((start for start, _ in spans), default=0)
    last = max((end for _, end in spans), default=0)
    start = 0 if first <= BEFORE else first - BEFORE
    return start, min(len(text), max(start + EXCERPT, last + BEFORE))


def checked_quote(quote: str, text: str, steps: int = STEPS_PER_JOB) -> QuoteView:
    """Check a quote against one text.

    >>> view = checked_quote("It hums … 50 Hz", "It hums loudly, but not at 50 Hz.")
    >>> view.verdict, view.spans, view.left_out, view.denies
    ('not_found', (), (), False)
    """
    finding = check_quote(quote, "", [QuotedChunk.of("", text)], SearchBudget(steps, 1))
    return quote_view(quote, finding)


def quote_view(quote: str, finding: QuoteFinding) -> QuoteView:
    """Return the view of a finding."""
    return QuoteView(
        quote,
        finding.verdict,
        finding.spans,
        tuple((mark.span, mark.denies) for mark in finding.left_out),
        tuple(PutInView(mark.text, mark.replaces, mark.denies) for mark in finding.put_in),
        finding.normalised,
        finding.elsewhere,
    )


def contract_quote(check: QuoteCheck) -> QuoteView:
    """Return the view of a quote check of `build_citations`."""
    return QuoteView(
        check.quote,
        check.verdict,
        tuple(check.spans),
        tuple((mark.span, mark.denies) for mark in check.left_out),
        tuple(PutInView(mark.text, mark.replaces, mark.denies) for mark in check.put_in),
        tuple(check.normalised),
        tuple(check.found_in),
    )
