"""Curves: recall and time by ef_search, time by rows, k, visible share and batch; and what exact ties cost."""

from __future__ import annotations

import base64
import dataclasses
import json
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import orjson
from benchmarks import measure
from benchmarks.side_by_side.figures import RECALL, Spread, ratio
from benchmarks.side_by_side.rounds import recall
from pgvector.psycopg import register_vector
from psycopg import sql
from pydantic import Field, FiniteFloat, TypeAdapter

from synthetic.loading import build
from synthetic.vectors import chunk_id
from worker.adapters.postgres.search import VectorSearch
from worker.adapters.postgres.statements import FEW_ROWS_SETTING
from worker.core.ranking.vectors import decode
from worker.model import DIMENSIONS, NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import psycopg
    from benchmarks.side_by_side.sides import Side
    from benchmarks.truth import Distances

    from synthetic.loading import Progress
    from synthetic.stage import Stage
    from synthetic.vectors import Vectors

EF_SEARCH = (40, 60, 100, 150, 200, 300, 400)
KS = (10, 15, 30, 50)
VISIBLE = (100, 50, 10, 1)
BATCHES = (1, 2, 4, 8, 16, 32, 64)


class Table(NamedTuple):
    """A table with a nearest-neighbour index: its name, and SQL of a row's chunk id and of the order by its index."""

    name: str
    chunk_id: str = "id"
    order: str = f"embedding::halfvec({DIMENSIONS}) <=> %s::halfvec({DIMENSIONS})"


OURS = Table("document_chunks")


@dataclass(frozen=True)
class Point:
    """One mark of a curve.

    Attributes:
        x: what grows.
        ms: median milliseconds of a query, or 0 where a rate was measured.
        rate: queries a second, or 0.
        recall: mean recall, where it was measured.
    """

    x: float
    ms: float = 0.0
    rate: float = 0.0
    recall: float | None = None


@dataclass
class Growth:
    """Everything beside the comparison.

    Attributes:
        ef: recall and time by ``hnsw.ef_search``, for each table.
        curves: the others, by name.
        figures: single figures for the goals.
    """

    ef: dict[str, list[Point]] = field(default_factory=dict)
    curves: dict[str, list[Point]] = field(default_factory=dict)
    figures: dict[str, Spread | float] = field(default_factory=dict)


def by_ef(
    admin: psycopg.Connection[Any],
    tables: Sequence[Table],
    queries: Vectors,
    distances: Distances,
    k: int,
    progress: Progress,
) -> dict[str, list[Point]]:
    """Recall and time of the plain query for each table and search width.

    Args:
        admin: without row-level security.
        tables: with the same chunks.
        queries: shape (n, 768).
        distances: shape (n, rows).
        k: chunks wanted.
        progress: called for each step.
    """
    register_vector(admin)
    points: dict[str, list[Point]] = {table.name: [] for table in tables}
    cases = [(ef, table) for ef in EF_SEARCH for table in tables]
    for i, (ef, table) in enumerate(cases):
        progress("recall by ef_search", i, len(cases))
        ms, mean = _plain(admin, table, queries, distances, k, ef)
        points[table.name].append(Point(ef, ms, recall=mean))
    progress("recall by ef_search", len(cases), len(cases))
    return points


def narrowest(points: Mapping[str, Sequence[Point]], least: int) -> int:
    """The lowest search width at which every table reaches the recall that is asked of all; else the widest.

    Args:
        points: as `by_ef` gives them.
        least: of the width; below what this worker fetches, it would go on where a plain query stops, and find more.
    """
    for marks in zip(*points.values(), strict=True):
        if marks[0].x >= least and all((mark.recall or 0.0) >= RECALL for mark in marks):
            return int(marks[0].x)
    return EF_SEARCH[-1]


def by_visible_share(on: Stage, queries: Vectors, growth: Growth) -> None:
    """The shipped search by callers who see more or less, beside exact search."""
    runs = measure.ask(
        on,
        [measure.Variant(measure.SHIPPED, on.corpus()), measure.Variant(measure.EXACT, on.corpus(), exact=True)],
        VISIBLE,
        queries,
    )
    lines = {percent: measure.judge(on, runs, percent, measure.SHIPPED) for percent in VISIBLE}
    unfiltered = lines[100]["median_ms"]
    growth.figures |= {"recall_mean": lines[100]["recall_mean"], "recall_worst": lines[100]["recall_worst"]}
    for percent in VISIBLE[1:]:
        line = lines[percent]
        growth.figures |= {
            f"visible_{percent}_rows": float(line["rows_min"]),
            f"visible_{percent}_recall": line["recall_mean"],
            f"visible_{percent}_times": line["median_ms"] / unfiltered,
        }
    growth.curves["visible share, %"] = [
        Point(percent, line["median_ms"], recall=line["recall_mean"]) for percent, line in reversed(lines.items())
    ]


def by_k(on: Stage, queries: Vectors) -> list[Point]:
    """The search itself (the job's contract keeps k within 10 and 15)."""
    corpus, caller = on.corpus(), on.caller(100)
    took: dict[int, list[float]] = {k: [] for k in KS}
    for query in queries:
        for k in KS:
            took[k].append(
                _ms(lambda k=k, query=query: corpus.nearest(on.database, caller, query, k, NO_FILTERS, exact=False))
            )
    return [Point(k, statistics.median(values)) for k, values in took.items()]


