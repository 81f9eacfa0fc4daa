"""Text of a recorded answer's trace: stages, candidates after each, reasons of drops."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rich.bar import Bar
from rich.console import Group

from worker.adapters.terminal import id_cell, styled
from worker.inspector.text.parts import CHUNK, FULL, NUMBER, WORD, fact_line, table_of
from worker.inspector.view.candidates import Ranking, changing, labels_by_place
from worker.inspector.view.wording import LABEL, QUESTION_WIDTH, QUIET, said, scales, short
from worker.jobs.pipeline.wire import as_answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from worker.jobs.pipeline.stored_packages import AnswerTrace
    from worker.jobs.pipeline.types import RetrievalTrace, StageTrace
    from worker.model import ScoreBreakdown

BAR = 32
LEFT_SHOWN = 12


def trace_report(title: str, recorded: AnswerTrace, *, everything: bool = False) -> Group:
    """Build the report of a recorded trace; ``everything``: with all dropped candidates, not only the first few."""
    return Group(*_report_lines(title, recorded, everything))


def trace_as_json(recorded: AnswerTrace) -> dict[str, Any]:
    """Return a trace as plain JSON, in the contract's form where an answer has the same."""
    request = recorded.package.request
    answer = as_answer(replace(recorded.response, package=recorded.package))
    return {
        "step": recorded.step,
        "question": request.question,
        "mode": request.mode,
        "profile": recorded.package.profile,
        **{name: answer[name] for name in ("status", "degraded", "costs", "trace")},
        "source_labels": answer["package"]["source_labels"],
        "remote_sources": answer["package"]["remote_sources"],
        "candidates": [asdict(candidate) for candidate in recorded.candidates],
    }


def _report_lines(title: str, recorded: AnswerTrace, everything: bool) -> Iterator[RenderableType]:
    request, trace = recorded.package.request, recorded.package.trace
    yield styled((title, "bold"))
    yield fact_line("question", short(request.question, QUESTION_WIDTH))
    yield fact_line(
        "mode", f"{request.mode}, profile {recorded.package.profile}: {said('status', recorded.response.status).words}"
    )
    for leg, text in trace.queries.items():
        yield fact_line(f"searched for ({leg})", short(text, QUESTION_WIDTH))
    for i, text in enumerate(trace.hyde, 1):
        yield fact_line(f"hypothetical answer {i}", text)
    yield fact_line("models", ", ".join(f"{purpose}: {name}" for purpose, name in trace.models.items()))
    yield stages_table(trace.stages, trace.legs)
    yield candidates_table(recorded, None if everything else LEFT_SHOWN)
    legs = dict.fromkeys(leg.leg for candidate in recorded.candidates for leg in candidate.scores.legs)
    if legs:
        yield fact_line("scores", f"{scales(legs)}; after a stage: the score that ordered it, for this list only")
    for remote_source in recorded.package.remote_sources:
        yield fact_line(f"remote source ({remote_source.provider})", remote_source.title or remote_source.url)
    if recorded.package.costs:
        yield costs_table(recorded)
    for warning in trace.warnings:
        yield fact_line("warning", warning)


def stages_table(stages: Sequence[StageTrace], legs: Mapping[str, float]) -> Table:
    """Build a table of stages: start and duration, as a bar and in milliseconds; below the search, its legs."""
    total = sum(stage.duration_ms for stage in stages)
    columns = (("stage", WORD), ("ms", NUMBER), ("", {"width": BAR, "no_wrap": True}))
    counted: tuple[tuple[str, Mapping[str, Any]], ...] = (("candidates after", {"justify": "right"}), ("counted", {}))
    table = table_of("stages", f"{total:.1f} ms together", *columns, *counted, expand=False)
    begun = 0.0
    for stage in stages:
        bar = Bar(max(total, 0.001), begun, begun + stage.duration_ms, width=BAR, color="cyan")
        counts = ", ".join(f"{name} {count}" for name, count in stage.counts.items())
        candidate_count = str(len(stage.candidates)) if stage.candidates else ""
        table.add_row(stage.stage, f"{stage.duration_ms:.2f}", bar, candidate_count, counts)
        for leg, leg_milliseconds in legs.items() if stage.stage == "search" else ():
            bar = Bar(max(total, 0.001), begun, begun + leg_milliseconds, width=BAR, color="bright_black")
            table.add_row(styled((f"  leg {leg}", QUIET)), styled((f"{leg_milliseconds:.2f}", QUIET)), bar)
        begun += stage.duration_ms
    return table


