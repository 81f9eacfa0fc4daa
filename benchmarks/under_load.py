"""Latency under a steady load: jobs of 64 callers at shares of the greatest rate that the worker reaches.

python -m benchmarks.under_load
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from typing import TYPE_CHECKING, Annotated

import psutil
import psycopg
import typer
from benchmarks.command import as_command
from benchmarks.side_by_side.figures import percentile
from rich.console import Console
from rich.table import Table

from retrieval_client import AsyncClient, RetrieveTopK, encode_embedding
from synthetic.loading import TENANT, Index
from synthetic.loading import load as load_dataset
from synthetic.progress import steps
from synthetic.vectors import Dataset
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import celery_worker, stack_environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CALLERS = 64
SHARES = (0.5, 0.8, 0.95)


def jobs_of(dataset: Dataset) -> Iterator[RetrieveTopK]:
    """Different queries of one caller after another, without end."""
    queries = [encode_embedding(query.tolist()) for query in dataset.queries(320)]
    for number in itertools.count():
        caller = {"user_id": f"user-{number % CALLERS:02d}", "tenant_id": TENANT}
        yield RetrieveTopK(query_embedding=queries[number % len(queries)], principal=caller, k=15)


async def drained(client: AsyncClient, jobs: Iterator[RetrieveTopK], count: int) -> tuple[float, float]:
    """Jobs a second of those that wait, and the share of the cores that is idle meanwhile."""
    task_ids = [await client.enqueue(next(jobs)) for _ in range(count)]
    await client.result(task_ids[count // 10], timeout=600)
    psutil.cpu_times_percent()
    start = time.perf_counter()
    await client.result(task_ids[-1], timeout=600)
    took = time.perf_counter() - start
    return (count - count // 10) / took, psutil.cpu_times_percent().idle / 100


async def greatest_rate(client: AsyncClient, jobs: Iterator[RetrieveTopK], seconds: float) -> tuple[float, list[float]]:
    """Jobs a second, and milliseconds of each, where every caller calls again as soon as it is answered."""
    until, took = time.perf_counter() + seconds, list[float]()

    async def caller() -> None:
        while (start := time.perf_counter()) < until:
            await client.call(next(jobs), timeout=600)
            took.append((time.perf_counter() - start) * 1000)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return len(took) / seconds, took


async def latencies(client: AsyncClient, jobs: Iterator[RetrieveTopK], rate: float, seconds: float) -> list[float]:
    """Milliseconds of each call, sent at a steady rate whether or not the ones before are answered."""

    async def call(job: RetrieveTopK) -> float:
        start = time.perf_counter()
        await client.call(job, timeout=600)
        return (time.perf_counter() - start) * 1000

    waiting = []
    begin = time.perf_counter()
    for number in range(int(rate * seconds)):
        await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
        waiting.append(asyncio.create_task(call(next(jobs))))
    return await asyncio.gather(*waiting)


async def measure(urls: Sequence[str], dataset: Dataset, seconds: float, table: Table) -> float:
    """Fill the table; return the idle share of the cores while jobs wait."""
    jobs = jobs_of(dataset)
    async with AsyncClient(*urls) as client:
        await latencies(client, jobs, 20, 3)
        waiting, idle = await drained(client, jobs, 4000)
        rate, closed = await greatest_rate(client, jobs, seconds)
        alone = [(await latencies(client, jobs, 10, 0.1))[0] for _ in range(100)]
        table.add_row("one at a time", "", *_figures(alone))
        for share in SHARES:
            milliseconds = await latencies(client, jobs, share * rate, seconds)
            table.add_row(f"{share:.0%}", f"{share * rate:.0f}", *_figures(milliseconds))
        table.add_row(f"{CALLERS} call again and again", f"{rate:.0f}", *_figures(closed))
        table.add_row("all wait", f"{waiting:.0f}", "", "", "")
    return idle


def _figures(milliseconds: Sequence[float]) -> list[str]:
    return [f"{percentile(milliseconds, share):.1f}" for share in (0.5, 0.95, 0.99)]


def main(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus.", min=1_000)] = 10_000,
    seconds: Annotated[float, typer.Option(help="How long each load lasts.", min=1)] = 20,
    processes: Annotated[int, typer.Option(help="Processes of the worker; 0: one for each core.", min=0)] = 0,
    bundle: Annotated[int, typer.Option(help="The setting worker.bundle; 1: no bundles.", min=1, max=64)] = 8,
) -> None:
    """Measure p50, p95 and p99 of a call at 50, 80 and 95 % of the greatest rate; the client shares the cores."""
    dataset, console = Dataset(rows), Console()
    with local_stack() as stack:
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin, steps() as progress:
            load_dataset(admin, dataset, Index(32, 200), progress)
        environment = stack_environment(stack, TRUST_QUEUE="true", EMBEDDER__KIND="lexical", WORKER__BUNDLE=f"{bundle}")
        pool = f"--concurrency={processes or os.cpu_count() or 2}"
        with celery_worker(environment, stack.root / "worker.log", pool):
            table = Table("load", "jobs/s", "p50 ms", "p95", "p99")
            idle = asyncio.run(measure(stack.redis.urls("producer"), dataset, seconds, table))
    console.print(table)
    console.print(f"idle share of the cores while jobs wait: {idle:.1%}")


if __name__ == "__main__":
    as_command(main, "benchmarks.under_load")
