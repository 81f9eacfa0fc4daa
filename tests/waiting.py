"""Waiting for what nobody announces: polled, and bounded so far off that only a fault gets there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

# A time limit here decides when a broken test ends, never whether a slow machine passes.
PATIENCE = 180.0


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
    """How many of the workers' sessions wait for a lock in this database."""
    row = admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'retrieval_worker' AND wait_event_type = 'Lock'"
        " AND datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])
