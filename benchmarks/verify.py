"""Recorded runs a minute that the drift check reads, over 100,000 chunks.

python -m benchmarks.verify --runs 5000
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from benchmarks.pins import TENANT, load, settings_for
from rich.console import Console

from workbench.devstack.postgres import postgres_server
from worker.jobs.engine import Engine
from worker.model import Principal

# Runs of 15 chunks each from all over the table, every run other ones.
_RUNS = """
INSERT INTO retrieval.runs (owner, subject_id, run_id) SELECT 'u1', 'bench', n::text FROM generate_series(1, %s) AS n
"""
_RECORDS = """
INSERT INTO retrieval.run_records (run, task, step, job, job_sha256, claims_sha256, answer)
SELECT id, 'retrieve_top_k', '', '{}', '', '', '{}' FROM retrieval.runs
"""
_PINS = """
WITH chunks AS (SELECT row_number() OVER (ORDER BY md5(id)) AS n, c.* FROM public.document_chunks c)
INSERT INTO retrieval.run_pins
SELECT r.id, 'retrieve_top_k', '', rank, 'documents', c.chunk_hash, 1,
       sha256(convert_to(c.text_content, 'UTF8')), c.id, c.document_id, 0.5
  FROM retrieval.runs r, generate_series(1, 15) AS rank, chunks c
 WHERE c.n = 1 + (r.id * 15 + rank) %% %s
"""


def main(
    runs: Annotated[int, typer.Option(help="How many runs are recorded.")] = 5000,
    rows: Annotated[int, typer.Option(help="Chunks in the corpus.", min=1_000)] = 100_000,
) -> None:
    """Record runs, check them all, say how long it took."""
    asker = Principal(
        {"tenant_id": TENANT}, (("app.user_id", "u1"), ("app.tenant_id", TENANT), ("app.roles", "")), "u1"
    )
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder).resolve()) as server,
        psycopg.connect(server.dsn(), autocommit=True) as admin,
    ):
        load(admin, rows)
        admin.execute(_RUNS, (runs,))
        admin.execute(_RECORDS)
        admin.execute(_PINS, (rows,))
        admin.execute("ANALYZE")
        engine = Engine(settings_for(server.dsn(user="retrieval_worker")), time.perf_counter)
        for turn in ("first", "again"):
            started = time.perf_counter()
            checked = [*engine.verifying.all(asker, "u1")]
            seconds = time.perf_counter() - started
            exact = sum(run.verdicts == {"exact": 15} for run in checked)
            Console().print(
                f"{turn}: {len(checked):,} runs of 15 chunks in {seconds:.2f} s,"
                f" {len(checked) / seconds * 60:,.0f} a minute; all exact: {exact:,}",
                highlight=False,
            )
        engine.close()


if __name__ == "__main__":
    typer.run(main)
