"""The command line. Exit codes: see `EXIT_CODES`."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import signal
import sys
import time
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path  # noqa: TC003 -- typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chaos import report
from chaos.plan import Counts
from chaos.run import chaos
from chaos.servers import ForeignServerError
from chaos.stage import RunOptions
from retrieval_client.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from chaos.run import Outcome

EXIT_CODES = (
    "Exit codes: 0 nothing lost and nothing wrong, 1 something was, 2 wrong usage, "
    "3 too many faults met no work, 78 can't run here."
)
screen = Console(stderr=True)
cli = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Kill workers, Redis, Postgres and the network between, and balance every job's answer.\n\n"
    "Examples:\n\n"
    "  python -m chaos --seed 7\n\n"
    "  python -m chaos --jobs 500 --worker-kills 4 --logs logs\n\n"
    "  python -m chaos --only-aimed --aimed 1 --jobs 400\n\n"
    "  python -m chaos --seeds 20 --into runs.jsonl\n\n"
    "  python -m chaos --stock --worker-kills 200\n\n"
    "  python -m chaos poison --help\n\n" + EXIT_CODES,
)
PATIENCE = {"reliable": 60.0, "stock": 150.0}
"""Stock Celery restores the messages of dead workers every 100 s."""

TOO_IDLE = 3
FOUND_ONCE = 423727
"""By this seed's plan a job was answered twice: the soft time limit had fired while Celery stored a result."""
RECYCLE = 50
SKEW_SECONDS = 1200.0

Seed = Annotated[int | None, typer.Option(help="of jobs and faults; default a new one, which is printed", min=0)]
Transport = Annotated[str, typer.Option(help="reliable or stock")]
Few = Annotated[int, typer.Option(min=0)]
Aimed = Annotated[int, typer.Option(help="faults of each aimed kind; see --recycle, --skew, --own-results", min=0)]
OwnResults = Annotated[
    bool | None, typer.Option(help="results on a Redis of their own; default with aimed faults", show_default=False)
]
Recycle = Annotated[
    int | None, typer.Option(help="replace a pool process after this many jobs; default 50 with aimed faults", min=0)
]
Skew = Annotated[
    float | None, typer.Option(help="seconds that two of three clocks are wrong; default 1200 with aimed faults")
]


@cli.callback(invoke_without_command=True)
def run(
    context: typer.Context,
    jobs: Annotated[int, typer.Option(help="how many jobs", min=1)] = 5000,
    seed: Seed = None,
    seeds: Annotated[int, typer.Option(help="run as often, 423727 first and then by new seeds", min=1)] = 1,
    worker_kills: Few = 40,
    redis_kills: Few = 6,
    postgres_kills: Few = 6,
    blackholes: Few = 4,
    freezes: Few = 4,
    others: Annotated[int, typer.Option(help="faults of each other kind", min=0)] = 1,
    aimed: Aimed = 0,
    only_aimed: Annotated[bool, typer.Option("--only-aimed", help="no other faults than the aimed ones")] = False,
    kinds: Annotated[str, typer.Option(help="of the aimed kinds only those whose names hold this")] = "",
    own_results: OwnResults = None,
    recycle: Recycle = None,
    skew: Skew = None,
    workers: Annotated[int, typer.Option(min=1, max=32)] = 3,
    concurrency: Annotated[int, typer.Option(help="processes of each worker", min=1, max=32)] = 2,
    transport: Transport = "reliable",
    stock: Annotated[bool, typer.Option("--stock", help="run the plan with both transports, and compare")] = False,
    stop_at_first_loss: Annotated[bool, typer.Option(help="end once a job is surely lost")] = False,
    beside: Annotated[
        Path | None, typer.Option(help="checkout of another version: every second worker is of it", exists=True)
    ] = None,
    write: Annotated[Path | None, typer.Option("--report", help="file for the tables; the plot goes beside it")] = None,
    logs: Annotated[Path | None, typer.Option(help="keep the workers' logs in this folder", file_okay=False)] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            help="append each run's numbers to this file, and print the sum of all in it; seeds in it are not run again"
        ),
    ] = None,
    histories: Annotated[
        Path | None, typer.Option(help="write each run's history into this folder", file_okay=False)
    ] = None,
) -> None:
    """Run jobs and faults; the other commands are further runs."""
    if context.invoked_subcommand is not None:
        return
    counts = Counts(worker_kills, redis_kills, postgres_kills, blackholes, freezes, others, aimed, kinds)
    options = RunOptions(
        jobs=jobs,
        seed=0,
        counts=Counts(aimed=aimed, only=kinds) if only_aimed else counts,
        transport=transport,
        workers=workers,
        concurrency=concurrency,
        stop_at_first_loss=stop_at_first_loss,
        own_results=bool(aimed) if own_results is None else own_results,
        recycle=(RECYCLE if aimed else 0) if recycle is None else recycle,
        skew=(SKEW_SECONDS if aimed else 0.0) if skew is None else skew,
        beside=beside,
    )
    is_series = stock or seeds > 1
    outcomes = [
        _one(
            replace(options, seed=number, transport=name),
            logs and (logs / f"{name}-{number}" if is_series else logs),
            histories and histories / f"{name}-{number}.jsonl",
            into,
        )
        for number in series(seed, seeds, report.seeds(into) if into else ())
        for name in ([*PATIENCE] if stock else [transport])
    ]
    if is_series:
        print(report.summary(outcomes))  # noqa: T201 -- the command line's voice
    if write is not None:
        report.write(outcomes[0], write)
    ours = [outcome for outcome in outcomes if not stock or outcome.options.transport == "reliable"]
    raise typer.Exit(max(map(exit_code, ours), key=(0, TOO_IDLE, 1).index))


