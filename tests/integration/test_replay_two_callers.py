"""A row that one caller may not see is as no row, for it alone: in the answer, on the wire and in the plan.

Asserted is what decides how long a replay takes (docs/decisions/022): the messages that go to Postgres and back, the
pages and rows that Postgres looks at, and when a missing pin is answered.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.pq import Trace
from tests.integration.asking import asker
from tests.prebuilt import copied_database

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.hashing import hash_chunk
from synthetic.many_chunks import OWNER, TENANT, chunk_text, load_many
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.replay import MISSING_PINS, MISSING_SECONDS
from worker.model import FilterSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack
    from worker.model import Principal
    from worker.settings import Settings

FOREIGN = hash_chunk(chunk_text(15))  # in a document that the owner of one percent does not own
NOTHING = hash_chunk("no such text anywhere")
SEEN = hash_chunk(chunk_text(1_005))
VECTOR = [1.0] + [0.0] * 767


LARGE = "large"
_LARGE = """
WITH document AS (
  INSERT INTO public.documents (id, owner_id, visibility) VALUES (%(large)s, 'nobody', 'private') RETURNING id
)
INSERT INTO public.document_chunks (id, document_id, text_content, page, section)
SELECT 'large-' || n, id, 'Part ' || n || ' of a large document', 77, 'Secret'
  FROM document, generate_series(1, 500) AS n
"""
ONE_PERCENT, EVERYTHING, STRANGER = asker(OWNER), asker("member", tenant_id=TENANT), asker("stranger")


@pytest.fixture(scope="module")
def corpus(stack: Stack, sample_template: str) -> Iterator[str]:
    """Name of a database with 10,000 documents, and a large one that no caller may see."""
    with copied_database(stack.postgres, sample_template, "two_callers") as name:
        with psycopg.connect(stack.postgres.dsn(name), autocommit=True) as connection:
            connection.execute(_LARGE, {"large": LARGE})
            load_many(connection, 100_000)
        yield name


@pytest.fixture
def engine(make_settings: Callable[..., Settings], corpus: str) -> Iterator[Engine]:
    """With one connection."""
    made = Engine(make_settings(corpus, pool={"max_size": 1}), time.perf_counter)
    yield made
    made.close()


def replay(engine: Engine, who: Principal, *hashes: str, **fields: Any) -> dict[str, Any]:
    job = parse_job(PinnedReplay, {"required_chunk_hashes": list(hashes), **fields})
    answer = engine.replay.pinned(job, JobContext(lambda: who))
    for stage in answer["trace"]["stages"]:
        del stage["duration_ms"]
    return answer


@pytest.mark.parametrize("fields", [{}, {"top_k": 5}, {"top_k": 5, "fill": "hash"}])
def test_a_foreign_pin_is_answered_as_a_hash_of_nothing(engine: Engine, fields: dict[str, Any]) -> None:
    """Verdict, counts, fill, digest and the trace's own counts: the whole answer but for the hash that was asked."""
    theirs = replay(engine, EVERYTHING, FOREIGN, SEEN, **fields)
    assert [pin["verdict"] for pin in theirs["pins"]] == ["matched", "matched"]
    for who in (ONE_PERCENT, STRANGER):
        foreign = replay(engine, who, FOREIGN, **fields)
        nothing = replay(engine, who, NOTHING, **fields)
        assert foreign["pins"][0].pop("chunk_hash") == FOREIGN
        assert nothing["pins"][0].pop("chunk_hash") == NOTHING
        assert foreign == nothing
        assert (foreign["matched"], foreign["missing"]) == (0, 1)
    mixed = replay(engine, ONE_PERCENT, FOREIGN, SEEN)
    assert [pin["verdict"] for pin in mixed["pins"]] == ["missing", "matched"]


# --- timing class -------------------------------------------------------------------------------


def conversation(engine: Engine, who: Principal, pinned: str, folder: Path) -> list[str]:
    """Every message of one replay, in libpq's own words: direction, length and type; first what is sent.

    When the client asks the server to flush, and whether it reads between two sends, is the socket's mood.
    """
    file = folder / "libpq"
    pool = engine.replay._corpora.database._pool
    with file.open("w") as trace:
        with pool.connection() as connection:
            connection.pgconn.trace(trace.fileno())
            connection.pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        replay(engine, who, pinned)
        with pool.connection() as connection:
            connection.pgconn.untrace()
    messages = [" ".join(line.split("\t")[:3]) for line in file.read_text().splitlines()]
    return sorted((line for line in messages if "Flush" not in line), key=lambda line: line[0] != "F")


def test_a_foreign_pin_makes_the_same_conversation_with_postgres(engine: Engine, tmp_path: Path) -> None:
    """Message by message, of the same lengths and kinds: no look-up more or less, no row, no other branch."""
    for _ in range(10):  # psycopg prepares what it sees often, Postgres settles on a plan
        replay(engine, ONE_PERCENT, NOTHING)
    foreign, nothing, seen = (
        conversation(engine, ONE_PERCENT, pinned, tmp_path) for pinned in (FOREIGN, NOTHING, SEEN)
    )
    assert len(foreign) > 10
    assert foreign == nothing
    assert len(seen) == len(nothing) + 1  # a row, which the answer shows


