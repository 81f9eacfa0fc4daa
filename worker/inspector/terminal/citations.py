"""Citations: conflicts with what differs, and each citation by section with its checks of now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.inspector.rendering import number, words
from worker.inspector.terminal.lines import (
    BLANK,
    CURRENT,
    DIFFERS,
    QUIET,
    Line,
    badge,
    difference,
    heading,
    inline,
    joined,
    marked,
    more,
    named,
    note,
    paragraphs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.inspector.view.citations import CitationsView, CitationView, ConflictSide, ConflictView

MOST_CONFLICTS, MOST_CITATIONS = 100, 500
_CHECKS = {True: "yes", False: "no", None: "not checked"}


def citations_lines(view: CitationsView, current: int = -1) -> list[Line]:
    """Return the lines of a run's citations.

    Args:
        view: the citations.
        current: number of the conflict that is chosen, from 0; -1 for none.
    """
    return [*_conflicts(view, current), BLANK, *_citations(view)]


def _conflicts(view: CitationsView, current: int) -> Iterator[Line]:
    yield heading("Conflicts", str(len(view.conflicts)))
    if not view.conflicts:
        yield note("No conflict was found.")
    for i, conflict in enumerate(view.conflicts[:MOST_CONFLICTS]):
        yield from _conflict(conflict, is_current=i == current)
    yield from more(len(view.conflicts) - MOST_CONFLICTS, "conflicts")


def _conflict(conflict: ConflictView, *, is_current: bool) -> Iterator[Line]:
    differs = f"differs by {', '.join(conflict.differs)}" if conflict.differs else ""
    kind = inline(words(conflict.kind), style=CURRENT) if is_current else badge(conflict.kind)
    yield Line(joined(kind, inline(differs, 120), badge(conflict.decision, "decision")))
    for side in conflict.sides:
        yield from _side(side, weighs=conflict.kind == "weight_differs")
    if conflict.diff:
        yield note("from the first to the second:", 2)
        yield from paragraphs(difference(conflict.diff), 4)
    yield BLANK


def _side(side: ConflictSide, *, weighs: bool) -> Iterator[Line]:
    page = "" if side.page is None else f"p. {side.page}"
    weight = f"weight {side.weight}" if weighs else ""
    yield Line(joined(inline(side.title, 100, "bold"), page, named(side.chunk_id, 100), weight, separator=" · "), 2)
    yield from paragraphs(marked(side.shown), 4)


def _citations(view: CitationsView) -> Iterator[Line]:
    left_out = f"; {view.left_out} left out, as changed or not visible" if view.left_out else ""
    yield heading("Citations", f"{len(view.citations)}, checked now with your permissions{left_out}")
    if not view.sections:
        yield note("Nothing is cited.")
    room = MOST_CITATIONS
    for section, citations in view.sections:
        if room > 0 and (section or len(view.sections) > 1):
            yield Line(inline(section or "in no section", 160, DIFFERS))
        for citation in citations[: max(room, 0)]:
            yield from _citation(citation)
        room -= len(citations)
    yield from more(-room, "citations")


def _citation(citation: CitationView) -> Iterator[Line]:
    page = "" if citation.page is None else f"p. {citation.page}"
    source = joined(inline(citation.title, 100, "bold"), page, named(citation.chunk_id, 100), separator=" · ")
    yield Line(joined(badge(citation.verdict or "missing", "pin"), source), 2)
    checks = f"text has its hash: {_CHECKS[citation.integrity]} · visible to you: {_CHECKS[citation.authorised]}"
    yield note(f"{checks} · weight {number(citation.weight)}", 4)
    yield Line(inline(citation.text, 600, QUIET), 4)
