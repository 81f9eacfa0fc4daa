"""The command line: `retrieval-worker`."""

from __future__ import annotations

import contextlib
import secrets
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from worker.commands.runs import runs, verify
from worker.errors import RetrievalError, SettingsError, TimedOut, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

cli = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="A Celery worker that answers retrieval jobs from Postgres/pgvector.\n\n"
    "Exit codes: 0 done, 1 failed (or: something drifted), 2 wrong usage, 69 Postgres or Redis is away, "
    "78 wrong settings.",
)
cli.add_typer(runs, name="runs")
cli.command()(verify)
# Where no terminal says how wide it is (a pipe, a CI log), tables need more than the usual 80 columns.
console = Console(width=None if sys.stdout.isatty() else 120)

PostgresVersion = Annotated[int, typer.Option("--postgres", help="Major version of the embedded server: 16 or 18.")]
AdminDsn = Annotated[
    str,
    typer.Option(
        "--dsn",
        envvar="MIGRATION_CONNECTION_STRING",
        help="Connection string of a role that may create extensions and tables (not the worker's).",
    ),
]


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


@cli.command()
def demo(postgres: PostgresVersion = 18) -> None:
    """Show the whole way of a job on this machine, then stop everything.

    Starts Postgres and Redis, loads the sample corpus, starts a real worker, and asks as two callers with
    different rights.

    Example: [bold]retrieval-worker demo[/bold]
    """
    from worker import demo as demonstration  # noqa: PLC0415 -- commands import what they need, so --help is quick

    demonstration.run(console, postgres_version=postgres)


@cli.command()
def up(
    data: Annotated[Path, typer.Option(help="Where the servers keep their data.")] = Path(".state"),
    postgres: PostgresVersion = 18,
    autoscale: Annotated[str, typer.Option(help="Most and fewest worker processes.")] = "4,1",
) -> None:
    """Keep Postgres, Redis, a worker and Flower running on this machine until Ctrl-C.

    Example: [bold]retrieval-worker up --data .state --autoscale 8,2[/bold]
    """
    from worker import demo as demonstration, devstack  # noqa: I001, PLC0415 -- see `demo`

    with contextlib.ExitStack() as running:
        stack = running.enter_context(devstack.stack(data.resolve(), postgres_version=postgres, durable=True))
        demonstration.install_sample(stack, console)
        artifacts = stack.root / "artifacts"
        environment = devstack.worker_environment(stack, TRUST_QUEUE="true", ARTIFACTS__URL=str(artifacts))
        log = stack.root / "worker.log"
        running.enter_context(devstack.celery_worker(environment, log, f"--autoscale={autoscale}"))
        password = secrets.token_urlsafe(12)
        url = running.enter_context(
            devstack.flower(environment, stack.root / "flower.log", user="admin", password=password)
        )
        _say_how(stack, url, password, log)
        threading.Event().wait()


def _say_how(stack: Any, url: str, password: str, log: Path) -> None:
    console.print(
        f"""
[bold]Running[/bold] until Ctrl-C.
  Redis      {stack.redis.url(0)}  (results: {stack.redis.url(1)})
  Postgres   {stack.postgres.dsn()}
  Flower     {url}  (admin / {password})
  log        {log}

[bold]Send a job[/bold] (any caller of the sample: alice, bob, carol)
  export CELERY_BROKER_URL={stack.redis.url(0)} CELERY_RESULT_BACKEND={stack.redis.url(1)}
  export DATABASE_CONNECTION_STRING={stack.postgres.dsn(user="retrieval_worker")}
  export MIGRATION_CONNECTION_STRING={stack.postgres.dsn()} RETRIEVAL_WORKER_ARTIFACTS__URL={stack.root / "artifacts"}
  retrieval-worker query "What causes the hum on channel 18?" --as alice --record song-1 r1
  retrieval-worker cite song-1 r1 --as alice --out citations.json
  retrieval-worker replay song-1 r1 --as alice --citations citations.json

or from Python
  from worker.client import Client, RetrieveTopK, encode_embedding
  client = Client("{stack.redis.url(0)}", "{stack.redis.url(1)}")
  client.call(RetrieveTopK(query_embedding=encode_embedding(vector), principal={{"user_id": "alice"}}))

or in any language: docs/backends.md
""",
        soft_wrap=True,
        highlight=False,
    )


