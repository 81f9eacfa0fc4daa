"""The command line: ``python -m benchmarks.side_by_side --help``."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import shlex
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import orjson
import psutil
import typer
from benchmarks.command import as_command
from benchmarks.costs import Meter
from benchmarks.side_by_side import figures, growth, peers, report, sides, wire
from benchmarks.side_by_side.rounds import measure
from benchmarks.truth import brute_force
from psycopg.conninfo import conninfo_to_dict

from retrieval_client.errors import RetrievalError, SettingsError
from synthetic.loading import Index
from synthetic.progress import progress_console, steps
from synthetic.real_text import real_text
from synthetic.stage import Stage, server_settings, stage
from synthetic.vectors import Dataset
from workbench.devstack.redis import redis_server
from worker.adapters.postgres.statements import OVER_FETCH
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import psycopg
    from benchmarks.side_by_side.figures import Measured
    from benchmarks.side_by_side.sides import Side, Site
    from benchmarks.truth import Distances

    from synthetic.loading import Progress

K = 15
DATA = Path(__file__).parents[1] / ".data"
REAL = "real_text"
EVERYONE = (
    figures.BARE,
    figures.LISTS,
    figures.ONE,
    figures.SIXTEEN,
    figures.LANGCHAIN,
    figures.LLAMAINDEX,
    figures.NAIVE,
)


@dataclass(frozen=True)
class Order:
    """Options of a run; see the command's options."""

    rows: int
    seed: int
    real: bool
    queries: int
    rounds: int
    count: int
    calls: int
    side_names: tuple[str, ...]
    curves: bool
    ef_search: int | None
    postgres: int
    keep: Path | None


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes:
        about: the machine, the corpus, the versions.
        sides: by name.
        growth: curves and further figures.
        left_out: sides that could not take part, and why.
        full_reads: how often a table was read without its index while the sides had their turns.
    """

    about: Mapping[str, Any]
    sides: Mapping[str, Measured]
    growth: growth.Growth
    left_out: list[str]
    full_reads: Mapping[str, int]

    @property
    def problems(self) -> list[str]:
        """Why the sides must not be compared."""
        sentences = [f"{table} was read {n} times without its index" for table, n in self.full_reads.items() if n]
        return [*figures.differences(self.sides, K), *sentences]


def play(order: Order) -> Outcome:
    """Make ready, measure, and leave nothing running."""
    load = os.getloadavg()[0]
    with contextlib.ExitStack() as exits:
        progress = exits.enter_context(steps())
        installed, left_out = _installed(order, progress)
        on = exits.enter_context(
            stage(
                real_text(order.rows) if order.real else Dataset(order.rows, order.seed),
                Index(),
                postgres_version=order.postgres,
                keep=order.keep,
                server=server_settings(order.rows * (1 + len(installed))),
            )
        )
        source = f"{on.dataset} {on.versions['hnsw']}"
        url = _url(on.admin)
        for peer, python in installed.items():
            peers.load(on.admin, peer, partial(peers.made_by_library, peer, python, url), source, progress)
        queries = on.dataset.queries(order.queries)
        progress("exact answers", 0, None)
        distances = brute_force(on.dataset, queries)
        grown = growth.Growth()
        theirs = [growth.Table(peer.table, peer.chunk_id, "embedding <=> %s") for peer in installed]
        tables = [growth.OURS, *theirs]
        grown.ef = growth.by_ef(on.admin, tables, queries, distances, K, progress)
        ef_search = order.ef_search or growth.narrowest(grown.ef, OVER_FETCH)
        root = Path(exits.enter_context(tempfile.TemporaryDirectory(prefix="rw-beside-", ignore_cleanup_errors=True)))
        server = exits.enter_context(redis_server(root / "redis", users=False))
        exits.enter_context(_width(on.admin, ef_search))
        site = sides.Site(root, server.port, _dsn(on), url, queries, K, ef_search)
        progress("starting the workers", 0, None)
        client = exits.enter_context(site.client(sides.BROKER))
        meter = Meter(psutil.Process(on.admin.info.backend_pid).ppid(), client)
        reads_before = _read_whole(on.admin)
        with contextlib.ExitStack() as workers:
            workers.enter_context(_with_logs(root))
            playing = _enter(workers, site, order, installed)
            measured = measure(
                playing,
                meter,
                distances,
                k=K,
                rounds=order.rounds,
                count=order.count,
                calls=order.calls,
                progress=progress,
            )
            if order.curves:
                _grow_batches(order, playing, grown, progress)
        _count_bytes(site, order, installed, measured, progress)
        full_reads = {
            table: count - reads_before[table] for table, count in _read_whole(on.admin).items() if table in {*grown.ef}
        }
        if order.curves:
            _grow(on, order, site, grown, distances, progress)
        about = {
            **_about(order, on, ef_search),
            "load": load,
            "redis": client.info()["redis_version"],
        }
    return Outcome(about, measured, grown, left_out, full_reads)


def _installed(order: Order, progress: Progress) -> tuple[dict[peers.Peer, Path], list[str]]:
    """The interpreters of the wanted peers; those that can't be installed are left out, and it is said."""
    installed, left_out = {}, []
    for peer in peers.PEERS:
        if peer.name not in order.side_names:
            continue
        progress(f"{peer.name}: its environment", 0, None)
        try:
            installed[peer] = peers.python_of(peer)
        except (SettingsError, OSError) as error:
            left_out.append(str(error))
    return installed, left_out


