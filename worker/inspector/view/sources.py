"""Sources: the text that a quote stands in, with the exact places of each quote and of what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.inspector.view.pieces import Piece, cut, whole_words
from worker.inspector.view.quotes import marked_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.core.citations.answering import QuoteCheck
    from worker.core.text.spans import Span
    from worker.inspector.view.quotes import Role

EXCERPT, BEFORE = 1200, 240
"""Characters of a source that a card shows, and how many of them stand before its first quote."""


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
    quotes: tuple[QuoteCheck, ...] = ()
    is_cited: bool = False

    @property
    def pieces(self) -> tuple[Piece[Role], ...]:
        """The whole text, cut at the places of the quotes."""
        return cut(self.text, marked_places(self.quotes, self.text))

    @property
    def excerpt(self) -> tuple[Piece[Role], ...]:
        """The text around the quotes, at most `EXCERPT` characters beyond them."""
        start, end = excerpt_bounds(self.text, [span for quote in self.quotes for span in quote.spans])
        return cut(self.text, marked_places(self.quotes, self.text), start, end)


def excerpt_bounds(text: str, spans: Sequence[Span]) -> tuple[int, int]:
    """Return start and end of the part of a text to show: from shortly before the first span, with all of it."""
    first_start = min((start for start, _ in spans), default=0)
    last_end = max((end for _, end in spans), default=0)
    start = 0 if first_start <= BEFORE else first_start - BEFORE
    return whole_words(text, start, min(len(text), max(start + EXCERPT, last_end + BEFORE)))
