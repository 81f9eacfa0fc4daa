"""Row-level security: who may start a worker, and that no job sees another's rights."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import asker

from retrieval_client.errors import InternalError, RetrievalError, SettingsError, TimedOut, Unavailable
from worker.adapters.postgres.database import Database, check
from worker.adapters.postgres.search import Corpus
from worker.cli.doctor import examine
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.settings import Settings

QUESTION = lexical.embed(["channel 18"])[0]


# --- refusing to start --------------------------------------------------------------------------


def test_a_superuser_is_refused(make_settings: Callable[..., Settings], database: str) -> None:
    """Row-level security does not bind a superuser."""
    with pytest.raises(SettingsError, match="superuser"):
        check(make_settings(database, user="postgres"))


@pytest.mark.parametrize(
    ("grant", "message"),
    [
        ("ALTER ROLE {role} BYPASSRLS", "has BYPASSRLS"),
        ("ALTER TABLE document_chunks OWNER TO {role}", "owns public.document_chunks"),
        ("ALTER TABLE documents OWNER TO {role}", "owns public.documents"),
        ("GRANT postgres TO {role}", "is a member of postgres"),
        (
            "CREATE ROLE {role}_owner; ALTER TABLE document_chunks OWNER TO {role}_owner; GRANT {role}_owner TO {role}",
            "is a member of its owner",
        ),
        ("CREATE ROLE {role}_by BYPASSRLS; GRANT {role}_by TO {role}", "is a member of {role}_by"),
        ("REVOKE SELECT ON document_chunks FROM {role}", "GRANT SELECT ON public.document_chunks"),
        ("REVOKE USAGE ON SCHEMA retrieval FROM {role}", "GRANT USAGE ON SCHEMA retrieval TO {role}"),
        ("ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY", "has no row-level security"),
        (
            "ALTER TABLE documents DISABLE ROW LEVEL SECURITY",
            "corpus documents: public.documents has no row",
        ),
        (
            "ALTER TABLE document_chunks RENAME COLUMN page TO leaf",
            "columns.page: public.document_chunks has no column page",
        ),
        ("ALTER TABLE document_chunks RENAME TO elsewhere", "there is no table public.document_chunks"),
    ],
)
def test_a_set_up_through_which_rows_could_leak_is_refused(
    make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any], grant: str, message: str
) -> None:
    """Each way past the policies stops the start, with a sentence that names it."""
    role = f"worker_of_{database}"
    admin.execute(
        f"CREATE ROLE {role} LOGIN NOINHERIT;"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};"
        f"GRANT USAGE ON SCHEMA retrieval TO {role}"
    )
    settings = make_settings(database, user=role)
    check(settings)
    admin.execute(grant.format(role=role))
    try:
        with pytest.raises(SettingsError) as caught:
            check(settings)
        assert message.format(role=role) in caught.value.message
        assert any(finding.level == "problem" for finding in examine(settings))
    finally:
        admin.execute(f"ALTER ROLE {role} NOLOGIN NOBYPASSRLS; REVOKE postgres FROM {role}")


VIEWS = {
    "without security_invoker": ("CREATE VIEW chunks_view AS SELECT * FROM document_chunks", "security_invoker = true"),
    "with security_invoker off": (
        "CREATE VIEW chunks_view WITH (security_invoker = off) AS SELECT * FROM document_chunks",
        "security_invoker = true",
    ),
    "materialized": (
        "CREATE MATERIALIZED VIEW chunks_view AS SELECT * FROM document_chunks",
        "neither a table nor a view",
    ),
    "over an unsafe view": (
        (
            "CREATE VIEW inner_view AS SELECT * FROM document_chunks; GRANT SELECT ON inner_view TO retrieval_worker;"
            "CREATE VIEW chunks_view WITH (security_invoker) AS SELECT * FROM inner_view"
        ),
        "public.inner_view runs with its owner's rights",
    ),
    "over an open table": (
        (
            "CREATE TABLE open_chunks AS SELECT * FROM document_chunks;"
            "GRANT SELECT ON open_chunks TO retrieval_worker;"
            "CREATE VIEW chunks_view WITH (security_invoker) AS SELECT * FROM open_chunks"
        ),
        "public.open_chunks has no row-level security",
    ),
}


def view_settings(
    make_settings: Callable[..., Settings], database: str, settings: Settings, **changes: Any
) -> Settings:
    corpus = settings.corpora["documents"].model_dump() | {"table": "public.chunks_view", **changes}
    return make_settings(database, corpora={"documents": corpus})


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_that_does_not_pass_the_callers_rights_is_refused(
    make_settings: Callable[..., Settings], database: str, settings: Settings, admin: psycopg.Connection[Any], name: str
) -> None:
    """A view must be security_invoker, and so must all below it; its tables must have row-level security."""
    statement, message = VIEWS[name]
    admin.execute(statement)
    admin.execute("GRANT SELECT ON chunks_view TO retrieval_worker")
    with pytest.raises(SettingsError) as caught:
        check(view_settings(make_settings, database, settings))
    assert message in caught.value.message


@pytest.mark.parametrize("word", ["true", "on", "1", "yes"])
def test_a_security_invoker_view_answers_with_the_callers_rights(
    make_settings: Callable[..., Settings], database: str, settings: Settings, admin: psycopg.Connection[Any], word: str
) -> None:
    """However the option is spelt, the policies of the table below decide."""
    admin.execute(f"CREATE VIEW chunks_view WITH (security_invoker = {word}) AS SELECT * FROM document_chunks")
    admin.execute("GRANT SELECT ON chunks_view TO retrieval_worker")
    changed = view_settings(make_settings, database, settings)
    engine = Database(changed)
    corpus = Corpus("documents", changed.corpora["documents"], changed.search, engine.types["documents"])
    table = Database(settings)
    plain = Corpus("documents", settings.corpora["documents"], settings.search, table.types["documents"])
    for user in ("alice", "bob"):
        through_view = corpus.nearest(engine, asker(user), QUESTION, 15, NO_FILTERS, exact=False)
        through_table = plain.nearest(table, asker(user), QUESTION, 15, NO_FILTERS, exact=False)
        assert through_view.candidates == through_table.candidates
    engine.close()
    table.close()


def test_a_public_corpus_needs_no_policies_and_no_principal(
    make_settings: Callable[..., Settings], database: str, settings: Settings, admin: psycopg.Connection[Any]
) -> None:
    """A corpus declared public is answered without a caller."""
    admin.execute("CREATE TABLE open_chunks AS SELECT * FROM document_chunks")
    admin.execute("GRANT SELECT ON open_chunks TO retrieval_worker")
    corpus = settings.corpora["documents"].model_dump() | {"table": "open_chunks", "public": True, "documents": None}
    changed = make_settings(database, corpora={"open": corpus})
    from retrieval_client.contract.base import parse_job
    from retrieval_client.contract.jobs import RetrieveTopK

    engine = Engine(changed, time.perf_counter)
    job = parse_job(RetrieveTopK, {"query_embedding": QUESTION.tolist()})
    assert engine.retrieval.top_k(job, JobContext(lambda: None))["status"] == "ok"
    engine.close()


# --- one caller's rights, on one connection -----------------------------------------------------


@pytest.fixture
def one_connection(make_settings: Callable[..., Settings], database: str) -> Settings:
    return make_settings(database, pool={"max_size": 1}, search={"statement_timeout_seconds": 60})


def documents_of(corpus: Corpus, engine: Database, user: str) -> frozenset[str]:
    found = corpus.nearest(engine, asker(user), QUESTION, 15, NO_FILTERS, exact=False)
    return frozenset(candidate.chunk.id for candidate in found.candidates)


def failing(engine: Database, user: str, statement: bytes) -> None:
    with pytest.raises(RetrievalError):
        engine.read(asker(user), [(statement, {})])


# Postgres ends the second as it ends any statement that takes too long, but sooner than settings say.
TOO_LONG = [(b"SELECT pg_sleep(60)", {})], 0.02


@pytest.mark.parametrize("turns", [300, 3_000])
def test_no_caller_sees_anothers_rights_over_thousands_of_jobs_on_one_connection(
    one_connection: Settings, turns: int
) -> None:
    """Callers alternate on one connection, errors and time-outs among them: no answer ever changes."""
    engine = Database(one_connection)
    corpus = Corpus("documents", one_connection.corpora["documents"], one_connection.search, engine.types["documents"])
    users = ("alice", "bob", "carol", "nobody", "")
    expected = {user: documents_of(corpus, engine, user) for user in users}
    assert len(set(expected.values())) == 4  # an unknown user and '' see the same: what is public
    rng = random.Random(7)
    for turn in range(turns):
        user = rng.choice(users)
        if turn % 100 == 50:
            failing(engine, user, b"SELECT 1/0")
        elif turn % 100 == 75:
            with pytest.raises(TimedOut):
                engine.read(asker(user), *TOO_LONG)
        else:
            assert documents_of(corpus, engine, user) == expected[user]
    engine.close()


def test_nothing_of_a_caller_stays_on_its_connection(one_connection: Settings, admin: psycopg.Connection[Any]) -> None:
    """After a job, after an error and after a time-out the settings are empty again, and the session can't write."""
    engine = Database(one_connection)
    engine.read(asker("alice"), [(b"SELECT 1", {})])
    with pytest.raises(TimedOut):
        engine.read(asker("alice"), *TOO_LONG)
    failing(engine, "alice", b"SELECT 1/0")
    state = b"SELECT coalesce(current_setting('app.user_id', true), ''), current_setting('transaction_read_only')"
    with engine._pool.connection() as connection:
        assert connection.execute(state).fetchone() == ("", "off")
    failing(engine, "alice", b"CREATE TABLE public.written (x int)")
    assert admin.execute("SELECT to_regclass('public.written')").fetchone() == (None,)
    engine.close()


