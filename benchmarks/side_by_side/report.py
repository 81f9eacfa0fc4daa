"""Tables in Markdown, which docs/performance.md includes."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.side_by_side.figures import (
    BARE,
    LANGCHAIN,
    LISTS,
    LLAMAINDEX,
    NAIVE,
    ONE,
    SIXTEEN,
    Spread,
    percentile,
    ratio,
    spread,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.side_by_side.figures import Goal, Measured

CPU = ("worker_ms", "postgres_ms", "redis_ms")
CARRIED = ("redis_in_kb", "redis_out_kb", "postgres_in_kb", "postgres_out_kb")

NAME = "side_by_side_{corpus}"
PLOT = f"{NAME}.svg"

TITLES = {
    BARE: "bare psycopg loop, 2 processes",
    LISTS: "bare `BLMOVE` worker",
    ONE: "**this worker, 1 query per job**",
    SIXTEEN: "**this worker, 16 queries per job**",
    LANGCHAIN: "LangChain PGVectorStore in Celery",
    LLAMAINDEX: "LlamaIndex PGVectorStore in Celery",
    NAIVE: "naive Celery worker",
}


def document(
    corpus: str, about: Mapping[str, Any], sides: Mapping[str, Measured], goals: Sequence[Goal], left_out: Iterable[str]
) -> str:
    """The whole section."""
    paragraphs = [
        introduction(about),
        *(f"Left out: {reason}." for reason in left_out),
        f"![Throughput, latency, and how both grow]({PLOT.format(corpus=corpus)})",
        table(*rates(sides)),
        table(*costs(sides)),
        "Goals, and what this run says of them:",
        table(*goal_lines(goals)),
    ]
    return "\n\n".join(paragraphs) + "\n"


def introduction(about: Mapping[str, Any]) -> str:
    """Describe the run and the machine."""
    return (
        f"`{about['command']}`: {about['vectors']}, "
        f"{about['queries']} different queries, k = {about['k']}, `ef_search` {about['ef_search']} on every side, "
        f"HNSW {about['hnsw']}; {about['rounds']} rounds of {about['count']} "
        f"queries in turns, then {about['calls']} queries one at a time. Two processes on each side, Redis "
        f"{about['redis']}, PostgreSQL {about['postgres']}, pgvector {about['pgvector']}, Python {about['python']}, "
        f"{about['cores']} cores; load average before the run {about['load']:.1f}. Task events are off on every side."
    )


def rates(sides: Mapping[str, Measured]) -> tuple[list[str], list[list[str]]]:
    """Throughput, ratios and latency."""
    headings = ["side", "queries/s", "÷ bare loop", "÷ LangChain", "p50 ms", "p95 ms", "p99 ms", "recall@15", "worst"]
    lines = []
    for name, side in sides.items():
        lines.append(
            [
                TITLES[name],
                _spread(spread(side.rates), ".0f"),
                *(_ratio(sides, name, base) for base in (BARE, LANGCHAIN)),
                *(f"{percentile(side.latencies, share):.1f}" for share in (0.5, 0.95, 0.99)),
                f"{statistics.fmean(side.recalls):.4f}",
                f"{min(side.recalls):.2f}",
            ]
        )
    return headings, lines


def costs(sides: Mapping[str, Measured]) -> tuple[list[str], list[list[str]]]:
    """Table of the costs of one query."""
    headings = [
        "per query",
        "worker CPU ms",
        "Postgres CPU ms",
        "Redis CPU ms",
        "kB into Redis",
        "kB out of Redis",
        "kB to Postgres",
        "kB from Postgres",
        "MB a process at rest",
        "MB after",
    ]
    lines = []
    for name, side in sides.items():
        figures = (*CPU, *CARRIED)
        forms = (".2f", ".2f", ".3f", *[".1f"] * len(CARRIED))
        lines.append(
            [
                TITLES[name].replace("**", ""),
                *(format(side.cost(figure), form) for figure, form in zip(figures, forms, strict=True)),
                f"{side.memory['at rest']:.0f}",
                f"{side.memory['after']:.0f}",
            ]
        )
    return headings, lines


def goal_lines(goals: Iterable[Goal]) -> tuple[list[str], list[list[str]]]:
    """Goal, measured, reached or missed."""
    lines = []
    for goal in goals:
        sign = "≥" if goal.at_least else "≤"
        unmeasured = f"`{goal.elsewhere}`" if goal.elsewhere else "not in this run"
        verdict = {True: "reached", False: "**missed**", None: unmeasured}[goal.reached]
        lines.append([goal.text, f"{sign} {goal.bound:g}{goal.unit}", _value(goal), verdict])
    return ["", "goal", "measured", ""], lines


def _value(goal: Goal) -> str:
    if goal.value is None:
        return "–"
    form = ".3f" if not goal.unit else ".2f"
    text = _spread(goal.value, form) if isinstance(goal.value, Spread) else format(goal.value, form)
    return text + goal.unit


def _ratio(sides: Mapping[str, Measured], name: str, base: str) -> str:
    if base not in sides:
        return "–"
    return "1" if name == base else _spread(ratio(sides[name].rates, sides[base].rates), ".2f")


def _spread(value: Spread, form: str) -> str:
    return f"{value.median:{form}} ({value.low:{form}}–{value.high:{form}})"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(folder: Path, corpus: str, section: str) -> None:
    """Write the section of this corpus into a folder of results, from which the documentation includes it."""
    (folder / f"{NAME.format(corpus=corpus)}.md").write_text(section, encoding="utf-8")
