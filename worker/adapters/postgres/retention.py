"""Retention: deletes records that are kept no longer, a bounded number in each transaction.

By a connection of a role that owns the tables: the worker's own may not delete, so no job can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from retrieval_client.errors import SettingsError
from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    import psycopg

_SQL = blocks("retention")
_IS_RESTRICTED = _SQL["is_restricted"]
_CUTOFF = _SQL["cutoff"]
_COUNT = _SQL["count"]
_DUE_RUNS = _SQL["due_runs"]
_DELETE_RUNS = _SQL["delete_runs"]
_DELETE_RESPONSES = _SQL["delete_responses"]
_DELETE_PACKAGES = _SQL["delete_packages"]

AT_ONCE = 100
"""Most records that one transaction deletes: jobs that write others wait for none of them."""


class DueRun(NamedTuple):
    """Run of which nothing was recorded for long."""

    key: int
    owner: str
    subject_id: str
    run_id: str


class Retention:
    """Retention of one database; the connection is in autocommit."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def check(self) -> None:
        """Check that the role sees all records: else it would delete none, and say so.

        Raises:
            SettingsError: it does not, or there are no records.
        """
        (is_restricted,) = self._connection.execute(_IS_RESTRICTED).fetchone() or (None,)
        if is_restricted is None:
            raise SettingsError("there are no tables of records here: 'retrieval-worker migrate' installs them")
        if is_restricted:
            raise SettingsError(
                "--dsn (MIGRATION_CONNECTION_STRING): row-level security hides records from this role; name the one "
                "that owns the tables"
            )

    def cutoff(self, days: int | None) -> datetime | None:
        """Return the server's time less some days; None for None."""
        if days is None:
            return None
        (moment,) = self._connection.execute(_CUTOFF, {"days": days}).fetchone() or (None,)
        return moment

    def count(self, runs: datetime | None, conversations: datetime | None) -> tuple[int, int]:
        """Return how many runs, and answers of conversations, are due at these cutoffs."""
        row = self._connection.execute(_COUNT, {"runs": runs, "conversations": conversations}).fetchone()
        return row or (0, 0)

    def delete_runs(self, cutoff: datetime, forget: Callable[[DueRun], None]) -> Iterator[int]:
        """Delete the runs that are due; yield how many after each transaction.

        Args:
            cutoff: runs of which nothing was recorded since are due.
            forget: deletes a run's files, before the run is deleted; if it fails, the run stays.
        """
        last_key = 0
        while True:
            with self._connection.transaction():
                values = {"cutoff": cutoff, "last_key": last_key, "limit": AT_ONCE}
                due_runs = [DueRun(*row) for row in self._connection.execute(_DUE_RUNS, values).fetchall()]
                for run in due_runs:
                    forget(run)
                self._connection.execute(_DELETE_RUNS, {"runs": [run.key for run in due_runs]})
            if not due_runs:
                return
            last_key = due_runs[-1].key
            yield len(due_runs)

    def delete_answers(self, cutoff: datetime) -> Iterator[int]:
        """Delete answers of conversations in which nothing was asked since; yield as above."""
        return self._delete(_DELETE_RESPONSES, cutoff)

    def delete_packages(self, cutoff: datetime) -> Iterator[int]:
        """Delete packages made before, of which no answer is left; yield as above."""
        return self._delete(_DELETE_PACKAGES, cutoff)

    def _delete(self, statement: bytes, cutoff: datetime) -> Iterator[int]:
        while count := self._connection.execute(statement, {"cutoff": cutoff, "limit": AT_ONCE}).rowcount:
            yield count
