"""Commands that install a worker's schema and data, and check them."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.terminal import console, progress, screen, styled, write_json
from worker.cli.commands.callers import Caller, Claims, Token, is_named, principal_of
from worker.cli.commands.jobs import JsonDocument  # noqa: TC001 -- typer reads the annotations when it runs
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import Error
    from rich.progress import Progress, TaskID

AdminDsn = Annotated[
    str,
    typer.Option(
        "--dsn",
        envvar="MIGRATION_CONNECTION_STRING",
        help="Connection string of a role that may create extensions and tables (not the worker's).",
    ),
]


def migrate(
    dsn: AdminDsn,
    records_only: Annotated[
        bool, typer.Option("--records-only", help="Leave out the reference tables: the corpora are your own.")
    ] = False,
    dimensions: Annotated[
        int | None,
        typer.Option(
            min=1, max=4000, help="Dimensions of the reference tables' embeddings; above 2000 they are halfvec."
        ),
    ] = None,
    index: Annotated[
        Literal["halfvec", "vector"] | None,
        typer.Option(
            help="Type that the reference tables' HNSW indexes are over. Default: halfvec in new ones, else no change."
        ),
    ] = None,
    language: Annotated[
        str | None,
        typer.Option(
            help="Language of the words of new reference tables, or grams where Postgres has none. Default: english."
        ),
    ] = None,
    lock_timeout: Annotated[
        float, typer.Option(min=0.1, max=86_400, help="Seconds to wait for a lock of another session.")
    ] = 10.0,
    worker_password: Annotated[
        str, typer.Option(envvar="WORKER_PASSWORD", help="Set this password for the worker's role.", show_default=False)
    ] = "",
    as_json: JsonDocument = False,
) -> None:
    """Install or update the worker's role, its records and the reference schema (config/*.sql). Safe to repeat.

    It changes tables that searches read. While it waits for their lock, searches wait for it, so it gives up soon (exit
    code 69) and changes nothing.

    New tables have 768 dimensions unless --dimensions says otherwise; set the same as dimensions of each corpus, and
    --language as its language.

    --index also builds one beside an index over the other type, while searches go on; it waits for transactions that
    are open. Then restart the workers, and drop the old one. After an interruption run it again.

    Examples: [bold]retrieval-worker migrate --dsn postgresql://postgres@db/app[/bold],
    [bold]retrieval-worker migrate --records-only --lock-timeout 60[/bold],
    [bold]retrieval-worker migrate --dimensions 1536[/bold], [bold]retrieval-worker migrate --index halfvec[/bold]
    """
    import psycopg

    from worker.cli.loader import dimensions_of, set_worker_password
    from worker.cli.loader import migrate as install
    from worker.cli.reindexing import Watch, index_over

    if records_only and index is not None:
        raise WrongUsage("--index is of the reference tables, which --records-only leaves out: give one of the two")
    with admin_connection(dsn) as connection:
        try:
            remaining = install(
                connection,
                records_only=records_only,
                lock_seconds=lock_timeout,
                dimensions=dimensions,
                index=index,
                language=language,
            )
        except psycopg.errors.LockNotAvailable:
            raise Unavailable(
                f"another session held a table for more than {lock_timeout:g} s, and nothing is changed: try again "
                "when it is done (pg_stat_activity shows it), or with a longer --lock-timeout"
            ) from None
        if worker_password:
            set_worker_password(connection, worker_password)
        installed = None if records_only else dimensions_of(connection, "public.document_chunks")
        index_pairs = []
        if index is not None:
            with admin_connection(dsn) as watching, progress(screen) as progress_bars:
                index_pairs = index_over(connection, index, Watch(watching, _bars(progress_bars)))
    if as_json:
        installed_parts = ["records"] if records_only else ["records", "reference"]
        indexes = {} if index is None else {"indexes": [asdict(pair) for pair in index_pairs]}
        write_json({"installed": installed_parts, "dimensions": installed, "remaining": remaining, **indexes})
        return
    console.print("the schema is installed")
    for step in remaining:
        console.print(f"still to do: {step}", soft_wrap=True)
    for pair in index_pairs:
        sizes = f"{pair.bytes / 2**20:,.1f} MB, beside {pair.old} of {pair.old_bytes / 2**20:,.1f} MB"
        console.print(f"{pair.table} has an index over {index}: {sizes}", soft_wrap=True)
    if index_pairs:
        commands = "; ".join(f"DROP INDEX CONCURRENTLY {pair.old}" for pair in index_pairs)
        # Where both are there, a worker searches the index over halfvec.
        over_halfvec = "restart the workers, then drop the old ones"
        order = over_halfvec if index == "halfvec" else "drop the old ones, then restart the workers"
        console.print(f"{order}: {commands}", soft_wrap=True)


def _bars(progress_bars: Progress) -> Callable[[str, str, int, int], None]:
    """Show each phase of each build as a bar: it counts the table's blocks."""
    bars: dict[tuple[str, str], TaskID] = {}

    def show(table: str, phase: str, blocks_done: int, total: int) -> None:
        if (table, phase) not in bars:
            bars[table, phase] = progress_bars.add_task(f"indexing {table}, {phase}", total=None)
        progress_bars.update(bars[table, phase], completed=blocks_done, total=total or None)

    return show


