"""One digest for one run: however often it is replayed, and whatever is done to the corpus meanwhile."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.integration.asking import asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.hashing import hash_chunk
from synthetic.many_chunks import TENANT, chunk_text, load_many
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, CorpusFile, read
from worker.cli.loader import load
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.model import Principal
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

QUERY = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}


@pytest.fixture
def recorded(engine: Engine) -> list[dict[str, Any]]:
    """The chunks of a recorded run."""
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": RUN, "k": 10})
    return engine.retrieval.top_k(job, JobContext(lambda: asker("alice")))["chunks"]


def replay(engine: Engine, who: Principal | None = None, **fields: Any) -> dict[str, Any]:
    return engine.replay.pinned(
        parse_job(PinnedReplay, fields or {"run": RUN}), JobContext(lambda: who or asker("alice"))
    )


def ids(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["chunk_id"] for chunk in chunks]


# --- how often ----------------------------------------------------------------------------------


def test_ten_a_hundred_and_ten_thousand_replays_have_one_digest(engine: Engine, recorded: list[dict[str, Any]]) -> None:
    """Counted at ten, at a hundred and at ten thousand; each is the run's own chunks."""
    job = parse_job(PinnedReplay, {"run": RUN})
    who = asker("alice")
    digests: set[str] = set()
    seen = {}
    for n in range(1, 10_001):
        answer = engine.replay.pinned(job, JobContext(lambda: who))
        digests.add(answer["digest"])
        if n in (10, 100, 10_000):
            seen[n] = len(digests)
    assert seen == {10: 1, 100: 1, 10_000: 1}
    assert ids(answer["chunks"]) == ids(recorded)


# --- whatever is done to the corpus -------------------------------------------------------------


def ingest_again(admin: Admin) -> None:
    """Every document deleted and loaded again, last one first, its chunks from the last to the first."""
    documents = read(SAMPLES["documents"]).items[::-1]
    turned = tuple(document.model_copy(update={"chunks": document.chunks[::-1]}) for document in documents)
    admin.execute("DELETE FROM document_chunks")
    load(admin, CorpusFile("documents", turned), LexicalEmbedder())


DONE_TO_THE_CORPUS: dict[str, Callable[[Admin], Any]] = {
    "re-ingested in another order": ingest_again,
    "REINDEX": lambda admin: admin.execute("REINDEX TABLE document_chunks"),
    "VACUUM FULL": lambda admin: admin.execute("VACUUM FULL document_chunks"),
    "other embeddings": lambda admin: admin.execute(
        "UPDATE document_chunks SET embedding = (SELECT array_agg(random())::vector FROM generate_series(1, 768))"
    ),
    "no embeddings": lambda admin: admin.execute("UPDATE document_chunks SET embedding = NULL"),
    "HNSW dropped": lambda admin: admin.execute("DROP INDEX document_chunks_embedding_idx"),
    "every index but the keys dropped": lambda admin: admin.execute(
        "DROP INDEX document_chunks_hash_idx, document_chunks_document_idx, documents_owner_idx"
    ),
    "rows moved within the table": lambda admin: admin.execute(
        "UPDATE document_chunks SET page = page WHERE id IN (SELECT id FROM document_chunks ORDER BY md5(id) LIMIT 50)"
    ),
}


@pytest.mark.parametrize("what", DONE_TO_THE_CORPUS)
def test_a_run_has_one_digest_whatever_is_done(
    engine: Engine, recorded: list[dict[str, Any]], admin: Admin, what: str
) -> None:
    """The same digest, the same chunks in the same order, each of them exact; bare hashes and fill likewise."""
    hashes = [chunk["chunk_hash"] for chunk in recorded]
    before = [replay(engine), *(replay(engine, required_chunk_hashes=hashes, top_k=20, fill=by) for by in FILLS)]
    DONE_TO_THE_CORPUS[what](admin)
    after = [replay(engine), *(replay(engine, required_chunk_hashes=hashes, top_k=20, fill=by) for by in FILLS)]
    assert [answer["digest"] for answer in after] == [answer["digest"] for answer in before]
    assert ids(after[0]["chunks"]) == ids(recorded)
    assert {pin["verdict"] for pin in after[0]["pins"]} == {"exact"}


FILLS = ("text", "hash")