def _enter(
    exits: contextlib.ExitStack, site: Site, order: Order, installed: Mapping[peers.Peer, Path]
) -> dict[str, Side]:
    """Start the selected sides, in the order of the report."""
    playing: dict[str, Side] = {}
    if figures.BARE in order.side_names:
        path = site.root / "queries.npy"
        np.save(path, site.queries)
        playing[figures.BARE] = exits.enter_context(sides.bare(site, path))
    if figures.LISTS in order.side_names:
        playing[figures.LISTS] = exits.enter_context(sides.lists(site))
    if {figures.ONE, figures.SIXTEEN} & {*order.side_names}:
        single, sixteen = exits.enter_context(sides.ours(site))
        playing |= {figures.ONE: single, figures.SIXTEEN: sixteen}
    for peer, python in installed.items():
        playing[peer.name] = exits.enter_context(sides.in_celery(site, peer.name, python))
    if figures.NAIVE in order.side_names:
        playing[figures.NAIVE] = exits.enter_context(sides.in_celery(site, figures.NAIVE, Path(sys.executable)))
    return playing


def _count_bytes(
    site: Site,
    order: Order,
    installed: Mapping[peers.Peer, Path],
    measured: Mapping[str, Measured],
    progress: Progress,
) -> None:
    """Bytes to Postgres and back, per query: all sides once more, behind a relay that would cost them time before."""
    folder = site.root / "wire"
    folder.mkdir()
    server = conninfo_to_dict(site.dsn)["host"]
    beside = dataclasses.replace(site, dsn=_through(site.dsn, folder), url=_through(site.url, folder))
    with wire.relay(server, folder) as carrying, contextlib.ExitStack() as workers:
        workers.enter_context(_with_logs(site.root))
        playing = _enter(workers, beside, order, installed)
        for i, (name, side) in enumerate(playing.items()):
            progress("bytes to Postgres", i, len(playing))
            # The first time, connections are made and statements prepared.
            for _ in range(2):
                bytes_before = carrying.read()
                side.prepare(len(site.queries))
                side.run()
            bytes_after = carrying.read()
            measured[name].costs["postgres_in_kb"] = [
                (bytes_after.to_server - bytes_before.to_server) / 1000 / len(site.queries)
            ]
            measured[name].costs["postgres_out_kb"] = [
                (bytes_after.from_server - bytes_before.from_server) / 1000 / len(site.queries)
            ]


def _through(url: str, folder: Path) -> str:
    """The same address with another folder for the server's socket."""
    return f"{url.partition('?')[0]}?host={folder}"


