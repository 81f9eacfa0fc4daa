"""Rights that change under a running worker: every read checks again, in its own transaction, and mends itself."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.integration.asking import HUM, asker
from tests.integration.asking import ask as ask_pipeline

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import SettingsError
from worker.adapters.postgres.database import Database
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

QUERY = lexical.embed([HUM])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}
CHANGES = {
    "row security of the chunks": (
        "ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE document_chunks ENABLE ROW LEVEL SECURITY",
    ),
    "row security of the documents": (
        "ALTER TABLE documents DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE documents ENABLE ROW LEVEL SECURITY",
    ),
    "BYPASSRLS": ("ALTER ROLE {role} BYPASSRLS", "ALTER ROLE {role} NOBYPASSRLS"),
    "superuser": ("ALTER ROLE {role} SUPERUSER", "ALTER ROLE {role} NOSUPERUSER"),
    "owner of the chunks": (
        "ALTER TABLE document_chunks OWNER TO {role}",
        "ALTER TABLE document_chunks OWNER TO postgres; GRANT SELECT ON document_chunks TO retrieval_worker, {role}",
    ),
    "owner of the documents": (
        "ALTER TABLE documents OWNER TO {role}",
        "ALTER TABLE documents OWNER TO postgres; GRANT SELECT ON documents TO retrieval_worker, {role}",
    ),
    "member of the owner": ("GRANT postgres TO {role}", "REVOKE postgres FROM {role}"),
    "member of a role with BYPASSRLS": (
        "CREATE ROLE {role}_by BYPASSRLS; GRANT {role}_by TO {role}",
        "DROP ROLE {role}_by",
    ),
    "another table of the same name": (
        (
            "ALTER TABLE document_chunks RENAME TO kept_chunks; CREATE TABLE document_chunks AS TABLE kept_chunks;"
            "GRANT SELECT ON document_chunks TO retrieval_worker"
        ),
        "DROP TABLE document_chunks; ALTER TABLE kept_chunks RENAME TO document_chunks",
    ),
}


@pytest.fixture
def role(admin: Admin, database: str) -> Iterator[str]:
    """A worker's role of this test alone: attributes of a role hold in every database."""
    name = f"worker_of_{database}_now"
    admin.execute(f"CREATE ROLE {name} LOGIN IN ROLE retrieval_worker")
    yield name
    admin.execute(f"ALTER ROLE {name} NOLOGIN NOSUPERUSER NOBYPASSRLS; REVOKE postgres FROM {name}")


@pytest.fixture
def engine(make_settings: Callable[..., Settings], database: str, role: str) -> Iterator[Engine]:
    """A running worker with one connection: what is prepared on it was planned with the rights of then."""
    made = Engine(make_settings(database, user=role, pool={"max_size": 1}), time.perf_counter)
    yield made
    made.close()


def searched(engine: Engine, **fields: Any) -> list[str]:
    answer = engine.retrieval.top_k(
        parse_job(RetrieveTopK, {"query_embedding": QUERY, **fields}), JobContext(lambda: asker("nobody"))
    )
    return [chunk["chunk_id"] for chunk in answer["chunks"]]


def replayed(engine: Engine, **fields: Any) -> list[str]:
    answer = engine.replay.pinned(parse_job(PinnedReplay, fields), JobContext(lambda: asker("nobody")))
    return [chunk["chunk_id"] for chunk in answer["chunks"]]


def merged(engine: Engine, legs: list[str]) -> list[str]:
    job = {"query": HUM, "searches": [{"corpus": "documents", "top_k": 9}], "legs": legs}
    answer = engine.hybrid.retrieve(parse_job(RetrieveHybrid, job), JobContext(lambda: asker("nobody")))
    return [chunk["chunk_id"] for chunk in answer["results"]["documents"]["chunks"]]


def asked(engine: Engine) -> list[str]:
    answer = ask_pipeline(engine, "nobody", question=HUM, mode="grounded", stop_after="build_sources")
    return [chunk["chunk_id"] for chunk in answer["package"]["candidates"]]


def cited(engine: Engine) -> Any:
    job = parse_job(BuildCitations, {"cite": RUN, "store": False})
    return engine.citing.build(job, JobContext(lambda: asker("nobody")))["citations"]["source_ids"]


