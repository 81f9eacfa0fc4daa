"""Waiting by polling, with a bound so large that only a fault reaches it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

# A time limit here decides when a broken test ends, never whether a slow machine passes. `make guards` breaks tests on
# purpose, and shortens it.
PATIENCE = float(os.environ.get("TEST_PATIENCE_SECONDS", "180"))


def wait_for(condition: Callable[[], object], tell: Callable[[], str] = lambda: "", seconds: float = PATIENCE) -> None:
    """Poll a condition until it holds.

    Args:
        condition: what should come true.
        tell: what may say why it did not.
        seconds: how long at most.

    Raises:
        AssertionError: It did not come true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come true in {seconds:g} s {tell()}"
        time.sleep(0.02)


def waiting_sessions(admin: psycopg.Connection[Any]) -> int:
    """How many sessions wait for a lock in this database.

    In a transaction, `pg_stat_activity` shows only who was connected when it was first read; `pg_locks` shows all.
    """
    row = admin.execute(
        "SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_database ON oid = database"
        " WHERE NOT granted AND datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])
