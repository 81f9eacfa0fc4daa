"""More workers: jobs a second and the workers' CPU a job, by the number of workers and of their processes.

python -m benchmarks.workers --jobs 600 --rounds 3

Every arrangement serves the same queue, on the same database, in turns.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import psutil
import psycopg
import typer
from benchmarks.command import as_command
from rich.console import Console
from rich.table import Table

from retrieval_client import Client, RetrieveTopK, encode_embedding
from workbench.devstack.stack import Stack, local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load, migrate

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

QUERY = encode_embedding(LexicalEmbedder().embed(["hum on channel 18"])[0].tolist())
JOB = RetrieveTopK(query_embedding=QUERY, principal={"user_id": "alice"})
WARM = 20
"""Jobs for each process before a measurement: all have their connection then."""
SECONDS = 120


@dataclass(frozen=True)
class Arrangement:
    """Workers with these options.

    Attributes:
        name: in the table.
        workers: `celery worker` processes.
        options: of each.
        at_once: jobs that all of them together can run at the same time.
    """

    name: str
    workers: int
    options: tuple[str, ...]
    at_once: int


def arrangements() -> list[Arrangement]:
    """Numbers of workers and processes to compare."""
    of_one_worker = [Arrangement(f"one worker, {n} processes", 1, (f"--concurrency={n}",), n) for n in (1, 2, 4)]
    return of_one_worker + [Arrangement(f"{n} workers of one process", n, ("--concurrency=1",), n) for n in (2, 4)]


@dataclass
class Figures:
    """Measurements of one arrangement, one value a round."""

    jobs_a_second: list[float] = field(default_factory=list)
    cpu_ms_a_job: list[float] = field(default_factory=list)
    failed: int = 0


@contextlib.contextmanager
def running(stack: Stack, arrangement: Arrangement) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The workers of an arrangement, ready for jobs."""
    environment = stack_environment(stack, TRUST_QUEUE="true", LOG__LEVEL="WARNING")
    with contextlib.ExitStack() as exits:
        yield [
            exits.enter_context(
                celery_worker(environment, stack.root / "workers.log", *arrangement.options, queues="retrieval")
            )
            for _ in range(arrangement.workers)
        ]


def cpu_seconds(workers: list[subprocess.Popen[bytes]]) -> float:
    """Return the CPU seconds of all processes of these workers."""
    families = [psutil.Process(worker.pid) for worker in workers]
    processes = [process for family in families for process in (family, *family.children(recursive=True))]
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


def send(client: Client, jobs: int) -> int:
    """Send all, then wait for all; how many of them failed."""
    failed = 0
    for task_id in [client.enqueue(JOB) for _ in range(jobs)]:
        try:
            client.result(task_id, timeout=SECONDS)
        except Exception:  # noqa: BLE001 -- whatever it is, it is counted, and shown
            failed += 1
    return failed


def measure(stack: Stack, arrangement: Arrangement, jobs: int, figures: Figures) -> None:
    """One round: from the first job that is sent to the last answer."""
    with (
        running(stack, arrangement) as workers,
        contextlib.closing(Client(stack.redis.url(0), stack.redis.url(1))) as client,
    ):
        send(client, WARM * arrangement.at_once)
        busy, start = cpu_seconds(workers), time.perf_counter()
        figures.failed += send(client, jobs)
        elapsed = time.perf_counter() - start
        figures.jobs_a_second.append(jobs / elapsed)
        figures.cpu_ms_a_job.append((cpu_seconds(workers) - busy) * 1000 / jobs)


def run(
    jobs: Annotated[int, typer.Option(help="Jobs a measurement.", min=10)] = 600,
    rounds: Annotated[int, typer.Option(help="Rounds; the arrangements take turns in each.", min=1)] = 3,
) -> None:
    """Measure each arrangement in turn, several times; print medians and the spread.

    Example: [bold]python -m benchmarks.workers --jobs 200 --rounds 2[/bold]

    Exit codes: 0 measured, 1 the run failed, 2 wrong usage.
    """
    compared = arrangements()
    figures = {arrangement: Figures() for arrangement in compared}
    progress = Console(stderr=True)
    with local_stack() as stack:
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as connection:
            migrate(connection)
            load(connection, read(SAMPLES["documents"]), LexicalEmbedder())
        load_before = os.getloadavg()[0]
        for n in range(1, rounds + 1):
            for arrangement in compared:
                measure(stack, arrangement, jobs, figures[arrangement])
                progress.print(
                    f"round {n}, {arrangement.name}: {figures[arrangement].jobs_a_second[-1]:.0f} jobs/s",
                    highlight=False,
                )
    table = Table("pool", "jobs/s (median)", "lowest", "highest", "to prefork, 1", "worker CPU, ms a job", "failed")
    base = statistics.median(figures[compared[0]].jobs_a_second)
    for arrangement, arrangement_figures in figures.items():
        rate = statistics.median(arrangement_figures.jobs_a_second)
        table.add_row(
            arrangement.name,
            f"{rate:.0f}",
            f"{min(arrangement_figures.jobs_a_second):.0f}",
            f"{max(arrangement_figures.jobs_a_second):.0f}",
            f"{rate / base:.2f}",
            f"{statistics.median(arrangement_figures.cpu_ms_a_job):.2f}",
            str(arrangement_figures.failed),
        )
    console = Console(width=120)
    console.print(table)
    console.print(
        f"{jobs} jobs a measurement, {rounds} rounds; sample corpus; {os.cpu_count()} cores, "
        f"load average {load_before:.1f} before and {os.getloadavg()[0]:.1f} after"
    )


if __name__ == "__main__":
    as_command(run, "benchmarks.workers")
