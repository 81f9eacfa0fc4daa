"""The command line: `retrieval-worker`."""

from __future__ import annotations

import signal
import sys
from importlib import metadata
from typing import Annotated, Any, NoReturn

import typer

from worker.commands import calibrate, dead, install, jobs, machine, pipeline, runs
from worker.errors import RetrievalError, SettingsError, TimedOut, Unavailable
from worker.terminal import complain, screen, show_traceback, write_text

# Click's, wherever a release of Typer keeps it.
_UsageError: Any = typer.BadParameter.__base__

cli = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="A Celery worker that answers retrieval jobs from Postgres/pgvector.\n\n"
    "Exit codes: 0 done, 1 failed (or: something drifted), 2 wrong usage, 69 Postgres or Redis is away, "
    "78 wrong settings.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        write_text(f"retrieval-worker {metadata.version('retrieval-worker')}")
        raise typer.Exit


@cli.callback()
def _opening(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """What comes before a command."""


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
    sys.excepthook = show_traceback
    try:
        sys.exit(cli(standalone_mode=False))
    except _UsageError as error:
        _explain_usage(error)
    except KeyboardInterrupt:
        sys.exit(130)
    except SettingsError as error:
        _fail(error, 78)
    except (Unavailable, TimedOut) as error:
        _fail(error, 69)
    except RetrievalError as error:
        _fail(error, 1)
    except OSError as error:  # a file or a folder that was named, or standard output
        complain(": ".join(str(part) for part in (error.filename, error.strerror or type(error).__name__) if part))
        sys.exit(1)


def _explain_usage(error: Any) -> NoReturn:
    """Say what is wrong with the arguments, which the caller may have copied from a stranger's text."""
    sentence = error.format_message()
    if sentence and error.ctx is not None:
        screen.print(error.ctx.get_usage(), soft_wrap=True)
        screen.print(f"Try '{error.ctx.command_path} --help'.", soft_wrap=True)
    if sentence:
        complain(sentence)
    sys.exit(error.exit_code)


def _fail(error: RetrievalError, code: int) -> NoReturn:
    complain(error.message)
    sys.exit(code)


if __name__ == "__main__":
    main()
