"""Test whether the time of a replay differs between a text that is hidden from the caller and an unknown one.

``python -m benchmarks.hidden_text --tries 10000``: each of both kinds this many times, in turns, and a rank-sum test
(Mann and Whitney, 1947, normal approximation). Exit code 1 where the difference is beyond chance (two-sided p < 0.001).
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
from retrieval_client.contract.run_jobs import PinnedReplay
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.devstack.postgres import postgres_server
from worker.cli.loader import load, migrate
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal
from worker.settings import from_values, read_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HIDDEN = """
SELECT 'sha256:' || encode(chunk_hash, 'hex') FROM document_chunks c JOIN documents d ON d.id = c.document_id
 GROUP BY chunk_hash HAVING bool_and(d.visibility = 'private') ORDER BY 1
"""


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
            admin.execute("VACUUM ANALYZE")
            hidden = [name for (name,) in admin.execute(_HIDDEN).fetchall()]
        unknown = ["sha256:" + hashlib.sha256(str(n).encode()).hexdigest() for n in range(len(hidden))]
        values = {"database_connection_string": server.dsn(user="retrieval_worker"), "broker_url": "redis://not-used"}
        settings = from_values({**read_values(), **values})
        caller = as_principal({"user_id": "nobody"}, settings, "principal")
        engine = Engine(settings, time.perf_counter)
        try:
            times = _times(engine, caller, (hidden, unknown), tries)
        finally:
            engine.close()
    medians, z, p = np.median(times, axis=1) * 1000, *_rank_sum(times[0], times[1])
    print(f"hidden {medians[0]:.4f} ms, unknown {medians[1]:.4f} ms (medians of {tries}); z = {z:.2f}, p = {p:.4f}")
    if p < 0.001:
        raise typer.Exit(1)


def _times(engine: Engine, caller: object, kinds: tuple[list[str], list[str]], tries: int) -> NDArray[np.float64]:
    """Seconds of each replay, shape (2, tries); the kinds alternate, so that whatever slows one slows both."""
    times = np.empty((2, tries))
    for turn in range(-200, tries):
        for kind in (turn % 2, 1 - turn % 2):
            texts = kinds[kind]
            job = parse_job(PinnedReplay, {"required_chunk_hashes": [texts[turn % len(texts)]]})
            started = time.perf_counter()
            answer = engine.replay.pinned(job, JobContext(lambda: caller))
            if turn >= 0:
                times[kind, turn] = time.perf_counter() - started
            assert answer["missing"] == 1
    return times


def _rank_sum(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """Statistic z and two-sided p of the rank-sum test."""
    n, m = len(one), len(other)
    ranks = np.empty(n + m)
    ranks[np.argsort(np.concatenate([one, other]), kind="stable")] = np.arange(1, n + m + 1)
    u = ranks[:n].sum() - n * (n + 1) / 2
    z = (u - n * m / 2) / math.sqrt(n * m * (n + m + 1) / 12)
    return z, math.erfc(abs(z) / math.sqrt(2))


if __name__ == "__main__":
    as_command(run, "benchmarks.hidden_text")
