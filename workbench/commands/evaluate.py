"""The command that measures retrieval on labelled queries."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from retrieval_client.errors import RetrievalError
from worker.adapters.terminal import console, progress, screen, write_json
from worker.cli.commands.callers import Claims, JobCaller, Token, claims_of, enqueue, is_named, signer_of
from worker.cli.commands.jobs import Backend, JsonDocument, Timeout, answer_to, client_of
from worker.cli.commands.runs import opened_engine
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from workbench.evaluation.asking import Answering, Questioner
    from workbench.evaluation.figures import Evaluation, Unit
    from workbench.evaluation.queries import LabelledQuery
    from workbench.evaluation.systems import System
    from worker.adapters.terminal import Terminal

DEEPEST = 50
"""Most chunks that a job may ask for."""

_SHOWN_LINES = 50
"""Wrong lines that are named."""


def evaluate(
    queries: Annotated[
        Path | None,
        typer.Argument(metavar="QUERIES", help="Labelled queries, a JSON object a line; none: --run and --qrels."),
    ] = None,
    broker: Annotated[str, typer.Option(envvar="CELERY_BROKER_URL", help="Redis of the queue.")] = "",
    backend: Backend = "",
    here: Annotated[bool, typer.Option("--here", help="Search in this process, without a worker.")] = False,
    caller: JobCaller = "",
    claims: Claims = "",
    token: Token = "",
    corpus: Annotated[str, typer.Option(help="Corpus of queries that name none; default the first.")] = "",
    cut_offs: Annotated[str, typer.Option("--k", help="Cut-off ranks of the measures, with commas.")] = "5,10",
    depth: Annotated[int, typer.Option(min=0, max=DEEPEST, help="Chunks to ask for; 0: the greatest k.")] = 0,
    fusion: Annotated[str, typer.Option(help="Fusion of the whole; default the worker's.")] = "",
    legs: Annotated[str, typer.Option(help="Legs of the whole, as primary,sparse; default the job's.")] = "",
    transform: Annotated[str, typer.Option(help="none, glossary or llm.")] = "none",
    profile: Annotated[str, typer.Option(help="The whole is this profile of the pipeline.")] = "",
    mode: Annotated[str, typer.Option(help="Mode of the pipeline, for profiles; default the first.")] = "",
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="A B", help="Compare two instead: fusions, or profiles of the pipeline."),
    ] = None,
    by: Annotated[str, typer.Option(help="Ids of `relevant`: chunk or document; default what they match.")] = "",
    relevant_from: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Lowest grade that counts as relevant; nDCG takes all.")
    ] = 1,
    runs: Annotated[
        list[Path] | None, typer.Option("--run", help="Measure this TREC run, without a search; repeat to compare.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="TREC judgements of the run, instead of QUERIES.")] = None,
    write_run: Annotated[
        Path | None, typer.Option(help="Write the ranking of the whole, or A, as a TREC run; others beside it.")
    ] = None,
    write_qrels: Annotated[Path | None, typer.Option(help="Write the judgements as TREC qrels.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a plot of the figures as SVG.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the whole report, each query included, as JSON.")] = None,
    timeout: Timeout = 60.0,
    as_json: JsonDocument = False,
) -> None:
    """Measure retrieval on labelled queries: recall, precision and nDCG at k, and MRR, with 95 % intervals.

    A line of QUERIES is an object with question and relevant: a list of ids, or an object of id and grade. Optional:
    id, corpus, context, caller (claims), query_embedding, kind; --as, --claims or --token: the caller of queries that
    name none. Measured are each leg alone and the whole: the hybrid retrieval as shipped, with --fusion and --legs, or
    with --profile. A worker answers, unless --here is given.

    Examples: [bold]retrieval-worker evaluate queries.jsonl --as alice[/bold],
    [bold]retrieval-worker evaluate queries.jsonl --here --legs primary,sparse --compare rrf weighted[/bold],
    [bold]retrieval-worker evaluate queries.jsonl --write-run run.txt --write-qrels qrels.txt[/bold],
    [bold]retrieval-worker evaluate --run run.txt --qrels qrels.txt --json[/bold]
    """
    from workbench.evaluation.asking import Questioner
    from workbench.evaluation.figures import Evaluation
    from workbench.evaluation.files import Outputs, read_rankings
    from workbench.evaluation.plan import Choice, plan_of
    from workbench.evaluation.report import document

    outputs = Outputs(write_run, write_qrels, plot, report)
    outputs.check()
    ks, unit, everybody = _cut_offs(cut_offs), _unit(by), _claims(caller, claims, token)
    source = str(queries or qrels)
    judged = _judged(queries, qrels, of_files=bool(runs))
    _check_relevant(judged, relevant_from, source)
    settings: dict[str, Any] = {"k": ks, "relevant_from": relevant_from}
    systems: Mapping[str, System] = {}
    if runs:
        if here or compare or any((fusion, legs, profile, by)):
            raise typer.BadParameter("nothing is searched: leave out what says how", param_hint="--run")
        names, ranked = read_rankings(runs, judged)
        evaluation = Evaluation(ranked, names, [(names[0], name) for name in names[1:]], ks, relevant_from)
        main = names[0]
    else:
        plan = plan_of(Choice(fusion, legs, transform, profile, mode), compare)
        main, systems, searched_depth = plan.main, plan.systems, _depth(depth, ks)
        settings |= {"depth": searched_depth, "by": unit or "what they match"}
        evaluation = Evaluation((), [*systems], plan.pairs, ks, relevant_from)
        with _answering(in_process=here, broker=broker, backend=backend, timeout=timeout) as (answering, known_corpora):
            all_systems, default = [*systems.values()], corpus or known_corpora[0]
            questioner = Questioner(answering, all_systems, default, searched_depth, everybody, source, known_corpora)
            evaluation = _measured(questioner, judged, evaluation, unit)
    title = f"{source.rpartition('/')[2]}: {len(judged)} {'query' if len(judged) == 1 else 'queries'}"
    evaluation_document = document(evaluation, systems, settings, _about(source))
    outputs.write(evaluation, main, title, evaluation_document)
    if as_json:
        write_json(evaluation_document)
    else:
        _show(console, title, evaluation, in_full=bool(compare or runs))


# --- options ------------------------------------------------------------------------------------


def _cut_offs(text: str) -> list[int]:
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isascii() and number.isdecimal() and 0 < len(number) <= 3 and int(number) for number in numbers):  # noqa: PLR2004 -- digits
        raise typer.BadParameter("expected numbers from 1 to 999, with commas: 5,10", param_hint="--k")
    return sorted({*map(int, numbers)})


def _unit(text: str) -> Unit | None:
    from workbench.evaluation.figures import Unit

    for unit in get_args(Unit):
        if text == unit:
            return unit  # type: ignore[no-any-return]  # one of the literal's own
    if text:
        raise typer.BadParameter("expected chunk or document", param_hint="--by")
    return None


def _claims(caller: str, claims: str, token: str) -> dict[str, Any] | None:
    from worker.settings import load_unconnected

    return claims_of(load_unconnected(), caller, claims, token) if is_named(caller, claims, token) else None


def _depth(depth: int, ks: Sequence[int]) -> int:
    """Return how many chunks to ask for: what the measures look at, unless told otherwise."""
    if max(ks) > (depth or DEEPEST):
        limit = f"--depth {depth}" if depth else f"the {DEEPEST} chunks that a job may ask for"
        raise typer.BadParameter(f"expected at most {limit}", param_hint="--k")
    return depth or max(ks)


def _judged(queries: Path | None, qrels: Path | None, *, of_files: bool) -> list[LabelledQuery]:
    """Read the judgements; of a file of queries each wrong line is named.

    Raises:
        WrongUsage: the files can't be used.
    """
    from workbench.evaluation.files import as_in_runs, queries_of_qrels
    from workbench.evaluation.queries import read_queries

    if (queries is None) == (qrels is None) or (qrels is not None and not of_files):
        raise typer.BadParameter("give QUERIES; or --run FILE, with --qrels FILE or QUERIES")
    if queries is None:
        assert qrels is not None  # noqa: S101 -- for the type checker: one of them is there
        return queries_of_qrels(qrels)
    with _wrong_lines_shown(str(queries)):
        judged = read_queries(queries)
    return [as_in_runs(query) for query in judged] if of_files else judged


@contextlib.contextmanager
def _wrong_lines_shown(source: str) -> Iterator[None]:
    """Show the first of the wrong lines of a file, where there are several."""
    from workbench.evaluation.queries import WrongLines

    try:
        yield
    except WrongLines as error:
        if len(error.lines) > 1:
            _say(f"{source}: {line}" for line in error.lines[:_SHOWN_LINES])
        if len(error.lines) > _SHOWN_LINES:
            _say([f"and {len(error.lines) - _SHOWN_LINES} more"])
        raise


def _check_relevant(judged: Sequence[LabelledQuery], relevant_from: int, source: str) -> None:
    """Check that something is relevant to one query at least: without that no measure is defined.

    Raises:
        WrongUsage: nothing is.
    """
    if not any(grade >= relevant_from for query in judged for grade in query.grades.values()):
        raise WrongUsage(f"{source}: expected a query with a relevant id, of grade {relevant_from} or more, got none")


# --- measuring ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _answering(
    *, in_process: bool, broker: str, backend: str, timeout: float
) -> Iterator[tuple[Answering, Sequence[str]]]:
    """Open what answers jobs: an engine of this process, or a worker; with the names of the settings' corpora."""
    from workbench.evaluation.asking import InProcess, ThroughWorker
    from worker import settings as settings_module

    if in_process:
        with opened_engine() as (engine, settings):
            yield InProcess(engine, settings), [*settings.corpora]
        return
    if not broker:
        raise typer.BadParameter("give it (or CELERY_BROKER_URL), or search --here", param_hint="--broker")
    loaded = settings_module.load_unconnected()
    with client_of(broker, backend, signer_of(loaded, timeout)) as client:
        yield ThroughWorker(client, enqueue, answer_to, timeout), [*loaded.corpora]


