"""The command that proposes corpora for tables that are there."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from retrieval_client.errors import RetrievalError
from worker.adapters.terminal import ID_COLUMN, console, id_cell, progress, screen, write_json
from worker.cli.commands.install import AdminDsn, admin_connection
from worker.cli.commands.jobs import JsonDocument  # noqa: TC001 -- typer reads the annotations when it runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.adoption.preview import Preview
    from workbench.adoption.proposals import Proposal, Skipped


def adopt(
    dsn: AdminDsn,
    schemas: Annotated[
        list[str] | None, typer.Option("--schema", help="Only tables of this schema; repeat for more. Default all.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to; nothing in it is overwritten. Default a new one.")
    ] = None,
    as_json: JsonDocument = False,
) -> None:
    """Propose corpora for tables with vectors that are there: LangChain's, LlamaIndex's, your own.

    Reads the database, changes nothing in it, and writes files to review: worker.toml, with a corpus for each table and
    the embedder to choose, modes.toml, and tables.sql, with rights, views where they are needed, policies and indexes
    to choose from. It counts what two callers would see by each policy, and names columns that may mean hidden.

    Exit code 1 if no table can be a corpus.

    Examples: [bold]retrieval-worker adopt --dsn postgresql://owner@db/app[/bold],
    [bold]retrieval-worker adopt --schema shop --out shop-worker --json[/bold]
    """
    from workbench.adoption.files import document, new_folder, write
    from workbench.adoption.preview import preview
    from workbench.adoption.proposals import proposals
    from workbench.adoption.tables import vector_tables

    folder = new_folder(out)
    with admin_connection(dsn) as connection, progress(screen) as progress_bars:
        connection.execute("SET default_transaction_read_only = on")
        bar = progress_bars.add_task("reading tables", total=None)
        tables = [
            *vector_tables(
                connection,
                schemas or [],
                lambda tables_read, total: progress_bars.update(bar, completed=tables_read, total=total),
            )
        ]
        proposed, skipped = proposals(tables)
        previews = {proposal.corpus: preview(connection, proposal) for proposal in proposed}
    files = write(folder, proposed, skipped, previews) if proposed else []
    if as_json:
        write_json(document(proposed, skipped, files, previews))
    else:
        _show(proposed, skipped, previews)
    if not proposed:
        where = f" in {', '.join(schemas)}" if schemas else ""
        raise RetrievalError(f"no table{where} can be a corpus: none has vectors, text and a key")
    if not as_json:
        file_names = ", ".join(map(str, files))
        console.print(
            f"written: {file_names}. Choose the embedder in worker.toml, and policies in tables.sql; then run it"
        )


def _show(proposed: Sequence[Proposal], skipped: Sequence[Skipped], previews: Mapping[str, Preview]) -> None:
    from workbench.adoption.files import rows_of

    table = Table()
    table.add_column("corpus", **ID_COLUMN)
    for heading in ("table", "of", "rows", "dimensions", "reads", "policies by"):
        table.add_column(heading, justify="right" if heading in {"rows", "dimensions"} else "left")
    for proposal in proposed:
        claims = ", ".join(choice.claim for choice in proposal.choices if choice.claim)
        decided = "those it has" if proposal.source.table.policies else claims or "your choice"
        reads = f"a view, {proposal.view}" if proposal.view else "the table"
        name = proposal.source.table.quoted
        table.add_row(
            id_cell(proposal.corpus), name, proposal.origin, rows_of(proposal), str(proposal.dimensions), reads, decided
        )
    if proposed:
        console.print(table)
    for name, preview in previews.items():
        for line in (line for lines in preview.callers.values() for line in lines):
            console.print(f"{name}: {line}", soft_wrap=True)
        for _, text in preview.hidden:
            console.print(
                f"{name}: may mean hidden, and no policy looks at it unless you choose: {text}", soft_wrap=True
            )
    for skipped_table in skipped:
        console.print(f"left out: {skipped_table.table}: {skipped_table.reason}", soft_wrap=True)
