"""List of an owner's runs, newest first, page by page, with what their records and last checks say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from worker.adapters.postgres.database import Database
    from worker.model import Principal


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Filter of a list of runs; None: no such filter.

    Attributes:
        text: only runs with this text, in any case, in a question, a name or the day.
        subject_id: only runs of this subject.
        task: only runs with a record of this task.
        mode: only runs with an answer of this mode.
        outcome: only runs with an answer of this status, or ``degraded``.
        drift: ``drifted``, ``same`` or ``unchecked``, by the last check.
        since: only runs of this day or later.
        until: only runs of this day or earlier.
    """

    text: str | None = None
    subject_id: str | None = None
    task: str | None = None
    mode: str | None = None
    outcome: str | None = None
    drift: str | None = None
    since: date | None = None
    until: date | None = None


@dataclass(frozen=True, slots=True)
class ListedRun:
    """Run of a list.

    Attributes:
        key: the worker's own number of the run, for the next page.
        subject_id, run_id: its name.
        created_at: time of its first record.
        tasks: tasks of its records, in the order of recording.
        modes: mode of each record, None for tasks without modes.
        questions: question of each record, None if it has only an embedding.
        outcomes: status of each record, None if it has none.
        degraded: True if a part of an answer is missing.
        verdicts: verdict → number of pins at the last check; None if never checked.
        checked_at: time of the last check.
    """

    key: int
    subject_id: str
    run_id: str
    created_at: datetime
    tasks: Sequence[str]
    modes: Sequence[str | None]
    questions: Sequence[str | None]
    outcomes: Sequence[str | None]
    degraded: bool
    verdicts: Mapping[str, int] | None
    checked_at: datetime | None

    @property
    def drift(self) -> str:
        """State at the last check: ``drifted``, ``same`` or ``unchecked``."""
        if self.verdicts is None:
            return "unchecked"
        return "drifted" if self.verdicts.get("edited") or self.verdicts.get("missing") else "same"


_SQL = blocks("run_list")
_SELECT_PAGE = _SQL["select_page"]


class RunList:
    """List of recorded runs.

    Args:
        database: the database that holds them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, caller: Principal, run_filter: RunFilter, before_key: int | None, limit: int) -> list[ListedRun]:
        """Return up to ``limit`` of an owner's runs, newest first.

        Args:
            caller: the owner.
            run_filter: filters.
            before_key: only runs before this one, by its key; None: from the newest.
            limit: most runs.
        """
        values: dict[str, Any] = {**asdict(run_filter), "owner": caller.owner, "before": before_key, "limit": limit}
        (rows,) = self._database.read_records(caller, [(_SELECT_PAGE, values)])
        return [ListedRun(*row) for row in rows]
