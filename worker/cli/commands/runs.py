"""Commands for recorded runs: check, list, export and import them, and store files with them.

They use the Postgres and the artifact store of the worker's settings, as the worker's role, without a queue.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from retrieval_client.errors import InvalidJob
from worker.adapters.private_files import write_private
from worker.adapters.terminal import (
    ID_COLUMN,
    complain,
    console,
    id_cell,
    progress,
    screen,
    write_json,
    write_json_text,
    write_line,
    write_text,
)
from worker.cli.commands.callers import AS, Caller, Claims, Token, is_named, principal_of
from worker.cli.commands.jobs import JsonDocument, JsonLines  # noqa: TC001 -- typer reads the annotations when it runs
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval_client.contract.run_jobs import RunName
    from worker.core.ranking.tuning import Proposal
    from worker.jobs.engine import Engine
    from worker.jobs.feedback import Tuning
    from worker.model import Principal
    from worker.settings import Settings
    from worker.settings.searching import ProfileSettings

runs = typer.Typer(no_args_is_help=True, help="Recorded runs: list, export and import them, store files with them.")

Subject = Annotated[str, typer.Argument(help="subject_id of the run.")]
Run = Annotated[str, typer.Argument(help="run_id of the run.")]


@contextlib.contextmanager
def opened_engine(*, with_queue: bool = False) -> Iterator[tuple[Engine, Settings]]:
    """Open the worker's engine in this process, with the settings of the environment; CELERY_BROKER_URL may be missing.

    Args:
        with_queue: it is needed.
    """
    settings = _loaded(with_queue=with_queue)
    with _engine(settings) as engine:
        yield engine, settings


@contextlib.contextmanager
def opened_for(
    caller: str, claims: str, token: str, *, with_queue: bool = False
) -> Iterator[tuple[Engine, Settings, Principal]]:
    """Open the engine as `opened_engine`, for the caller of a command, who is identified first; see `principal_of`."""
    settings = _loaded(with_queue=with_queue)
    principal = principal_of(settings, caller, claims, token)
    with _engine(settings) as engine:
        yield engine, settings, principal


def _loaded(*, with_queue: bool) -> Settings:
    from worker import settings as settings_module

    return settings_module.load() if with_queue else settings_module.load_without_queue()


@contextlib.contextmanager
def _engine(settings: Settings) -> Iterator[Engine]:
    from worker.jobs.engine import Engine

    engine = Engine(settings, time.perf_counter)
    try:
        yield engine
    finally:
        engine.close()


def name_of(subject: str, run: str, step: str = "") -> RunName:
    """Return a run's name, checked."""
    from retrieval_client.contract.base import parse_part
    from retrieval_client.contract.run_jobs import RunName

    return parse_part(RunName, {"subject_id": subject, "run_id": run, **({"step": step} if step else {})})


def verify(
    subject: Annotated[str, typer.Argument(help="Only runs of this subject.")] = "",
    run: Annotated[str, typer.Argument(help="Only this run of it.")] = "",
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    as_json: JsonLines = False,
) -> None:
    """Check recorded runs against the current corpora.

    Without --as, --claims and --token: all users' runs, with the permissions of [bold]verify.principal[/bold] in the
    settings. Exit code 1 if a chunk of any run was edited or is missing.

    Example: [bold]retrieval-worker verify song-1 --as alice[/bold]
    """
    from worker.jobs.drift import watcher

    everybody = not is_named(caller, claims, token)
    with opened_engine() as (engine, settings):
        principal = watcher(settings) if everybody else principal_of(settings, caller, claims, token)
        owner = None if everybody or principal is None else principal.owner
        which = (owner, subject or None, run or None)
        total = engine.verifying.count(*which)
        if not total and (subject or run):
            raise InvalidJob("no such run", "run")
        drifted = []
        with progress(screen) as progress_bars:
            bar = progress_bars.add_task("checking runs", total=total)
            for checked in engine.verifying.all(principal, *which):
                progress_bars.advance(bar)
                if checked.drifted:
                    drifted.append(checked)
                if as_json:
                    write_json(checked.as_json())
    if not as_json:
        console.print(_drift_table(drifted, total))
    if drifted:
        raise typer.Exit(1)


def _drift_table(drifted: list[Any], total: int) -> Table | str:
    if not drifted:
        return f"{total} runs checked: every chunk is still there, word for word"
    table = Table(title=f"{len(drifted)} of {total} runs drifted", title_justify="left")
    for name in ("subject", "run", "same", "moved", "edited", "missing"):
        options = ID_COLUMN if name in {"subject", "run"} else {"justify": "right"}
        table.add_column(name, **options)
    for checked in drifted:
        counts = checked.verdicts
        same = counts.get("exact", 0) + counts.get("normalised", 0)
        moved = counts.get("moved", 0) + counts.get("ambiguous", 0)
        numbers = (same, moved, counts.get("edited", 0), counts.get("missing", 0))
        table.add_row(id_cell(checked.subject_id), id_cell(checked.run_id), *map(str, numbers))
    return table