def candidates_table(recorded: AnswerTrace, dropped_limit: int | None) -> Table:
    """Build a table with one row per candidate: rank and score after each effective stage, then label or drop reason.

    At most ``dropped_limit`` dropped ones are shown; None: all.
    """
    trace = recorded.package.trace
    rankings = (
        Ranking(stage.stage, stage.candidates, stage.scores or (None,) * len(stage.candidates))
        for stage in trace.stages
    )
    changes = changing(rankings)
    labels = labels_by_place(recorded.package.source_labels)
    scores = {(candidate.corpus, candidate.chunk_id): candidate.scores for candidate in recorded.candidates}
    reasons = {(dropped.corpus, dropped.chunk_id): f"{dropped.reason} ({dropped.stage})" for dropped in trace.left}
    gone = [place for place in reasons if place not in scores]
    shown_places = gone if dropped_limit is None else gone[:dropped_limit]
    alone = len({corpus for corpus, _ in [*scores, *gone]}) == 1
    columns = (("chunk", CHUNK), *((ranking.stage, NUMBER) for ranking in changes), ("became", WORD), ("legs", FULL))
    table = table_of("candidates", _caption(trace, len(gone) - len(shown_places)), *columns)
    ranks = [dict(zip(ranking.places, _ranked(ranking), strict=True)) for ranking in changes]
    for place in [*scores, *shown_places]:
        became = styled((labels[place], LABEL) if place in labels else (reasons.get(place, ""), QUIET))
        chunk = place[1] if alone else " ".join(place)
        table.add_row(
            id_cell(chunk), *(stage_ranks.get(place, "") for stage_ranks in ranks), became, _legs(scores.get(place))
        )
    return table


def _ranked(ranking: Ranking) -> list[str]:
    """Return rank and score of each candidate after a stage."""
    return [f"{rank}." if score is None else f"{rank}. {score:.4f}" for rank, score in enumerate(ranking.scores, 1)]


def _legs(scores: ScoreBreakdown | None) -> str:
    """Return a source's rank in each leg that found it, and its recency."""
    if scores is None:
        return ""
    legs = [f"{leg.leg} {leg.rank}. ({leg.score:.3f})" for leg in scores.legs]
    return ", ".join(legs if scores.temporal is None else [*legs, f"recency {scores.temporal:.2f}"])


def _caption(trace: RetrievalTrace, hidden: int) -> str:
    counts = Counter(f"{dropped.reason} ({dropped.stage})" for dropped in trace.left)
    dropped_counts = ", ".join(f"{count} {reason}" for reason, count in counts.items()) or "none"
    return f"dropped: {dropped_counts}" + (f"; {hidden} of them not shown (--all)" if hidden else "")


def costs_table(recorded: AnswerTrace) -> Table:
    """Build a table with one row per call of a model."""
    names: list[tuple[str, Mapping[str, Any]]] = [(name, {}) for name in ("for", "provider", "model")]
    figures = [(name, {"justify": "right"}) for name in ("tokens sent", "cached", "made", "units", "cost")]
    table = table_of("costs", None, *names, *figures, expand=False)
    for cost in recorded.package.costs:
        tokens = [
            "?" if n is None else str(n) for n in (cost.tokens.input, cost.tokens.cached_input, cost.tokens.output)
        ]
        units = cost.tokens.search_units
        counts = [*tokens, ""] if units is None else ["", "", "", str(units)]
        price = "no price" if cost.cost is None else f"{cost.cost:f}"
        table.add_row(cost.kind, cost.provider, cost.model, *counts, price)
    return table
