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
    shown = Text("·" * start, QUIET) + Text("█" * width, "cyan" if bar.is_leg else "blue")
    shown.append("·" * (TRACK - start - width), QUIET)
    counts = ", ".join(f"{words(name)} {count}" for name, count in bar.counts)
    left = "" if bar.remaining is None else f"{bar.remaining} left"
    took = f"{number(bar.duration_ms, 2):>8} ms"
    return joined(name, shown, took, joined(f"{left:<9}", inline(counts, 120, QUIET), by=" "), by=" ")


def track(start: float, duration: float, total: float) -> tuple[int, int]:
    """Return first column and width of a bar: at least one column, none beyond the track.

    >>> track(0, 50, 100), track(99.9, 0.1, 100), track(0, 0, 0.001)
    ((0, 12), (23, 1), (0, 1))
    """
    first = min(int(TRACK * start / total), TRACK - 1)
    return first, min(max(round(TRACK * duration / total), 1), TRACK - first)


def candidates_lines(view: RunView) -> Iterator[Line]:
    """Yield every candidate: rank, place, scores, ranks in legs and after stages, where and why it left, text."""
    yield heading("Candidates", f"{len(view.kept)} kept of {len(view.candidates)}")
    if not view.candidates:
        yield note("Nothing was found.")
    columns = columns_of(view.candidates)
    if columns.scores:
        yield note(scales([name for _, name in columns.scores]))
    for one in view.candidates[:MOST_CANDIDATES]:
        yield from _candidate(one, several=columns.several)
    yield from more(len(view.candidates) - MOST_CANDIDATES, "candidates")


def _candidate(one: CandidateView, *, several: bool) -> Iterator[Line]:
    rank = Text(f"{'–' if one.rank is None else f'{one.rank}.':>4}")
    label = f"[{one.label}]" if one.label else ""
    corpus = inline(one.corpus, 30, QUIET) if several else None
    yield Line(joined(rank, label, badge(one.outcome, "outcome"), corpus, named(one.chunk_id, 100), by=" "))
    if place := joined(inline(one.title, 80), inline(where(one.page, one.section), 80), by=", "):
        yield Line(place, 5)
    if one.stage:
        yield Line(joined(inline(f"left at {words(one.stage)}:"), inline(one.reason, 80), by=" "), 5)
    scores = (f"{name} {number(getattr(one, field), 4)}" for field, name in SCORES if getattr(one, field) is not None)
    legs = (inline(f"{leg.leg} {leg.rank}.") for leg in one.legs)
    stages = (
        inline(f"after {words(stage.stage)} {stage.rank}. {number(stage.score)}".rstrip()) for stage in one.stages
    )
    if figures := joined(*scores, *legs, *stages, by=" · "):
        yield Line(figures, 5)
    if one.text is not None:
        yield Line(inline(one.text, 180, QUIET), 5)


def legs_lines(view: RunView) -> Iterator[Line]:
    """Yield each leg with what it found, best first; what is not in the answer is marked."""
    if not view.legs:
        return
    kept = {one.place for one in view.kept}
    yield heading("Legs")
    for leg in view.legs:
        yield from _leg(leg, kept)
    yield BLANK


def _leg(leg: Leg, kept: Iterable[Place]) -> Iterator[Line]:
    took = "" if leg.duration_ms is None else f"{number(leg.duration_ms, 1)} ms"
    methods = inline(", ".join(words(one) for one in leg.methods if one), 80)
    yield Line(joined(inline(leg.name, 60, "bold"), inline(leg.corpus), took, methods, scale(leg.name), by=" · "))
    if leg.query:
        yield Line(inline(leg.query, 160, QUIET), 2)
    for chunk_id, rank in leg.places[:MOST_PLACES]:
        gone = None if (leg.corpus, chunk_id) in kept else Text("not kept", QUIET)
        yield Line(joined(f"{rank.rank:>4}.", named(chunk_id, 80), number(rank.score), gone, by=" "))
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
    for one in view.costs:
        sent, made = ("?" if count is None else str(count) for count in (one.input_tokens, one.output_tokens))
        tokens = f"{sent} tokens sent, {one.cached_tokens} cached, {made} made"
        units = "" if one.search_units is None else f"{one.search_units} units"
        price = "no price" if one.cost is None else str(one.cost)
        yield Line(joined(*(inline(name) for name in (one.kind, one.provider, one.model)), tokens, units, price))
    if view.costs:
        yield Line(Text(f"Together: {'no price' if view.total_cost is None else view.total_cost}"))
    else:
        yield note("No model was paid.")
