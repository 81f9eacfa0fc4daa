"""Query plans and filling up to k, on 50,000 rows, on PostgreSQL 16 and 18."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from pgvector.psycopg import register_vector

from worker import devstack
from worker.adapters.postgres import Database
from worker.adapters.search import Corpus
from worker.core.hashing import hash_chunk
from worker.loader import migrate
from worker.model import NO_FILTERS, FilterSet, Principal
from worker.settings import Settings, config_folder, from_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from worker.adapters.statements import Statements

ROWS, DOCUMENTS = 50_000, 5_000
HNSW, BTREE = "document_chunks_embedding_idx", "document_chunks_document_idx"


@dataclass
class Large:
    """A database with 50,000 rows, and the worker's view of it."""

    admin: psycopg.Connection[Any]
    settings: Settings
    database: Database
    corpus: Corpus
    queries: NDArray[np.float32]

    def explain(self, user: str, filters: FilterSet = NO_FILTERS) -> dict[str, Any]:
        """The executed plan of the project's own statement, as the caller ``user``."""
        statements = self.corpus.statements
        values = statements.values(self.queries[0], 15, filters)
        plan = (b"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) " + statements.nearest(filters), values)
        (_, rows) = self.database.read(asker(user), [(statements.plan, values), plan])
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


def fill(connection: psycopg.Connection[Any], data: NDArray[np.float32]) -> None:
    """5,000 documents of 10 chunks: `half` owns 50 %, `hundredth` 1 %, and all are of one tenant."""
    owners = np.where(
        np.arange(DOCUMENTS) % 2 == 0, "half", np.where(np.arange(DOCUMENTS) % 100 == 7, "hundredth", "x")
    )
    register_vector(connection)
    connection.execute("DROP INDEX document_chunks_embedding_idx")
    cursor = connection.cursor()
    with cursor.copy("COPY documents (id, path, owner_id, tenant_id, visibility) FROM STDIN") as copy:
        for i, owner in enumerate(owners):
            copy.write_row((f"d{i:05d}", f"p/{i}.md", str(owner), "t", "tenant"))
    columns = "id, document_id, text_content, page, metadata, embedding"
    with cursor.copy(f"COPY document_chunks ({columns}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["text", "text", "text", "int4", "jsonb", "vector"])
        for i, vector in enumerate(data):
            rare = psycopg.types.json.Jsonb({"rare": i % 2500 == 3})
            copy.write_row((f"c{i:06d}", f"d{i // 10:05d}", f"chunk {i}", i % 10, rare, vector))
    connection.execute("SET maintenance_work_mem = '1GB'")
    connection.execute(
        "CREATE INDEX document_chunks_embedding_idx ON document_chunks USING hnsw (embedding vector_cosine_ops)"
        " WITH (m = 16, ef_construction = 64)"
    )
    connection.execute("VACUUM ANALYZE documents, document_chunks, document_grants")


@pytest.fixture(scope="module", params=[16, 18])
def large(request: pytest.FixtureRequest) -> Iterator[Large]:
    """The same 50,000 rows on each PostgreSQL."""
    rng = np.random.default_rng(20)
    with devstack.stack(postgres_version=request.param) as stack:
        values = tomllib.loads((config_folder() / "worker.toml").read_text())
        dsn = stack.postgres.dsn(user="retrieval_worker")
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
            migrate(admin)
            data = vectors(rng, ROWS)
            fill(admin, data)
            settings = from_values({**values, "database_connection_string": dsn, "broker_url": stack.redis.url()})
            database = Database(settings)
            corpus = Corpus("documents", settings.corpora["documents"], settings.search, database.types["documents"])
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


@pytest.mark.parametrize("user", ["all", "half"])
def test_hnsw_answers_where_many_rows_are_visible(large: Large, user: str) -> None:
    """Everything or half visible: the vector index is used, and no table of chunks is scanned."""
    used = executed(large.explain(user))
    assert HNSW in used
    assert "Seq Scan on document_chunks" not in used
    assert BTREE not in used


def test_a_b_tree_answers_where_few_rows_are_visible(large: Large) -> None:
    """1 % visible: the chunks of the visible documents are fetched by a B-tree and compared exactly."""
    used = executed(large.explain("hundredth"))
    assert BTREE in used
    assert HNSW not in used
    assert "Seq Scan on document_chunks" not in used


def test_named_documents_are_searched_by_a_b_tree(large: Large) -> None:
    """A filter on a few documents never walks the vector index."""
    used = executed(large.explain("all", FilterSet(document_ids=("d00001", "d00002"))))
    assert BTREE in used
    assert HNSW not in used


def test_a_filter_on_metadata_keeps_the_vector_index(large: Large) -> None:
    """The planner can't know how many rows it leaves; what is nearest comes first all the same."""
    used = executed(large.explain("half", FilterSet(metadata={"rare": False})))
    assert HNSW in used
    assert "Seq Scan on document_chunks" not in used


@pytest.mark.parametrize("user", ["all", "half", "hundredth"])
def test_pins_are_looked_up_and_authorised_one_by_one(large: Large, user: str) -> None:
    """A thousand pins by hash and by id: neither the chunks nor the documents are read as a whole."""
    statements = large.corpus._statements
    hashes = [hash_chunk(f"chunk {i}") for i in range(0, ROWS, 50)]
    values = statements.pins(hashes, [f"c{i:06d}" for i in range(0, ROWS, 50)])
    plan = (b"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) " + statements.pinned, values)
    ((found,),) = large.database.read(asker(user), [plan])
    used = executed(found[0][0]["Plan"])
    assert {"document_chunks_hash_idx", "document_chunks_pkey", "documents_pkey"} <= used
    assert not {name for name in used if name in {"Seq Scan on document_chunks", "Seq Scan on documents"}}


def test_the_plan_does_not_change_when_it_becomes_generic(large: Large) -> None:
    """A prepared statement's generic plan (after five executions) still uses the index."""
    for query in large.queries[:8]:
        found = large.corpus.nearest(large.database, asker("half"), query, 15, NO_FILTERS, exact=False)
        assert found.method == "index"
    assert HNSW in executed(large.explain("half"))


def test_the_obvious_tie_break_loses_the_index_on_16(large: Large) -> None:
    """`ORDER BY distance, id LIMIT 15` is a sequential scan on PostgreSQL 16: why the search is worded as it is."""
    version = large.admin.info.server_version // 10_000
    query = "EXPLAIN (FORMAT JSON) SELECT id FROM document_chunks ORDER BY embedding <=> %s, id LIMIT 15"
    row = large.admin.execute(query, (large.queries[0],)).fetchone()
    assert row is not None
    uses_index = HNSW in json.dumps(row[0])
    assert uses_index == (version > 16)


@pytest.mark.parametrize("user", ["all", "half", "hundredth"])
def test_fifteen_rows_and_the_right_ones(large: Large, user: str) -> None:
    """Always 15 rows where 15 are visible, and (nearly) those of exact search."""
    hits = 0
    for query in large.queries:
        found = large.corpus.nearest(large.database, asker(user), query, 15, NO_FILTERS, exact=False)
        truth = large.corpus.nearest(large.database, asker(user), query, 15, NO_FILTERS, exact=True)
        assert len(found.candidates) == 15
        hits += len({c.chunk.id for c in found.candidates} & {c.chunk.id for c in truth.candidates})
    assert hits >= 0.99 * 15 * len(large.queries)


def test_exact_search_takes_over_where_the_index_stops_early(large: Large) -> None:
    """A filter that 20 of 50,000 rows match is answered in full."""
    filters = FilterSet(metadata={"rare": True})
    found = large.corpus.nearest(large.database, asker("all"), large.queries[0], 15, filters, exact=False)
    assert found.method == "exact"
    assert len(found.candidates) == 15
    assert {c.chunk.metadata["rare"] for c in found.candidates} == {True}


def test_a_tie_that_reaches_past_the_fetched_rows_is_decided_by_id(large: Large) -> None:
    """500 copies of one vector: the first 15 by id, though the index is approximate and fetches fewer."""
    copies: Sequence[tuple[Any, ...]] = [(f"copy{i:04d}", large.queries[1]) for i in reversed(range(500))]
    with large.admin.transaction(force_rollback=False), large.admin.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO document_chunks (id, document_id, text_content, embedding) VALUES (%s, 'd00000', 'copy', %s)",
            copies,
        )
    try:
        found = large.corpus.nearest(large.database, asker("all"), large.queries[1], 15, NO_FILTERS, exact=False)
        assert [c.chunk.id for c in found.candidates] == [f"copy{i:04d}" for i in range(15)]
    finally:
        large.admin.execute("DELETE FROM document_chunks WHERE id LIKE 'copy%'")


def test_statements_hold_no_values(large: Large) -> None:
    """What a caller sends is a parameter: the text of a statement is the same for any value."""
    statements: Statements = large.corpus.statements
    one = FilterSet(document_ids=("a",), sections=("b",), metadata={"k": 1})
    other = FilterSet(document_ids=("'; --",), sections=("%s",), metadata={"; DROP": "x"})
    assert statements.nearest(one) == statements.nearest(other)
    assert statements.exact(one) == statements.exact(other)
