"""Query plans and filling up to k, on 50,000 rows, on PostgreSQL 16 and 18."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.hashing import hash_chunk
from worker.adapters.postgres.search import VectorSearch
from worker.model import NO_FILTERS, FilterSet

from .large import BTREE, HNSW, ROWS, SCAN, Large, asker, executed, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres.database import Statement


def plan(large: Large, user: str, filters: FilterSet = NO_FILTERS) -> dict[str, Any]:
    return large.explain(user, VectorSearch(large.corpus, large.queries[0], 15, filters))


@pytest.mark.parametrize("user", ["all", "half"])
def test_hnsw_answers_where_many_rows_are_visible(large: Large, user: str) -> None:
    """Everything or half visible: the vector index is used, and no table of chunks is scanned."""
    used = executed(plan(large, user))
    assert HNSW in used
    assert SCAN not in used
    assert BTREE not in used


@pytest.mark.parametrize(("user", "index"), [("all", HNSW), ("half", HNSW), ("hundredth", BTREE)])
def test_leaving_out_chunks_without_text_changes_no_plan(large: Large, user: str, index: str) -> None:
    """The same indexes and as few rows as without it."""
    search = VectorSearch(large.corpus, large.queries[0], 15, NO_FILTERS, with_text=True)
    assert executed(large.explain(user, search)) == executed(plan(large, user))
    assert index in executed(plan(large, user))


def test_a_b_tree_answers_where_few_rows_are_visible(large: Large) -> None:
    """1 % visible: the chunks of the visible documents are fetched by a B-tree and compared exactly."""
    used = executed(plan(large, "hundredth"))
    assert BTREE in used
    assert HNSW not in used
    assert SCAN not in used


def test_named_documents_are_searched_by_a_b_tree(large: Large) -> None:
    """A filter on a few documents never walks the vector index."""
    used = executed(plan(large, "all", FilterSet(document_ids=("d00001", "d00002"))))
    assert BTREE in used
    assert HNSW not in used


def test_a_filter_on_metadata_keeps_the_vector_index(large: Large) -> None:
    """The planner can't know how many rows it leaves; what is nearest comes first all the same."""
    used = executed(plan(large, "half", FilterSet(metadata={"rare": False})))
    assert HNSW in used
    assert SCAN not in used


@pytest.mark.parametrize("user", ["all", "half"])
def test_rights_are_looked_up_where_few_rows_are_and_hashed_where_all_are(large: Large, user: str) -> None:
    """By the index, the documents of its candidates; exactly, all that are visible at once."""
    by_index = plan(large, user)
    assert "documents_pkey" in executed(by_index)
    exactly = large.explain(user, VectorSearch(large.corpus, large.queries[0], 15, NO_FILTERS, exact=True))
    assert "documents_pkey" not in executed(exactly)
    assert "Seq Scan on documents" in executed(exactly)


def test_who_says_that_few_rows_are_looked_at_sees_no_more(large: Large) -> None:
    """Both ways to check rights let the same rows through."""
    count: Statement = (b"SELECT count(*), min(id), max(id) FROM document_chunks", {})
    for user in ("all", "half", "hundredth", "nobody"):
        seen = [
            large.database.read(
                asker(user), [(b"SELECT set_config('retrieval.few_rows', %(to)s, true)", {"to": to}), count]
            )[1]
            for to in ("on", "", "off")
        ]
        assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("k", [15, 16, 52, 200])
def test_more_than_the_setting_are_fetched_where_more_are_wanted(large: Large, k: int) -> None:
    """As many as were asked for, however many more are fetched."""
    found = large.corpus.nearest(large.database, asker("all"), large.queries[2], k, NO_FILTERS, exact=False)
    assert (found.method, len(found.candidates)) == ("index", k)


@pytest.mark.parametrize("user", ["all", "half", "hundredth"])
def test_pins_are_looked_up_and_authorised_one_by_one(large: Large, user: str) -> None:
    """A thousand pins by hash and by id: neither the chunks nor the documents are read as a whole."""
    statements = large.corpus.statements
    hashes = [hash_chunk(text(i)) for i in range(0, ROWS, 50)]
    values = statements.pins(hashes, [f"c{i:06d}" for i in range(0, ROWS, 50)])
    explain = (b"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) " + statements.pinned, values)
    ((found,),) = large.database.read(asker(user), [explain])
    used = executed(found[0][0]["Plan"])
    assert {"document_chunks_hash_idx", "document_chunks_pkey", "documents_pkey"} <= used
    assert not {name for name in used if name in {SCAN, "Seq Scan on documents"}}


def test_the_plan_does_not_change_when_it_becomes_generic(large: Large) -> None:
    """A prepared statement's generic plan (after five executions) still uses the index."""
    for query in large.queries[:8]:
        found = large.corpus.nearest(large.database, asker("half"), query, 15, NO_FILTERS, exact=False)
        assert found.method == "index"
    assert HNSW in executed(plan(large, "half"))


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
    """Values of a caller are parameters: the text of a statement is the same for any value."""
    statements = large.corpus.statements
    one = FilterSet(document_ids=("a",), sections=("b",), metadata={"k": 1})
    other = FilterSet(document_ids=("'; --",), sections=("%s",), metadata={"; DROP": "x"})
    assert statements.nearest(one, 15) == statements.nearest(other, 15)
    assert statements.exact(one) == statements.exact(other)
