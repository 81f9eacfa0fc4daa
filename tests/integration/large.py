"""50,000 rows on a server of their own, and what Postgres really did to answer from them."""

from __future__ import annotations

import contextlib
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from pgvector.psycopg import register_vector
from tests import prebuilt

from synthetic.many_chunks import OWNERS_POLICY
from workbench.calibration import fixed_width
from workbench.devstack.redis import redis_server
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.search import Corpus
from worker.cli.loader import migrate
from worker.model import Principal
from worker.settings import Settings, from_values
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from workbench.devstack.postgres import Postgres
    from worker.adapters.postgres.search import Search

ROWS, DOCUMENTS = 50_000, 5_000
SEED = 20
HNSW, BTREE, GIN = "document_chunks_embedding_idx", "document_chunks_document_idx", "document_chunks_text_idx"
SCAN = "Seq Scan on document_chunks"


@dataclass
class Large:
    """A database with 50,000 rows, and the worker's view of it."""

    admin: psycopg.Connection[Any]
    settings: Settings
    database: Database
    corpus: Corpus
    queries: NDArray[np.float32]

    def explain(self, user: str, search: Search) -> dict[str, Any]:
        """The executed plan of a search's own statement, as the caller ``user``."""
        *before, (statement, values) = search.statements()
        plan = (b"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) " + statement, values)
        (*_, rows) = self.database.read(asker(user), [*before, plan])
        return rows[0][0][0]["Plan"]


def asker(user: str) -> Principal:
    # `t` is the tenant of every document; the others see what they own.
    settings = (("app.user_id", user), ("app.tenant_id", "t" if user == "all" else ""), ("app.roles", ""))
    return Principal({"user_id": user}, settings, user)


def vectors(rng: np.random.Generator, rows: int) -> NDArray[np.float32]:
    """Clustered unit vectors with a power-law spectrum, as embeddings have."""
    spectrum = (np.arange(1, 769) ** -0.5).astype(np.float32)
    centres = rng.standard_normal((200, 768), dtype=np.float32) * spectrum
    found = centres[rng.integers(0, 200, rows)] + 0.7 * rng.standard_normal((rows, 768), dtype=np.float32) * spectrum
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def near(rng: np.random.Generator, data: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Queries of the data's kind: rows with some noise."""
    noise = rng.standard_normal((count, 768), dtype=np.float32) * 0.01
    found = data[rng.integers(0, len(data), count)] + noise
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def text(row: int) -> str:
    """`kick` is in a seventh of the rows, more or less often, `snare` in an eleventh, `marimba` in twenty."""
    words = ["kick " * (1 + row % 3) * (row % 7 == 0), "snare" * (row % 11 == 0), "marimba" * (row % 2500 == 3)]
    return " ".join([f"chunk {row}", *filter(None, words)])


def fill(connection: psycopg.Connection[Any], data: NDArray[np.float32]) -> None:
    """5,000 documents of 10 chunks: `half` owns 50 %, `hundredth` 1 %, and all are of one tenant."""
    owners = np.where(
        np.arange(DOCUMENTS) % 2 == 0, "half", np.where(np.arange(DOCUMENTS) % 100 == 7, "hundredth", "x")
    )
    register_vector(connection)
    connection.execute("DROP INDEX document_chunks_embedding_idx")
    connection.execute(OWNERS_POLICY)
    cursor = connection.cursor()
    with cursor.copy("COPY documents (id, path, owner_id, tenant_id, visibility) FROM STDIN") as copy:
        for i, owner in enumerate(owners):
            copy.write_row((f"d{i:05d}", f"p/{i}.md", str(owner), "t", "tenant"))
    columns = "id, document_id, text_content, page, metadata, embedding"
    with cursor.copy(f"COPY document_chunks ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["text", "text", "text", "int4", "jsonb", "vector"])
        for i, vector in enumerate(data):
            rare = psycopg.types.json.Jsonb({"rare": i % 2500 == 3})
            copy.write_row((f"c{i:06d}", f"d{i // 10:05d}", text(i), i % 10, rare, vector))
    connection.execute("SET maintenance_work_mem = '1GB'")
    connection.execute(
        "CREATE INDEX document_chunks_embedding_idx ON document_chunks USING hnsw (embedding vector_cosine_ops)"
        " WITH (m = 16, ef_construction = 64)"
    )
    connection.execute("VACUUM ANALYZE documents, document_chunks, document_grants")


def _fill(server: Postgres) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        migrate(connection)
        fill(connection, vectors(np.random.default_rng(SEED), ROWS))


@contextlib.contextmanager
def large_corpus(postgres_version: int) -> Iterator[Large]:
    """The same 50,000 rows on any PostgreSQL, indexed once in a test run."""
    rng = np.random.default_rng(SEED)
    data = vectors(rng, ROWS)
    values = tomllib.loads((config_folder() / "worker.toml").read_text())
    # A graph thinner than the reference schema's, quick to build, needs a wider search.
    width = fixed_width(200)
    with (
        tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True) as folder,
        prebuilt.postgres(Path(folder) / "postgres", "large", _fill, version=postgres_version) as server,
        redis_server(Path(folder) / "redis") as broker,
        psycopg.connect(server.dsn(), autocommit=True) as admin,
    ):
        register_vector(admin)
        dsn = server.dsn(user="retrieval_worker")
        servers = {"database_connection_string": dsn, "broker_url": broker.url()}
        settings = from_values({**values, **servers, "calibration": {"documents": width.model_dump()}})
        database = Database(settings)
        types = database.types["documents"]
        corpus = Corpus("documents", settings.corpora["documents"], settings.search, types, width)
        yield Large(admin, settings, database, corpus, near(rng, data, 20))
        database.close()


def executed(plan: dict[str, Any]) -> set[str]:
    """Names of the indexes (or `Seq Scan on <table>`) that the plan really used."""
    used = set()
    if plan.get("Actual Loops", 0) > 0:
        if "Index Name" in plan:
            used.add(plan["Index Name"])
        elif plan["Node Type"] == "Seq Scan":
            used.add(f"Seq Scan on {plan['Relation Name']}")
        for child in plan.get("Plans", []):
            used |= executed(child)
    return used
