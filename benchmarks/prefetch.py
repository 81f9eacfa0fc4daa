"""How many jobs a worker should hold beyond those it runs: throughput by prefetch multiplier, side by side.

python -m benchmarks.prefetch --jobs 400 --rounds 5
"""

from __future__ import annotations

import statistics
import time
from typing import Annotated

import psycopg
import typer
from rich.console import Console
from rich.table import Table

from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli import devstack
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load, migrate
from worker.client import Client, RetrieveTopK, encode_embedding

MULTIPLIERS = (1, 2, 4)
QUERY = encode_embedding(LexicalEmbedder().embed(["hum on channel 18"])[0].tolist())
JOB = RetrieveTopK(query_embedding=QUERY, principal={"user_id": "alice"})


def measure(stack: devstack.Stack, multiplier: int, jobs: int) -> float:
    """Jobs a second of a worker with two processes, from the first enqueue to the last answer."""
    environment = devstack.worker_environment(
        stack, TRUST_QUEUE="true", LOG__LEVEL="WARNING", WORKER__PREFETCH_MULTIPLIER=str(multiplier)
    )
    client = Client(stack.redis.url(0), stack.redis.url(1))
    with devstack.celery_worker(environment, stack.root / "worker.log", "--concurrency=2"):
        for task_id in [client.enqueue(JOB) for _ in range(20)]:  # warm: both processes have their connection
            client.result(task_id, timeout=60)
        start = time.perf_counter()
        for task_id in [client.enqueue(JOB) for _ in range(jobs)]:
            client.result(task_id, timeout=60)
        elapsed = time.perf_counter() - start
    client.close()
    return jobs / elapsed


def main(
    jobs: Annotated[int, typer.Option(help="Jobs a measurement.", min=10)] = 400,
    rounds: Annotated[int, typer.Option(help="Rounds; the multipliers take turns in each.", min=1)] = 5,
) -> None:
    """Measure each prefetch multiplier in turn, several times; print medians and the spread."""
    figures: dict[int, list[float]] = {multiplier: [] for multiplier in MULTIPLIERS}
    console = Console()
    with devstack.stack() as stack:
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as connection:
            migrate(connection)
            load(connection, read(SAMPLES["documents"]), LexicalEmbedder())
        for _ in range(rounds):
            for multiplier in MULTIPLIERS:
                figures[multiplier].append(measure(stack, multiplier, jobs))
    table = Table("prefetch multiplier", "jobs/s (median)", "lowest", "highest", "to 1")
    base = statistics.median(figures[1])
    for multiplier, values in figures.items():
        median = statistics.median(values)
        table.add_row(
            str(multiplier), f"{median:.0f}", f"{min(values):.0f}", f"{max(values):.0f}", f"{median / base:.2f}"
        )
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
