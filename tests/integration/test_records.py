"""Records of runs and conversations: whose they are is the database's to decide, whatever a statement says."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.integration.asking import asker

from chaos.servers import PostgresServer
from retrieval_client.contract.run_jobs import RunName
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.runs import Runs
from worker.cli.loader import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack
    from worker.settings import Settings

# One row of alice's in each table.
ALICES = r"""
WITH run AS (INSERT INTO retrieval.runs (owner, subject_id, run_id) VALUES ('alice', 's', 'r') RETURNING id),
 record AS (INSERT INTO retrieval.run_records (run, task, step, job, job_sha256, claims_sha256, answer)
            SELECT id, 't', '', '{}', '\x00', '\x00', '{}' FROM run)
INSERT INTO retrieval.run_events (run, kind) SELECT id, 'recorded' FROM run;
INSERT INTO retrieval.run_pins
SELECT id, 't', '', 1, 'documents', '\x00', 1, '\x00', 'c', 'd', 0.5 FROM retrieval.runs;
INSERT INTO retrieval.run_checks (run, counts) SELECT id, '{}' FROM retrieval.runs;
INSERT INTO retrieval.run_feedback SELECT id, 't', '', 'documents', 'c', true FROM retrieval.runs;
INSERT INTO retrieval.packages VALUES ('alice', 'pkg_1', 'execute', '{}', '\x00');
INSERT INTO retrieval.responses
       (owner, response_id, conversation_id, mode, provider, model, claims_sha256, starting_prompt, question)
VALUES ('alice', 'resp_1', 'c1', 'qa', 'none', 'none', '\x00', '', 'what');
"""


@pytest.fixture
def tables(admin: psycopg.Connection[Any]) -> list[str]:
    """Every table of the worker's own that has owners, with a row of alice's in each."""
    admin.execute(ALICES)
    found = admin.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'retrieval'::regnamespace"
        " AND relname NOT IN ('embedders', 'term_statistics', 'text_statistics') ORDER BY 1"
    ).fetchall()
    return [f"retrieval.{name}" for (name,) in found]


@pytest.fixture
def as_worker(stack: Stack, database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection as the worker's role, on which anything may be said."""
    with psycopg.connect(stack.postgres.dsn(database, "retrieval_worker"), autocommit=True) as connection:
        yield connection


def seen(connection: psycopg.Connection[Any], tables: list[str], owner: str) -> dict[str, int]:
    """How many rows of each table there are for an owner, to a statement without a caller."""
    connection.execute("SELECT set_config('retrieval.owner', %s, false)", (owner,))
    return {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}  # type: ignore[index] # a count


def test_another_owners_records_are_hidden_by_the_database(
    as_worker: psycopg.Connection[Any], tables: list[str]
) -> None:
    """In every table, for every stated caller, and without one."""
    assert len(tables) >= 8
    assert seen(as_worker, tables, "alice") == dict.fromkeys(tables, 1)
    for other in ("bob", "", "Alice", "alice "):
        assert seen(as_worker, tables, other) == dict.fromkeys(tables, 0)


def test_the_worker_can_not_change_a_record(as_worker: psycopg.Connection[Any], tables: list[str]) -> None:
    """Nothing is deleted by it, and of what was answered nothing is written over."""
    as_worker.execute("SELECT set_config('retrieval.owner', 'alice', false)")
    for table in tables:
        for statement in (f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                as_worker.execute(statement)
    for change in ("runs SET owner = 'bob'", "run_records SET answer = '{}'", "run_pins SET rank = 2"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            as_worker.execute(f"UPDATE retrieval.{change}")


def test_what_is_read_for_an_owner_is_that_owners(settings: Settings, tables: list[str]) -> None:
    """Each transaction states whose records it is about, and nothing that opens the others'."""
    worker = Database(settings)
    count = [(f"SELECT count(*) FROM {table}".encode(), {}) for table in tables]
    assert worker.read_records(asker("alice"), count) == [[(1,)]] * len(tables)
    assert worker.read_records(asker("bob"), count) == [[(0,)]] * len(tables)
    worker.close()


@pytest.mark.parametrize(
    ("role_has", "committed_with"),
    [
        ("off", "on"),
        ("local", "local"),
        ("remote_write", "remote_write"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ],
)
def test_a_record_is_on_disk_before_it_is_answered_however_the_role_commits(
    settings: Settings, admin: psycopg.Connection[Any], role_has: str, committed_with: str
) -> None:
    """A crash would lose what was answered before the disk had it; which standbys to wait for is the operator's."""
    database = admin.info.dbname
    admin.execute(f"ALTER ROLE retrieval_worker IN DATABASE {database} SET synchronous_commit = {role_has}".encode())
    admin.execute(
        "CREATE TABLE seen (setting text); GRANT INSERT ON seen TO retrieval_worker;"
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER see AFTER INSERT ON retrieval.runs DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION see()"
    )
    with contextlib.closing(Database(settings)) as worker:
        Runs(worker).add(asker("alice"), RunName(subject_id="s", run_id="r"))
    assert admin.execute("SELECT setting FROM seen").fetchall() == [(committed_with,)]


def test_what_was_recorded_is_there_after_a_crash_though_the_role_does_not_wait(
    tmp_path: Path, make_settings: Callable[..., Settings]
) -> None:
    """`synchronous_commit = off` on the role, forty records, and every process of Postgres is killed."""
    names = [RunName(subject_id="s", run_id=str(number)) for number in range(40)]
    with PostgresServer(tmp_path) as server:
        with server.connect() as admin:
            migrate(admin)
            admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("ALTER ROLE retrieval_worker SET synchronous_commit = off")
        dsn = server.server.dsn(user="retrieval_worker")
        with contextlib.closing(Database(make_settings(database_connection_string=dsn))) as worker:
            for name in names:
                Runs(worker).add(asker("alice"), name)
            server.kill()
        server.start()
        with server.connect() as admin:
            assert admin.execute("SELECT count(*) FROM retrieval.runs").fetchone() == (len(names),)