@cli.command()
def query(
    question: Annotated[str, typer.Argument(help="What to look for; embedded as the settings say.")],
    broker: Annotated[str, typer.Option(envvar="CELERY_BROKER_URL", help="Redis of the queue.")],
    caller: Annotated[str, typer.Option("--as", help="user_id of who asks (the worker must trust its queue).")],
    backend: Annotated[str, typer.Option(envvar="CELERY_RESULT_BACKEND", help="Redis of the results.")] = "",
    corpus: Annotated[str, typer.Option(help="A corpus of the worker's settings; default its first.")] = "",
    record: Annotated[
        tuple[str, str] | None, typer.Option("--record", metavar="SUBJECT RUN", help="Record it as this run.")
    ] = None,
    k: Annotated[int, typer.Option(help="How many chunks (10 to 15).")] = 15,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as it came.")] = False,
) -> None:
    """Enqueue one retrieve_top_k job and print its answer.

    Example: [bold]retrieval-worker query "hum on channel 18" --as alice --record song-1 r1[/bold]
    """
    from worker import settings  # noqa: PLC0415 -- see `demo`
    from worker.adapters import embedder  # noqa: PLC0415 -- see `demo`
    from worker.client import Client, RetrieveTopK, TopK, encode_embedding  # noqa: PLC0415 -- see `demo`
    from worker.contract import parse_job  # noqa: PLC0415 -- see `demo`
    from worker.demo import as_table  # noqa: PLC0415 -- see `demo`

    vector = embedder.make(settings.load_embedder()).embed([question])[0].tolist()
    wanted: dict[str, Any] = {"query_embedding": encode_embedding(vector), "principal": {"user_id": caller}, "k": k}
    if corpus:
        wanted["corpus"] = corpus
    if record:
        wanted["run"] = _run_name(*record)
    job = parse_job(RetrieveTopK, wanted)
    start = time.perf_counter()
    answer = Client(broker, backend or None).call(job, timeout=timeout)
    assert isinstance(answer, TopK)  # noqa: S101 -- for the type checker: one query, one answer
    if as_json:
        print(answer.model_dump_json(indent=1))  # noqa: T201 -- for another program to read
    else:
        console.print(as_table(question, answer, (time.perf_counter() - start) * 1000, shown=answer.k))


def _run_name(subject: str, run: str, step: str = "") -> dict[str, str]:
    return {"subject_id": subject, "run_id": run, **({"step": step} if step else {})}


