"""Time of a whole `build_citations` job in the worker's process, SQL included, without quotes.

python -m benchmarks.citing
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from benchmarks.citations import make_records
from benchmarks.pins import TENANT, load, settings_for

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.run_jobs import BuildCitations
from workbench.devstack.postgres import postgres_server
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine, spare_collections
from worker.model import Principal


def main(
    records: Annotated[int, typer.Option(help="Citations of the job; one of 50 is a near twin.")] = 1_000,
    rows: Annotated[int, typer.Option(help="Chunks in the corpus.", min=1_000)] = 100_000,
    repeats: Annotated[int, typer.Option(min=3)] = 15,
) -> None:
    """Build citations, not verified and verified against the corpora; say how long each took."""
    asker = Principal({"tenant_id": TENANT}, (("app.user_id", ""), ("app.tenant_id", TENANT), ("app.roles", "")), "")
    fields = ("source_id", "text", "weight", "section", "chunk_id", "chunk_hash")
    cited = [{name: getattr(record, name) for name in fields} for record in make_records(records, twin_every=50)]
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder).resolve()) as server,
        psycopg.connect(server.dsn(), autocommit=True) as admin,
    ):
        load(admin, rows)
        engine = Engine(settings_for(server.dsn(user="retrieval_worker")), time.perf_counter)
        spare_collections()  # as a worker's process does
        for verify in (False, True):
            job = parse_job(BuildCitations, {"records": cited, "verify": verify, "store": False})
            took = []
            for _ in range(3 + repeats):
                started = time.perf_counter()
                engine.citing.build(job, JobContext(lambda: asker))
                took.append((time.perf_counter() - started) * 1000)
            times = took[3:]
            print(f"verify {verify}: median {statistics.median(times):.1f} ms, lowest {min(times):.1f} ms (goal 10 ms)")
        engine.close()


if __name__ == "__main__":
    typer.run(main)
