"""Reads that end early: what a signal interrupts ends the job, what Postgres or an operator ends is tried again."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from tests.alarms import TimeIsUp, alarm
from tests.waiting import wait_for

from retrieval_client.errors import InternalError, Unavailable
from worker.adapters.postgres.connections import PatientConnection, pipeline
from worker.adapters.postgres.database import CallerRead, Database
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.settings import Settings


SLEEPING = """
SELECT pid FROM pg_stat_activity
 WHERE query LIKE '%pg_sleep(20)%' AND state = 'active' AND datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def opened(make_settings: Callable[..., Settings], database: str) -> Iterator[Database]:
    """A database with one connection."""
    with contextlib.closing(Database(make_settings(database, pool={"max_size": 1}))) as made:
        yield made


@pytest.mark.parametrize("error", [TimeIsUp, KeyboardInterrupt])
def test_what_interrupts_a_read_comes_out_of_it(
    opened: Database, admin: psycopg.Connection[Any], error: type[BaseException]
) -> None:
    """A soft time limit and Ctrl-C, though psycopg hides both; the query is cancelled, and the next read succeeds."""
    with alarm(error), pytest.raises(error):
        opened.read(Principal(), [(b"SELECT pg_sleep(20)", {})], 60)
    wait_for(lambda: admin.execute(SLEEPING).fetchall() == [])
    assert opened.read(Principal(), [(b"SELECT 1", {})]) == [[(1,)]]


def ended_by(admin: psycopg.Connection[Any], function: str, times: int) -> threading.Thread:
    """Start a thread that ends the session or the query of a read, so many times."""

    def end() -> None:
        seen: set[int] = set()
        for _ in range(times):
            wait_for(lambda: {row[0] for row in admin.execute(SLEEPING)} - seen)
            (pid,) = {row[0] for row in admin.execute(SLEEPING)} - seen
            admin.execute(f"SELECT {function}(%s)", [pid])
            seen.add(pid)

    thread = threading.Thread(target=end)
    thread.start()
    return thread


@pytest.mark.parametrize(("function", "times"), [("pg_terminate_backend", 2), ("pg_cancel_backend", 1)])
def test_a_read_that_an_operator_ends_is_tried_again(
    opened: Database, admin: psycopg.Connection[Any], function: str, times: int
) -> None:
    """Only a time limit's end is a time-out: a lost session is replaced once; then the queue tries the job again."""
    thread = ended_by(admin, function, times)
    with pytest.raises(Unavailable):
        opened.read(Principal(), [(b"SELECT pg_sleep(20)", {})], 60)
    thread.join()
    assert opened.read(Principal(), [(b"SELECT 1", {})]) == [[(1,)]]


FAILING = (b"SELECT 1 / %(zero)s::int", {"zero": 0})
WAYS: dict[str, Callable[[Database], object]] = {
    "one caller": lambda opened: opened.read(Principal(), [FAILING], corpora=()),
    "several callers": lambda opened: opened.read_each([CallerRead(Principal(), [FAILING], ())], 5),
    "a write": lambda opened: opened.write(Principal(owner="alice"), [FAILING]),
}


@pytest.mark.parametrize("way", WAYS)
def test_failed_transactions_leave_no_prepared_statements(opened: Database, way: str) -> None:
    """They would stay in the session for its hour; the next transactions prepare theirs again."""
    for _ in range(20):
        with contextlib.suppress(InternalError):
            WAYS[way](opened)
    counting = (b"SELECT count(*) FROM pg_prepared_statements", {})
    ((count,),) = opened.read(Principal(), [counting], corpora=())[0]
    assert count < 5


def test_a_pipeline_is_sent_at_its_end_and_fails_as_its_first_statement_did(
    make_settings: Callable[..., Settings], database: str
) -> None:
    """The statements after it are skipped, which is no reason."""

    def send(*queries: LiteralString) -> psycopg.Cursor[Any]:
        with pipeline(connection) as statements:
            cursors = [connection.execute(query) for query in queries]
            assert statements.command_queue, "something was sent already"
        return cursors[-1]

    dsn = make_settings(database).database_connection_string.get_secret_value()
    with PatientConnection.connect(dsn, autocommit=True) as connection:
        assert send("SELECT 7").fetchall() == [(7,)]
        for _ in range(20):  # it depends on how many answers come at once
            with pytest.raises(psycopg.errors.DivisionByZero):
                send("SELECT 1 / 0", *10 * ["SELECT 8"])
        assert send("SELECT 8").fetchall() == [(8,)]
