"""A partitioned table of chunks, on PostgreSQL 16 and 18: the same answers, by an index of each partition."""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from pgvector.psycopg import register_vector

from workbench.devstack.postgres import postgres_server
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.search import Corpus, VectorSearch
from worker.cli.loader import migrate
from worker.model import NO_FILTERS, FilterSet
from worker.settings import from_values, read_values

from .large import asker, executed, near, vectors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from worker.adapters.postgres.search import SearchResult
    from worker.model import Principal

    Vector = NDArray[np.float32]

ROWS, TENANTS = 4_000, 4
EVERYONE = asker("all")
COLUMNS = 'id text COLLATE "C", document_id text, tenant text, text_content text, embedding vector(768)'
TABLES = {
    "flat": ("", []),
    "hashed": (
        "PARTITION BY HASH (document_id)",
        [f"FOR VALUES WITH (MODULUS {TENANTS}, REMAINDER {i})" for i in range(TENANTS)],
    ),
    "listed": ("PARTITION BY LIST (tenant)", [f"FOR VALUES IN ('t{i}')" for i in range(TENANTS)]),
}
# Of the documents' own policy: who sees a document sees its chunks. Of a tenant's: the key of the partitions.
BY_DOCUMENT = "EXISTS (SELECT FROM documents AS d WHERE d.id = {table}.document_id)"
BY_TENANT = "tenant = (SELECT retrieval.asker('app.tenant_id'))"


@dataclass
class Parted:
    """The same rows in tables that are partitioned otherwise."""

    database: Database
    corpora: dict[str, Corpus]
    queries: Vector

    def nearest(
        self, name: str, query: Vector, filters: FilterSet = NO_FILTERS, caller: Principal = EVERYONE, **how: bool
    ) -> SearchResult:
        exact = how.get("exact", False)
        return self.corpora[name].nearest(self.database, caller, query, 15, filters, exact=exact)

    def used(self, name: str, filters: FilterSet = NO_FILTERS, caller: Principal = EVERYONE) -> set[str]:
        """Return the parts of a table and its partitions that a search's plan read."""
        *before, (statement, values) = VectorSearch(self.corpora[name], self.queries[0], 15, filters).statements()
        plan = (b"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) " + statement, values)
        (*_, rows) = self.database.read(caller, [*before, plan])
        return {read for read in executed(rows[0][0][0]["Plan"]) if f"{name}_" in read}


def make(connection: psycopg.Connection[Any], name: str, policy: str, data: Vector) -> None:
    """A table and its partitions, with an HNSW index: Postgres makes one of each partition."""
    by, partitions = TABLES[name]
    connection.execute(f"CREATE TABLE {name} ({COLUMNS}) {by}")
    for i, values in enumerate(partitions):
        connection.execute(f"CREATE TABLE {name}_{i} PARTITION OF {name} {values}")
    with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["text", "text", "text", "text", "vector"])
        for i, vector in enumerate(data):
            copy.write_row((f"c{i:05d}", f"d{i // 10:04d}", f"t{i // 10 % TENANTS}", f"chunk {i}", vector))
    connection.execute(f"CREATE INDEX ON {name} USING hnsw (embedding vector_cosine_ops)")
    connection.execute(f"CREATE INDEX ON {name} (document_id)")
    connection.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
    connection.execute(f"CREATE POLICY visible ON {name} USING ({policy.format(table=name)})")
    connection.execute(f"GRANT SELECT ON {name} TO retrieval_worker")
    connection.execute(f"VACUUM ANALYZE {name}")


