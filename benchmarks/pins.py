"""Time of a replay in the worker's process: over inline sources, and over a corpus, SQL included.

python -m benchmarks.pins --rows 100000
"""

from __future__ import annotations

import cProfile
import io
import pstats
import random
import statistics
import tempfile
import time
import tomllib
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import typer
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.hashing import format_hash, hash_chunk
from synthetic.many_chunks import CHUNKS_PER_DOCUMENT, OWNER, TENANT, chunk_text, load_many
from workbench.devstack.postgres import postgres_server
from worker.adapters.postgres.database import Database
from worker.cli.loader import migrate
from worker.jobs.context import JobContext
from worker.jobs.corpora import Corpora
from worker.jobs.engine import Engine, spare_collections
from worker.model import Principal
from worker.settings import Settings, from_values
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

INLINE = (1_000, 10_000, 100_000)
SLOW_MS = 200.0
"""A replay that takes longer is measured a tenth as often."""


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Attributes:
        name: what is replayed.
        goal: what it may take at the median, in milliseconds, or with a floor in times of that; None: only reported.
        replay: does it once.
        size: what growth is measured by, among cases of the same kind; None: not measured.
        floor: name of an earlier case that does the least that is possible.
    """

    name: str
    goal: float | None
    replay: Callable[[], dict[str, Any]]
    size: int | None = None
    floor: str = ""


def inline_cases(engine: Engine) -> Iterator[Case]:
    """Sources of ten chunks each; a tenth pinned, at most 1,000, then filled up with as many.

    One by one: what else the process holds costs each garbage collection time.
    """
    return (_inline_case(engine, size) for size in INLINE)


def _inline_case(engine: Engine, size: int) -> Case:
    texts = [chunk_text(row) for row in range(size)]
    sources = [
        {"id": f"s{start:07d}", "weight": 0.8, "chunks": texts[start : start + CHUNKS_PER_DOCUMENT]}
        for start in range(0, size, CHUNKS_PER_DOCUMENT)
    ]
    chance = random.Random(20)  # noqa: S311 -- the same sample every time
    chance.shuffle(sources)
    pins = min(size // 10, 1_000)
    hashes = [hash_chunk(text) for text in chance.sample(texts, pins)]
    job = parse_job(PinnedReplay, {"required_chunk_hashes": hashes, "sources": sources, "top_k": 2 * pins})
    goal = 10.0 if size == 1_000 else None
    name = f"inline, {size:,} chunks, {pins:,} pins and as many filled"
    return Case(name, goal, lambda: engine.replay.pinned(job, JobContext(lambda: None)), size)


def corpus_cases(engine: Engine, floor: Corpora, admin: psycopg.Connection[Any], settings: Settings) -> list[Case]:
    """Bare hashes of chunks taken from all over the table, for one who sees all of it, and one who sees a little.

    Args:
        engine: replays.
        floor: runs the statement of a replay, and nothing else.
        admin: reads hashes.
        settings: of the engine.
    """
    everything, own_hashes = _hashes(admin, "nobody"), _hashes(admin, OWNER)
    claims = {"all": {"tenant_id": TENANT}, "one percent": {"user_id": OWNER}}
    mapping = settings.principal.settings
    askers = {
        sees: Principal(claim, tuple((setting, claim.get(name, "")) for name, setting in mapping.items()))
        for sees, claim in claims.items()
    }

    statements = floor.get(None).statements

    def alone(name: str, statement: bytes, values: Mapping[str, Any]) -> Case:
        def read() -> dict[str, Any]:
            (rows,) = floor.database.read(askers["all"], [(statement, values)])
            return {"chunks": rows, "trace": {"stages": []}}

        return Case(name, None, read)

    def case(name: str, goal: float | None, sees: str = "all", floor: str = "", **fields: Any) -> Case:
        job = parse_job(PinnedReplay, fields)
        asker = askers[sees]
        return Case(name, goal, lambda: engine.replay.pinned(job, JobContext(lambda: asker)), floor=floor)

    round_trip, few_hashes, many_hashes = (
        "a round trip as the caller",
        "the statement of 15 hashes",
        "the statement of 1,000 hashes",
    )
    return [
        alone(round_trip, b"SELECT 1", {}),
        alone(few_hashes, statements.pinned, statements.pins(everything[:15], ())),
        case("15 hashes", 1.5, floor=round_trip, required_chunk_hashes=everything[:15]),
        case("15 hashes, by one who sees 1 %", 1.5, "one percent", round_trip, required_chunk_hashes=own_hashes[:15]),
        alone(many_hashes, statements.pinned, statements.pins(everything, ())),
        case("1,000 hashes", 1.4, floor=many_hashes, required_chunk_hashes=everything),
        case("15 hashes, 5 filled by text", None, required_chunk_hashes=everything[:15], top_k=20),
        case("15 hashes, 5 filled by hash", None, required_chunk_hashes=everything[:15], top_k=20, fill="hash"),
    ]


def _hashes(admin: psycopg.Connection[Any], owner: str) -> list[str]:
    """Hashes of an owner's chunks, at most 1,000, in an order that is not the table's."""
    rows = admin.execute(
        """
        SELECT c.chunk_hash FROM public.document_chunks AS c JOIN public.documents AS d ON d.id = c.document_id
         WHERE d.owner_id = %s ORDER BY md5(c.id) LIMIT 1000
        """,
        (owner,),
    )
    return [format_hash(row[0]) for row in rows]


def measure(case: Case, repeats: int) -> tuple[list[float], float, dict[str, Any]]:
    """Milliseconds of each replay, sorted; of this process' own time a replay; and the last answer.

    The first ten, which warm up (psycopg prepares, Postgres settles on a plan), don't count. Own time is what
    a shared machine does not blur as much.
    """
    started = time.perf_counter()
    for warm in range(10):
        answer = case.replay()
        if (time.perf_counter() - started) * 1000 / (warm + 1) > SLOW_MS and warm:
            repeats = max(3, repeats // 10)
            break
    took, cpu_start = [], time.process_time()
    for _ in range(repeats):
        start = time.perf_counter()
        answer = case.replay()
        took.append((time.perf_counter() - start) * 1000)
    return sorted(took), (time.process_time() - cpu_start) * 1000 / repeats, answer


def load(connection: psycopg.Connection[Any], rows: int) -> None:
    """The reference schema with texts and without embeddings: pins need none, so no vector index is built."""
    migrate(connection)
    connection.execute("DROP INDEX public.document_chunks_embedding_idx")
    load_many(connection, rows)


def settings_for(dsn: str) -> Settings:
    values = tomllib.loads((config_folder() / "worker.toml").read_text(encoding="utf-8"))
    settings = from_values({**values, "database_connection_string": dsn, "broker_url": "redis://not-used"})
    # The environment outranks arguments, but a benchmark must never run on the database that it names.
    return settings.model_copy(update={"database_connection_string": SecretStr(dsn)})


def profile(case: Case, repeats: int) -> str:
    """The functions that take the most time of their own."""
    profiler = cProfile.Profile()
    with profiler:
        for _ in range(repeats):
            case.replay()
    output = io.StringIO()
    pstats.Stats(profiler, stream=output).sort_stats("tottime").print_stats(14)
    return output.getvalue()


def stages(answer: dict[str, Any]) -> str:
    """Return the times of the stages in the answer's own trace."""
    return ", ".join(f"{stage['stage']} {stage['duration_ms']:.1f}" for stage in answer["trace"]["stages"])


