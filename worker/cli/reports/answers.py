"""Reports of replays, citations and hybrid searches for a terminal."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.table import Table

from retrieval_client.errors import InvalidJob
from worker.adapters.private_files import write_private
from worker.cli.terminal import ID_COLUMN, id_cell, styled
from worker.cli.usage import WrongUsage
from worker.core.citations.document import read_citations_json
from worker.inspector.view.candidates import title_of
from worker.inspector.view.pieces import word_diff as compare_words
from worker.inspector.view.run import run_view
from worker.inspector.view.wording import MARKS, STYLES, said

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.text import Text

    from retrieval_client.contract.pinned import Citations, Replay
    from retrieval_client.contract.results import Hybrid, HybridAnswer, HybridMetrics
    from worker.inspector.view.pieces import DiffPiece
    from worker.inspector.view.wording import Kind

SECTION_WIDTH, DOCUMENT_WIDTH = 40, 34

QUESTION_WIDTH = 200
"""Characters of a question that are repeated."""

MOST_CONFLICTS = 50
"""Maximum conflicts shown; a document of thousands of citations may have as many conflicts."""

EXCERPT, BEFORE_TOKENS = 240, 60
"""Characters of a text in conflict, and how many of them precede the difference."""


def replay_table(title: str, replay: Replay, old_texts: Mapping[str, str], new_texts: Mapping[str, str]) -> Table:
    """Build a table with one row per pin.

    Args:
        title: the table's title.
        replay: the answer.
        old_texts: chunk hash → cited text, if a citations document has it.
        new_texts: chunk hash → current text.
    """
    counts = (
        f"{replay.matched} matched, {replay.missing} missing, {replay.filled} filled; digest {replay.digest[7:19]}…"
    )
    table = Table(title=title, caption=counts, title_justify="left", expand=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("chunk", style="cyan", **ID_COLUMN)
    table.add_column("text", ratio=1)
    for pin in replay.pins:
        old, new = old_texts.get(pin.chunk_hash), new_texts.get(pin.found_hash or pin.chunk_hash)
        edited = pin.verdict == "edited" and old is not None and new is not None
        text = word_diff(old or "", new or "") if edited else short(new or old or "")
        table.add_row(verdict_cell("pin", pin.verdict), id_cell(pin.chunk_id or ""), text)
    return table


def citations_table(title: str, answer: Citations) -> Table:
    """Build a table with one row per citation: its integrity and the verdict of its chunk."""
    conflicts = f"conflicts: {len(answer.conflicts)}; "
    left_out = sum(stage.counts.get("left_out", 0) for stage in answer.trace.stages)
    if left_out:
        conflicts = f"left out, as changed or not visible: {left_out}; {conflicts}"
    where = f"kept as {answer.artifact}" if answer.artifact else "not kept"
    table = Table(title=title, caption=conflicts + where, title_justify="left", expand=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("source", **ID_COLUMN)
    has_sections = any(citation["section"] for citation in answer.citations["all_citations"])
    if has_sections:
        table.add_column("section", overflow="fold", max_width=SECTION_WIDTH)
    table.add_column("text", ratio=1)
    for citation, check in zip(answer.citations["all_citations"], answer.verification, strict=True):
        sections = [citation["section"] or ""] if has_sections else []
        row = (id_cell(citation["source_id"]), *sections, short(citation["text"]))
        table.add_row(verdict_cell("pin", check.verdict or "missing"), *row)
    return table


def conflicts_table(answer: Citations) -> Table:
    """Build a table with one row per citation in a conflict: the citation, the place in its text, and the difference.

    Beyond `MOST_CONFLICTS` they are only counted; citations.json has all.
    """
    shown_conflicts = answer.conflicts[:MOST_CONFLICTS]
    hidden_count = len(answer.conflicts) - len(shown_conflicts)
    caption = f"{hidden_count} more are in the citations document" if hidden_count else None
    table = Table(title="conflicts", caption=caption, title_justify="left", expand=True)
    table.add_column("conflict", max_width=14)
    table.add_column("source", style="cyan", **ID_COLUMN)
    table.add_column("characters", no_wrap=True)
    table.add_column("differs by", overflow="fold", max_width=14)
    table.add_column("text", ratio=1)
    for conflict in shown_conflicts:
        name = conflict["kind"].replace("_", " ")
        kind = f"{name}: {', '.join(conflict['differs'])}" if conflict["differs"] else name
        for side in conflict["sides"]:
            table.add_row(kind, *_side(conflict["kind"], side, answer.citations["all_citations"][side["index"]]))
            kind = ""  # shown once
        table.add_section()
    return table


def _side(kind: str, side: Mapping[str, Any], citation: Mapping[str, Any]) -> tuple[str | Text, ...]:
    """Build the cells of one side of a conflict: the citation, its place, the difference and the text."""
    (start, end), text = side["span"], citation["text"]
    tokens = " … ".join(text[token_start:token_end] for token_start, token_end in side["tokens"])
    differs = f"weight {citation['weight']:g}" if kind == "weight_differs" else tokens
    which = side["source_id"]
    page = f", p. {citation['page']}" if "page" in citation else ""
    return f"{which}{page}", f"{start}-{end}", differs, _excerpt(text, start, end, side["tokens"])


def _excerpt(text: str, start: int, end: int, tokens: Sequence[Sequence[int]]) -> Text:
    """Return the text of a span, from shortly before the difference, which is marked."""
    excerpt_start = max(start, tokens[0][0] - BEFORE_TOKENS) if tokens else start
    excerpt_end = min(end, excerpt_start + EXCERPT)
    pieces: list[str | tuple[str, str]] = ["…" if excerpt_start > start else ""]
    position = excerpt_start
    for token_start, token_end in tokens:
        if token_end <= excerpt_end:
            pieces += [_flat(text[position:token_start]), (_flat(text[token_start:token_end]), MARKS["differs"])]
            position = token_end
    return styled(*pieces, _flat(text[position:excerpt_end]), "…" if excerpt_end < end else "")


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def verdict_cell(kind: Kind, code: str) -> Text:
    """Return what is said of a verdict, in the colour of its tone."""
    verdict = said(kind, code)
    return styled((verdict.words, STYLES[verdict.tone]))


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
    corpus: str, answer: HybridAnswer, metrics: HybridMetrics, paths: Mapping[str, str] = MappingProxyType({})
) -> Table:
    """Build a table with one row per chunk, with its rank in each leg; see `view.candidates.title_of` for ``paths``."""
    leg_counts = ", ".join(f"{name} {count}" for name, count in _counts(metrics).items())
    state = f"{said('status', answer.status).words}, {k_line(answer.top_k_requested, answer.top_k)}"
    caption = f"{state}: {leg_counts}; {metrics.merged_count} merged, {metrics.duplicate_count} duplicates"
    table = Table(title=corpus, caption=caption, title_justify="left", expand=True)
    table.add_column("#", style="dim", justify="right", no_wrap=True)
    table.add_column("cosine", justify="right", no_wrap=True)
    table.add_column("legs", no_wrap=True)
    table.add_column("document", max_width=DOCUMENT_WIDTH)
    table.add_column("chunk", style="cyan", **ID_COLUMN)
    table.add_column("text", no_wrap=True, ratio=1)
    for chunk in answer.chunks:
        legs = " ".join(f"{leg.leg}:{leg.rank}" for leg in chunk.scores.legs)
        similarity = "" if chunk.similarity_score is None else f"{chunk.similarity_score:.3f}"
        table.add_row(
            str(chunk.rank),
            similarity,
            legs,
            title_of(chunk, corpus, paths),
            id_cell(chunk.chunk_id),
            short(chunk.text),
        )
    return table


def k_line(requested: int, used: int) -> str:
    """Return the number of chunks of an answer, and that which was asked for where it was clamped.

    >>> k_line(3, 10), k_line(12, 12)
    ('k 10 (asked for 3)', 'k 12')
    """
    return f"k {used}" if requested == used else f"k {used} (asked for {requested})"


def _counts(metrics: HybridMetrics) -> dict[str, int]:
    counts = {name: getattr(metrics, f"{name}_count") for name in ("primary", "contextual", "sparse")}
    return {name: count for name, count in counts.items() if count}


def word_diff(old: str, new: str) -> Text:
    """Return two texts as a coloured word diff in git's notation: [-removed-], {+added+}."""
    return styled(*(fragment for piece in compare_words(old, new) for fragment in _diff_parts(piece)))


_DIFF = {"removed": ("[-{}-]", "red"), "added": ("{{+{}+}}", "green")}


def _diff_parts(piece: DiffPiece) -> tuple[str | tuple[str, str], ...]:
    flat = " ".join(piece.text.split())
    if piece.change == "same":
        return (flat, " ")
    form, style = _DIFF[piece.change]
    return ((form.format(flat), style), " ")


def short(text: str, length: int = 100) -> str:
    """Return a text on one line, cut to ``length`` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def read_document(path: Path) -> dict[str, Any]:
    """Read a citations document from its file.

    Raises:
        WrongUsage: it can't be read, or is no citations document.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        read_citations_json(document)
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}") from None
    except InvalidJob as error:  # before its base, ValueError
        raise WrongUsage(f"{path}: {error.message}") from None
    except (ValueError, RecursionError):
        raise WrongUsage(f"{path}: expected a file with JSON") from None
    return dict(document)


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a citations document to a file.

    Raises:
        WrongUsage: it can't be written.
    """
    try:
        write_private(path, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}") from None


def texts_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return chunk hash → text of a citations document."""
    return {citation["chunk_hash"]: citation["text"] for citation in document.get("all_citations", [])}