@pytest.fixture(scope="module", params=[16, 18])
def parted(request: pytest.FixtureRequest) -> Iterator[Parted]:
    rng = np.random.default_rng(7)
    data = vectors(rng, ROWS)
    columns = {"id": "id", "document_id": "document_id", "text": "text_content", "embedding": "embedding"}
    by_document = {"table": "documents", "id": "id"}
    with (
        tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder), version=request.param) as server,
    ):
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            migrate(admin)
            register_vector(admin)
            admin.execute(
                "INSERT INTO documents (id, path, owner_id, tenant_id, visibility)"
                " SELECT 'd' || lpad(i::text, 4, '0'), 'p', 'x', 't', 'tenant' FROM generate_series(0, %s) AS i",
                (ROWS // 10 - 1,),
            )
            admin.execute("ANALYZE documents")
            for name in TABLES:
                make(admin, name, BY_TENANT if name == "listed" else BY_DOCUMENT, data)
        corpora: dict[str, dict[str, Any]] = {name: {"table": name, "columns": columns} for name in TABLES}
        corpora["flat"]["documents"] = corpora["hashed"]["documents"] = by_document
        settings = from_values(
            {
                **read_values(),
                "database_connection_string": server.dsn(user="retrieval_worker"),
                "broker_url": "redis://127.0.0.1:1",
                "corpora": corpora,
                "modes": {},
                "hybrid": {},
                # So that so few rows are not compared one by one.
                "search": {"exact_rows": 100},
            }
        )
        database = Database(settings)
        found = {
            name: Corpus(name, corpus, settings.search, database.types[name])
            for name, corpus in settings.corpora.items()
        }
        yield Parted(database, found, near(rng, data, 20))
        database.close()


def ids(found: SearchResult) -> list[tuple[str, float | None]]:
    return [(one.chunk.id, one.similarity) for one in found.candidates]


def test_a_partitioned_table_gives_the_answers_of_one_that_is_not(parted: Parted) -> None:
    """The same chunks in the same order with the same scores, by the index; and as exact search finds them."""
    for query in parted.queries:
        flat, hashed = parted.nearest("flat", query), parted.nearest("hashed", query)
        assert (flat.method, hashed.method) == ("index", "index")
        assert len(hashed.candidates) == 15
        assert ids(hashed) == ids(flat) == ids(parted.nearest("hashed", query, exact=True))


def test_every_partition_has_its_index_and_all_are_merged(parted: Parted) -> None:
    """The over-fetch by distance is one ordered walk over the indexes of all partitions; no table is scanned."""
    assert parted.used("hashed") == {f"hashed_{i}_embedding_idx" for i in range(TENANTS)}


def test_the_size_of_a_partitioned_corpus_is_that_of_its_partitions(parted: Parted) -> None:
    """It decides between index and exact search, and how wide the index is searched."""
    sizes = {name: parted.nearest(name, parted.queries[0]).corpus_rows for name in ("flat", "hashed")}
    assert sizes["hashed"] == pytest.approx(sizes["flat"], rel=0.05)
    assert sizes["flat"] == pytest.approx(ROWS, rel=0.05)


def test_named_documents_are_searched_in_their_own_partition(parted: Parted) -> None:
    """A filter on documents is the key of the partitions: what can't hold them is not read."""
    named = FilterSet(document_ids=("d0001",))
    assert len(parted.used("hashed", named)) == 1
    found = parted.nearest("hashed", parted.queries[0], named)
    assert {one.chunk.document_id for one in found.candidates} == {"d0001"}
    assert ids(found) == ids(parted.nearest("flat", parted.queries[0], named))


def test_a_tenants_policy_reads_that_tenants_partition_only(parted: Parted) -> None:
    """Where the policy compares the key of the partitions with the caller's claim, the others are left out."""
    settings = (("app.user_id", ""), ("app.tenant_id", "t2"), ("app.roles", ""))
    tenant = dataclasses.replace(EVERYONE, settings=settings)
    found = parted.nearest("listed", parted.queries[0], caller=tenant)
    assert len(found.candidates) == 15
    assert {int(one.chunk.document_id[1:]) % TENANTS for one in found.candidates} == {2}
    used = parted.used("listed", caller=tenant)
    assert used
    assert all("listed_2" in read for read in used)
