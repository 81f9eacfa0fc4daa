"""Trace: stages as a waterfall, legs, every candidate with where and why it left, context, costs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from rich.text import Text

from worker.inspector.rendering import number, words
from worker.inspector.terminal.answer import head_lines
from worker.inspector.terminal.lines import (
    BLANK,
    QUIET,
    Line,
    badge,
    facts,
    heading,
    inline,
    joined,
    more,
    named,
    note,
    paragraphs,
    plain,
)
from worker.inspector.view.candidates import columns_of, where
from worker.inspector.view.wording import SCORES, scale, scales

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from worker.inspector.view.candidates import CandidateView, Leg, Place
    from worker.inspector.view.run import RunView
    from worker.inspector.view.waterfall import Bar, Waterfall

MOST_CANDIDATES, MOST_PLACES, MOST_CONTEXT = 500, 15, 2000
TRACK, BEFORE_TRACK = 24, 20
"""Columns of the track of a bar, and of the name before it."""


def trace_lines(view: RunView) -> list[Line]:
    """Return the lines of an answer's trace."""
    return [
        *head_lines(view),
        BLANK,
        *waterfall_lines(view.waterfall),
        BLANK,
        *candidates_lines(view),
        BLANK,
        *legs_lines(view),
        *context_lines(view),
        *costs_lines(view),
    ]


def waterfall_lines(waterfall: Waterfall) -> Iterator[Line]:
    """Yield the stages, each with a bar from its start to its end, its time, and the candidates after it."""
    reading = ", of reading the record now: it keeps no times" if waterfall.timing == "reading" else ""
    yield heading("Stages", f"{number(waterfall.total_ms, 2)} ms{reading}")
    if not waterfall.bars:
        yield note("No stages were recorded.")
    for bar in waterfall.bars:
        yield Line(_bar(bar, max(waterfall.total_ms, 0.001)))


def _bar(bar: Bar, total: float) -> Text:
    name = inline(f"{'  leg ' if bar.is_leg else ''}{bar.name}", BEFORE_TRACK - 1)
    if bar.is_leg:
        name = Text("  ") + name
    name.truncate(BEFORE_TRACK - 1, pad=True)
    start, width = track(bar.start_ms, bar.duration_ms, total)
    bar_text = Text("·" * start, QUIET) + Text("█" * width, "cyan" if bar.is_leg else "blue")
    bar_text.append("·" * (TRACK - start - width), QUIET)
    counts = ", ".join(f"{words(name)} {count}" for name, count in bar.counts)
    remaining = "" if bar.remaining is None else f"{bar.remaining} left"
    took = f"{number(bar.duration_ms, 2):>8} ms"
    return joined(
        name, bar_text, took, joined(f"{remaining:<9}", inline(counts, 120, QUIET), separator=" "), separator=" "
    )


def track(start: float, duration: float, total: float) -> tuple[int, int]:
    """Return first column and width of a bar: at least one column, none beyond the track.

    >>> track(0, 50, 100), track(99.9, 0.1, 100), track(0, 0, 0.001)
    ((0, 12), (23, 1), (0, 1))
    """
    first_column = min(int(TRACK * start / total), TRACK - 1)
    return first_column, min(max(round(TRACK * duration / total), 1), TRACK - first_column)


def candidates_lines(view: RunView) -> Iterator[Line]:
    """Yield every candidate: rank, place, scores, ranks in legs and after stages, where and why it left, text."""
    yield heading("Candidates", f"{len(view.kept)} kept of {len(view.candidates)}")
    if not view.candidates:
        yield note("Nothing was found.")
    columns = columns_of(view.candidates)
    if columns.scores:
        yield note(scales([name for _, name in columns.scores]))
    for candidate in view.candidates[:MOST_CANDIDATES]:
        yield from _candidate(candidate, has_several_corpora=columns.has_several_corpora)
    yield from more(len(view.candidates) - MOST_CANDIDATES, "candidates")


