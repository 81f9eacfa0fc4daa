"""Records of runs and conversations: whose they are is the database's to decide, whatever a statement says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from worker.adapters.postgres.database import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.cli.devstack.stack import Stack
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
    assert worker.read_records("alice", count) == [[(1,)]] * len(tables)
    assert worker.read_records("bob", count) == [[(0,)]] * len(tables)
    worker.close()