def reads(engine: Engine, hidden: str) -> dict[str, Callable[[], Any]]:
    """Every way in which a caller's rows are read."""
    return {
        "search": lambda: searched(engine),
        "exact": lambda: searched(engine, exact=True),
        "hash": lambda: replayed(engine, required_chunk_hashes=[hidden]),
        "run": lambda: replayed(engine, run=RUN),
        "fill": lambda: replayed(engine, required_chunk_hashes=[], top_k=20, fill="text"),
        "recorded": lambda: searched(engine, run=RUN),
        "citations": lambda: cited(engine),
        "hybrid": lambda: merged(engine, ["primary"]),
        "full text": lambda: merged(engine, ["primary", "sparse"]),
        "pipeline": lambda: asked(engine),
        "verify": lambda: [one.verdicts for one in engine.verifying.all(asker("nobody"), "nobody")],
    }


def a_hidden_hash(admin: Admin) -> str:
    row = admin.execute(
        "SELECT 'sha256:' || encode(chunk_hash, 'hex') FROM document_chunks c JOIN documents d ON d.id = c.document_id"
        " GROUP BY chunk_hash HAVING bool_and(d.visibility = 'private') ORDER BY 1 LIMIT 1"
    ).fetchone()
    assert row
    return str(row[0])


@pytest.mark.parametrize("change", CHANGES)
def test_no_read_answers_while_its_rights_are_too_wide_and_all_do_again_after(
    engine: Engine, admin: Admin, role: str, change: str
) -> None:
    """Each read refuses as long as the policies do not bind the role, and answers as before once they do."""
    widen, mend = (statement.format(role=role) for statement in CHANGES[change])
    every = reads(engine, a_hidden_hash(admin))
    searched(engine, run=RUN)
    for _ in range(7):  # past the runs after which Postgres keeps a plan
        before = {name: read() for name, read in every.items()}
    admin.execute(widen)
    for name, read in every.items():
        with pytest.raises(SettingsError):
            pytest.fail(f"{name} answered {read()}")
    admin.execute(mend)
    for _ in range(7):
        assert {name: read() for name, read in every.items()} == before


def test_a_member_that_does_not_inherit_is_refused_at_each_read(engine: Engine, admin: Admin, role: str) -> None:
    """Such a role sees no more than before, and yet could take the owner's rights: refused, as at the start."""
    searched(engine)
    admin.execute(
        f"CREATE ROLE {role}_owner; ALTER TABLE document_chunks OWNER TO {role}_owner;"
        f"GRANT {role}_owner TO {role} WITH INHERIT FALSE"
    )
    with pytest.raises(SettingsError, match="is a member of its owner"):
        searched(engine)


def test_the_refusal_names_what_is_wrong(engine: Engine, admin: Admin) -> None:
    """The sentence is the one with which a start is refused."""
    searched(engine)
    admin.execute("ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY")
    with pytest.raises(SettingsError, match="document_chunks has no row-level security"):
        searched(engine)


def test_a_plan_made_with_wider_rights_is_never_used(engine: Engine, admin: Admin, role: str) -> None:
    """A statement first prepared while the role has BYPASSRLS is planned again after it."""
    admin.execute(f"ALTER ROLE {role} BYPASSRLS")
    for _ in range(7):
        with pytest.raises(SettingsError):
            searched(engine)
    admin.execute(f"ALTER ROLE {role} NOBYPASSRLS")
    assert replayed(engine, required_chunk_hashes=[a_hidden_hash(admin)]) == []
    hidden = {i for (i,) in admin.execute("SELECT id FROM documents WHERE visibility = 'private'")}
    answer = engine.retrieval.top_k(
        parse_job(RetrieveTopK, {"query_embedding": QUERY}), JobContext(lambda: asker("nobody"))
    )
    assert not hidden & {chunk["document_id"] for chunk in answer["chunks"]}