def test_a_run_has_one_digest_with_another_embedder_in_the_settings(
    engine: Engine, recorded: list[dict[str, Any]], make_settings: Callable[..., Settings], database: str
) -> None:
    """An embedder that cannot be reached: a replay asks no model."""
    before = replay(engine)
    elsewhere = {"kind": "openai", "model": "another", "version": "9", "base_url": "http://127.0.0.1:9/v1"}
    other = Engine(make_settings(database, embedder=elsewhere), time.perf_counter)
    try:
        after = replay(other)
    finally:
        other.close()
    assert after["digest"] == before["digest"]
    assert ids(after["chunks"]) == ids(recorded)


def test_a_run_has_one_digest_inside_a_corpus_of_a_hundred_thousand(
    engine: Engine, recorded: list[dict[str, Any]], admin: Admin
) -> None:
    """A hundred thousand chunks more change nothing; pins among them are found just so, before and after REINDEX."""
    before = replay(engine)
    load_many(admin, 100_000)
    after = replay(engine)
    assert after["digest"] == before["digest"]
    assert ids(after["chunks"]) == ids(recorded)
    rows = random.Random(7).sample(range(100_000), 1_000)
    hashes = [hash_chunk(chunk_text(row)) for row in rows]
    member = asker("somebody", tenant_id=TENANT)
    many = replay(engine, member, required_chunk_hashes=hashes)
    assert ids(many["chunks"]) == [f"c{row:08d}" for row in rows]
    admin.execute("REINDEX TABLE document_chunks")
    assert replay(engine, member, required_chunk_hashes=hashes)["digest"] == many["digest"]
    assert replay(engine)["digest"] == before["digest"]


# --- any edits ----------------------------------------------------------------------------------

edits = st.lists(
    st.tuples(st.sampled_from(["edit", "space", "delete", "swap", "copy"]), st.integers(0, 9), st.integers(0, 9)),
    max_size=6,
)


@examples(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=edits)
def test_a_pin_is_never_answered_with_other_text(
    engine: Engine, recorded: list[dict[str, Any]], admin: Admin, edits: list[tuple[str, int, int]]
) -> None:
    """Chunks edited, respaced, deleted, swapped, copied, in any order: an answer says what its pin was made of."""
    kept = admin.execute("SELECT id, document_id, text_content FROM document_chunks").fetchall()
    said = {chunk["chunk_hash"]: " ".join(chunk["text"].split()) for chunk in recorded}
    try:
        for what, i, j in edits:
            edit(admin, what, recorded[i]["chunk_id"], recorded[j]["chunk_id"])
        answers = [replay(engine), replay(engine, required_chunk_hashes=list(said))]
    finally:
        restore(admin, kept)
    for answer in answers:
        assert all(" ".join(chunk["text"].split()) == said[chunk["chunk_hash"]] for chunk in answer["chunks"])
        answered = [pin for pin in answer["pins"] if pin["verdict"] not in ("edited", "missing")]
        assert {pin["chunk_hash"] for pin in answered} == {chunk["chunk_hash"] for chunk in answer["chunks"]}
        assert all(pin["found_hash"] == pin["chunk_hash"] for pin in answered)


def edit(admin: Admin, what: str, one: str, other: str) -> None:
    """Do one thing to one chunk, or to two."""
    change = {
        "edit": "UPDATE document_chunks SET text_content = 'not: ' || text_content WHERE id = %(one)s",
        "space": "UPDATE document_chunks SET text_content = E'\\n ' || text_content WHERE id = %(one)s",
        "delete": "DELETE FROM document_chunks WHERE id = %(one)s",
        "swap": (
            "UPDATE document_chunks AS c SET text_content = o.text_content FROM document_chunks AS o"
            " WHERE (c.id, o.id) IN ((%(one)s, %(other)s), (%(other)s, %(one)s))"
        ),
        "copy": (
            "INSERT INTO document_chunks (id, document_id, text_content)"
            " SELECT id || '-copy', document_id, text_content FROM document_chunks WHERE id = %(one)s"
            " ON CONFLICT DO NOTHING"
        ),
    }[what]
    admin.execute(change, {"one": one, "other": other})


def restore(admin: Admin, kept: list[tuple[str, str, str]]) -> None:
    """All chunks as they were."""
    admin.execute("DELETE FROM document_chunks WHERE id LIKE '%-copy'")
    admin.cursor().executemany(
        "INSERT INTO document_chunks (id, document_id, text_content) VALUES (%s, %s, %s)"
        " ON CONFLICT (id) DO UPDATE SET text_content = excluded.text_content",
        kept,
    )