@runs.command("list")
def list_runs(
    subject: Annotated[str, typer.Argument(help="Only of this subject.")] = "",
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    as_json: JsonLines = False,
) -> None:
    """List a user's runs.

    Example: [bold]retrieval-worker runs list --as alice[/bold]
    """
    with opened_for(caller, claims, token) as (engine, _, principal):
        run_names = engine.exchange.names(principal, subject or None)
        if not run_names:
            screen.print("no runs of this caller")
        for name in run_names:
            if as_json:
                write_json({"subject_id": name.subject_id, "run_id": name.run_id})
            else:
                write_line(name.subject_id, name.run_id)


@runs.command("export")
def export_run(
    subject: Subject,
    run: Run,
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    out: Annotated[Path | None, typer.Option(help="File to write; default standard output.")] = None,
) -> None:
    """Write a run (records, events, files) as one JSON file, which no other user of the machine can read.

    Answers and files are withheld if a source changed since, or is no longer visible to the caller.

    Example: [bold]retrieval-worker runs export song-1 r1 --as alice --out song-1-r1.json[/bold]
    """
    with opened_for(caller, claims, token) as (engine, _, principal):
        exported = engine.exchange.export(principal, name_of(subject, run))
    content = exported.as_bytes()
    if exported.withheld:
        complain(f"withheld, because a source changed or is no longer visible: {', '.join(exported.withheld)}")
    if out is None:
        write_json_text(content.decode())
        return
    try:
        write_private(out, content)
    except OSError as error:
        raise WrongUsage(f"--out {out}: {error.strerror}") from None
    screen.print(f"{out}: {len(content):,} bytes")


@runs.command("import")
def import_run(
    file: Annotated[Path, typer.Argument(help="A file from 'runs export'.")],
    caller: Annotated[
        str, typer.Option(AS, metavar="USER", help="New owner: the user's id, or owner claims as JSON.")
    ] = "",
    claims: Claims = "",
    token: Token = "",
    as_json: JsonDocument = False,
) -> None:
    """Import a run. A file grants nothing: a replay looks up its chunks with the permissions of its caller.

    Example: [bold]retrieval-worker runs import song-1-r1.json --as alice[/bold]
    """
    content = _read(file)
    with opened_for(caller, claims, token) as (engine, _, principal):
        try:
            name = engine.exchange.restore(principal, content)
        except InvalidJob as error:
            raise WrongUsage(f"{file}: {error.message}") from None
    if as_json:
        write_json({"subject_id": name.subject_id, "run_id": name.run_id})
    screen.print(f"{name.subject_id} / {name.run_id} is there, as {principal.owner}'s")


@runs.command("keep")
def keep_file(
    subject: Subject,
    run: Run,
    file: Annotated[Path, typer.Argument(help="An output of the run, e.g. lyrics.json.")],
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    as_json: JsonDocument = False,
) -> None:
    """Store a file with a run's citations; its earlier version stays, and events.jsonl is rewritten.

    The run must be there: a job or [bold]runs import[/bold] makes it.

    Example: [bold]retrieval-worker runs keep song-1 r1 lyrics.json --as alice[/bold]
    """
    content = _read(file)
    with opened_for(caller, claims, token) as (engine, _, principal):
        name = name_of(subject, run)
        if all(run_name.run_id != name.run_id for run_name in engine.exchange.names(principal, name.subject_id)):
            raise InvalidJob("no such run ('retrieval-worker runs list' shows the caller's)", "run")
        stored_path = engine.files.keep(principal, name, file.name, content)
    if as_json:
        write_json({"file": stored_path})
    else:
        write_line(stored_path)


@runs.command("used")
def used_chunks(
    subject: Subject,
    run: Run,
    chunks: Annotated[list[str], typer.Argument(metavar="CHUNK", help="Chunks of the run's answers, by id or hash.")],
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    step: Annotated[str, typer.Option(help="Only of this step of the run.")] = "",
    corpus: Annotated[str, typer.Option(help="Corpus of the chunks, if chunks of two corpora share an id.")] = "",
    unused: Annotated[bool, typer.Option("--not", help="The chunks were not used.")] = False,
    as_json: JsonDocument = False,
) -> None:
    """Record which chunks of a run were used. The latest feedback on a chunk counts; [bold]tune[/bold] learns from it.

    Example: [bold]retrieval-worker runs used song-1 r1 handbook-desk-notes-006 --as alice[/bold]
    """
    with opened_for(caller, claims, token) as (engine, _, principal):
        name = name_of(subject, run, step)
        changed = engine.feedback.record(principal, name, chunks, used=not unused, corpus=corpus or None)
    if as_json:
        write_json({"recorded": changed})
    screen.print(f"{subject} / {run}: {changed} noted")


