"""The command line: `retrieval-worker`."""

from __future__ import annotations

import signal
import sys

import typer

from worker.commands import calibrate, dead, install, jobs, machine, pipeline, runs
from worker.errors import RetrievalError, SettingsError, TimedOut, Unavailable

cli = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="A Celery worker that answers retrieval jobs from Postgres/pgvector.\n\n"
    "Exit codes: 0 done, 1 failed (or: something drifted), 2 wrong usage, 69 Postgres or Redis is away, "
    "78 wrong settings.",
)
for command in (
    *(machine.demo, machine.up),
    *(jobs.query, jobs.search, pipeline.ask, jobs.cite, jobs.replay),
    *(runs.verify, pipeline.trace, runs.tune),
    *(install.migrate, install.load, install.doctor, calibrate.calibrate, install.contract),
):
    cli.command()(command)
cli.add_typer(runs.runs, name="runs")
cli.add_typer(dead.dead, name="dead")


def main() -> None:
    """Run the command line; a user's mistake is one line, never a stack trace."""
    # A polite `kill` unwinds like Ctrl-C, so that whatever was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        cli()
    except KeyboardInterrupt:
        sys.exit(130)
    except SettingsError as error:
        _fail(error, 78)
    except (Unavailable, TimedOut) as error:
        _fail(error, 69)
    except RetrievalError as error:
        _fail(error, 1)


def _fail(error: RetrievalError, code: int) -> None:
    print(f"retrieval-worker: {error.message}", file=sys.stderr)  # noqa: T201 -- the command line's voice
    sys.exit(code)


if __name__ == "__main__":
    main()
