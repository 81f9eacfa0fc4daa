"""Test whether the time of an answer differs between a text that is hidden from the caller and an unknown one.

``python -m benchmarks.hidden_text --tries 10000``: each of both kinds this many times, in turns, and a rank-sum test
(Mann and Whitney, 1947, normal approximation). Exit code 1 where that of a replay is beyond chance (two-sided
p < 0.001). Searches do not wait for a moment as replays do: of these it says what remains, filtered by a document of
500 hidden chunks and by one that is nowhere.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import psycopg
import typer
from benchmarks.command import as_command

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from workbench.devstack.postgres import postgres_server
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load, migrate
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal
from worker.settings import from_values, read_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_HIDDEN = """
SELECT 'sha256:' || encode(chunk_hash, 'hex') FROM document_chunks c JOIN documents d ON d.id = c.document_id
 GROUP BY chunk_hash HAVING bool_and(d.visibility = 'private') ORDER BY 1
"""

_LARGE = """
WITH document AS (
  INSERT INTO documents (id, owner_id, visibility) VALUES ('large', 'somebody', 'private') RETURNING id
)
INSERT INTO document_chunks (id, document_id, text_content, section, embedding)
SELECT 'large-' || n, document.id, 'Part ' || n, 'Secret', embedding
  FROM document, generate_series(1, 500) AS n, (SELECT embedding FROM document_chunks LIMIT 1) AS any_vector
"""
SEARCHES = {
    "document_ids, exact": ({"exact": True}, {"document_ids": ["large"]}, {"document_ids": ["nowhere"]}),
    "document_ids": ({}, {"document_ids": ["large"]}, {"document_ids": ["nowhere"]}),
    "sections, exact": ({"exact": True}, {"sections": ["Secret"]}, {"sections": ["Nowhere"]}),
    "sections": ({}, {"sections": ["Secret"]}, {"sections": ["Nowhere"]}),
}
"""Name → what all jobs have, the filter that meets hidden chunks, and the one that meets none."""


def run(
    tries: Annotated[int, typer.Option(min=100, help="Of each kind.")] = 10_000,
    postgres: Annotated[int, typer.Option(help="16 or 18.")] = 18,
) -> None:
    """Time replays of hidden and of unknown texts, and compare."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder), version=postgres) as server,
    ):
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            migrate(admin)
            for file in SAMPLES.values():
                load(admin, read(file), LexicalEmbedder())
            admin.execute(_LARGE)
            admin.execute("VACUUM ANALYZE")
            hidden_hashes = [name for (name,) in admin.execute(_HIDDEN).fetchall()]
        unknown_hashes = ["sha256:" + hashlib.sha256(str(n).encode()).hexdigest() for n in range(len(hidden_hashes))]
        values = {"database_connection_string": server.dsn(user="retrieval_worker"), "broker_url": "redis://not-used"}
        settings = from_values({**read_values(), **values})
        caller = as_principal({"user_id": "nobody"}, settings, "principal")
        engine = Engine(settings, time.perf_counter)
        try:
            p = _compare(
                "replay", tries, lambda kind, turn: _replay(engine, caller, (hidden_hashes, unknown_hashes)[kind], turn)
            )
            for name, (fields, *filters) in SEARCHES.items():
                jobs = [_search_job({**fields, "filters": job_filters}) for job_filters in filters]
                _compare(name, tries, lambda kind, _, jobs=jobs: _search(engine, caller, jobs[kind]))
        finally:
            engine.close()
    if p < 0.001:
        raise typer.Exit(1)


def _replay(engine: Engine, caller: object, texts: list[str], turn: int) -> None:
    job = parse_job(PinnedReplay, {"required_chunk_hashes": [texts[turn % len(texts)]]})
    assert engine.replay.pinned(job, JobContext(lambda: caller))["missing"] == 1


def _search_job(fields: dict[str, object]) -> RetrieveTopK:
    return parse_job(RetrieveTopK, {"query_embedding": [1.0] + [0.0] * 767, **fields})


def _search(engine: Engine, caller: object, job: RetrieveTopK) -> None:
    assert engine.retrieval.top_k(job, JobContext(lambda: caller))["status"] == "empty"


def _compare(name: str, tries: int, ask: Callable[[int, int], None]) -> float:
    """Print the medians of both kinds of a job, and how far they differ; return the p of the rank-sum test."""
    times = _times(ask, tries)
    (hidden_ms, unknown_ms), z, p = np.median(times, axis=1) * 1000, *_rank_sum(times[0], times[1])
    print(
        f"{name}: hidden {hidden_ms:.4f} ms, unknown {unknown_ms:.4f} ms (medians of {tries}); z = {z:.2f}, p = {p:.4f}"
    )
    return p


def _times(ask: Callable[[int, int], None], tries: int) -> NDArray[np.float64]:
    """Seconds of each job, shape (2, tries); the kinds alternate, so that whatever slows one slows both."""
    times = np.empty((2, tries))
    for turn in range(-200, tries):
        for kind in (turn % 2, 1 - turn % 2):
            started = time.perf_counter()
            ask(kind, turn)
            if turn >= 0:
                times[kind, turn] = time.perf_counter() - started
    return times


def _rank_sum(sample: NDArray[np.float64], other_sample: NDArray[np.float64]) -> tuple[float, float]:
    """Statistic z and two-sided p of the rank-sum test."""
    n, m = len(sample), len(other_sample)
    ranks = np.empty(n + m)
    ranks[np.argsort(np.concatenate([sample, other_sample]), kind="stable")] = np.arange(1, n + m + 1)
    u = ranks[:n].sum() - n * (n + 1) / 2
    z = (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return z, math.erfc(abs(z) / math.sqrt(2))


if __name__ == "__main__":
    as_command(run, "benchmarks.hidden_text")
