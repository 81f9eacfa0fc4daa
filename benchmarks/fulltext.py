"""What full-text search costs, by how often its words occur, who asks, and whether `@@` counts as leakproof.

    python -m benchmarks.fulltext --rows 100000 --postgres 18

The searches are a worker's: its login role, its connections, its statements, row-level security.
"""

from __future__ import annotations

import signal
import statistics
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer
from benchmarks.data import Dataset, Index
from benchmarks.recall import show
from benchmarks.stage import CORPUS, stage

from worker.adapters.fulltext import Matching
from worker.adapters.search import Corpus, search
from worker.errors import RetrievalError
from worker.loader import migrate
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.stage import Stage

K = 10
QUERIES = {
    "10 chunks": "report {}",
    "1 %": "lot {}",
    "10 %": "part {} signal",
    "any word, 100 %": "lot {} nowhere",
}
"""What is asked, by how many of the chunks it matches; each time with another number."""

_LEAKPROOF = "ALTER FUNCTION ts_match_vq(tsvector, tsquery) LEAKPROOF"
_NOT_LEAKPROOF = "ALTER FUNCTION ts_match_vq(tsvector, tsquery) NOT LEAKPROOF"
_OPEN = "ALTER POLICY chunks_visible ON public.document_chunks USING (true)"


def measured(on: Stage, corpus: Corpus, percent: int, repeats: int) -> list[str]:
    """Median and worst time of each query, as one caller asks it, after a first round that warms the caches."""
    query = on.dataset.queries(1)[0]
    shown = []
    for text in QUERIES.values():
        times = []
        for number in range(-3, repeats):
            wanted = Matching(corpus, text.format(max(number, 0) % 10), query, K, NO_FILTERS)
            started = time.perf_counter()
            search(on.database, on.caller(percent), [wanted])
            if number >= 0:
                times.append((time.perf_counter() - started) * 1000)
        shown.append(f"{statistics.median(times):.1f} ({max(times):.1f})")
    return shown


def lines(on: Stage, repeats: int) -> list[list[str]]:
    """A line for each caller, with and without a leakproof `@@`, and for everybody where the corpus is public."""
    own = on.corpus()
    found = [[f"sees {percent} %", *measured(on, own, percent, repeats)] for percent in (1, 10, 50, 100)]
    on.admin.execute(_LEAKPROOF)
    found += [[f"sees {percent} %, leakproof", *measured(on, own, percent, repeats)] for percent in (1, 10, 50, 100)]
    on.admin.execute(_NOT_LEAKPROOF)
    on.admin.execute(_OPEN)
    public = Corpus(
        CORPUS,
        on.settings.corpora[CORPUS].model_copy(update={"public": True}),
        on.settings.search,
        on.database.types[CORPUS],
    )
    found.append(["public", *measured(on, public, 100, repeats)])
    migrate(on.admin)  # the policies as they were
    return found


def report(on: Stage, rows: Sequence[Sequence[str]]) -> None:
    """The table."""
    about = f"{on.dataset.rows:,} chunks, PostgreSQL {on.versions['postgres']}: median (worst) ms, {K} wanted"
    show(about, ["caller", *QUERIES], rows)


def run(
    rows: Annotated[int, typer.Option(help="Chunks in the corpus; a multiple of 1000.")] = 100_000,
    postgres: Annotated[int, typer.Option(help="Major version of the server: 16 or 18.")] = 18,
    repeats: Annotated[int, typer.Option(min=1, help="How often each query is asked.")] = 30,
) -> None:
    """Measure full-text search for callers who see 1, 10, 50 and 100 % of the rows."""
    # No vector is searched for here, so the vector index need not be good, only there.
    with stage(Dataset(rows), Index(m=4, ef_construction=8), postgres_version=postgres, keep=None) as on:
        report(on, lines(on, repeats))


if __name__ == "__main__":
    # A polite `kill` unwinds like Ctrl-C, so that the server is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        typer.run(run)
    except RetrievalError as error:
        sys.exit(error.message)
