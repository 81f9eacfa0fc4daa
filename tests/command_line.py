"""Commands of `retrieval-worker` in this process: what they print, and their exit code."""

from __future__ import annotations

from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Protocol

import pytest
from typer.main import get_command

from workbench.main import cli
from worker.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Mapping


class Command(Protocol):
    """Runs a command: words are its arguments, keywords are variables of its environment."""

    def __call__(self, *arguments: str, **environment: str) -> CompletedProcess[str]: ...


def command_line(capsys: pytest.CaptureFixture[str], variables: Mapping[str, str]) -> Command:
    """Make a function that runs commands as a process does, but for its signals and a full standard output.

    Args:
        capsys: captures what is printed.
        variables: added to the environment of each command.
    """

    def run(*arguments: str, **environment: str) -> CompletedProcess[str]:
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**variables, **environment}.items():
                patch.setenv(name, value)
            code = run_command(get_command(cli), arguments)
        said = capsys.readouterr()
        return CompletedProcess(arguments, code, said.out, said.err)

    return run