def report(cases: Iterable[Case], repeats: int, console: Console) -> list[Case]:
    """Print a line for each case; return those that missed their goal."""
    headings = (
        "replay",
        "chunks",
        "median ms",
        "lowest",
        "p95",
        "own CPU",
        "÷ floor",
        "goal",
        "growth",
        "stages of the last, ms",
    )
    table = Table(*headings)
    missed, previous = [], None
    medians: dict[str, float] = {}
    for case in cases:
        took, cpu_ms, answer = measure(case, repeats)
        median = medians[case.name] = statistics.median(took)
        times_floor = median / medians[case.floor] if case.floor else None
        growth = ""
        if case.size is not None:
            growth = f"×{median / previous[1]:.1f} for ×{case.size / previous[0]:.0f}" if previous else ""
            previous = (case.size, median)
        reached = case.goal is None or (times_floor or median) <= case.goal
        unit = "×" if case.floor else "ms"
        goal = "" if case.goal is None else f"{case.goal:g} {unit} {'reached' if reached else '[red]missed[/red]'}"
        ratio = "" if times_floor is None else f"{times_floor:.2f}"
        p95 = took[min(len(took) - 1, int(len(took) * 0.95))]
        times = (f"{ms:.2f}" for ms in (median, took[0], p95, cpu_ms))
        table.add_row(case.name, str(len(answer["chunks"])), *times, ratio, goal, growth, stages(answer))
        if not reached:
            missed.append(case)
    console.print(table)
    return missed


def main(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus.", min=1_000)] = 100_000,
    repeats: Annotated[int, typer.Option(help="Replays a measurement.", min=10)] = 100,
    postgres: Annotated[int, typer.Option(help="Version of the server: 16 or 18.")] = 18,
    profiles: Annotated[bool, typer.Option(help="Profile what misses its goal.")] = True,
) -> None:
    """Measure `pinned_replay` from the job object to the result object, without Celery and JSON."""
    console = Console(width=190)
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder).resolve(), version=postgres) as server,
        psycopg.connect(server.dsn(), autocommit=True) as admin,
    ):
        with console.status(f"loading {rows:,} chunks"):
            load(admin, rows)
        settings = settings_for(server.dsn(user="retrieval_worker"))
        engine = Engine(settings, time.perf_counter)
        database = Database(settings)
        spare_collections()
        try:
            cases = corpus_cases(engine, Corpora(settings, database), admin, settings)
            missed = report(chain(cases, inline_cases(engine)), repeats, console)
            for case in missed if profiles else []:
                console.print(f"[bold]{case.name}[/bold], profiled over {repeats} replays:")
                console.print(profile(case, repeats), markup=False, highlight=False)
        finally:
            engine.close()
            database.close()


if __name__ == "__main__":
    typer.run(main)
