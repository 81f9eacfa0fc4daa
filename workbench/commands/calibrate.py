"""The command that measures the search width that a corpus needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from retrieval_client.errors import InvalidJob
from workbench.core.calibration import MEAN, WORST, Goal
from worker.adapters.terminal import console, progress, screen, write_json, write_text
from worker.cli.commands.callers import AS, CLAIMS, TOKEN, principal_of, visitor_of
from worker.cli.commands.jobs import JsonDocument  # noqa: TC001 -- typer reads the annotations when it runs
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from workbench.calibration import Caller, CorpusCalibration, Line
    from worker.adapters.terminal import Terminal
    from worker.core.ranking.vectors import Vector
    from worker.settings import Settings


def calibrate(
    corpus: Annotated[str, typer.Option(help="The corpus; default the first.")] = "",
    callers: Annotated[
        list[str] | None,
        typer.Option(AS, metavar="USER", help="A caller: the user's id (owner claim), or all claims as JSON; repeat."),
    ] = None,
    claims: Annotated[
        list[str] | None, typer.Option(CLAIMS, metavar="JSON", help="A caller by all claims; repeat for more callers.")
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(TOKEN, metavar="TOKEN", help="A caller by a principal token for the task inspect; repeat."),
    ] = None,
    queries: Annotated[int, typer.Option(min=10, max=10_000, help="Number of queries.")] = 300,
    vectors: Annotated[
        Path | None,
        typer.Option(help="Query embeddings of your own: .npy of shape (n, dimensions), or a JSON list of embeddings."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample of chunks near which queries are made.")] = 20,
    mean: Annotated[float, typer.Option(min=0, max=1, help="Goal: mean recall@15.")] = MEAN,
    worst: Annotated[float, typer.Option(min=0, max=1, help="Goal: recall@15 of the worst query.")] = WORST,
    steps: Annotated[str, typer.Option(help="Values of ef_search to try, as 100,200,400; default 40 to 1000.")] = "",
    timeout: Annotated[float, typer.Option(min=1, max=86_400, help="Seconds for one statement.")] = 300.0,
    to_file: Annotated[
        bool, typer.Option("--write", help="Write calibration.toml beside the settings file; else print it.")
    ] = False,
    as_json: JsonDocument = False,
) -> None:
    """Measure the ef_search that a corpus needs, on your own data, as the worker's role.

    Each caller represents a visible share: name one who sees all, and some who see less. ef_search rises until the
    recall@15 of every caller reaches the goal. Queries are made near a seeded sample of the chunks of the caller who
    sees most, unless --vectors gives some. A public corpus needs no caller. The chosen width is twice that from which
    on the goal holds: a sample seldom contains the rare query that finds nothing.

    Exit code 1 if the goal is not reached. The worker reads the file at its start.

    Examples: [bold]retrieval-worker calibrate --as alice --as bob[/bold],
    [bold]retrieval-worker calibrate --corpus docs --vectors queries.npy --write[/bold]
    """
    from workbench.calibration import CorpusCalibration
    from worker import settings as settings_module

    settings = settings_module.load()
    name = corpus or settings.default_corpus
    goal, widths = Goal(mean, worst), _steps(steps)
    path = settings_module.calibration_file() if to_file else None
    corpus_settings = settings.corpora.get(name)  # `CorpusCalibration` refuses an unknown one
    file_vectors = _vectors(vectors, corpus_settings.dimensions) if vectors and corpus_settings else None
    named_callers = _named_callers(settings, callers or [], claims or [], tokens or [])
    calibrating = CorpusCalibration(settings, name, timeout)
    query_vectors: list[Vector] = []
    lines: list[Line] = []
    try:
        if not calibrating.always_exact:
            asking = _shares(calibrating, named_callers or [_everybody(settings, name)])
            query_vectors = file_vectors or calibrating.sample(
                max(asking, key=lambda caller: asking[caller]), queries, seed
            )
            lines = _measure(calibrating, asking, query_vectors, widths, goal)
    finally:
        calibrating.close()
    if as_json:
        write_json(_document(name, calibrating.rows, len(query_vectors), lines))
    elif lines:
        console.print(_table(f"{name}: {calibrating.rows:,} rows, {len(query_vectors)} queries, recall@15", lines))
    _refuse_missed(lines, widths[-1])
    people = screen if as_json else console
    if calibrating.always_exact:
        people.print(f"{name}: {calibrating.rows:,} rows are always searched exactly: nothing to calibrate")
    else:
        _keep(name, calibrating.rows, lines, path, people)


def _missed(lines: list[Line]) -> set[str]:
    """Return the callers that do not reach the goal."""
    return {line.caller for line in lines} - {line.caller for line in lines if line.enough}


def _refuse_missed(lines: list[Line], widest: int) -> None:
    """End with exit code 1 where a caller does not reach the goal."""
    from workbench.calibration import STEPS

    if short := _missed(lines):
        wider = f"Try wider --steps (up to {STEPS[-1]}), build" if widest < STEPS[-1] else "Build"
        screen.print(
            f"{', '.join(sorted(short))}: the goal is not reached at ef_search {widest}. {wider} the index with a "
            "higher ef_construction ('retrieval-worker doctor'), or ask for less (--mean, --worst)",
        )
        raise typer.Exit(1)


def _document(name: str, rows: int, queries: int, lines: list[Line]) -> dict[str, Any]:
    """Return what was measured of a corpus as plain JSON; no calibration where the goal is missed."""
    from workbench.calibration import calibration

    measured = None if _missed(lines) else calibration(rows, [line for line in lines if line.enough])
    return {
        "corpus": name,
        "rows": rows,
        "queries": queries,
        "measurements": [asdict(line) for line in lines],
        "calibration": measured and measured.model_dump(mode="json"),
    }


def _keep(name: str, rows: int, lines: list[Line], path: Path | None, people: Terminal) -> None:
    """Write what was measured of a corpus to a file, or show it to people where no file is given."""
    from workbench.calibration import as_toml, calibration, write
    from worker.settings import calibrations

    measured = calibration(rows, [line for line in lines if line.enough])
    if measured is None:
        people.print("exact search answers these callers: nothing to calibrate")
    elif path:
        write(path, {**calibrations(path), name: measured})
        people.print(f"written to {path}: restart the workers", soft_wrap=True)
    elif people is console:
        write_text(f"in calibration.toml beside the settings file (--write does it):\n\n{as_toml({name: measured})}")


def _steps(text: str) -> list[int]:
    from workbench.calibration import STEPS

    try:
        widths = sorted({int(number) for number in text.split(",")}) if text else [*STEPS]
    except ValueError:
        widths = [0]
    if not all(15 <= step <= 1000 for step in widths):  # noqa: PLR2004 -- as a calibration takes
        raise typer.BadParameter("expected numbers from 15 to 1000, with commas: 100,200,400", param_hint="--steps")
    return widths


def _vectors(file: Path, dimensions: int) -> list[Vector]:
    """Read query embeddings from a file.

    Raises:
        WrongUsage: it can't be read, or does not hold embeddings.
    """
    import numpy as np

    from worker.core.ranking.vectors import decode

    name = f"--vectors {file}"
    try:
        values = np.load(file, allow_pickle=False).tolist() if file.suffix == ".npy" else json.loads(file.read_bytes())
    except OSError as error:
        raise WrongUsage(f"{name}: {error.strerror}") from None
    except (ValueError, EOFError, RecursionError):
        values = None
    if not isinstance(values, list) or not values:
        raise WrongUsage(f"{name}: expected .npy of shape (n, dimensions), or a JSON list of embeddings")
    try:
        return [decode(value, f"{name}[{i}]", dimensions) for i, value in enumerate(values)]
    except InvalidJob as error:
        raise WrongUsage(error.message) from None


def _named_callers(settings: Settings, names: list[str], claims: list[str], tokens: list[str]) -> list[Caller]:
    """Return the callers of --as, --claims and --token."""
    from workbench.calibration import Caller

    callers = [Caller(name, principal_of(settings, name, "", "")) for name in dict.fromkeys(names)]
    callers += [Caller(text, principal_of(settings, "", text, "")) for text in dict.fromkeys(claims)]
    signed = [visitor_of(settings, token) for token in dict.fromkeys(tokens)]
    return callers + [Caller(principal.owner, principal) for principal in signed]


def _everybody(settings: Settings, corpus: str) -> Caller:
    """Return the caller of a public corpus.

    Raises:
        typer.BadParameter: it is not public.
    """
    from workbench.calibration import Caller
    from worker.jobs.corpora import anonymous

    if not settings.corpora[corpus].public:
        raise typer.BadParameter(f"the corpus {corpus} is not public: name the caller with --as, --claims or --token")
    return Caller("everybody", anonymous(settings))


def _shares(calibrating: CorpusCalibration, callers: list[Caller]) -> dict[Caller, float]:
    """Return each caller's visible share of the rows."""
    shares = {}
    for caller in callers:
        visible = calibrating.visible(caller)
        if not visible:
            raise InvalidJob(f"{caller.name} sees no chunk with an embedding", f"{AS}, {CLAIMS}, {TOKEN}")
        shares[caller] = min(1.0, visible / calibrating.rows)
    return shares


