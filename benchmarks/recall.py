"""Recall of the project's own search against exact search, and what it costs, by what the caller may see.

    python -m benchmarks.recall --rows 100000 --postgres 18

The searches are a worker's: its login role, its connections, its statements, row-level security.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path  # noqa: TC003 -- typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from benchmarks.command import as_command
from benchmarks.measure import K, Result, calibrated, measure, over_vector
from rich.console import Console
from rich.table import Table

from retrieval_client.errors import SettingsError
from synthetic.loading import Index
from synthetic.real_text import real_text
from synthetic.stage import changed_search, stage
from synthetic.vectors import VISIBLE_PERCENT, Dataset
from workbench.core.calibration import Goal
from worker.settings.serving import SearchSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GOAL_ALL, GOAL_FILTERED, GOAL_WORST = 0.995, 0.99, 0.80
GOAL_TIMES = {50: 2.0, 10: 4.0, 1: 1.5}
"""Most times that a caller's median may take of the unfiltered search's, by percent visible."""

# Where no terminal says how wide it is (a pipe, a CI log), tables need more than the usual 80 columns.
console = Console(width=None if sys.stdout.isatty() else 160)


# --- judging ------------------------------------------------------------------------------------


def too_slow(result: Result) -> list[str]:
    """The goals of time that were not reached; they say something only where nothing else runs."""
    unfiltered = {line["variant"]: line["median_ms"] for line in result.lines if line["visible_percent"] == 100}
    problems = []
    for line in result.judged:
        percent, goal = line["visible_percent"], GOAL_TIMES.get(line["visible_percent"])
        ratio = line["median_ms"] / unfiltered.get(line["variant"], line["median_ms"])
        if goal is not None and ratio > goal:
            problems.append(f"{percent} % visible: {ratio:.2f} times the unfiltered search, more than {goal}")
    return problems


def missed(result: Result) -> list[str]:
    """The goals of recall and rights that were not reached, in words."""
    problems = []
    for line in result.judged:
        who = " ".join([line["variant"], f"{line['visible_percent']} % visible"]).strip()
        goal = GOAL_ALL if line["visible_percent"] == 100 else GOAL_FILTERED
        if line["recall_mean"] < goal:
            problems.append(f"{who}: recall@{K} {line['recall_mean']:.4f} is below {goal}")
        if line["visible_percent"] == 100 and line["recall_worst"] < GOAL_WORST:
            problems.append(f"{who}: recall@{K} of the worst query {line['recall_worst']:.3f} is below {GOAL_WORST}")
        if line["rows_min"] < line["rows_wanted"]:
            problems.append(f"{who}: {line['rows_min']} rows where {line['rows_wanted']} are visible")
        if line["leaked"]:
            problems.append(f"{who}: {line['leaked']} rows that the caller may not see")
    problems += [
        f"{percent} % visible: exact search holds only {recall:.4f} of what brute force found"
        for percent, recall in result.exact_recall.items()
        if recall < 1
    ]
    return problems


# --- showing ------------------------------------------------------------------------------------

_HEADINGS = (
    *("visible", "rows (min)", "recall@15 mean", "p1", "worst", "index / exact"),
    *("ef_search", "median ms", "p99 ms", "Postgres' CPU ms", "× unfiltered", "exact median ms"),
)


def cells(line: Mapping[str, Any], unfiltered_ms: float | None) -> list[str]:
    """One line as it is shown."""
    return [
        f"{line['visible_percent']} %",
        str(line["rows_min"]),
        f"{line['recall_mean']:.4f}",
        f"{line['recall_p1']:.3f}",
        f"{line['recall_worst']:.3f}",
        f"{line['by_index']:.0%} / {1 - line['by_index']:.0%}",
        str(line["ef_search"]) if line["by_index"] else "–",
        f"{line['median_ms']:.1f}",
        f"{line['p99_ms']:.1f}",
        f"{line['postgres_ms']:.1f}",
        f"{line['median_ms'] / unfiltered_ms:.1f}" if unfiltered_ms else "–",
        f"{line['exact_median_ms']:.0f}",
    ]


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for the terminal, then the same as Markdown for a document."""
    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    markdown = [headings, ["---", *["--:"] * (len(headings) - 1)], *rows]
    print("\n" + "\n".join("| " + " | ".join(row) + " |" for row in markdown) + "\n")


def report(result: Result) -> None:
    """Everything that was measured."""
    about = result.about
    title = (
        f"{about['rows']:,} × 768 chunks, {about['queries']} queries, PostgreSQL {about['postgres']}, "
        f"pgvector {about['pgvector']}, {about['cores']} cores; table {about['table']}, "
        f"index {about['index']} {about['hnsw']}"
    )
    show_lines(title, result.shipped)
    if result.exact_recall:
        agreement = ", ".join(f"{recall:.4f} at {percent} %" for percent, recall in result.exact_recall.items())
        print(f"Exact search against brute force in NumPy (float64), recall@{K}: {agreement}\n")
    if len(result.lines) > len(result.shipped):
        show_lines("Settings and indexes beside one another", result.lines)