def work(dsn: str, who: Principal, statement: bytes, values: dict[str, Any]) -> tuple[int, int]:
    """Return Postgres' work for a statement: pages touched, and rows that passed through the nodes of its plan."""
    with psycopg.connect(dsn) as connection:
        for name, value in who.settings:
            connection.execute("SELECT set_config(%s, %s, true)", (name, value))
        query = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement
        for _ in range(2):  # the first reads the catalogue as well
            row = connection.execute(query, values).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], sum(rows_of(node) for node in nodes(plan))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def rows_of(node: dict[str, Any]) -> int:
    removed = sum(count for name, count in node.items() if name.startswith("Rows Removed"))
    return int((node["Actual Rows"] + removed) * node["Actual Loops"])


def test_a_foreign_pin_costs_postgres_one_look_at_its_own_document(engine: Engine, stack: Stack, corpus: str) -> None:
    """Whether the row may be seen is asked of its document alone, not of all that the caller sees.

    A policy that reads every document for the first row it meets makes a text that is there tell itself apart.
    """
    dsn = stack.postgres.dsn(corpus, "retrieval_worker")
    statements = engine.replay._corpora.get(None).statements
    for who in (ONE_PERCENT, STRANGER):
        (foreign_pages, foreign_rows), (pages, rows) = (
            work(dsn, who, statements.pinned, statements.pins([pin], [])) for pin in (FOREIGN, NOTHING)
        )
        assert 0 <= foreign_pages - pages <= 8
        assert 0 <= foreign_rows - rows <= 9


def test_a_missing_pin_is_told_at_a_time_that_does_not_say_why(engine: Engine) -> None:
    """Hidden or nowhere: the answer waits for the same moment, past what Postgres needs for either."""
    for pin in (FOREIGN, NOTHING) * 10:
        started = time.perf_counter()
        replay(engine, ONE_PERCENT, pin)
        assert time.perf_counter() - started >= MISSING_SECONDS


def test_the_moment_of_many_missing_pins_is_as_far_off_as_they_are_many(engine: Engine) -> None:
    """Thousands of hidden rows take Postgres longer than one step."""
    hidden = [hash_chunk(f"Part {n} of a large document") for n in range(1, 501)]
    for pins in (hidden, [hash_chunk(f"nothing {n}") for n in range(500)]):
        answer = engine.replay.pinned(
            parse_job(PinnedReplay, {"required_chunk_hashes": pins}), JobContext(lambda: ONE_PERCENT)
        )
        (resolve,) = (stage for stage in answer["trace"]["stages"] if stage["stage"] == "resolve")
        assert answer["missing"] == 500
        assert resolve["duration_ms"] >= 1000 * MISSING_SECONDS * 500 // MISSING_PINS


# --- search -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hidden", "unknown"),
    [
        ({"document_ids": [LARGE]}, {"document_ids": ["nothing"]}),
        ({"sections": ["Secret"]}, {"sections": ["Nowhere"]}),
        ({"pages": [77]}, {"pages": [78]}),
    ],
)
def test_a_filter_that_only_hidden_chunks_match_is_work_of_no_other_size(
    engine: Engine, stack: Stack, corpus: str, hidden: dict[str, Any], unknown: dict[str, Any]
) -> None:
    """Exact search begins with the visible documents, so it never meets their chunks."""
    dsn = stack.postgres.dsn(corpus, "retrieval_worker")
    statements = engine.replay._corpora.get(None).statements
    for who in (ONE_PERCENT, STRANGER, EVERYTHING):
        (hidden_pages, hidden_rows), (pages, rows) = (
            work(dsn, who, statements.exact(filters), statements.values(None, 15, filters) | {"query": str(VECTOR)})
            for filters in (FilterSet(**hidden), FilterSet(**unknown))
        )
        assert 0 <= hidden_pages - pages <= 8
        assert 0 <= hidden_rows - rows <= 9


def test_the_trace_of_a_search_says_nothing_of_hidden_rows(engine: Engine) -> None:
    """Neither how many rows a corpus with permissions has, nor to the microsecond how long they took."""
    job = parse_job(RetrieveTopK, {"query_embedding": VECTOR, "filters": {"document_ids": [LARGE]}, "exact": True})
    for who in (ONE_PERCENT, EVERYTHING):
        answer = engine.retrieval.top_k(job, JobContext(lambda who=who: who))
        assert answer["trace"]["search"] == {"method": "exact"}
        assert all(stage["duration_ms"] == float(f"{stage['duration_ms']:.1g}") for stage in answer["trace"]["stages"])
    public = parse_job(RetrieveTopK, {"query_embedding": VECTOR, "corpus": "docs"})
    assert engine.retrieval.top_k(public, JobContext(lambda: None))["trace"]["search"]["corpus_rows"] > 0
