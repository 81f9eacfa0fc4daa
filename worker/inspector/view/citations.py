"""Citations: each with its checks of now, grouped by section, and the conflicts between them side by side."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from retrieval_client.canonical import canonical_sha256
from worker.inspector.view.pieces import DiffPiece, Piece, condensed, cut, steps_each, window, word_diff
from worker.inspector.view.sources import excerpt_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieval_client.contract.pinned import CitationCheck, Citations
    from worker.core.text.spans import Span

Decision = Literal["accepted", "dismissed"]
DECISIONS: tuple[Decision, ...] = ("accepted", "dismissed")


@dataclass(frozen=True, slots=True)
class CitationView:
    """Citation.

    Attributes:
        index: its place in the document, from 0.
        section: the section that uses it, ``""`` for none.
        source_id: its document.
        title: readable name of the document; its id without one.
        chunk_id, page: its place; None if unknown.
        text: the cited text.
        weight: its weight, 0-1.
        chunk_hash: hash of the text.
        integrity: True if the text has its hash; None if nothing was verified.
        authorised: True if the reader may see its source now; None if nothing was verified.
        verdict: state of the chunk now; None if nothing was verified.
    """

    index: int
    section: str
    source_id: str
    title: str
    chunk_id: str | None
    page: int | None
    text: str
    weight: float
    chunk_hash: str
    integrity: bool | None
    authorised: bool | None
    verdict: str | None


@dataclass(frozen=True, slots=True)
class ConflictSide:
    """Side of a conflict.

    Attributes:
        citation: index of its citation.
        source_id: its source.
        title: readable name of the source; its id without one.
        chunk_id, page: its place; None if unknown.
        sentence: the text in conflict; pieces with a mark are where the sides differ.
        weight: the citation's weight.
    """

    citation: int
    source_id: str
    title: str
    chunk_id: str | None
    page: int | None
    sentence: tuple[Piece[Literal["differs"]], ...]
    weight: float

    @property
    def span(self) -> Span:
        """Place of the sentence in the citation's text."""
        start = self.sentence[0].start if self.sentence else 0
        return start, start + sum(len(piece.text) for piece in self.sentence)

    @property
    def shown(self) -> tuple[Piece[Literal["differs"]], ...]:
        """The sentence from shortly before the first difference, at most `EXCERPT` characters and what differs."""
        start, _ = self.span
        ends = ((piece.start - start, piece.start - start + len(piece.text)) for piece in self.sentence if piece.marks)
        place = [*itertools.islice(ends, 1)]
        bounds = excerpt_bounds("".join(piece.text for piece in self.sentence), place)
        return window(self.sentence, start + bounds[0], start + bounds[1])


@dataclass(frozen=True, slots=True)
class ConflictView:
    """Conflict.

    Attributes:
        key: identifies it in every view of the same citations.
        kind: kind of conflict; see docs/citations.md.
        differs: of a possible disagreement, which is a hint: number, unit, date or negation.
        sides: every citation that has a part in it, by index.
        diff: difference of the two sentences by words; empty for more or fewer sides than two, or equal texts.
        decision: the reader's decision, kept with the run; None without one.
    """

    key: str
    kind: str
    differs: tuple[str, ...]
    sides: tuple[ConflictSide, ...]
    diff: tuple[DiffPiece, ...]
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class CitationsView:
    """Citations of a run.

    Attributes:
        sections: name and citations of each section, in the document's order; name ``""`` for citations of none.
        conflicts: in the document's order.
        left_out: recorded chunks that changed or are not visible, which are not cited.
        artifact: path of the stored document; None if it was not stored.
    """

    sections: tuple[tuple[str, tuple[CitationView, ...]], ...]
    conflicts: tuple[ConflictView, ...] = ()
    left_out: int = 0
    artifact: str | None = None

    @property
    def citations(self) -> tuple[CitationView, ...]:
        """All citations, by index."""
        all_citations = (citation for _, citations in self.sections for citation in citations)
        return tuple(sorted(all_citations, key=lambda citation: citation.index))


def citations_view(
    answer: Citations, decisions: Mapping[str, Decision] | None = None, titles: Mapping[str, str] | None = None
) -> CitationsView:
    """Return the view of an answer of `build_citations`.

    Args:
        answer: the answer.
        decisions: conflict key → the reader's decision.
        titles: document id → readable name.
    """
    titles = titles or {}
    cited: Sequence[Mapping[str, Any]] = answer.citations["all_citations"]
    checks: Sequence[CitationCheck | None] = answer.verification or [None] * len(cited)
    sections: dict[str, list[CitationView]] = {}
    for index, (citation, check) in enumerate(zip(cited, checks, strict=True)):
        view = _citation(index, citation, check, titles)
        sections.setdefault(view.section, []).append(view)
    steps = steps_each(len(answer.conflicts))
    return CitationsView(
        tuple((name, tuple(views)) for name, views in sections.items()),
        tuple(_conflict(conflict, cited, decisions or {}, titles, steps) for conflict in answer.conflicts),
        sum(stage.counts.get("left_out", 0) for stage in answer.trace.stages),
        answer.artifact,
    )


def conflict_key(conflict: Mapping[str, Any]) -> str:
    """Return the key of a conflict: the same for the same kind, texts and places, whatever else a document cites."""
    sides = [[side["chunk_hash"], side["source_id"], side["span"], side["tokens"]] for side in conflict["sides"]]
    return canonical_sha256([conflict["kind"], sides])[:16]


def _citation(
    index: int, citation: Mapping[str, Any], check: CitationCheck | None, titles: Mapping[str, str]
) -> CitationView:
    return CitationView(
        index=index,
        section=citation["section"] or "",
        source_id=citation["source_id"],
        title=titles.get(citation["source_id"], citation["source_id"]),
        chunk_id=citation.get("chunk_id"),
        page=citation.get("page"),
        text=citation["text"],
        weight=citation["weight"],
        chunk_hash=citation["chunk_hash"],
        integrity=check.integrity if check else None,
        authorised=check.authorised if check else None,
        verdict=check.verdict if check else None,
    )


def _conflict(
    conflict: Mapping[str, Any],
    cited: Sequence[Mapping[str, Any]],
    decisions: Mapping[str, Decision],
    titles: Mapping[str, str],
    steps: int,
) -> ConflictView:
    key = conflict_key(conflict)
    sides = tuple(_side(side, cited[side["index"]], titles) for side in conflict["sides"])
    diff = _difference(sides, steps)
    return ConflictView(key, conflict["kind"], tuple(conflict["differs"]), sides, diff, decisions.get(key))


def _side(side: Mapping[str, Any], citation: Mapping[str, Any], titles: Mapping[str, str]) -> ConflictSide:
    start, end = side["span"]
    marked: list[tuple[Span, Literal["differs"]]] = [
        ((token_start, token_end), "differs") for token_start, token_end in side["tokens"]
    ]
    sentence = cut(citation["text"], marked, start, end)
    return ConflictSide(
        side["index"],
        side["source_id"],
        titles.get(side["source_id"], side["source_id"]),
        citation.get("chunk_id"),
        citation.get("page"),
        sentence,
        citation["weight"],
    )


def _difference(sides: Sequence[ConflictSide], steps: int) -> tuple[DiffPiece, ...]:
    if len(sides) != 2:  # noqa: PLR2004 -- a difference has two sides
        return ()
    first_text, second_text = ("".join(piece.text for piece in side.sentence) for side in sides)
    return () if first_text == second_text else condensed(word_diff(first_text, second_text, steps))