def _measured(
    questioner: Questioner, queries: Sequence[LabelledQuery], evaluation: Evaluation, unit: Unit | None
) -> Evaluation:
    """Ask the queries, showing progress; where that ends early, what was measured is shown before the error is raised.

    Raises:
        RetrievalError: as `Questioner.ask`.
    """
    from workbench.evaluation.figures import ranked

    ranked_queries = []
    try:
        with _wrong_lines_shown(questioner.source):
            for query_hits in _with_progress(questioner.ask(queries), len(queries)):
                ranked_queries.append(ranked(query_hits, unit))  # noqa: PERF401 -- what was found is needed if this is interrupted
    except (KeyboardInterrupt, RetrievalError):
        if ranked_queries:
            title = f"stopped after {len(ranked_queries)} of {len(queries)} queries, which have these figures"
            _show(screen, title, replace(evaluation, ranked=ranked_queries), in_full=False)
        raise
    return replace(evaluation, ranked=ranked_queries)


def _with_progress(items: Iterable[Any], total: int) -> Iterator[Any]:
    """Yield items under a bar, which appears with the first."""
    with progress(screen) as progress_bars:
        bar = None
        for item in items:
            if bar is None:
                bar = progress_bars.add_task("queries", total=total)
            progress_bars.advance(bar)
            yield item


# --- showing ------------------------------------------------------------------------------------


def _show(terminal: Terminal, title: str, evaluation: Evaluation, *, in_full: bool) -> None:
    """Print the figures and what they mean.

    Args:
        terminal: where.
        title: of the table.
        evaluation: the evaluation.
        in_full: all measures of each comparison too, and the questions that it changes.
    """
    from workbench.evaluation import report

    terminal.print(report.table(title, evaluation))
    for comparison in evaluation.comparisons:
        if in_full:
            terminal.print(report.comparison_table(comparison))
        terminal.print(report.sentence(comparison, evaluation.main_measure), soft_wrap=True)
    questions = report.questions_table(evaluation, evaluation.comparisons if in_full else ())
    if questions is not None:
        terminal.print(questions)
    for note in report.notes(evaluation):
        terminal.print(note, soft_wrap=True)


def _say(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        screen.print(sentence, soft_wrap=True)


def _about(source: str) -> Mapping[str, str]:
    """Return what identifies a report."""
    return {
        "source": source,
        "worker_version": metadata.version("retrieval-worker"),
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
