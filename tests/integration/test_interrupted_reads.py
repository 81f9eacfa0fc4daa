"""Reads that a signal interrupts: Ctrl-C stays Ctrl-C, and a soft time limit is the job's time-out."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from retrieval_client.errors import TimedOut
from worker.adapters.postgres.database import Database
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.settings import Settings


class TimeIsUp(Exception):
    """Raise in a signal handler, as a worker's soft time limit does."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """A signal half a second from now, whose handler raises."""

    def interrupt(*_: Any) -> None:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
def test_a_soft_time_limit_is_the_time_out_of_the_job(make_settings: Callable[..., Settings], database: str) -> None:
    """The next read succeeds."""
    with contextlib.closing(Database(make_settings(database))) as opened:
        with pytest.raises(TimedOut, match="ran into its time limit"):
            opened.read(Principal(), [(b"SELECT pg_sleep(20)", {})], 60)
        assert opened.read(Principal(), [(b"SELECT 1", {})]) == [[(1,)]]


def test_ctrl_c_that_psycopg_hides_is_ctrl_c_all_the_same(
    make_settings: Callable[..., Settings], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes while a pipeline ends, which can't end then: psycopg's error says only that."""

    def interrupted(connection: psycopg.Connection[Any]) -> Any:
        connection.pgconn.send_query(b"SELECT pg_sleep(20)")
        try:
            raise KeyboardInterrupt
        finally:
            raise psycopg.OperationalError("cannot exit pipeline mode while busy")

    with contextlib.closing(Database(make_settings(database))) as opened:
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Connection, "pipeline", interrupted)
            with pytest.raises(KeyboardInterrupt):
                opened.read(Principal(), [(b"SELECT 1", {})])
        assert opened.read(Principal(), [(b"SELECT 1", {})]) == [[(1,)]]