@pytest.mark.parametrize(
    ("widen", "mend"),
    [
        (
            "CREATE OR REPLACE VIEW chunks_view AS SELECT * FROM document_chunks",
            "CREATE OR REPLACE VIEW chunks_view WITH (security_invoker) AS SELECT * FROM document_chunks",
        ),
        (
            "ALTER VIEW chunks_view SET (security_invoker = off)",
            "ALTER VIEW chunks_view SET (security_invoker = on)",
        ),
        (
            "ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY",
            "ALTER TABLE document_chunks ENABLE ROW LEVEL SECURITY",
        ),
        (
            (
                "DROP VIEW chunks_view; CREATE MATERIALIZED VIEW chunks_view AS SELECT * FROM document_chunks;"
                "GRANT SELECT ON chunks_view TO retrieval_worker"
            ),
            (
                "DROP MATERIALIZED VIEW chunks_view;"
                "CREATE VIEW chunks_view WITH (security_invoker) AS SELECT * FROM document_chunks;"
                "GRANT SELECT ON chunks_view TO retrieval_worker"
            ),
        ),
        (
            (
                "CREATE TABLE open_chunks AS TABLE document_chunks; GRANT SELECT ON open_chunks TO retrieval_worker;"
                "CREATE OR REPLACE VIEW chunks_view WITH (security_invoker) AS SELECT * FROM open_chunks"
            ),
            "CREATE OR REPLACE VIEW chunks_view WITH (security_invoker) AS SELECT * FROM document_chunks",
        ),
    ],
    ids=["replaced", "altered", "table below", "materialised", "over another table"],
)
def test_a_view_is_checked_at_each_read(
    make_settings: Callable[..., Settings], database: str, settings: Settings, admin: Admin, widen: str, mend: str
) -> None:
    """A view that stops passing the caller's rights on is refused by the next read; a mended one is read again."""
    admin.execute("CREATE VIEW chunks_view WITH (security_invoker) AS SELECT * FROM document_chunks")
    admin.execute("GRANT SELECT ON chunks_view TO retrieval_worker")
    corpus = settings.corpora["documents"].model_dump() | {"table": "public.chunks_view", "documents": None}
    engine = Engine(make_settings(database, corpora={"documents": corpus}), time.perf_counter)
    for _ in range(7):
        before = searched(engine)
    admin.execute(widen)
    with pytest.raises(SettingsError):
        searched(engine)
    admin.execute(mend)
    assert searched(engine) == before
    engine.close()


def test_a_public_corpus_is_answered_while_another_is_not_safe(
    make_settings: Callable[..., Settings], database: str, admin: Admin
) -> None:
    """Only the tables that a job reads are asked for their policies; a public corpus needs none."""
    engine = Engine(make_settings(database), time.perf_counter)
    before = searched(engine, corpus="docs")
    admin.execute("ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY")
    admin.execute("ALTER TABLE doc_embeddings DISABLE ROW LEVEL SECURITY")
    assert searched(engine, corpus="docs") == before
    with pytest.raises(SettingsError):
        searched(engine)
    engine.close()


@pytest.mark.parametrize(
    "table", ["runs", "run_records", "run_pins", "run_events", "run_checks", "run_feedback", "packages", "responses"]
)
def test_records_are_not_read_without_row_security(settings: Settings, admin: Admin, table: str) -> None:
    """The worker's own tables are checked like a corpus, when they are read and when they are written."""
    database = Database(settings)
    database.read_records(asker("alice"), [(b"SELECT", {})])
    admin.execute(f"ALTER TABLE retrieval.{table} DISABLE ROW LEVEL SECURITY")
    for attempt in (database.read_records, database.write):
        with pytest.raises(SettingsError, match=f"retrieval.{table} has no row-level security"):
            attempt(asker("alice"), [(b"SELECT", {})])
    with pytest.raises(SettingsError):
        database.audit([(b"SELECT", {})])
    with pytest.raises(SettingsError) as raised:
        Database(settings)
    # They are no corpus, which could be declared public.
    assert "public = true" not in raised.value.message
    assert f"ALTER TABLE retrieval.{table} ENABLE ROW LEVEL SECURITY, or run 'retrieval-worker migrate'" in str(raised)
    admin.execute(f"ALTER TABLE retrieval.{table} ENABLE ROW LEVEL SECURITY")
    assert database.read_records(asker("alice"), [(b"SELECT 1", {})]) == [[(1,)]]
    database.close()


def test_a_table_can_not_change_between_the_check_and_the_read(settings: Settings, admin: Admin) -> None:
    """The check locks what the transaction is going to read: a change waits until it has been read."""
    database = Database(settings)
    admin.execute("SELECT pg_advisory_lock(17)")
    reading = threading.Thread(
        target=database.read, args=(asker("alice"), [(b"SELECT pg_advisory_xact_lock_shared(17)", {})])
    )
    reading.start()
    waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while admin.execute(waiting).fetchone() is None:
        assert reading.is_alive()
    admin.execute("SET lock_timeout = '100ms'")
    try:
        for table in ("document_chunks", "documents"):
            with pytest.raises(psycopg.errors.LockNotAvailable):
                admin.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    finally:
        admin.execute("SELECT pg_advisory_unlock(17)")
        reading.join()
        database.close()
