"""Cost of full-text search, by how often its words occur, the caller, and whether `@@` counts as leakproof.

    python -m benchmarks.fulltext --rows 100000 --postgres 18 --write benchmarks/results

The searches are a worker's: its login role, its connections, its statements, row-level security.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from benchmarks.command import as_command
from benchmarks.quality import markdown
from benchmarks.recall import show

from synthetic.loading import LOTS, Index
from synthetic.stage import CORPUS, stage
from synthetic.vectors import CHUNKS_PER_DOCUMENT, Dataset
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.fulltext import FullTextSearch
from worker.adapters.postgres.search import Corpus, search
from worker.adapters.postgres.text_statistics import refresh
from worker.cli.doctor import LEAKPROOF
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from synthetic.stage import Stage

K = 10
QUERIES = {
    "10 chunks": "report {document}",
    "1 %": "lot {lot}",
    "10 %": "part {part} signal",
    "any word, 100 %": "lot {lot} nowhere",
}
"""Queries, by how many of all chunks they match; of ten documents that the caller may see."""

_NOT_LEAKPROOF = "ALTER FUNCTION ts_match_vq(tsvector, tsquery) NOT LEAKPROOF"
_OPEN = "ALTER POLICY chunks_visible ON public.document_chunks USING (true)"
_WARMING = 3
_PERCENTS = (1, 10, 50, 100)


def lines(on: Stage, repeats: int) -> list[list[str]]:
    """A line for each caller, with and without a leakproof `@@`, and for everybody where the corpus is public."""
    own = on.corpus()
    refresh(on.admin, CORPUS, on.settings.corpora[CORPUS])
    found = measured(on, own, {f"sees {percent} %": percent for percent in _PERCENTS}, repeats)
    on.admin.execute(LEAKPROOF)
    settings = on.settings.corpora[CORPUS]
    leakproof = Corpus(CORPUS, settings, on.settings.search, on.database.types_now()[CORPUS])
    found += measured(on, leakproof, {f"sees {percent} %, leakproof": percent for percent in _PERCENTS}, repeats)
    on.admin.execute(_NOT_LEAKPROOF)
    on.admin.execute(_OPEN)
    public = Corpus(CORPUS, settings.model_copy(update={"public": True}), on.settings.search, on.database.types[CORPUS])
    return found + measured(on, public, {"public": 100}, repeats)


def measured(on: Stage, corpus: Corpus, callers: Mapping[str, int], repeats: int) -> list[list[str]]:
    """Median and 95th percentile of each query as each caller asks it, over connections that know no older plans."""
    database = Database(on.settings)
    rows = [
        [name, *(timed(on, database, corpus, percent, text, repeats) for text in QUERIES.values())]
        for name, percent in callers.items()
    ]
    database.close()
    return rows


def timed(on: Stage, database: Database, corpus: Corpus, percent: int, text: str, repeats: int) -> str:
    """One cell: a few rounds warm the caches first."""
    query, caller, times = on.dataset.queries(1)[0], on.caller(percent), []
    seen = np.flatnonzero(on.dataset.visible(percent)[::CHUNKS_PER_DOCUMENT])
    # Numbers that are no lot, of lots that are no part: each word then stands in as many chunks as QUERIES says.
    documents = seen[(seen >= LOTS) & (seen % LOTS >= CHUNKS_PER_DOCUMENT)][:10]
    for i in range(repeats + _WARMING):
        document = documents[i % 10]
        words = text.format(document=document, lot=document % LOTS, part=i % 10)
        wanted = FullTextSearch(corpus, words, query, K, NO_FILTERS)
        started = time.perf_counter()
        search(database, caller, [wanted])
        times.append((time.perf_counter() - started) * 1000)
    kept = times[_WARMING:]
    return f"{statistics.median(kept):.1f} ({np.percentile(kept, 95):.1f})"


def report(on: Stage, rows: Sequence[Sequence[str]]) -> None:
    """The table."""
    about = f"{on.dataset.rows:,} chunks, PostgreSQL {on.versions['postgres']}: median (95th percentile) ms, {K} wanted"
    show(about, ["caller", *QUERIES], rows)


def write(folder: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write the table into a folder of results, from which the documentation includes it."""
    (folder / "fulltext.md").write_text(f"{markdown(['caller', *QUERIES], rows)}\n", encoding="utf-8")


def run(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus; a multiple of 1000.")] = 100_000,
    postgres: Annotated[int, typer.Option(help="Major version of the server: 16 or 18.")] = 18,
    repeats: Annotated[int, typer.Option(min=1, help="How often each query is asked.")] = 30,
    folder: Annotated[
        Path | None, typer.Option("--write", help="Write the table into this folder.", exists=True, file_okay=False)
    ] = None,
) -> None:
    """Measure full-text search for callers who see 1, 10, 50 and 100 % of the rows."""
    # No vector is searched for here, so the vector index need not be good, only there.
    with stage(Dataset(rows), Index(m=4, ef_construction=8), postgres_version=postgres, keep=None) as on:
        rows_of_table = lines(on, repeats)
        report(on, rows_of_table)
        if folder is not None:
            write(folder, rows_of_table)


if __name__ == "__main__":
    as_command(run, "benchmarks.fulltext")
