"""What HNSW graphs lose from build to build, at several search widths: ``python -m benchmarks.graphs --help``.

Several processes build a graph at once, so every build is another one. Where a query's neighbourhood is badly
connected, all of it is lost, so what counts is the worst query and how many lost most of theirs, not the mean.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from benchmarks.command import as_command
from benchmarks.data import Dataset, Index, Vectors, build
from benchmarks.side_by_side.rounds import recall
from benchmarks.stage import stage, steps
from benchmarks.truth import brute_force
from pgvector.psycopg import register_vector

from worker.errors import SettingsError

if TYPE_CHECKING:
    import psycopg
    from benchmarks.truth import Distances

K = 15
LOST = 0.8
"""A query that finds less than this share of its neighbours has lost them: the goal for the worst query."""

INDEX = "document_chunks_embedding_idx"
STATEMENT = b"SELECT id FROM public.document_chunks ORDER BY embedding <=> %s LIMIT 15"


@dataclass(frozen=True)
class Searched:
    """One graph, searched at one width.

    Attributes:
        recalls: of each query.
        ms: median time of a query.
    """

    recalls: list[float]
    ms: float


@dataclass(frozen=True)
class Graph:
    """One build.

    Attributes:
        seconds: that it took.
        megabytes: of the index.
        searched: by ``hnsw.ef_search``.
    """

    seconds: float
    megabytes: float
    searched: dict[int, Searched]


def built(admin: psycopg.Connection[Any], definition: str, rows: int) -> tuple[float, float]:
    """Build the index again; seconds, and its size in MB."""
    admin.execute(f"DROP INDEX IF EXISTS {INDEX}")
    started = time.perf_counter()
    build(admin, definition, rows)
    seconds = time.perf_counter() - started
    row = admin.execute(f"SELECT pg_relation_size('{INDEX}')").fetchone()
    return seconds, (row[0] if row else 0) / 2**20


def searched(admin: psycopg.Connection[Any], queries: Vectors, distances: Distances, ef_search: int) -> Searched:
    """The plain nearest-neighbour query, without row-level security, for every query."""
    admin.execute(f"SET hnsw.ef_search = {int(ef_search)}")
    took, recalls = [], []
    for query, row in zip(queries, distances, strict=True):
        started = time.perf_counter()
        found = admin.execute(STATEMENT, (query,), prepare=True).fetchall()
        took.append((time.perf_counter() - started) * 1000)
        recalls.append(recall([one for (one,) in found], row, K))
    return Searched(recalls, statistics.median(took))


def table(graphs: dict[int, list[Graph]]) -> str:
    """Markdown: a line for each m and width, over all builds."""
    lines = [
        (
            "| m | built in s | index MB | `ef_search` | recall@15 mean (of the builds) | worst query |"
            f" queries below {LOST:.0%} | median ms |"
        ),
        "| --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
    for m, builds in graphs.items():
        for ef_search in builds[0].searched:
            runs = [one.searched[ef_search] for one in builds]
            means = [statistics.fmean(one.recalls) for one in runs]
            every = [value for one in runs for value in one.recalls]
            lines.append(
                f"| {m} | {_range([one.seconds for one in builds], 0)} | {builds[0].megabytes:.0f} | {ef_search} | "
                f"{statistics.fmean(means):.4f} ({_range(means, 4)}) | {min(every):.3f} | "
                f"{sum(value < LOST for value in every)} of {len(every)} | "
                f"{statistics.median(one.ms for one in runs):.1f} |"
            )
    return "\n".join(lines)


def _range(values: list[float], places: int) -> str:
    low, high = (f"{value:.{places}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


_EXAMPLES = """
Examples:

  python -m benchmarks.graphs

  python -m benchmarks.graphs --rows 300000 --m 16,32 --builds 1 --queries 300

Exit codes: 0 measured, 1 the run failed, 2 wrong usage.
"""


def run(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus; a multiple of 1000.")] = 100_000,
    m: Annotated[str, typer.Option("--m", help="Of the graphs, with commas between.")] = "16,32",
    ef_construction: Annotated[int, typer.Option(min=4, max=1000, help="Of all graphs.")] = 200,
    builds: Annotated[int, typer.Option(min=1, help="Of each m, in turns.")] = 3,
    queries: Annotated[int, typer.Option(min=1, help="How many queries.")] = 1000,
    ef_search: Annotated[str, typer.Option(help="Search widths, with commas between.")] = "40,100,200,400",
    postgres: Annotated[int, typer.Option(help="Major version of the server: 16 or 18.")] = 18,
    seed: Annotated[int, typer.Option(help="Of vectors and queries.")] = 20,
) -> None:
    """What graphs of several m lose from build to build, at several search widths."""
    wanted, widths = _numbers("--m", m, 2, 100), _numbers("--ef-search", ef_search, K, 1000)
    dataset, first = Dataset(rows, seed), Index(wanted[0], ef_construction)
    graphs: dict[int, list[Graph]] = defaultdict(list)
    with stage(dataset, first, postgres_version=postgres, keep=None) as on:
        asked = dataset.queries(queries)
        register_vector(on.admin)
        on.admin.execute("SET enable_seqscan = off")  # a small table would be read whole
        definition = on.admin.execute(f"SELECT pg_get_indexdef('{INDEX}'::regclass)").fetchone()[0]
        with steps() as progress:
            progress("exact answers", 0, None)
            distances = brute_force(dataset, asked)
            turns = [(turn, one) for turn in range(builds) for one in wanted]
            for i, (_, one) in enumerate(turns):
                progress("graphs", i, len(turns))
                seconds, megabytes = built(on.admin, Index(one, ef_construction).of(definition), rows)
                searched(on.admin, asked[:50], distances[:50], widths[-1])  # warms up
                widely = {width: searched(on.admin, asked, distances, width) for width in widths}
                graphs[one].append(Graph(seconds, megabytes, widely))
            progress("graphs", len(turns), len(turns))
        versions = on.versions
    print(
        f"{rows:,} chunks, {queries:,} queries, k = {K}, {builds} builds each, ef_construction = {ef_construction}; "
        f"PostgreSQL {versions['postgres']}, pgvector {versions['pgvector']}\n"
    )
    print(table({one: graphs[one] for one in wanted}))


def _numbers(option: str, text: str, least: int, most: int) -> list[int]:
    """Numbers with commas between."""
    try:
        values = [int(one) for one in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(least <= value <= most for value in values):
        raise SettingsError(f"{option}: expected numbers of {least} to {most} with commas between, got {text!r}")
    return values


run.__doc__ = f"{run.__doc__}\n{_EXAMPLES}"

if __name__ == "__main__":
    as_command(run, "benchmarks.graphs")