_METHODS = ("weighted", "rrf")


def tune(
    caller: Caller = "",
    claims: Claims = "",
    token: Token = "",
    corpus: Annotated[str, typer.Option(help="Only of searches over this corpus.")] = "",
    method: Annotated[str, typer.Option(help="Fusion method: weighted or rrf. Default: that of the settings.")] = "",
    k: Annotated[int, typer.Option(min=1, max=50, help="Number of results that a user reads.")] = 5,
    as_json: JsonDocument = False,
) -> None:
    """Propose weights of the legs from feedback on recorded hybrid retrievals. It changes nothing.

    Only runs of retrieve_hybrid ([bold]search --record[/bold]) count: other answers have no legs to weigh.
    Without --as, --claims and --token: from all users' feedback, of which only figures are shown.

    Example: [bold]retrieval-worker tune --method rrf[/bold]
    """
    from worker.jobs.feedback import ENOUGH

    if method and method not in _METHODS:
        raise typer.BadParameter(f"expected {' or '.join(_METHODS)}", param_hint="--method")

    has_caller = is_named(caller, claims, token)
    with opened_engine() as (engine, settings):
        owner = principal_of(settings, caller, claims, token) if has_caller else None
        tuned = engine.feedback.tune(owner, corpus=corpus or None, method=method or None, k=k)
    if as_json:
        write_json({"k": k, "needed": ENOUGH, **asdict(tuned)})
        return
    if tuned.proposal is None:
        write_text(
            f"too little feedback: {tuned.retrievals} hybrid retrievals with a used chunk, {ENOUGH} are needed "
            "(runs of other tasks do not count)"
        )
        return
    console.print(_tuning_table(tuned, tuned.proposal, k))
    if tuned.setting is None:
        write_text("no other weights are better")
        return
    fusion = "" if tuned.method == settings.hybrid.fusion else f'fusion = "{tuned.method}"\n'
    weights = ", ".join(f"{leg} = {weight:g}" for leg, weight in tuned.setting.items())
    write_text(f"in the settings, under [hybrid]:\n{fusion}weights = {{ {weights} }}")
    for profile in dict.fromkeys(mode.profile for mode in settings.modes.values()):
        legs = weighted_legs(settings.profiles[profile], tuned)
        if legs:
            lines = "".join(f"  {leg},\n" for leg in legs)
            write_text(f"[profiles.{profile}]  # in profiles.toml, beside its other lines\nlegs = [\n{lines}]")


_AS_HYBRID = {("dense", "question"): "primary", ("sparse", "question"): "sparse", ("dense", "context"): "contextual"}
"""Kind and query of a profile's leg → the leg of a hybrid retrieval that searches for the same."""


def weighted_legs(profile: ProfileSettings, tuned: Tuning) -> list[str]:
    """Return a profile's legs with the proposed weights, as TOML; empty if it has other legs or one alone."""
    weights = tuned.setting or {}
    names = [_AS_HYBRID.get((leg.kind, leg.of), "") for leg in profile.legs]
    if profile.fusion != tuned.method or len(names) == 1 or not {*names} <= weights.keys():
        return []
    return [
        f'{{ kind = "{leg.kind}", of = "{leg.of}", weight = {weights[name]:g} }}'
        for leg, name in zip(profile.legs, names, strict=True)
    ]


def _tuning_table(tuned: Tuning, proposal: Proposal, k: int) -> Table:
    """Build a table of the weights and their measures, before and after."""
    title = f"{tuned.method}: feedback on {tuned.retrievals} hybrid retrievals, {tuned.searches} searches"
    table = Table(title=title, title_justify="left")
    for name in ("", *tuned.current, f"nDCG@{k}", f"recall@{k}"):
        table.add_column(name, justify="right" if name else "left")
    rows = [("now", tuned.current, proposal.before), ("proposed", proposal.weights, proposal.after)]
    for name, weights, quality in rows[: 1 if tuned.setting is None else 2]:
        figures = (f"{value:.3f}" for value in (quality.ndcg, quality.recall) if value is not None)
        table.add_row(name, *(f"{weights[leg]:g}" for leg in tuned.current), *figures)
    return table


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror}") from None
