"""The command line, `retrieval-worker`: its application, errors and exit codes. `workbench.main` lists its commands."""

from __future__ import annotations

import functools
import io
import os
import signal
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.main import get_command

from retrieval_client.errors import RetrievalError, SettingsError, TimedOut, Unavailable
from worker.adapters.terminal import complain, screen, show_traceback, write_text
from worker.cli.signals import (
    SENTENCES,
    end_at_once,
    ended_sentence,
    handle_dropped,
    handle_ending,
    ignore,
    ignore_all,
    unwind,
)
from worker.cli.usage import WrongUsage
from worker.core.shape import is_storable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# Click's class, wherever a release of Typer has it.
_UsageError: Any = typer.BadParameter.__base__


def _print_version(is_requested: bool) -> None:
    if is_requested:
        write_text(f"retrieval-worker {metadata.version('retrieval-worker')}")
        raise typer.Exit


def _opening(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Define the options before a command."""


def _with_checked_texts(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Have a command refuse texts that neither Postgres nor an embedder takes. A path may have any bytes."""

    @functools.wraps(callback)
    def checked(**values: Any) -> Any:
        for name, value in values.items():
            texts = value if isinstance(value, list | tuple) else (value,)
            if not all(is_storable(text) for text in texts if isinstance(text, str)):
                raise typer.BadParameter("expected text in UTF-8", param_hint=name)
        return callback(**values)

    return checked


def application(commands: Iterable[Callable[..., Any]], groups: Mapping[str, typer.Typer]) -> typer.Typer:
    """Return the command line with these commands.

    Args:
        commands: in the order of the help.
        groups: commands that have commands of their own, by name; they stand after the others.
    """
    cli = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="A Celery worker that answers retrieval jobs from Postgres/pgvector.\n\n"
        "Exit codes: 0 done, 1 failed (or: something drifted, files differ), 2 wrong usage (also a file that can't be "
        "read), 69 Postgres or Redis is unavailable, 78 wrong settings.",
    )
    cli.callback()(_opening)
    for command in commands:
        cli.command()(command)
    for name, group in groups.items():
        cli.add_typer(group, name=name)
    for holder in (cli, *groups.values()):
        for registered in holder.registered_commands:
            registered.callback = registered.callback and _with_checked_texts(registered.callback)
    return cli


def run_to_exit(cli: typer.Typer) -> NoReturn:
    """Run the command line and exit; a user's mistake is one line, never a stack trace."""
    sys.excepthook = show_traceback
    sys.unraisablehook = handle_dropped
    _print_any_text()
    code = _run_until_signal(get_command(cli))
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or PIPE_CLOSED
        _drop_output()
    except OSError as error:  # the disk is full
        if code == 0:
            complain(error.strerror or type(error).__name__)
            code = 1
        _drop_output()
    ignore_all()
    sys.exit(code)


def _print_any_text() -> None:
    """Let standard output show what its encoding lacks, as Latin-1 lacks …, by its escape."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _run_until_signal(command: Any) -> int:
    """Run the command; a signal unwinds it, and that is said. A command that ends itself at a signal says nothing."""
    try:
        handle_ending(unwind)
        code = run(command, sys.argv[1:])
        if code != 128 + signal.SIGINT:
            return code
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        handle_ending(end_at_once)
    handle_ending(ignore)
    if code in SENTENCES:
        complain(ended_sentence(code))
    return code


def _drop_output() -> None:
    """Send the rest of standard output nowhere: Python would flush it at exit, and show a stack trace."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


PIPE_CLOSED = 128 + signal.SIGPIPE
"""Exit code when the reader of standard output has exited (`| head`), as of any program that SIGPIPE ends."""

_EXIT_CODES = {WrongUsage: 2, SettingsError: 78, Unavailable: 69, TimedOut: 69}


def run(command: Any, arguments: Sequence[str]) -> int:
    """Run the application and return its exit code; errors go to standard error.

    Args:
        command: the application, as Typer builds it.
        arguments: the command line's arguments.
    """
    try:
        code = command(arguments, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except _UsageError as error:
        return _explain_usage(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (BrokenPipeError, SystemExit) as ended:
        if isinstance(ended, BrokenPipeError) or isinstance(ended.__context__, BrokenPipeError):
            return PIPE_CLOSED  # Typer and Rich call it a failure
        raise
    except RetrievalError as error:
        complain(error.message)
        return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)
    except OSError as error:  # a named file or folder, or standard output
        complain(
            ": ".join(str(detail) for detail in (error.filename, error.strerror or type(error).__name__) if detail)
        )
        return 1


def _out_of_range(error: Any) -> str:
    """Return the sentence for a wrong value of an option with two bounds, which names both; empty for other errors."""
    option: Any = getattr(error, "param", None)
    for bounded in (option, getattr(option, "type", None)):  # by release of Typer
        low, high = getattr(bounded, "min", None), getattr(bounded, "max", None)
        if low is not None and high is not None:
            return f"Invalid value for {option.opts[0]}: expected a number from {low} to {high}"
    return ""


def _hint(error: Any) -> str:
    """Return how to give a text that looks like an option; empty for other errors."""
    takes_text = error.ctx is not None and any(
        parameter.param_type_name == "argument" for parameter in error.ctx.command.params
    )
    return ". A text that begins with - goes after --" if hasattr(error, "option_name") and takes_text else ""


def _explain_usage(error: Any) -> int:
    """Print the error of the arguments, which may contain untrusted text."""
    sentence = (_out_of_range(error) or error.format_message()) + _hint(error)
    if sentence and error.ctx is not None:
        screen.print(error.ctx.get_usage(), soft_wrap=True)
        screen.print(f"Try '{error.ctx.command_path} --help'.", soft_wrap=True)
    if sentence:
        complain(sentence)
    return int(error.exit_code)


if __name__ == "__main__":
    complain("this module has no commands: run retrieval-worker, or python -m workbench")
    sys.exit(2)