def _candidate(candidate: CandidateView, *, has_several_corpora: bool) -> Iterator[Line]:
    rank = Text(f"{'–' if candidate.rank is None else f'{candidate.rank}.':>4}")
    label = f"[{candidate.label}]" if candidate.label else ""
    corpus = inline(candidate.corpus, 30, QUIET) if has_several_corpora else None
    yield Line(
        joined(rank, label, badge(candidate.outcome, "outcome"), corpus, named(candidate.chunk_id, 100), separator=" ")
    )
    if place := joined(
        inline(candidate.title, 80), inline(where(candidate.page, candidate.section), 80), separator=", "
    ):
        yield Line(place, 5)
    if candidate.stage:
        yield Line(joined(inline(f"left at {words(candidate.stage)}:"), inline(candidate.reason, 80), separator=" "), 5)
    scores = (
        f"{name} {number(getattr(candidate, field), 4)}"
        for field, name in SCORES
        if getattr(candidate, field) is not None
    )
    legs = (inline(f"{leg.leg} {leg.rank}.") for leg in candidate.legs)
    stages = (
        inline(f"after {words(stage.stage)} {stage.rank}. {number(stage.score)}".rstrip()) for stage in candidate.stages
    )
    if figures := joined(*scores, *legs, *stages, separator=" · "):
        yield Line(figures, 5)
    if candidate.text is not None:
        yield Line(inline(candidate.text, 180, QUIET), 5)


def legs_lines(view: RunView) -> Iterator[Line]:
    """Yield each leg with what it found, best first; what is not in the answer is marked."""
    if not view.legs:
        return
    answer_places = {candidate.place for candidate in view.kept}
    yield heading("Legs")
    for leg in view.legs:
        yield from _leg(leg, answer_places)
    yield BLANK


def _leg(leg: Leg, answer_places: Iterable[Place]) -> Iterator[Line]:
    took = "" if leg.duration_ms is None else f"{number(leg.duration_ms, 1)} ms"
    methods = inline(", ".join(words(method) for method in leg.methods if method), 80)
    yield Line(
        joined(inline(leg.name, 60, "bold"), inline(leg.corpus), took, methods, scale(leg.name), separator=" · ")
    )
    if leg.query:
        yield Line(inline(leg.query, 160, QUIET), 2)
    for chunk_id, rank in leg.places[:MOST_PLACES]:
        gone = None if (leg.corpus, chunk_id) in answer_places else Text("not kept", QUIET)
        yield Line(joined(f"{rank.rank:>4}.", named(chunk_id, 80), number(rank.score), gone, separator=" "))
    yield from more(len(leg.places) - MOST_PLACES, "chunks", 2)


def context_lines(view: RunView) -> Iterator[Line]:
    """Yield the context that the model was given."""
    if not view.context:
        return
    yield heading("Context that the model was given")
    for piece in itertools.islice(view.context, MOST_CANDIDATES):
        if piece.label:
            yield Line(Text(f"[{piece.label}]", "bold"))
        yield from paragraphs(plain(piece.text[:MOST_CONTEXT]), 2)
        yield from more(len(piece.text) - MOST_CONTEXT, "characters", 2)
    yield BLANK


def costs_lines(view: RunView) -> Iterator[Line]:
    """Yield models, and the cost of each call of one."""
    yield heading("Costs and models")
    yield from facts(view.models)
    for cost in view.costs:
        input_tokens, output_tokens = (
            "?" if count is None else str(count) for count in (cost.input_tokens, cost.output_tokens)
        )
        tokens = f"{input_tokens} tokens sent, {cost.cached_tokens} cached, {output_tokens} made"
        units = "" if cost.search_units is None else f"{cost.search_units} units"
        price = "no price" if cost.cost is None else str(cost.cost)
        yield Line(joined(*(inline(name) for name in (cost.kind, cost.provider, cost.model)), tokens, units, price))
    if view.costs:
        yield Line(Text(f"Together: {'no price' if view.total_cost is None else view.total_cost}"))
    else:
        yield note("No model was paid.")