def test_a_reading_transaction_can_not_write(one_connection: Settings, admin: psycopg.Connection[Any]) -> None:
    """Not even where the role may: what a search could be made to say stays without effect."""
    engine = Database(one_connection)
    insert = b"INSERT INTO retrieval.runs (owner, subject_id, run_id) VALUES ('alice', 's', 'r')"
    with pytest.raises(Unavailable, match="25006"):
        engine.read_records(asker("alice"), [(insert, {})])
    assert admin.execute("SELECT count(*) FROM retrieval.runs").fetchone() == (0,)
    engine.write(asker("alice"), [(insert, {})])
    assert admin.execute("SELECT count(*) FROM retrieval.runs").fetchone() == (1,)
    engine.close()


def test_what_is_read_together_is_read_in_one_transaction(one_connection: Settings) -> None:
    """And the next on the same connection in another, which can't be made to write either."""
    engine = Database(one_connection)
    which = b"SELECT pg_backend_pid(), transaction_timestamp(), current_setting('transaction_read_only')"
    first, second = (engine.read(asker("alice"), [(which, {})] * 5) for _ in range(2))
    (one,), (other,) = ({rows[0] for rows in read} for read in (first, second))
    assert one[0] == other[0]
    assert one[1] < other[1]
    assert one[2] == other[2] == "on"
    allow = b"SELECT set_config('transaction_read_only', 'off', true)"
    with pytest.raises((InternalError, SettingsError, Unavailable)):
        engine.read(asker("alice"), [(allow, {})])
    engine.close()


