"""Throughput beside an earlier revision: jobs a second and worker CPU a job, both sides in turns on this machine.

python -m benchmarks.beside_revision 934352c --jobs 2000 --rounds 5

Each side is a checkout of its own; the environment (Celery, psycopg, ...) is this one. So are Postgres and Redis, new
for each measurement, as this checkout ships them: what another server costs is no difference between the sides.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from benchmarks.command import as_command
from rich.console import Console
from rich.table import Table

from workbench.devstack.postgres import postgres_server
from workbench.devstack.redis import redis_server

HERE = Path(__file__).resolve().parents[1]

# Runs in either checkout, so it may use only what both have.
SIDE = """
import json, sys
from pathlib import Path
from types import SimpleNamespace
import psycopg
from benchmarks.workers import Arrangement, Figures, measure
try:
    from worker.adapters.providers.embedder import LexicalEmbedder
    from worker.cli.corpus_files import SAMPLES, read
    from worker.cli.loader import load, migrate
except ImportError:  # where they stood before d07f303
    from worker.adapters.embedder import LexicalEmbedder
    from worker.corpus_files import SAMPLES, read
    from worker.loader import load, migrate

figures = Figures()
root, dsn, queue, results = sys.argv[2:]
names = {"CELERY_BROKER_URL": queue, "CELERY_RESULT_BACKEND": results}
stack = SimpleNamespace(
    root=Path(root),
    postgres=SimpleNamespace(dsn=lambda database="postgres", user="postgres": dsn.format(user=user, database=database)),
    redis=SimpleNamespace(url=[queue, results].__getitem__, environment=lambda user: names),
)
with psycopg.connect(stack.postgres.dsn(), autocommit=True) as connection:
    migrate(connection)
    load(connection, read(SAMPLES["documents"]), LexicalEmbedder())
measure(stack, Arrangement("prefork, 2", 1, ("--pool=prefork", "--concurrency=2"), 2), int(sys.argv[1]), figures)
print(json.dumps([figures.jobs_a_second[0], figures.cpu_ms_a_job[0], figures.failed]))
"""


def measure_side(checkout: Path, jobs: int) -> tuple[float, float, int]:
    """Measure one checkout once: jobs a second, milliseconds of worker CPU a job, failed jobs."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-") as root,
        postgres_server(Path(root) / "postgres") as database,
        redis_server(Path(root) / "redis") as redis,
    ):
        dsn = database.dsn("{database}", "{user}")
        completed = subprocess.run(
            [sys.executable, "-c", SIDE, str(jobs), root, dsn, *redis.urls("admin")],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    rate, cpu, failed = json.loads(completed.stdout.splitlines()[-1])
    return rate, cpu, failed


def run(
    revision: Annotated[str, typer.Argument(help="The earlier revision, as git names it.")],
    jobs: Annotated[int, typer.Option(help="Jobs a measurement.", min=10)] = 2000,
    rounds: Annotated[int, typer.Option(help="Rounds; the sides take turns in each.", min=1)] = 5,
) -> None:
    """Measure an earlier revision and this checkout in turns; print medians, spread and the ratio.

    Example: [bold]python -m benchmarks.beside_revision 934352c --rounds 3[/bold]

    Exit codes: 0 measured, 1 the run failed, 2 wrong usage.
    """
    progress = Console(stderr=True)
    measured: dict[str, list[tuple[float, float, int]]] = {"before": [], "after": []}
    with tempfile.TemporaryDirectory(prefix="rw-beside-") as folder:
        earlier_checkout = Path(folder) / "before"
        subprocess.run(
            ["git", "-C", str(HERE), "worktree", "add", "--detach", "-q", str(earlier_checkout), revision], check=True
        )
        try:
            for number in range(1, rounds + 1):
                # Who goes first changes from round to round.
                sides = [("before", earlier_checkout), ("after", HERE)][:: 1 if number % 2 else -1]
                for name, checkout in sides:
                    measured[name].append(measure_side(checkout, jobs))
                    rate, cpu, _ = measured[name][-1]
                    progress.print(f"round {number}, {name}: {rate:.0f} jobs/s, {cpu:.2f} ms", highlight=False)
        finally:
            subprocess.run(["git", "-C", str(HERE), "worktree", "remove", "--force", str(earlier_checkout)], check=True)
    _report(measured, jobs)


def _report(measured: dict[str, list[tuple[float, float, int]]], jobs: int) -> None:
    table = Table("side", "jobs/s (median)", "lowest", "highest", "worker CPU, ms a job", "failed")
    medians = {}
    for name, figures in measured.items():
        rates = [rate for rate, _, _ in figures]
        medians[name] = statistics.median(rates)
        cpu = statistics.median(cpu for _, cpu, _ in figures)
        failed = sum(failed for _, _, failed in figures)
        table.add_row(name, f"{medians[name]:.0f}", f"{min(rates):.0f}", f"{max(rates):.0f}", f"{cpu:.2f}", str(failed))
    console = Console(width=120)
    console.print(table)
    # Of each round, because a machine that others share is faster in one round than in the next.
    ratios = [
        current_figures[0] / earlier_figures[0]
        for earlier_figures, current_figures in zip(measured["before"], measured["after"], strict=True)
    ]
    console.print(
        f"after / before: {statistics.median(ratios):.3f} (median of {len(ratios)} rounds, {min(ratios):.3f} to "
        f"{max(ratios):.3f}), {medians['after'] / medians['before']:.3f} of the medians; {jobs} jobs a measurement; "
        f"{os.cpu_count()} cores"
    )


if __name__ == "__main__":
    as_command(run, "benchmarks.beside_revision")
