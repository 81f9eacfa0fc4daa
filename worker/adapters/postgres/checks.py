"""Recorded runs that are due for a check against their corpora, and the result of each run's last check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from worker.adapters.postgres.runs import pin_of
from worker.adapters.postgres.sql import blocks
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres.database import Database, Row, Statement
    from worker.core.pins.pinning import Pin


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run, and the pins of all its records.

    Attributes:
        key: the worker's own number of the run.
        subject_id, run_id: its name, unique to its owner.
        pins: its pins, in the order of recording.
        last: verdict → number of pins, from the last check; None if never checked.
    """

    key: int
    subject_id: str
    run_id: str
    pins: Sequence[Pin]
    last: Mapping[str, int] | None


_SQL = blocks("checks")
_COUNT = _SQL["count"]
_SELECT_NEXT = _SQL["select_next"]
_SELECT_DUE = _SQL["select_due"]
_SELECT_PINS = _SQL["select_pins"]
_UPSERT_CHECKS = _SQL["upsert_checks"]
_INSERT_DRIFT = _SQL["insert_drift"]


class Checks:
    """Runs to check, and the results of checks.

    Args:
        database: the database that holds them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def count(self, owner: str | None, subject_id: str | None, run_id: str | None) -> int:
        """Return the number of runs; see `next`."""
        values = {"owner": owner, "subject_id": subject_id, "run_id": run_id}
        ((row,),) = self._read(owner, [(_COUNT, values)])
        return int(row[0])

    def next(
        self, owner: str | None, subject_id: str | None, run_id: str | None, last_key: int, limit: int
    ) -> list[StoredRun]:
        """Return the first ``limit`` runs after ``last_key``: of one owner (None: all), one subject, one name."""
        values = {"owner": owner, "subject_id": subject_id, "run_id": run_id, "after": last_key, "limit": limit}
        (rows,) = self._read(owner, [(_SELECT_NEXT, values)])
        return self._with_pins(owner, rows)

    def due(self, limit: int) -> list[StoredRun]:
        """Return the ``limit`` runs of all owners that were never checked, or longest ago."""
        (rows,) = self._read(None, [(_SELECT_DUE, {"limit": limit})])
        return self._with_pins(None, rows)

    def note(self, owner: str | None, run_counts: Sequence[tuple[StoredRun, Mapping[str, int]]]) -> None:
        """Store the results of checks; a result that differs from the last also becomes an event of the run."""
        drifted = [(run.key, Jsonb(counts)) for run, counts in run_counts if counts != (run.last or _unchanged(run))]
        values = {
            "runs": [run.key for run, _ in run_counts],
            "counts": [Jsonb(counts) for _, counts in run_counts],
            "drifted": [key for key, _ in drifted],
            "drift": [counts for _, counts in drifted],
        }
        statements = [(_UPSERT_CHECKS, values), (_INSERT_DRIFT, values)]
        if owner is None:
            self._database.audit(statements, write=True)
        else:
            self._database.write(Principal(owner=owner), statements)

    def _with_pins(self, owner: str | None, runs: Sequence[Row]) -> list[StoredRun]:
        (rows,) = self._read(owner, [(_SELECT_PINS, {"runs": [run[0] for run in runs]})])
        pins: dict[int, list[Pin]] = {}
        for key, *pin in rows:
            pins.setdefault(key, []).append(pin_of(*pin))
        return [StoredRun(key, subject, name, pins.get(key, []), counts) for key, subject, name, counts in runs]

    def _read(self, owner: str | None, statements: Sequence[Statement]) -> list[list[Row]]:
        if owner is None:
            return self._database.audit(statements)
        return self._database.read_records(Principal(owner=owner), statements)


def _unchanged(run: StoredRun) -> dict[str, Any]:
    return {"exact": len(run.pins)} if run.pins else {}