def show_lines(title: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """The lines of one or several variants; each is compared with its own unfiltered search."""
    unfiltered = {line["variant"]: line["median_ms"] for line in lines if line["visible_percent"] == 100}
    is_comparison = len({line["variant"] for line in lines}) > 1
    rows = [
        [*([line["variant"] or "as shipped"] if is_comparison else []), *cells(line, unfiltered.get(line["variant"]))]
        for line in lines
    ]
    show(title, [*(["setting"] if is_comparison else []), *_HEADINGS], rows)


# --- the command --------------------------------------------------------------------------------

_EXAMPLES = """
Examples:

  python -m benchmarks.recall

  python -m benchmarks.recall --rows 300000 --keep /var/tmp/bench --calibrate --json recall.json

  python -m benchmarks.recall --rows 100000 --keep /var/tmp/bench --calibrate --times

  python -m benchmarks.recall --real --queries 400 --visible 100 --sweep ef_search=40,100,200

Exit codes: 0 all goals reached, 1 a goal missed or the run failed, 2 wrong usage or settings.
"""


def run(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus; a multiple of 1000.")] = 100_000,
    postgres: Annotated[int, typer.Option(help="Major version of the server: 16 or 18.")] = 18,
    queries: Annotated[int, typer.Option(min=1, help="How many queries.")] = 200,
    check: Annotated[int, typer.Option(min=0, help="Queries checked by brute force in NumPy as well.")] = 50,
    visible: Annotated[
        str, typer.Option(help=f"Percents of rows visible, of 100 and {', '.join(map(str, VISIBLE_PERCENT))}.")
    ] = "100,50,10,1",
    keep: Annotated[
        Path | None, typer.Option(help="Keep the server's data in this folder and use it again.", file_okay=False)
    ] = None,
    m: Annotated[int | None, typer.Option("--m", help="Of the HNSW index; default as in schema.sql.")] = None,
    ef_construction: Annotated[int | None, typer.Option(help="Of the HNSW index; default as in schema.sql.")] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(help="Also measure with NAME=VALUE,VALUE,...: ef_search, or a setting of the search table."),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure what `retrieval-worker calibrate` would set as well.")
    ] = False,
    vector: Annotated[bool, typer.Option("--vector", help="Measure an index over vector as well.")] = False,
    real: Annotated[
        bool, typer.Option("--real", help="Embeddings of real text, made by python -m synthetic.real_text.")
    ] = False,
    times: Annotated[
        bool, typer.Option("--times", help="Judge times, too: only where nothing else runs on the machine.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of vectors, owners and queries.")] = 20,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", dir_okay=False)] = None,
) -> None:
    """Measure recall@15 and time of nearest-neighbour search for callers who see 100, 50, 10 and 1 % of the rows."""
    dataset, percents = real_text(rows) if real else Dataset(rows, seed), _percents(visible)
    changes = [change for text in sweep or [] for change in _changes(text)]
    with contextlib.ExitStack() as exits:
        index = Index(m, ef_construction, also_vector=vector)
        on = exits.enter_context(stage(dataset, index, postgres_version=postgres, keep=keep))
        further = [calibrated(on, percents, queries, Goal(GOAL_ALL, GOAL_WORST))] if calibrate else []
        if vector:
            further.append(over_vector(on))
        result = measure(on, changes, percents, queries, check, further)
    report(result)
    problems = missed(result) + (too_slow(result) if times else [])
    if json_file:
        write(json_file, result, problems)
    for problem in problems:
        console.print(f"missed: {problem}", style="red", highlight=False)
    if problems:
        raise typer.Exit(1)


run.__doc__ = f"{run.__doc__}\n{_EXAMPLES}"


def _percents(text: str) -> list[int]:
    percents = {str(percent): percent for percent in (100, *VISIBLE_PERCENT)}
    names = [name.strip() for name in text.split(",")]
    unknown_names = [name for name in names if name not in percents]
    if unknown_names:
        raise SettingsError(f"--visible: expected some of {', '.join(percents)}, got {unknown_names[0]!r}")
    return [percents[name] for name in dict.fromkeys(names)]


def _changes(text: str) -> list[dict[str, Any]]:
    """``name=value,value`` as one change for each value; checked before the long work begins."""
    name, _, values = text.partition("=")
    try:
        changes = [{name: float(value)} for value in values.split(",")]
    except ValueError:
        raise SettingsError(f"--sweep: expected NAME=NUMBER,NUMBER,... got {text!r}") from None
    for change in changes:
        changed_search(SearchSettings(), **change)
    return changes


def write(path: Path, result: Result, problems: Sequence[str]) -> None:
    """The figures for other programs."""
    figures = {
        **result.about,
        "lines": result.lines,
        "exact_recall": {str(percent): recall for percent, recall in result.exact_recall.items()},
        "missed": problems,
    }
    path.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    as_command(run, "benchmarks.recall")