def test_an_error_of_postgres_quotes_no_value(one_connection: Settings) -> None:
    """The error's own text would: only the SQLSTATE is shown."""
    engine = Database(one_connection)
    with pytest.raises(InternalError) as caught:
        engine.read(asker("alice"), [(b"SELECT chr(0) || 'canary-4711'", {})])
    assert caught.value.message == "Postgres failed (SQLSTATE 54000)"
    with pytest.raises(SettingsError, match=r"\(SQLSTATE 22P02\): a view or a generated") as cast:
        engine.read(asker("alice"), [(b"SELECT 'canary-4711'::int", {})])
    assert "canary" not in cast.value.message
    engine.close()


def test_a_dead_connection_is_replaced_once_and_the_job_answered(
    one_connection: Settings, admin: psycopg.Connection[Any]
) -> None:
    """A terminated pooled connection costs no job its answer."""
    engine = Database(one_connection)
    engine.read(asker("alice"), [(b"SELECT 1", {})])
    admin.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker' AND datname = %s",
        (admin.info.dbname,),
    )
    assert engine.read(asker("alice"), [(b"SELECT 1", {})]) == [[(1,)]]
    engine.close()


def test_a_database_that_is_away_is_unavailable(make_settings: Callable[..., Settings]) -> None:
    """No server: `Unavailable`, which the queue tries again; nothing of the connection string is shown."""
    settings = make_settings(database_connection_string="postgresql://u:secret@127.0.0.1:1/db")
    with pytest.raises(Unavailable) as caught:
        check(settings)
    assert caught.value.message == "Postgres is away"