def _grow_batches(order: Order, playing: Mapping[str, Side], grown: growth.Growth, progress: Progress) -> None:
    """The curve for which the worker is needed."""
    if figures.ONE not in playing:
        return
    single = playing[figures.ONE]
    assert isinstance(single, sides.CelerySide)
    batches = [(size, single.batched(size)) for size in growth.BATCHES]
    progress("queries in one job", 0, None)
    grown.curves["queries in one job"] = growth.by_batch(batches, order.count, min(3, order.rounds))
    for _, side in batches:
        side.close()


def _grow(on: Stage, order: Order, site: Site, grown: growth.Growth, distances: Distances, progress: Progress) -> None:
    """The other curves, on the same servers."""
    sample = site.queries[: max(20, order.calls)]
    progress("exact ties", 0, None)
    grown.figures["ties"] = growth.ties(on, sample, K, order.rounds, site.ef_search)
    progress("rows wanted", 0, None)
    grown.curves["k (the search itself)"] = growth.by_k(on, sample)
    progress("visible share", 0, None)
    growth.by_visible_share(on, sample, grown)
    progress("reading embeddings", 0, None)
    grown.figures["decode"] = growth.decoding(sample, order.rounds)
    grown.curves["rows (plain query)"] = growth.by_rows(
        on.admin, sample, distances[: len(sample)], K, site.ef_search, progress
    )


@contextlib.contextmanager
def _with_logs(root: Path) -> Iterator[None]:
    """Say what the workers logged last, where one of them does not answer: the logs go with the folder."""
    try:
        yield
    except RetrievalError:
        for log in sorted(root.glob("*.log")):
            progress_console.print(f"{log.name}: {log.read_text(errors='replace')[-1000:]}", markup=False)
        raise


@contextlib.contextmanager
def _width(admin: psycopg.Connection[Any], ef_search: int) -> Iterator[None]:
    """The same search width for every session of both roles; no side has to spend a round trip on it.

    The libraries' tables keep vectors out of line and look small, and the planner would read them whole instead of
    using their index, on corpora of some thousand rows.
    """
    settings_by_role = {"postgres": {"hnsw.ef_search": ef_search, "enable_seqscan": "off"}}
    settings_by_role["retrieval_worker"] = {"hnsw.ef_search": ef_search}
    for role, settings in settings_by_role.items():
        for name, value in settings.items():
            admin.execute(f"ALTER ROLE {role} SET {name} = {value}")
    try:
        yield
    finally:
        for role, settings in settings_by_role.items():
            for name in settings:
                admin.execute(f"ALTER ROLE {role} RESET {name}")


def _read_whole(admin: psycopg.Connection[Any]) -> dict[str, int]:
    """Return how often a table was read without an index, as far as idle sessions have reported."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        (busy_sessions,) = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            " AND application_name <> 'retrieval-worker'"
        ).fetchone()
        if not busy_sessions:
            break
        time.sleep(0.05)
    admin.execute("SELECT pg_stat_force_next_flush()")
    return dict(admin.execute("SELECT relname, seq_scan FROM pg_stat_user_tables").fetchall())


def _dsn(on: Stage) -> str:
    return on.settings.database_connection_string.get_secret_value()


def _url(admin: psycopg.Connection[Any]) -> str:
    info = admin.info
    return f"postgresql://{info.user}@/{info.dbname}?host={info.host}"


def _about(order: Order, on: Stage, ef_search: int) -> dict[str, Any]:
    return {
        "command": shlex.join(["python", "-m", "benchmarks.side_by_side", *sys.argv[1:]]),
        "rows": order.rows,
        "vectors": _vectors(order),
        "queries": order.queries,
        "rounds": order.rounds,
        "count": order.count,
        "calls": order.calls,
        "k": K,
        "ef_search": ef_search,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        **on.versions,
    }


def _vectors(order: Order) -> str:
    if order.real:
        return f"{order.rows:,} embeddings of real text"
    return f"{order.rows:,} clustered vectors of {DIMENSIONS} dimensions (seed {order.seed})"


# --- the command --------------------------------------------------------------------------------

_EXAMPLES = """
Examples:

  python -m benchmarks.side_by_side --write benchmarks/results

  python -m benchmarks.side_by_side --rows 300000 --json 300000.json

  python -m benchmarks.side_by_side --real --write benchmarks/results

  python -m benchmarks.side_by_side --rows 10000 --only bare,one,langchain --no-curves