def statistics(
    dsn: AdminDsn,
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="CORPUS", help="Names of corpora in the settings; default all.")
    ] = None,
    as_json: JsonDocument = False,
) -> None:
    """Count the words of corpora for the ranking of full-text search. Safe to repeat, also while workers run.

    Run it after large changes, and once a day from cron, as the owner of the tables: it reads every row, which the
    worker's role may not.

    Examples: [bold]retrieval-worker statistics --dsn postgresql://postgres@db/app[/bold],
    [bold]retrieval-worker statistics documents docs --json[/bold]
    """
    from worker import settings
    from worker.adapters.postgres.text_statistics import refresh

    corpora_settings = settings.load_unconnected().corpora
    for name in corpora or ():
        if name not in corpora_settings:
            raise WrongUsage(f"there is no corpus {name} in the settings: name one of {', '.join(corpora_settings)}")
    counted = []
    with admin_connection(dsn) as connection, progress(screen) as progress_bars:
        for name in dict.fromkeys(corpora or corpora_settings):
            bar = progress_bars.add_task(f"counting {name}", total=None)

            def advance(finished_counts: int, total: int, bar: Any = bar) -> None:
                progress_bars.update(bar, completed=finished_counts, total=total)

            counted += refresh(connection, name, corpora_settings[name], advance)
    if as_json:
        write_json({"statistics": [asdict(corpus_statistics) for corpus_statistics in counted]})
        return
    for corpus_statistics in counted:
        tenant = f", tenant {corpus_statistics.tenant}" if corpus_statistics.tenant else ""
        console.print(
            f"{corpus_statistics.corpus}{tenant}: {corpus_statistics.chunks:,} chunks, "
            f"{corpus_statistics.terms:,} words, {corpus_statistics.mean_length:.1f} in a chunk"
        )


# Postgres' own names first, and none of a schema that another role has called as this one, or put in its way.
_SEARCH_PATH = "SET search_path = pg_catalog, public, pg_temp"


@contextlib.contextmanager
def admin_connection(dsn: str) -> Iterator[Any]:
    """Open a connection of a role that may change the schema.

    Raises:
        SettingsError: Postgres refuses the connection, or a command on it.
        Unavailable: Postgres does not answer.
    """
    import psycopg

    from worker.adapters.postgres.ownership import missing_right
    from worker.adapters.postgres.refusals import refusal, string_problem

    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=5, client_encoding="UTF8") as connection:
            connection.execute(_SEARCH_PATH)
            try:
                yield connection
            except psycopg.errors.InsufficientPrivilege as error:
                cure = missing_right(connection) or "connect as the owner of the database"
                raise SettingsError(
                    f"the role of --dsn may not do this ({error.diag.message_primary}): {cure}"
                ) from None
    except psycopg.OperationalError as error:
        if error.sqlstate is None and (problem := string_problem(dsn) or refusal(dsn)):
            raise SettingsError(f"--dsn (MIGRATION_CONNECTION_STRING): {problem}") from None
        raise Unavailable("Postgres does not answer at --dsn (MIGRATION_CONNECTION_STRING)") from None
    except psycopg.Error as error:
        if error.sqlstate is None:  # libpq's own: its text may quote the password
            raise SettingsError("--dsn (MIGRATION_CONNECTION_STRING) is no connection string of Postgres") from None
        raise SettingsError(f"Postgres refused (SQLSTATE {error.sqlstate}){_named(error)}") from None


# Of missing, different and depended-on parts of the schema: their messages hold no value of a row.
_OF_THE_SCHEMA = ("42", "3F", "2B")


def _named(error: Error) -> str:
    """Return what Postgres says of its schema, and what to do; empty for an error that may quote a row."""
    if not (error.sqlstate or "").startswith(_OF_THE_SCHEMA):
        return ""
    return (
        f": {error.diag.message_primary}. 'retrieval-worker migrate' installs tables that are missing. Rename a table "
        "of your own that has the name of one of them, or leave the reference tables out (--records-only); restore "
        "what was dropped of one, or drop the rest of it, too"
    )


def doctor(caller: Caller = "", claims: Claims = "", token: Token = "", as_json: JsonDocument = False) -> None:
    """Check the settings, Postgres and Redis; change nothing.

    Each finding names its mend, and what the SQL in it locks. With --as also what this caller sees of each corpus, and
    one search.

    Exit code 1 if there is a problem: the worker would not start, or could answer no job now (a server is unavailable,
    no job can state its caller). Exit code 78 if the settings can't be read.

    Examples: [bold]DATABASE_CONNECTION_STRING=… CELERY_BROKER_URL=… retrieval-worker doctor[/bold],
    [bold]retrieval-worker doctor --as alice[/bold]
    """
    from worker import settings
    from worker.cli.doctor import examine, locks

    loaded = settings.load()
    principal = principal_of(loaded, caller, claims, token) if is_named(caller, claims, token) else None
    findings = examine(loaded, principal)
    colours = {"ok": "green", "advice": "yellow", "problem": "red"}
    if as_json:
        noted = ((finding, locks(finding.text) if finding.level != "ok" else "") for finding in findings)
        write_json({"findings": [asdict(finding) | ({"locks": locked} if locked else {}) for finding, locked in noted]})
    else:
        for finding in findings:
            mark = (f"{finding.level:7}", colours[finding.level])
            console.print(styled(mark, f" {finding.subject}: {finding.text}"), soft_wrap=True)
            if finding.level != "ok" and (locked := locks(finding.text)):
                console.print(styled(" " * 8, f"{locked}"), soft_wrap=True)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
