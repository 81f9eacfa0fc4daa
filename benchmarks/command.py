"""A benchmark as a command: its faults are one line, and what it started is stopped however it ends."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psycopg
import typer

from retrieval_client.errors import RetrievalError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

Folder = Annotated[
    Path | None, typer.Option("--write", help="Write the tables into this folder.", exists=True, file_okay=False)
]
"""Option of a benchmark that prints its tables."""


def publish(text: str, folder: Path | None, name: str) -> None:
    """Print tables in Markdown; write them into a file of a folder, if there is one."""
    print(text)
    if folder is not None:
        (folder / name).write_text(f"{text}\n", encoding="utf-8")


def as_command(run: Callable[..., None], name: str) -> None:
    """Run the command; whatever is a user's or the machine's fault is one line, never a stack trace.

    Args:
        run: the command, with its options and its docstring as typer reads them.
        name: of the module, as in ``python -m benchmarks.recall``.
    """
    # A polite `kill` unwinds like Ctrl-C, so that servers and workers are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    command.command()(run)
    try:
        command(prog_name=f"python -m {name}")
    except SettingsError as error:
        _fail(name, error.message, 2)
    except RetrievalError as error:
        _fail(name, error.message)
    except (OSError, psycopg.Error) as error:
        _fail(name, f"{type(error).__name__}: {str(error).strip()}")


def _fail(name: str, message: str, code: int = 1) -> None:
    print(f"{name}: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