Exit codes: 0 measured, 1 the sides' results differ (then nothing is compared) or the run failed, 2 wrong usage.
"""


def run(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus; a multiple of 1000.")] = 100_000,
    queries: Annotated[int, typer.Option(min=1, help="Different queries.")] = 320,
    rounds: Annotated[int, typer.Option(min=1, help="How often each side has its turn.")] = 5,
    count: Annotated[int, typer.Option(min=1, help="Queries of one turn.")] = 960,
    calls: Annotated[int, typer.Option(min=1, help="Queries of a round that are asked one at a time.")] = 100,
    only: Annotated[str, typer.Option(help="Only these sides.")] = ",".join(EVERYONE),
    curves: Annotated[bool, typer.Option(help="Also measure growth with batch, k and visible share.")] = True,
    ef_search: Annotated[
        int | None, typer.Option(min=K, max=1000, help="Of every side; default the lowest with recall 0.995.")
    ] = None,
    postgres: Annotated[int, typer.Option(help="Major version of the server: 16 or 18.")] = 18,
    keep: Annotated[
        Path | None,
        typer.Option(help="Where loaded data stays for the next run; default benchmarks/.data.", file_okay=False),
    ] = None,
    temporary: Annotated[bool, typer.Option(help="Keep no data.")] = False,
    seed: Annotated[int, typer.Option(help="Of vectors and queries.")] = 20,
    real: Annotated[
        bool, typer.Option("--real", help="Embeddings of real text, made by python -m synthetic.real_text.")
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures there.", dir_okay=False)] = None,
    write: Annotated[
        Path | None, typer.Option(help="Write tables and plot into this folder.", exists=True, file_okay=False)
    ] = None,
) -> None:
    """This worker beside a bare loop, a bare Redis worker, LangChain, LlamaIndex and a naive worker, in turns."""
    side_names = tuple(name.strip() for name in only.split(","))
    if unknown_names := [name for name in side_names if name not in EVERYONE]:
        raise SettingsError(f"--only: expected some of {', '.join(EVERYONE)}, got {unknown_names[0]!r}")
    corpus = REAL if real else f"{rows}"
    folder = None if temporary else (keep or DATA) / f"{corpus}-{postgres}"
    order = Order(
        rows, seed, real, queries, rounds, max(count, queries), calls, side_names, curves, ef_search, postgres, folder
    )
    outcome = play(order)
    goals = figures.goals(outcome.sides, outcome.growth.figures)
    if json_file:
        _write_json(json_file, outcome, goals)
    if outcome.problems:
        for problem in outcome.problems:
            progress_console.print(f"not compared: {problem}", style="red", highlight=False)
        raise typer.Exit(1)
    section = report.document(corpus, outcome.about, outcome.sides, goals, outcome.left_out)
    print(section)
    if write:
        from benchmarks.side_by_side.plots import plot  # noqa: PLC0415 -- matplotlib is of the extra `bench`

        report.write(write, corpus, section)
        plot(outcome.sides, outcome.growth, write / report.PLOT.format(corpus=corpus), outcome.about["vectors"])


run.__doc__ = f"{run.__doc__}\n{_EXAMPLES}"


def _write_json(path: Path, outcome: Outcome, goals: list[figures.Goal]) -> None:
    content = {
        "about": outcome.about,
        "sides": {name: dataclasses.asdict(side) for name, side in outcome.sides.items()},
        "growth": dataclasses.asdict(outcome.growth),
        "goals": [dataclasses.asdict(goal) | {"reached": goal.reached} for goal in goals],
        "left_out": outcome.left_out,
        "not_compared": outcome.problems,
    }
    options = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    path.write_bytes(orjson.dumps(content, default=figures.Spread._asdict, option=options) + b"\n")


if __name__ == "__main__":
    as_command(run, "benchmarks.side_by_side")