def _measure(
    calibrating: CorpusCalibration,
    asking: dict[Caller, float],
    query_vectors: list[Vector],
    widths: list[int],
    goal: Goal,
) -> list[Line]:
    bars: dict[tuple[str, int], Any] = {}
    with progress(screen) as progress_bars:

        def on_query(caller: str, ef_search: int) -> None:
            if (caller, ef_search) not in bars:
                search_kind = f"ef_search {ef_search}" if ef_search else "exact search"
                bars[caller, ef_search] = progress_bars.add_task(f"{caller}, {search_kind}", total=len(query_vectors))
            progress_bars.advance(bars[caller, ef_search])

        return [*calibrating.measure(asking, query_vectors, widths, goal, on_query)]


def _table(title: str, lines: list[Line]) -> Table:
    table = Table(title=title, title_justify="left")
    for heading in ("caller", "visible", "ef_search", "mean", "worst", "by index", "goal"):
        table.add_column(heading, justify="left" if heading in {"caller", "goal"} else "right")
    for line in lines:
        reached = line.quality
        table.add_row(
            line.caller,
            f"{line.visible:.1%}",
            str(line.ef_search) if reached.by_index else "–",
            f"{reached.mean:.4f}",
            f"{reached.worst:.3f}",
            f"{reached.by_index:.0%}",
            "missed" if not line.reached else "chosen" if line.enough and reached.by_index else "reached",
        )
    return table