def _one(options: RunOptions, logs: Path | None, history: Path | None, into: Path | None) -> Outcome:
    check_transport(options.transport)
    if history:
        history.parent.mkdir(parents=True, exist_ok=True)
    screen.print(f"seed {options.seed}, transport {options.transport}")
    with progress_bar(options.jobs) as progress:
        outcome = chaos(_timed(options), progress, logs, history)
    print(report.text(outcome))  # noqa: T201 -- the command line's voice
    if into:
        report.append(outcome, into)
        print(report.total(into))  # noqa: T201 -- the command line's voice
    return outcome


def _timed(options: RunOptions) -> RunOptions:
    return replace(options, patience=PATIENCE[options.transport])


def exit_code(outcome: Outcome) -> int:
    """Judge a run."""
    if not outcome.clean:
        return 1
    return TOO_IDLE if outcome.too_idle else 0


def series(seed: int | None, count: int, run_before: Collection[int] = ()) -> list[int]:
    """Return the seeds of several runs: the given or a random one; of several, one that once found a fault is first.

    >>> series(7, 1), series(7, 3), series(7, 3, [423727, 8])
    ([7], [423727, 7, 8], [7, 9, 10])
    """
    first_seed = secrets.randbelow(10**6) if seed is None else seed
    if count == 1:
        return [first_seed]
    new_seeds = (number for number in chain([FOUND_ONCE], itertools.count(first_seed)) if number not in run_before)
    return [*islice(new_seeds, count)]


def chosen(seed: int | None) -> int:
    """Return the seed, and print it: the same seed gives the same plan."""
    seed = secrets.randbelow(10**6) if seed is None else seed
    screen.print(f"seed {seed}")
    return seed


def check_transport(transport: str) -> None:
    """Raise if the harness has no such transport."""
    if transport not in PATIENCE:
        raise typer.BadParameter(f"expected reliable or stock, got {transport}", param_hint="--transport")


@contextlib.contextmanager
def progress_bar(jobs: int) -> Iterator[Callable[[int, str], None]]:
    """Show a progress bar and the current fault; without a terminal (CI), print one line for each fault."""
    if not screen.is_terminal:
        yield lambda count, fault: screen.print(f"{time.strftime('%X')} {count:6d} done, {fault}") if fault else None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=jobs)
        yield lambda count, fault: bar.update(task, completed=count, description=fault or None)


def main() -> int:
    """Run the command line; a polite `kill` unwinds like Ctrl-C, so that whatever was started is stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        cli()
    except KeyboardInterrupt:
        return 130
    except (SettingsError, ForeignServerError) as error:
        print(f"chaos: {error}", file=sys.stderr)  # noqa: T201 -- the command line's voice
        return 78
    return 0
