"""Answer: its text with citation marks, and the sources that they lead to, at the quoted words."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from worker.core.citations.answering import check_answer
from worker.core.citations.quoting.differences import ACCEPTED
from worker.core.prompting.extractive import is_refusal
from worker.inspector.view.pieces import cut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from worker.core.citations.answering import AnswerReport
    from worker.core.text.spans import Span
    from worker.inspector.view.sources import SourceView

MarkKind = Literal["label", "unknown", "unreadable", "sentence"]

WEAK = 0.5
"""Sentences of which a smaller share of the words stands in the cited sources are marked."""

_HEAD = re.compile(r"Sources, each between two lines with the mark (?P<mark>[0-9a-f]{12})\.")


@dataclass(frozen=True, slots=True)
class Segment:
    """Segment of an answer.

    Attributes:
        text: the segment; all segments together are the answer.
        labels: sources that it cites, if it is a citation mark.
        problem: ``unknown`` or ``unreadable`` if it looks like a mark and leads to no source.
        coverage: share of the sentence's words that its cited sources contain, 0-1; None outside sentences.
    """

    text: str
    labels: tuple[str, ...] = ()
    problem: Literal["unknown", "unreadable"] | None = None
    coverage: float | None = None

    @property
    def is_weak(self) -> bool:
        """True if less than `WEAK` of the sentence's words are in its cited sources."""
        return self.coverage is not None and self.coverage < WEAK and not self.problem


@dataclass(frozen=True, slots=True)
class AnswerText:
    """Text of an answer.

    Attributes:
        segments: the text, in order.
        sentences: number of its sentences.
        copied: those that stand whole in a source that they cite.
        is_refusal: True if it says that the sources hold no answer, or may hold none.
        unknown: marks without a source.
        unreadable: brackets that could not be read whole.
    """

    segments: tuple[Segment, ...]
    sentences: int = 0
    copied: int = 0
    is_refusal: bool = False
    unknown: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextPiece:
    """Piece of a context block: the text of a labelled source, or what stands around the sources (label None)."""

    text: str
    label: str | None = None


def answer_views(
    answer: str, sources: Sequence[SourceView], accepted: frozenset[str] = ACCEPTED
) -> tuple[AnswerText, tuple[SourceView, ...]]:
    """Check an answer against its sources; return its text, and the sources with their quotes.

    The spans and verdicts are those of `worker.core.citations.answering`, which made the recorded ones.

    Args:
        answer: the answer.
        sources: its labelled sources.
        accepted: kinds of differences that a ``normalised`` quote may have.
    """
    texts = {source.label: source.text for source in sources}
    report = check_answer(answer, texts, accepted)
    parts = segments(answer, report)
    text = AnswerText(
        # What says that the sources may hold no answer is no claim that they should support.
        (replace(parts[0], coverage=None), *parts[1:]) if is_refusal(answer) else parts,
        len(report.sentences),
        sum(sentence.is_copied for sentence in report.sentences),
        is_refusal(answer),
        tuple(name for name, _ in report.unknown),
        tuple(name for name, _ in report.unreadable),
    )
    return text, tuple(_with_quotes(source, report) for source in sources)


def segments(answer: str, report: AnswerReport) -> tuple[Segment, ...]:
    """Cut an answer at its citation marks and at the ends of its sentences."""
    marked: list[tuple[Span, tuple[MarkKind, str | float | None]]] = []
    marked += [(sentence.span, ("sentence", sentence.supported)) for sentence in report.sentences]
    marked += [(span, ("label", cited.label)) for cited in report.citations for span in cited.spans]
    marked += [(span, ("unknown", name)) for name, span in report.unknown]
    marked += [(span, ("unreadable", name)) for name, span in report.unreadable]
    answer_segments: list[Segment] = []
    for piece in cut(answer, marked):
        kinds = dict(piece.marks)
        labels = tuple(str(value) for kind, value in piece.marks if kind == "label")
        problem = _problem(kinds) if not labels else None
        coverage = kinds.get("sentence")
        answer_segments.append(Segment(piece.text, labels, problem, coverage if isinstance(coverage, float) else None))
    return tuple(answer_segments)


def _problem(kinds: Collection[MarkKind]) -> Literal["unknown", "unreadable"] | None:
    if "unknown" in kinds:
        return "unknown"
    return "unreadable" if "unreadable" in kinds else None


def _with_quotes(source: SourceView, report: AnswerReport) -> SourceView:
    cited = next((citation for citation in report.citations if citation.label == source.label), None)
    if cited is None:
        return source
    inside = [check for i in cited.sentences for check in report.sentences[i].quotes]
    quotes = dict.fromkeys(check for check in inside if check.label is None or check.label == source.label)
    return replace(source, verdict=cited.verdict, quotes=tuple(quotes), is_cited=True)


def context_pieces(block: str) -> tuple[ContextPiece, ...]:
    """Cut a context block at the fences of its sources; without fences it is one piece."""
    head = _HEAD.search(block)
    return tuple(_pieces(block, head["mark"])) if head else (ContextPiece(block),)


def _pieces(block: str, mark: str) -> Iterator[ContextPiece]:
    fenced = re.compile(
        rf"^=== {mark} begin \[(?P<label>S\d+)\]\n(?P<text>.*?)\n=== {mark} end \[(?P=label)\]$",
        re.MULTILINE | re.DOTALL,
    )
    position = 0
    for fence in fenced.finditer(block):
        if around := block[position : fence.start()].strip("\n"):
            yield ContextPiece(around)
        yield ContextPiece(fence["text"], fence["label"])
        position = fence.end()
    if rest := block[position:].strip("\n"):
        yield ContextPiece(rest)
