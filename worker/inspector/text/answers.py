"""Text of searches, replays and citations."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.console import Group

from worker.adapters.terminal import ID_COLUMN, id_cell, styled
from worker.inspector.text.parts import (
    CHUNK,
    FULL,
    LINE,
    NUMBER,
    RANK,
    WORD,
    difference,
    marked,
    table_of,
    verdict_cell,
)
from worker.inspector.view.candidates import title_of, where
from worker.inspector.view.pieces import whole_words, window
from worker.inspector.view.run import run_view
from worker.inspector.view.wording import QUESTION_WIDTH, clamped, said, short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table
    from rich.text import Text

    from retrieval_client.contract.results import Hybrid, HybridAnswer, HybridMetrics, TopK
    from worker.inspector.view.citations import CitationsView, ConflictSide
    from worker.inspector.view.drift import DriftView

SECTION_WIDTH, DOCUMENT_WIDTH = 40, 34
ROW = 100
"""Characters of a text in a row."""

MOST_CONFLICTS = 50
"""Maximum conflicts shown; a document of thousands of citations may have as many conflicts."""

EXCERPT, BEFORE_TOKENS = 240, 60
"""Characters of a text in conflict, and how many of them precede the difference."""

_NO_PATHS: Mapping[str, str] = MappingProxyType({})


# --- searches -----------------------------------------------------------------------------------


def top_k_table(
    title: str, answer: TopK, milliseconds: float, row_limit: int, paths: Mapping[str, str] = _NO_PATHS
) -> Table:
    """Build a table of the first rows of an answer; see `view.candidates.title_of` for ``paths``."""
    hidden_rows = len(answer.chunks) - row_limit
    status = f"{said('status', answer.status).words}: k {clamped(answer.k_requested, answer.k)}"
    caption = f"{status}, {len(answer.chunks)} chunks in {milliseconds:.0f} ms, {answer.trace.search['method']} search"
    table = table_of(
        *(title, caption + (f", {hidden_rows} more not shown" if hidden_rows > 0 else "")),
        *(("#", RANK), ("cosine", NUMBER), ("document", {"no_wrap": True, "max_width": DOCUMENT_WIDTH})),
        *(("where", {"no_wrap": True, "max_width": 26}), ("chunk", CHUNK), ("text", LINE)),
    )
    for chunk in answer.chunks[:row_limit]:
        place = title_of(chunk, answer.corpus, paths), where(chunk.page, chunk.section)
        cells = (*place, id_cell(chunk.chunk_id), short(chunk.text, 120))
        table.add_row(str(chunk.rank), f"{chunk.similarity_score:.3f}", *cells)
    return table


def hybrid_report(answer: Hybrid, paths: Mapping[str, str] = _NO_PATHS) -> Group:
    """Build the report of a hybrid search: its query, and a table for each corpus with chunks."""
    tables = (
        hybrid_table(name, result, answer.metrics[name], paths) if result.chunks else nothing_found(name, answer)
        for name, result in answer.results.items()
    )
    return Group(hybrid_header(answer), *tables)


def hybrid_header(answer: Hybrid) -> Text:
    """Return the query that was searched and the state of the second search."""
    keywords = " ".join(answer.context_keywords) or "none"
    (state, *_) = {metrics.contextual for metrics in answer.metrics.values()}
    query = short(answer.transformed_query, QUESTION_WIDTH)
    notes = "\n".join(run_view(answer).said)
    return styled(f"searched for: {query}\ncontext: {keywords} ({state}), fused by {answer.fusion}\n{notes}")


def nothing_found(corpus: str, answer: Hybrid) -> str:
    """Return the sentence for a corpus without a chunk, with the reason where the full-text search had no word."""
    legs = answer.trace.search.get("legs", [])  # an answer from the cache has none
    methods = {method for leg in legs if leg["leg"] == "sparse" for method in leg["methods"]}
    reason = ": the question has no word for the full-text search, only stop words or signs"
    return f"{corpus}: nothing found{reason if methods == {'no_words'} else ''}"


def hybrid_table(
    corpus: str, answer: HybridAnswer, metrics: HybridMetrics, paths: Mapping[str, str] = _NO_PATHS
) -> Table:
    """Build a table with one row per chunk, with its rank in each leg; see `view.candidates.title_of` for ``paths``."""
    counts = {name: getattr(metrics, f"{name}_count") for name in ("primary", "contextual", "sparse")}
    leg_counts = ", ".join(f"{name} {count}" for name, count in counts.items() if count)
    state = f"{said('status', answer.status).words}, k {clamped(answer.top_k_requested, answer.top_k)}"
    caption = f"{state}: {leg_counts}; {metrics.merged_count} merged, {metrics.duplicate_count} duplicates"
    columns = (("#", RANK), ("cosine", NUMBER), ("legs", WORD), ("document", {"max_width": DOCUMENT_WIDTH}))
    table = table_of(corpus, caption, *columns, ("chunk", CHUNK), ("text", LINE))
    for chunk in answer.chunks:
        legs = " ".join(f"{leg.leg}:{leg.rank}" for leg in chunk.scores.legs)
        similarity = "" if chunk.similarity_score is None else f"{chunk.similarity_score:.3f}"
        cells = (title_of(chunk, corpus, paths), id_cell(chunk.chunk_id), short(chunk.text, ROW))
        table.add_row(str(chunk.rank), similarity, legs, *cells)
    return table


# --- pins and citations -------------------------------------------------------------------------


def replay_table(title: str, view: DriftView) -> Table:
    """Build a table with one row per pin of a replay."""
    counts = f"{view.matched} matched, {view.missing} missing, {view.filled} filled"
    caption = f"{counts}; digest {view.digest[7:19]}…"
    table = table_of(title, caption, ("verdict", WORD), ("chunk", CHUNK), ("text", FULL))
    for pin in view.pins:
        text = difference(pin.diff) if pin.diff else short(pin.text or pin.pinned_text, ROW)
        table.add_row(verdict_cell("pin", pin.verdict), id_cell(pin.chunk_id or ""), text)
    return table


def citations_table(title: str, view: CitationsView) -> Table:
    """Build a table with one row per citation: its integrity and the verdict of its chunk."""
    left_out = f"left out, as changed or not visible: {view.left_out}; " if view.left_out else ""
    artifact = f"kept as {view.artifact}" if view.artifact else "not kept"
    has_sections = any(citation.section for citation in view.citations)
    section = [("section", {"overflow": "fold", "max_width": SECTION_WIDTH})] if has_sections else []
    caption = f"{left_out}conflicts: {len(view.conflicts)}; {artifact}"
    table = table_of(title, caption, ("verdict", WORD), ("source", ID_COLUMN), *section, ("text", FULL))
    for citation in view.citations:
        sections = [citation.section] if has_sections else []
        cells = (id_cell(citation.source_id), *sections, short(citation.text, ROW))
        table.add_row(verdict_cell("pin", citation.verdict or "missing"), *cells)
    return table


def conflicts_table(view: CitationsView) -> Table:
    """Build a table with one row per citation in a conflict: the citation, the place in its text, and the difference.

    Beyond `MOST_CONFLICTS` they are only counted; citations.json has all.
    """
    hidden_count = len(view.conflicts) - MOST_CONFLICTS
    caption = f"{hidden_count} more are in the citations document" if hidden_count > 0 else None
    differs = ("differs by", {"overflow": "fold", "max_width": 14})
    columns = (("conflict", {"max_width": 14}), ("source", CHUNK), ("characters", WORD), differs, ("text", FULL))
    table = table_of("conflicts", caption, *columns)
    for conflict in view.conflicts[:MOST_CONFLICTS]:
        name = conflict.kind.replace("_", " ")
        kind = f"{name}: {', '.join(conflict.differs)}" if conflict.differs else name
        for side in conflict.sides:
            table.add_row(kind, *_side(side, weighs=conflict.kind == "weight_differs"))
            kind = ""  # shown once
        table.add_section()
    return table


def _side(side: ConflictSide, *, weighs: bool) -> tuple[str | Text, ...]:
    """Build the cells of one side of a conflict: the citation, its place, the difference and the text."""
    start, end = side.span
    tokens = [piece for piece in side.sentence if piece.marks]
    differs = f"weight {side.weight:g}" if weighs else " … ".join(token.text for token in tokens)
    page = "" if side.page is None else f", p. {side.page}"
    # From shortly before the difference, which is marked.
    excerpt_start = max(start, tokens[0].start - BEFORE_TOKENS) if tokens else start
    ends = ("…" if excerpt_start > start else ""), ("…" if end > excerpt_start + EXCERPT else "")
    sentence = "".join(piece.text for piece in side.sentence)
    bounds = whole_words(sentence, excerpt_start - start, excerpt_start - start + EXCERPT)
    excerpt = marked(window(side.sentence, *(start + bound for bound in bounds)))
    return f"{side.source_id}{page}", f"{start}-{end}", differs, styled(ends[0], *excerpt, ends[1])
