"""Rows that are taken while Postgres works at the next statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from worker.adapters.postgres import Database
from worker.errors import InternalError, TimedOut
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from worker.adapters.postgres import Row, Statement
    from worker.settings import Settings

NOBODY = Principal()
LOCK = 4711
WAITS: Statement = (b"SELECT 'waited' FROM (SELECT pg_advisory_xact_lock_shared(%(lock)s)) AS lock", {"lock": LOCK})


def many(name: str) -> Statement:
    """More than a server keeps to itself before it sends."""
    return (b"SELECT %(name)s::text, repeat('x', 100) FROM generate_series(1, 1000)", {"name": name})


@pytest.fixture
def reader(settings: Settings) -> Iterator[Database]:
    opened = Database(settings)
    yield opened
    opened.close()


def test_rows_are_taken_before_the_last_statement_has_answered(
    reader: Database, admin: psycopg.Connection[Any]
) -> None:
    """The last one waits for a lock that is given back when the first one's rows are taken."""
    admin.execute("SELECT pg_advisory_lock(%s)", (LOCK,))

    def take(rows: list[Row]) -> tuple[str, int]:
        if rows[0][0] == "first":
            admin.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))
        return rows[0][0], len(rows)

    taken = reader.read_by_and_by(NOBODY, [many("first"), many("second"), WAITS], take)
    assert taken == [("first", 1000), ("second", 1000), ("waited", 1)]


@pytest.mark.parametrize("names", [(), ("only",), ("a", "b", "c", "d", "e")])
def test_what_is_taken_is_in_the_order_of_the_statements(reader: Database, names: tuple[str, ...]) -> None:
    """Each statement's rows once, and of none nothing."""
    assert reader.read_by_and_by(NOBODY, [many(name) for name in names], lambda rows: rows[0][0]) == [*names]


@pytest.mark.parametrize(
    ("fails", "error"),
    [
        ((b"SELECT 1 / %(zero)s::int", {"zero": 0}), InternalError),
        ((b"SELECT pg_sleep(60), set_config('statement_timeout', %(of)s, true)", {"of": "1"}), TimedOut),
    ],
)
def test_a_statement_that_fails_fails_them_all(
    make_settings: Callable[..., Settings], database: str, fails: Statement, error: type[Exception]
) -> None:
    """Whatever was taken before; and the next job gets a connection that works."""
    reader = Database(make_settings(database, search={"statement_timeout_seconds": 1}))
    taken: list[str] = []
    try:
        with pytest.raises(error):
            reader.read_by_and_by(NOBODY, [many("first"), many("second"), fails], lambda rows: taken.append(rows[0][0]))
        assert reader.read_by_and_by(NOBODY, [many("next")], lambda rows: rows[0][0]) == ["next"]
    finally:
        reader.close()


def test_one_that_can_not_take_rows_spoils_no_connection(reader: Database) -> None:
    """Its own error comes out, and the next job is answered."""

    def take(rows: list[Row]) -> None:
        raise ZeroDivisionError(len(rows))

    with pytest.raises(ZeroDivisionError):
        reader.read_by_and_by(NOBODY, [many("first"), many("second"), many("third")], take)
    assert reader.read(NOBODY, [(b"SELECT 1", {})]) == [[(1,)]]
