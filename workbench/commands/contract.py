"""The command that writes the wire contract."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrieval_client.errors import RetrievalError
from worker.adapters.terminal import console, write_json
from worker.cli.commands.jobs import JsonDocument  # noqa: TC001 -- typer reads the annotations when it runs
from worker.cli.usage import WrongUsage

_NAMED = 5
"""Most files that are named."""


def contract(
    folder: Annotated[Path, typer.Argument(help="Output folder.")] = Path("docs/contract"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if the files differ.")] = False,
    as_json: JsonDocument = False,
) -> None:
    """Write the wire contract (JSON Schemas, AsyncAPI, examples) from the project's own types.

    Example: [bold]retrieval-worker contract --check[/bold]
    """
    from workbench.schemas import differing, write

    if check:
        if not folder.is_dir():
            raise WrongUsage(f"{folder}: no such folder: run this in a checkout, or name the folder of the files")
        stale = differing(folder)
        if as_json:
            write_json({"differing": stale})
        if stale:
            remainder = [f"and {len(stale) - _NAMED} more"] if len(stale) > _NAMED else []
            differ = "differ" if len(stale) > 1 else "differs"
            raise RetrievalError(
                f"{', '.join(stale[:_NAMED] + remainder)} {differ} from the types: "
                f"run 'retrieval-worker contract {folder}'"
            )
        if not as_json:
            console.print("the contract's files match the types")
        return
    files = write(folder)
    if as_json:
        write_json({"written": [str(file) for file in files]})
    else:
        console.print(f"{len(files)} files written to {folder}")
