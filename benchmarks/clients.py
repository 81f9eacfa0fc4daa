"""The clients side by side: time and processor time of a call, and many calls at once under asyncio.

python -m benchmarks.clients
"""

from __future__ import annotations

import asyncio
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import typer
from benchmarks.command import as_command
from benchmarks.sample_worker import sample_worker
from rich.console import Console
from rich.table import Table

from retrieval_client import AsyncClient, Client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from retrieval_client import RetrieveTopK

WARM_UP = 20


def one_by_one(client: Client, job: RetrieveTopK, calls: int) -> tuple[list[float], float]:
    """Milliseconds of each call of the blocking client, and its own processor time a call."""
    took, cpu_start = [], time.process_time()
    for _ in range(calls):
        start = time.perf_counter()
        client.call(job)
        took.append((time.perf_counter() - start) * 1000)
    return took, (time.process_time() - cpu_start) * 1000 / calls


async def one_by_one_async(client: AsyncClient, job: RetrieveTopK, calls: int) -> tuple[list[float], float]:
    """The same of the client for asyncio."""
    took, cpu_start = [], time.process_time()
    for _ in range(calls):
        start = time.perf_counter()
        await client.call(job)
        took.append((time.perf_counter() - start) * 1000)
    return took, (time.process_time() - cpu_start) * 1000 / calls


def at_once_in_threads(client: Client, job: RetrieveTopK, calls: int) -> list[float]:
    """Milliseconds until each of many calls at once is answered, each in a thread of its own."""
    start = time.perf_counter()

    def call() -> float:
        client.call(job, timeout=180)
        return (time.perf_counter() - start) * 1000

    with ThreadPoolExecutor(calls) as threads:
        return [future.result() for future in [threads.submit(call) for _ in range(calls)]]


async def at_once(client: AsyncClient, job: RetrieveTopK, calls: int) -> list[float]:
    """The same of the client for asyncio, in one thread."""
    start = time.perf_counter()

    async def call() -> float:
        await client.call(job, timeout=180)
        return (time.perf_counter() - start) * 1000

    return await asyncio.gather(*(call() for _ in range(calls)))


async def under_asyncio(urls: Sequence[str], job: RetrieveTopK, calls: int, calls_at_once: int) -> list[Any]:
    """Both measurements of the client for asyncio."""
    async with AsyncClient(*urls) as client:
        await one_by_one_async(client, job, WARM_UP)
        return [await one_by_one_async(client, job, calls), await at_once(client, job, calls_at_once)]


def main(
    calls: Annotated[int, typer.Option(help="Calls one after another.", min=10)] = 300,
    many: Annotated[int, typer.Option(help="Calls at once.", min=1)] = 1000,
) -> None:
    """Compare `Client` and `AsyncClient` on the sample corpus and a worker of two processes."""
    with sample_worker(2) as running, Client(*running.urls) as client:
        one_by_one(client, running.job, WARM_UP)
        blocking = [one_by_one(client, running.job, calls), at_once_in_threads(client, running.job, many)]
        concurrent = asyncio.run(under_asyncio(running.urls, running.job, calls, many))
    table = Table("client", "a call, p50 ms", "CPU ms", f"{many:,} at once, p50 ms", "the last")
    for name, ((took, cpu_ms), together) in (("Client", blocking), ("AsyncClient", concurrent)):
        figures = (statistics.median(took), cpu_ms, statistics.median(together), max(together))
        table.add_row(name, *(f"{figure:.2f}" for figure in figures))
    Console().print(table)


if __name__ == "__main__":
    as_command(main, "benchmarks.clients")