def ties(on: Stage, queries: Vectors, k: int, rounds: int, ef_search: int) -> Spread:
    """The statement with exact ties beside the plain query, both in the worker's own transaction, in turns."""
    corpus = on.corpus(ef_search=ef_search)
    caller = on.caller(100)
    # What the worker's statement sets by itself.
    width = (("hnsw.ef_search", str(ef_search)), ("hnsw.iterative_scan", "relaxed_order"), (FEW_ROWS_SETTING, "on"))
    plain_caller = dataclasses.replace(caller, settings=(*caller.settings, *width))
    statements = corpus.statements
    plain = (
        b"SELECT * FROM ("
        b"SELECT c.embedding <=> %(query)s AS distance, c.id, c.document_id, c.text_content, c.page, c.section,"
        b" c.coordinates, c.metadata, c.chunk_hash FROM public.document_chunks AS c"
        b" ORDER BY c.embedding::halfvec(768) <=> %(query)s::halfvec(768) LIMIT %(k)s"
        b") AS nearest ORDER BY distance"
    )
    exact, simple = [], []
    for turn in range(rounds + 1):
        took: tuple[list[float], list[float]] = ([], [])
        for query in queries:
            values = statements.values(query, k, NO_FILTERS)
            searches = VectorSearch(corpus, query, k, NO_FILTERS).statements()
            took[0].append(_ms(lambda searches=searches: on.database.read(caller, searches)))
            took[1].append(_ms(lambda values=values: on.database.read(plain_caller, [(plain, values)])))
        if turn:  # the first one warms up
            exact.append(statistics.median(took[0]))
            simple.append(statistics.median(took[1]))
    return ratio(exact, simple)


def by_batch(sides: Iterable[tuple[int, Side]], count: int, rounds: int) -> list[Point]:
    """Queries a second by how many are asked in one job; the sizes take turns."""
    rates: dict[int, list[float]] = {}
    for turn in range(rounds + 1):
        for size, side in sides:
            side.prepare(count)
            seconds = side.run()
            if turn:
                rates.setdefault(size, []).append(count / seconds)
    return [Point(size, rate=statistics.median(values)) for size, values in rates.items()]


def by_rows(
    admin: psycopg.Connection[Any],
    queries: Vectors,
    distances: Distances,
    k: int,
    ef_search: int,
    progress: Progress,
) -> list[Point]:
    """The plain query on the first rows of the corpus, with an index of their own; and on all of it.

    Args:
        admin: without row-level security.
        queries: shape (n, 768).
        distances: of each query to every row, shape (n, rows).
        k: chunks wanted.
        ef_search: the same for all sizes.
        progress: called for each step.
    """
    rows = distances.shape[1]
    (definition,) = admin.execute("SELECT pg_get_indexdef('public.document_chunks_embedding_idx'::regclass)").fetchone()
    points = []
    for size in (rows // 10, rows * 3 // 10):
        progress(f"{size:,} rows", 0, None)
        table = Table(f"first_{size}")
        admin.execute(f"DROP TABLE IF EXISTS {table.name}")
        admin.execute(f"CREATE TABLE {table.name} (id text, embedding vector(768) STORAGE PLAIN)")
        try:
            admin.execute(
                f"INSERT INTO {table.name} SELECT id, embedding FROM public.document_chunks WHERE id < %s",
                (chunk_id(size),),
            )
            parameters = definition[definition.index("USING") :]
            build(admin, f"CREATE INDEX ON {table.name} {parameters}", size)
            admin.execute(f"VACUUM (ANALYZE) {table.name}")
            points.append(_point(admin, table, queries, distances[:, :size], k, ef_search))
        finally:
            admin.execute(f"DROP TABLE {table.name}")
    return [*points, _point(admin, OURS, queries, distances, k, ef_search)]


def _point(
    admin: psycopg.Connection[Any], table: Table, queries: Vectors, distances: Distances, k: int, ef_search: int
) -> Point:
    _plain(admin, table, queries, distances, k, ef_search)  # warms up
    ms, mean = _plain(admin, table, queries, distances, k, ef_search)
    return Point(distances.shape[1], ms, recall=mean)


def _plain(
    admin: psycopg.Connection[Any],
    table: Table,
    queries: Vectors,
    distances: Distances,
    k: int,
    ef_search: int,
) -> tuple[float, float]:
    """Median milliseconds and mean recall of the plain query."""
    admin.execute(f"SET hnsw.ef_search = {int(ef_search)}")
    admin.execute("SET enable_seqscan = off")  # small tables would be read whole
    query = sql.SQL("SELECT {} FROM {} ORDER BY {} LIMIT {}").format(
        sql.SQL(table.chunk_id), sql.Identifier(table.name), sql.SQL(table.order), sql.Literal(k)
    )
    statement = query.as_bytes(None)
    took, recalls = [], []
    for vector, row in zip(queries, distances, strict=True):
        started = time.perf_counter()
        rows = admin.execute(statement, (vector,), prepare=True).fetchall()
        took.append((time.perf_counter() - started) * 1000)
        recalls.append(recall([chunk_id for (chunk_id,) in rows], row, k))
    admin.execute("RESET hnsw.ef_search")
    admin.execute("RESET enable_seqscan")
    return statistics.median(took), statistics.fmean(recalls)


def decoding(queries: Vectors, rounds: int) -> Spread:
    """Return how much faster an embedding is decoded and checked than a JSON list by json and pydantic, in turns."""
    lists = [json.dumps(query.tolist()) for query in queries]
    texts = [orjson.dumps(base64.b64encode(query.astype("<f4").tobytes()).decode()) for query in queries]
    floats = TypeAdapter(Annotated[list[FiniteFloat], Field(min_length=DIMENSIONS, max_length=DIMENSIONS)])
    plain, ours = [], []
    for _ in range(rounds):
        plain.append(_ms(lambda: [floats.validate_python(json.loads(text)) for text in lists]))
        ours.append(_ms(lambda: [decode(orjson.loads(text)) for text in texts]))
    return ratio(plain, ours)


def _ms(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000
