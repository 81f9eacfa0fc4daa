"""Recall of the project's own search against exact search, and what it costs, by what the caller may see.

    python -m benchmarks.recall --rows 100000 --postgres 18

The searches are a worker's: its login role, its connections, its statements, row-level security.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003 -- typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import orjson
import psycopg
import typer
from benchmarks.data import VISIBLE_PERCENT, Dataset, Index
from benchmarks.stage import Stage, stage, steps
from benchmarks.truth import brute_force, leaked, recall_against, recall_by_distance
from rich.console import Console
from rich.table import Table

from worker.errors import RetrievalError, SettingsError
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.data import Progress, Vectors

    from worker.adapters.search import Corpus, Found

K = 15
GOAL_ALL, GOAL_FILTERED = 0.995, 0.99
SHIPPED, EXACT = "", "exact"

# Where no terminal says how wide it is (a pipe, a CI log), tables need more than the usual 80 columns.
console = Console(width=None if sys.stdout.isatty() else 160)


# --- measuring ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A way to search.

    Attributes:
        name: ``""`` for the shipped settings, ``exact``, or the setting that differs (``over_fetch=30``).
        corpus: searches that way.
        exact: ask for exact search.
    """

    name: str
    corpus: Corpus
    exact: bool = False


@dataclass
class Answers:
    """What one variant answered one caller: an answer and its duration for each query."""

    found: list[Found] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)


Runs = dict[tuple[int, str], Answers]


def ask(on: Stage, variants: Sequence[Variant], percents: Sequence[int], queries: Vectors) -> Runs:
    """Every query by every caller in every way.

    Those that use the index go first once to warm the caches, and take turns at each query, so that a busy
    moment of the machine is nobody's advantage. Exact search reads the whole table, which would leave the
    processor's caches cold for whoever comes after: it has a turn of its own.
    """
    by_plan = [(percent, variant) for percent in percents for variant in variants if not variant.exact]
    exactly = [(percent, variant) for percent in percents for variant in variants if variant.exact]
    with steps() as progress:
        _turns(on, "warming up", by_plan, queries, progress)
        runs = _turns(on, "searching", by_plan, queries, progress)
        _turns(on, "warming up for exact search", exactly, queries[:3], progress)
        return runs | _turns(on, "searching exactly", exactly, queries, progress)


def _turns(on: Stage, step: str, cases: Sequence[tuple[int, Variant]], queries: Vectors, progress: Progress) -> Runs:
    runs: Runs = {(percent, variant.name): Answers() for percent, variant in cases}
    for i, query in enumerate(queries):
        progress(step, i, len(queries))
        for percent, variant in cases:
            found, ms = _timed(on, variant, percent, query)
            runs[percent, variant.name].found.append(found)
            runs[percent, variant.name].ms.append(ms)
    progress(step, len(queries), len(queries))
    return runs


def _timed(on: Stage, variant: Variant, percent: int, query: Vectors) -> tuple[Found, float]:
    caller = on.caller(percent)
    started = time.perf_counter()
    found = variant.corpus.nearest(on.database, caller, query, K, NO_FILTERS, exact=variant.exact)
    return found, (time.perf_counter() - started) * 1000


def judge(on: Stage, runs: Runs, percent: int, name: str) -> dict[str, Any]:
    """One line of the result: how right one variant was for one caller, and how fast."""
    answers, exact = runs[percent, name], runs[percent, EXACT]
    visible = on.dataset.visible(percent)
    recalls = [
        recall_against(found.candidates, true.candidates)
        for found, true in zip(answers.found, exact.found, strict=True)
    ]
    lengths = [len(found.candidates) for found in answers.found]
    return {
        "visible_percent": percent,
        "variant": name,
        "rows_min": min(lengths),
        "rows_wanted": min(K, int(visible.sum())),
        "recall_mean": float(np.mean(recalls)),
        "recall_p1": float(np.percentile(recalls, 1)),
        "recall_worst": min(recalls),
        "by_index": sum(found.method == "index" for found in answers.found) / len(answers.found),
        "ef_search": max(found.ef_search for found in answers.found),
        "median_ms": float(np.median(answers.ms)),
        "p99_ms": float(np.percentile(answers.ms, 99)),
        "exact_median_ms": float(np.median(exact.ms)),
        "leaked": sum(leaked(found.candidates, visible) for found in answers.found),
    }


def check_exact(on: Stage, runs: Runs, percents: Iterable[int], queries: Vectors) -> dict[int, float]:
    """Recall of the project's exact search against NumPy's brute force in float64, by percent visible."""
    distances = brute_force(on.dataset, queries)
    checked = {}
    for percent in percents:
        visible = on.dataset.visible(percent)
        exact = runs[percent, EXACT].found[: len(queries)]
        checked[percent] = float(
            np.mean(
                [
                    recall_by_distance(found.candidates, row, visible, K)
                    for found, row in zip(exact, distances, strict=True)
                ]
            )
        )
    return checked


# --- judging ------------------------------------------------------------------------------------


def missed(lines: Iterable[Mapping[str, Any]], checked: Mapping[int, float]) -> list[str]:
    """The goals that were not reached, in words."""
    found = []
    for line in lines:
        who = f"{line['visible_percent']} % visible"
        goal = GOAL_ALL if line["visible_percent"] == 100 else GOAL_FILTERED
        if line["recall_mean"] < goal:
            found.append(f"{who}: recall@{K} {line['recall_mean']:.4f} is below {goal}")
        if line["rows_min"] < line["rows_wanted"]:
            found.append(f"{who}: {line['rows_min']} rows where {line['rows_wanted']} are visible")
        if line["leaked"]:
            found.append(f"{who}: {line['leaked']} rows that the caller may not see")
    found += [
        f"{percent} % visible: exact search agrees with brute force in {recall:.4f} of the rows only"
        for percent, recall in checked.items()
        if recall < 1
    ]
    return found