@cli.command()
def cite(
    subject: Annotated[str, typer.Argument(help="subject_id of the run.")],
    run: Annotated[str, typer.Argument(help="run_id of the run.")],
    broker: Annotated[str, typer.Option(envvar="CELERY_BROKER_URL", help="Redis of the queue.")],
    caller: Annotated[str, typer.Option("--as", help="user_id of who asks (the worker must trust its queue).")],
    backend: Annotated[str, typer.Option(envvar="CELERY_RESULT_BACKEND", help="Redis of the results.")] = "",
    step: Annotated[str, typer.Option(help="Only this step of the run.")] = "",
    out: Annotated[Path | None, typer.Option(help="Also write the citations document to this file.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 30.0,
) -> None:
    """Cite a recorded run: its chunks, checked against the sources, kept as the run's citations.json.

    Example: [bold]retrieval-worker cite song-1 r1 --as alice --out citations.json[/bold]
    """
    from worker import reports  # noqa: PLC0415 -- see `demo`
    from worker.client import BuildCitations, Citations, Client  # noqa: PLC0415 -- see `demo`
    from worker.contract import parse_job  # noqa: PLC0415 -- see `demo`

    cited = _run_name(subject, run, step)
    job = parse_job(BuildCitations, {"principal": {"user_id": caller}, "cite": cited, "run": _run_name(subject, run)})
    answer = Client(broker, backend or None).call(job, timeout=timeout)
    assert isinstance(answer, Citations)  # noqa: S101 -- for the type checker: one run, one answer
    console.print(reports.citations_table(f"{subject} / {run}, as {caller}", answer))
    if out is not None:
        reports.write_document(out, answer.citations)


@cli.command()
def replay(
    subject: Annotated[str, typer.Argument(help="subject_id of the run.")],
    run: Annotated[str, typer.Argument(help="run_id of the run.")],
    broker: Annotated[str, typer.Option(envvar="CELERY_BROKER_URL", help="Redis of the queue.")],
    caller: Annotated[str, typer.Option("--as", help="user_id of who asks (the worker must trust its queue).")],
    backend: Annotated[str, typer.Option(envvar="CELERY_RESULT_BACKEND", help="Redis of the results.")] = "",
    step: Annotated[str, typer.Option(help="Only this step of the run.")] = "",
    citations: Annotated[
        Path | None, typer.Option(help="The run's citations.json: shows what an edited chunk said, word by word.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 30.0,
) -> None:
    """Replay a recorded run and show what became of each chunk. Exit code 1 if any is edited or missing.

    Example: [bold]retrieval-worker replay song-1 r1 --as alice --citations citations.json[/bold]
    """
    from worker import reports  # noqa: PLC0415 -- see `demo`
    from worker.client import Client, PinnedReplay, Replay  # noqa: PLC0415 -- see `demo`
    from worker.contract import parse_job  # noqa: PLC0415 -- see `demo`

    old_texts = reports.texts_of(reports.read_document(citations)) if citations else {}
    client, asker = Client(broker, backend or None), {"user_id": caller}
    job = parse_job(PinnedReplay, {"principal": asker, "run": _run_name(subject, run, step)})
    answer = client.call(job, timeout=timeout)
    assert isinstance(answer, Replay)  # noqa: S101 -- for the type checker: one run, one answer
    edited = [pin.found_hash for pin in answer.pins if pin.verdict == "edited" and pin.found_hash]
    now = client.call(PinnedReplay(principal=asker, required_chunk_hashes=edited), timeout=timeout)
    assert isinstance(now, Replay)  # noqa: S101 -- for the type checker: the same
    new_texts = {chunk.chunk_hash: chunk.text for chunk in [*answer.chunks, *now.chunks]}
    console.print(reports.replay_table(f"{subject} / {run}, as {caller}", answer, old_texts, new_texts))
    if any(pin.verdict in {"edited", "missing"} for pin in answer.pins):
        raise typer.Exit(1)


@cli.command()
def migrate(
    dsn: AdminDsn,
    records_only: Annotated[
        bool, typer.Option("--records-only", help="Leave the reference tables out: the corpora are your own.")
    ] = False,
    worker_password: Annotated[
        str, typer.Option(envvar="WORKER_PASSWORD", help="Set the worker's role this password.", show_default=False)
    ] = "",
) -> None:
    """Install or update the worker's role, its records and the reference schema (config/*.sql). Safe to repeat.

    Example: [bold]retrieval-worker migrate --dsn postgresql://postgres@db/app[/bold]
    """
    from worker.loader import migrate as install  # noqa: PLC0415 -- see `demo`
    from worker.loader import set_worker_password  # noqa: PLC0415 -- see `demo`

    with _admin(dsn) as connection:
        install(connection, records_only=records_only)
        if worker_password:
            set_worker_password(connection, worker_password)
    console.print("the schema is installed")


@cli.command()
def load(
    dsn: AdminDsn,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE", help="JSON files; default the three sample corpora.")
    ] = None,
) -> None:
    """Load files into the reference tables; texts are embedded as the settings say. Safe to repeat.

    A file holds one list, whose name says for which corpus it is (all fields: docs/schema.md):

    {"documents": [{"id": …, "owner": …, "chunks": [{"id": …, "text": …}]}]}

    {"docs": [{"id": …, "page_name": …, "page_url": …, "section_title": …, "content": …}]}

    {"examples": [{"id": …, "title": …, "description": …, "code": …, "tags": […], "url": …}]}

    Example: [bold]retrieval-worker load documents.json --dsn postgresql://postgres@db/app[/bold]
    """
    from rich.progress import Progress  # noqa: PLC0415 -- see `demo`

    from worker import corpus_files, loader, settings  # noqa: PLC0415 -- see `demo`
    from worker.adapters import embedder  # noqa: PLC0415 -- see `demo`

    contents = [corpus_files.read(file) for file in files or corpus_files.SAMPLES.values()]
    model = embedder.make(settings.load_embedder())
    with _admin(dsn) as connection, Progress(console=console) as progress:
        for content in contents:
            bar = progress.add_task(f"loading {content.corpus}", total=content.chunks)
            loader.load(connection, content, model, partial(progress.advance, bar))
    for content in contents:
        console.print(f"{content.chunks} chunks of {len(content.items)} {content.corpus} are loaded")


@contextlib.contextmanager
def _admin(dsn: str) -> Iterator[Any]:
    import psycopg  # noqa: PLC0415 -- see `demo`

    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
            yield connection
    except psycopg.OperationalError:
        raise Unavailable("Postgres does not answer at --dsn (MIGRATION_CONNECTION_STRING)") from None
    except psycopg.errors.InsufficientPrivilege:
        raise SettingsError("the role of --dsn may not do this: connect as the owner of the database") from None
    except psycopg.Error as error:
        raise SettingsError(f"Postgres refused (SQLSTATE {error.sqlstate})") from None


@cli.command()
def doctor() -> None:
    """Check the settings, Postgres and Redis; change nothing. Exit code 1 if the worker would not start.

    Example: [bold]DATABASE_CONNECTION_STRING=… CELERY_BROKER_URL=… retrieval-worker doctor[/bold]
    """
    from worker import settings  # noqa: PLC0415 -- see `demo`
    from worker.doctor import examine  # noqa: PLC0415 -- see `demo`

    findings = examine(settings.load())
    marks = {"ok": "[green]ok     [/green]", "advice": "[yellow]advice [/yellow]", "problem": "[red]problem[/red]"}
    for finding in findings:
        console.print(f"{marks[finding.level]} {finding.subject}: {finding.text}", soft_wrap=True, highlight=False)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


@cli.command()
def contract(
    folder: Annotated[Path, typer.Argument(help="Where to write.")] = Path("docs/contract"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if the files differ.")] = False,
) -> None:
    """Write the wire contract (JSON Schemas, AsyncAPI, examples) from the project's own types.

    Example: [bold]retrieval-worker contract --check[/bold]
    """
    from worker.schemas import differing, write  # noqa: PLC0415 -- see `demo`

    if check:
        stale = differing(folder)
        if stale:
            raise SettingsError(f"{', '.join(stale)} differ from the types: run 'retrieval-worker contract'")
        console.print("the contract's files are as the types say")
    else:
        console.print(f"{len(write(folder))} files written to {folder}")


if __name__ == "__main__":
    main()
