"""What a repeated question costs with the query cache: hits beside misses, and beside a worker without a cache.

    python -m benchmarks.query_cache
    python -m benchmarks.query_cache --rows 10000

`build_sources`, and whole `run_pipeline` jobs from the job object to the result object, without Celery and without a
model. Each question is asked without a cache, then with one that does not hold it, then again: the three take turns at
each question, so that a busy moment of the machine is nobody's advantage. Redis and Postgres are on this machine.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Annotated

import psycopg
import redis
import typer
from benchmarks import data, judged
from rich.console import Console
from rich.table import Table

from worker.cli import demo, devstack
from worker.contract import RunPipeline, parse_job
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.pipeline.types import QueryRequest
from worker.model import Principal
from worker.settings import from_values, read_values

if TYPE_CHECKING:
    from collections.abc import Sequence

PROFILES = ("dense", "hybrid_rrf", "dense_rerank")
STATES = (None, "miss", "hit")

Figures = dict[tuple[str, str | None, str], list[float]]


def main(
    rows: Annotated[int, typer.Option(help="Chunks of a made corpus, a multiple of 1,000; 0: the sample's.")] = 0,
    rounds: Annotated[int, typer.Option(help="Times that each question is asked.", min=1)] = 3,
) -> None:
    """Measure, and show a table."""
    console = Console(width=120)
    caller, queries = judged.read()
    questions = [*dict.fromkeys(query.query for query in queries)]
    with devstack.stack() as stack:
        demo.install_sample(stack, Console(stderr=True))
        if rows:
            with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
                data.load(admin, data.Dataset(rows), data.Index(), lambda *_: None)
        values = {**read_values(), "database_connection_string": stack.postgres.dsn(user="retrieval_worker")}
        values["broker_url"] = stack.redis.url(0)
        engines = [
            Engine(from_values({**values, "cache": {"tasks": tasks}}), time.perf_counter)
            for tasks in ([], ["run_pipeline"])
        ]
        gc.collect()
        gc.freeze()  # as a worker's process does once it is ready
        claims = {"user_id": caller, "tenant_id": data.TENANT if rows else "", "roles": ""}
        asker = Principal(claims, tuple((f"app.{name}", value) for name, value in claims.items()), caller)
        try:
            with redis.Redis.from_url(stack.redis.url(0)) as kept:
                figures = measured(engines, kept, asker, questions, rounds)
                console.print(table(figures, f"{rows or 'sample'}: {len(questions)} questions, {rounds} rounds"))
        finally:
            for engine in engines:
                engine.close()


def measured(
    engines: Sequence[Engine], kept: redis.Redis, asker: Principal, questions: Sequence[str], rounds: int
) -> Figures:
    """Milliseconds by profile, state of the cache, and part; the first round, which warms up, is not counted."""
    off, on = engines
    figures: Figures = defaultdict(list)
    for i, part in product(range(rounds + 1), PARTS):
        kept.flushdb()
        for question, profile in product(questions, PROFILES):
            for engine, state in ((off, None), (on, "miss"), (on, "hit")):
                started = time.perf_counter()
                found = PARTS[part](engine, asker, question, profile)
                ms = (time.perf_counter() - started) * 1000
                if found != state:
                    raise RuntimeError(f"expected {state}, and it was {found}")
                if i:
                    figures[profile, state, part].append(ms)
    return figures


def _sources(engine: Engine, asker: Principal, question: str, profile: str) -> str | None:
    request = QueryRequest(question, profile=profile)
    return engine.pipeline.build_sources(request, asker, reuse=True).trace.cache


def _job(engine: Engine, asker: Principal, question: str, profile: str) -> str | None:
    job = parse_job(RunPipeline, {"question": question, "profile": profile})
    state: str | None = engine.pipeline_jobs.answer(job, JobContext(lambda: asker))["trace"]["cache"]
    return state


PARTS = {"build_sources": _sources, "whole job": _job}
"""What is timed, and how; each gives the state of the cache."""


def table(figures: Figures, title: str) -> Table:
    """Medians and the 95th percentile."""
    shown = Table(title=f"{title}; ms, median (p95)", title_justify="left")
    for name in ("profile", "cache", *PARTS):
        shown.add_column(name)
    for profile in PROFILES:
        for state in STATES:
            parts = [figures[profile, state, part] for part in PARTS]
            cells = [f"{statistics.median(ms):.2f} ({statistics.quantiles(ms, n=20)[-1]:.2f})" for ms in parts]
            shown.add_row(profile, state or "off", *cells)
    return shown


if __name__ == "__main__":
    typer.run(main)