# --- showing ------------------------------------------------------------------------------------

_HEADINGS = (
    *("visible", "rows (min)", "recall@15 mean", "p1", "worst", "index / exact"),
    *("ef_search", "median ms", "p99 ms", "× unfiltered", "exact median ms"),
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


def show_lines(title: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """The lines of one or several variants; each is compared with its own unfiltered search."""
    unfiltered = {line["variant"]: line["median_ms"] for line in lines if line["visible_percent"] == 100}
    several = len({line["variant"] for line in lines}) > 1
    rows = [
        [*([line["variant"] or "as shipped"] if several else []), *cells(line, unfiltered.get(line["variant"]))]
        for line in lines
    ]
    show(title, [*(["setting"] if several else []), *_HEADINGS], rows)


# --- the command --------------------------------------------------------------------------------

_EXAMPLES = """
Examples:

  python -m benchmarks.recall

  python -m benchmarks.recall --rows 300000 --keep /var/tmp/bench --json recall.json

  python -m benchmarks.recall --keep /var/tmp/bench --sweep over_fetch=30,60,100 --sweep narrow_factor=0,10,17,1000

Exit codes: 0 all goals reached, 1 a goal missed or the run failed, 2 wrong usage.
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
        list[str] | None, typer.Option(help="Also measure with NAME=VALUE,VALUE,..., NAME of the search settings.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of vectors, owners and queries.")] = 20,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", dir_okay=False)] = None,
) -> None:
    """Measure recall@15 and time of nearest-neighbour search for callers who see 100, 50, 10 and 1 % of the rows."""
    dataset, percents = Dataset(rows, seed), _percents(visible)
    changes = [change for text in sweep or [] for change in _changes(text)]
    with stage(dataset, Index(m, ef_construction), postgres_version=postgres, keep=keep) as on:
        shipped = on.corpus()
        variants = [
            Variant(SHIPPED, shipped),
            Variant(EXACT, shipped, exact=True),
            *(Variant(f"{name}={value:g}", on.corpus(**{name: value})) for name, value in changes),
        ]
        asked = dataset.queries(queries)
        runs = ask(on, variants, percents, asked)
        lines = [judge(on, runs, percent, SHIPPED) for percent in percents]
        swept = [
            judge(on, runs, percent, variant.name)
            for variant in variants
            for percent in percents
            if variant.name != EXACT
        ]
        checked = check_exact(on, runs, percents, asked[:check]) if check else {}
    _report(on, queries, lines, swept if changes else [], checked)
    problems = missed(lines, checked)
    if json_file:
        _write(json_file, on, queries, swept, checked, problems)
    for problem in problems:
        console.print(f"missed: {problem}", style="red", highlight=False)
    if problems:
        raise typer.Exit(1)


run.__doc__ = f"{run.__doc__}\n{_EXAMPLES}"


def _percents(text: str) -> list[int]:
    known = {str(percent): percent for percent in (100, *VISIBLE_PERCENT)}
    wanted = [part.strip() for part in text.split(",")]
    unknown = [part for part in wanted if part not in known]
    if unknown:
        raise SettingsError(f"--visible: expected some of {', '.join(known)}, got {unknown[0]!r}")
    return [known[part] for part in dict.fromkeys(wanted)]


def _changes(text: str) -> list[tuple[str, float]]:
    name, _, values = text.partition("=")
    try:
        return [(name, float(value)) for value in values.split(",")]
    except ValueError:
        raise SettingsError(f"--sweep: expected NAME=NUMBER,NUMBER,... got {text!r}") from None


def _report(
    on: Stage,
    queries: int,
    lines: Sequence[Mapping[str, Any]],
    swept: Sequence[Mapping[str, Any]],
    checked: Mapping[int, float],
) -> None:
    v = on.versions
    title = (
        f"{on.dataset.rows:,} × 768 chunks, {queries} queries, PostgreSQL {v['postgres']}, pgvector {v['pgvector']}, "
        f"{os.cpu_count()} cores; table {v['table']}, index {v['index']} {v['hnsw']}"
    )
    show_lines(title, lines)
    if checked:
        agreement = ", ".join(f"{recall:.4f} at {percent} %" for percent, recall in checked.items())
        print(f"Exact search against NumPy float64 brute force, recall@{K}: {agreement}\n")
    if swept:
        show_lines("Settings swept", swept)


def _write(
    path: Path,
    on: Stage,
    queries: int,
    lines: Sequence[Mapping[str, Any]],
    checked: Mapping[int, float],
    problems: Sequence[str],
) -> None:
    figures = {
        "rows": on.dataset.rows,
        "seed": on.dataset.seed,
        "queries": queries,
        "cores": os.cpu_count(),
        **on.versions,
        "search": on.settings.search.model_dump(),
        "lines": lines,
        "exact_against_brute_force": {str(percent): recall for percent, recall in checked.items()},
        "missed": problems,
    }
    path.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2) + b"\n")


def main() -> None:
    """Run the command; whatever is a user's or the machine's fault is one line, never a stack trace."""
    # A polite `kill` unwinds like Ctrl-C, so that the server is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    command.command()(run)
    try:
        command(prog_name="python -m benchmarks.recall")
    except RetrievalError as error:
        _fail(error.message)
    except (OSError, psycopg.Error) as error:
        _fail(f"{type(error).__name__}: {str(error).strip()}")


def _fail(message: str) -> None:
    print(f"benchmarks.recall: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(1)


if __name__ == "__main__":
    main()
