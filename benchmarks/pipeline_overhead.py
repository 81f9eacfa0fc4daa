"""Time of the pipeline beside its searches: by the stages of a question.

    python -m benchmarks.pipeline_overhead
    python -m benchmarks.pipeline_overhead --rows 10000

The profile `dense`, without a model: each question is asked through `build_sources`, `synthesize_context` and `execute`
as a worker calls them. The overhead is what the first two take beyond the legs (their searches in Postgres and reading
the rows). The whole job is asked apart: it also keeps package and answer in Postgres. Modes take turns at each
question, so that a busy moment of the machine favours none.
"""

from __future__ import annotations

import cProfile
import gc
import io
import pstats
import statistics
import sys
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Annotated, TypeVar

import psycopg
import typer
from benchmarks import labelled_sets
from rich.console import Console
from rich.table import Table

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from synthetic.loading import TENANT, Index, load
from synthetic.vectors import Dataset
from worker.cli import demo
from worker.cli.devstack.stack import local_stack
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.pipeline.types import QueryRequest
from worker.model import Principal
from worker.settings import from_values, read_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

GOAL_MS = 2.0
MODES = ("grounded", "extraction")
PROFILE = "dense"
PARTS = ("legs", "embedding", "rest of build_sources", "synthesize_context", "overhead", "execute", "whole job")

T = TypeVar("T")
Figures = dict[str, list[float]]


def main(
    rows: Annotated[int, typer.Option(help="Chunks of a made corpus, a multiple of 1,000; 0: the sample's.")] = 0,
    rounds: Annotated[int, typer.Option(help="Times that each question is asked.", min=1)] = 5,
    profile: Annotated[bool, typer.Option(help="Also show what the time of the overhead goes to.")] = False,
) -> None:
    """Measure; exit code 1 where the overhead is more than its goal."""
    console = Console(width=150)
    caller, queries = labelled_sets.CALLER.owner, labelled_sets.SAMPLES.queries
    questions = [query.question for query in queries]
    with local_stack() as stack:
        kind = demo.install_sample(stack, Console(stderr=True)).kind
        if rows:
            _load(stack.postgres.dsn(), rows)
        connections = {"database_connection_string": stack.postgres.dsn(user="retrieval_worker"), "broker_url": "-"}
        values = {**read_values(), **connections, "embedder": {"kind": kind}}
        engine = Engine(from_values(values), time.perf_counter)
        gc.collect()
        gc.freeze()  # as a worker's process does once it is ready
        try:
            asker = _asker({"user_id": caller, "tenant_id": TENANT if rows else ""})
            figures = measured(engine, asker, questions, rounds)
            console.print(table(figures, f"{rows or 'sample'}: {len(questions)} questions, {rounds} rounds"))
            if profile:
                console.print(profiled(engine, asker, questions), markup=False, highlight=False)
        finally:
            engine.close()
    if any(statistics.median(parts["overhead"]) > GOAL_MS for parts in figures.values()):
        sys.exit(1)


def measured(engine: Engine, asker: Principal, questions: Sequence[str], rounds: int) -> dict[str, Figures]:
    """Milliseconds of each part, by mode; the first round, which warms up, is not counted."""
    figures: dict[str, Figures] = {mode: defaultdict(list) for mode in MODES}
    for i in range(rounds + 1):
        for question in questions:
            for mode in MODES:
                for part, ms in _parts(engine, asker, question, mode):
                    if i:
                        figures[mode][part].append(ms)
    return figures


def _parts(engine: Engine, asker: Principal, question: str, mode: str) -> Iterator[tuple[str, float]]:
    """One question, part by part."""
    pipeline = engine.pipeline
    request = QueryRequest(question, mode=mode, profile=PROFILE)
    package, built = _timed(lambda: pipeline.build_sources(request, asker))
    package, synthesized = _timed(lambda: pipeline.synthesize_context(package))
    _, executed = _timed(lambda: pipeline.execute(package, asker.owner))
    stages = {stage.stage: stage.duration_ms for stage in package.trace.stages}
    legs = sum(package.trace.legs.values())
    yield "legs", legs
    yield "embedding", stages["query"]
    yield "rest of build_sources", built - legs - stages["query"]
    yield "synthesize_context", synthesized
    yield "overhead", built + synthesized - legs
    yield "execute", executed
    job = parse_job(RunPipeline, {"question": question, "mode": mode, "profile": PROFILE})
    yield "whole job", _timed(lambda: engine.pipeline_jobs.answer(job, JobContext(lambda: asker)))[1]


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    made = call()
    return made, (time.perf_counter() - started) * 1000


def table(figures: dict[str, Figures], title: str) -> Table:
    """Medians and the 95th percentile, by mode."""
    shown = Table(title=f"{title}; ms, median (p95)", title_justify="left", caption=f"goal: overhead {GOAL_MS:g} ms")
    shown.add_column("mode")
    for part in PARTS:
        shown.add_column(part, justify="right")
    for mode, parts in figures.items():
        cells = [f"{statistics.median(parts[p]):.2f} ({statistics.quantiles(parts[p], n=20)[-1]:.2f})" for p in PARTS]
        shown.add_row(mode, *cells)
    return shown


def profiled(engine: Engine, asker: Principal, questions: Sequence[str]) -> str:
    """The functions that take most of the time, over all questions."""
    profiler = cProfile.Profile()
    profiler.enable()
    for question in questions:
        list(_parts(engine, asker, question, MODES[0]))
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(45)
    return text.getvalue()


def _load(dsn: str, rows: int) -> None:
    """Other documents in place of the sample's."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        load(admin, Dataset(rows), Index(), lambda *_: None)


def _asker(claims: dict[str, str]) -> Principal:
    settings = tuple((f"app.{name}", claims.get(name, "")) for name in ("user_id", "tenant_id", "roles"))
    return Principal(claims, settings, claims["user_id"])


if __name__ == "__main__":
    typer.run(main)
