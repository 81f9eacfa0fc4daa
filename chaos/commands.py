"""The command line. Exit codes: 0 nothing lost and nothing wrong, 1 something was, 2 wrong usage, 78 can't run here."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import time
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chaos import report
from chaos.plan import Counts
from chaos.run import chaos
from chaos.servers import NotOurs
from chaos.stage import Order
from worker.errors import SettingsError
from worker.settings import WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

screen = Console(stderr=True)
cli = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Kill workers, Redis, Postgres and the network between, and balance every job's answer.\n\n"
    "Examples:\n\n  python -m chaos --seed 7\n\n  python -m chaos --jobs 500 --worker-kills 4 --logs logs\n\n"
    "  python -m chaos poison --help\n\n"
    "Exit codes: 0 nothing lost and nothing wrong, 1 something was, 2 wrong usage, 78 can't run here.",
)
PATIENCE = {"reliable": 60.0, "stock": 150.0}
"""Stock Celery looks every 100 s for what dead workers held."""

Seed = Annotated[int | None, typer.Option(help="of jobs and faults; default a new one, which is printed", min=0)]
Transport = Annotated[str, typer.Option(help="reliable or stock")]
Few = Annotated[int, typer.Option(min=0)]


@cli.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(help="how many jobs", min=1)] = 5000,
    seed: Seed = None,
    worker_kills: Few = 40,
    redis_kills: Few = 6,
    postgres_kills: Few = 6,
    blackholes: Few = 4,
    freezes: Few = 4,
    others: Annotated[int, typer.Option(help="faults of each other kind", min=0)] = 1,
    workers: Annotated[int, typer.Option(min=1, max=32)] = 3,
    concurrency: Annotated[int, typer.Option(help="processes of each worker", min=1, max=32)] = 2,
    transport: Transport = "reliable",
    stop_at_first_loss: Annotated[bool, typer.Option(help="end once a job is surely lost")] = False,
    write: Annotated[Path | None, typer.Option("--report", help="document to write table and plot into")] = None,
    logs: Annotated[Path | None, typer.Option(help="keep the workers' logs in this folder")] = None,
) -> None:
    """Run jobs and faults; the other commands are further runs."""
    if context.invoked_subcommand is not None:
        return
    check_transport(transport)
    order = Order(
        jobs=jobs,
        seed=chosen(seed),
        counts=Counts(worker_kills, redis_kills, postgres_kills, blackholes, freezes, others),
        transport=transport,
        workers=workers,
        concurrency=concurrency,
        patience=PATIENCE[transport],
        stop_at_first_loss=stop_at_first_loss,
    )
    with progress_bar(jobs) as progress:
        outcome = chaos(order, progress, logs)
    print(report.text(outcome))  # noqa: T201 -- the command line's voice
    if write is not None:
        report.write(outcome, write)
    raise typer.Exit(0 if outcome.clean else 1)


def chosen(seed: int | None) -> int:
    """The seed, printed: with it the run can be planned again."""
    seed = secrets.randbelow(10**6) if seed is None else seed
    screen.print(f"seed {seed}")
    return seed


def check_transport(transport: str) -> None:
    """Refuse a transport that this worker has not."""
    if transport not in PATIENCE:
        raise typer.BadParameter(f"expected reliable or stock, got {transport}", param_hint="--transport")
    if transport == "reliable" and "transport" not in WorkerSettings.model_fields:
        raise SettingsError("this worker has no reliable transport: --transport stock")


@contextlib.contextmanager
def progress_bar(jobs: int) -> Iterator[Callable[[int, str], None]]:
    """A bar of the jobs that are done, and what happens now; where nobody watches (CI), a line a fault."""
    if not screen.is_terminal:
        yield lambda done, what: screen.print(f"{time.strftime('%X')} {done:6d} done, {what}") if what else None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=jobs)
        yield lambda done, what: bar.update(task, completed=done, description=what or None)


def main() -> int:
    """Run the command line; a polite `kill` unwinds like Ctrl-C, so that whatever was started is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        cli()
    except KeyboardInterrupt:
        return 130
    except (SettingsError, NotOurs) as error:
        print(f"chaos: {error}", file=sys.stderr)  # noqa: T201 -- the command line's voice
        return 78
    return 0
