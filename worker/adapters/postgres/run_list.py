"""List of an owner's runs, newest first, page by page, with what their records and last checks say."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from worker.adapters.postgres.database import Database


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


# A job without a mode has that of the settings then: its request says which.
_MODE = b"coalesce(answer #>> '{package,package,request,mode}', job ->> 'mode')"
_STATUS = b"coalesce(answer -> 'response' ->> 'status', answer ->> 'status')"
_DEGRADED = (
    b"json_array_length(coalesce(answer -> 'package' -> 'package' -> 'degraded', answer -> 'degraded', '[]')) > 0"
)

_SELECT_PAGE = (
    b"""
SELECT runs.id, subject_id, run_id, runs.created_at, r.tasks, r.modes, r.questions, r.outcomes, r.degraded,
       c.counts, c.checked_at
  FROM retrieval.runs
  LEFT JOIN retrieval.run_checks c ON c.run = runs.id
 CROSS JOIN LATERAL (
       SELECT coalesce(array_agg(task ORDER BY sequence), '{}') AS tasks,
              coalesce(array_agg(MODE ORDER BY sequence), '{}') AS modes,
              coalesce(array_agg(coalesce(job ->> 'question', job ->> 'query') ORDER BY sequence), '{}') AS questions,
              coalesce(array_agg(STATUS ORDER BY sequence), '{}') AS outcomes,
              coalesce(bool_or(DEGRADED), false) AS degraded
         FROM retrieval.run_records WHERE run = runs.id) r
 WHERE owner = %(owner)s AND (%(before)s::bigint IS NULL OR runs.id < %(before)s)
   AND (%(subject_id)s::text IS NULL OR subject_id = %(subject_id)s)
   AND (%(text)s::text IS NULL OR pg_catalog.strpos(
        pg_catalog.lower(pg_catalog.concat_ws(' / ', subject_id, runs.run_id, runs.created_at::date,
                                              pg_catalog.array_to_string(r.questions, ' / '))),
        pg_catalog.lower(%(text)s)) > 0)
   AND (%(since)s::date IS NULL OR runs.created_at >= %(since)s::date)
   AND (%(until)s::date IS NULL OR runs.created_at < %(until)s::date + 1)
   AND (%(task)s::text IS NULL OR %(task)s = ANY (r.tasks))
   AND (%(mode)s::text IS NULL OR %(mode)s = ANY (r.modes))
   AND (%(outcome)s::text IS NULL OR %(outcome)s = ANY (r.outcomes) OR (%(outcome)s = 'degraded' AND r.degraded))
   AND CASE %(drift)s::text WHEN 'unchecked' THEN c.run IS NULL
                            WHEN 'drifted' THEN c.counts ?| ARRAY['edited', 'missing']
                            WHEN 'same' THEN NOT c.counts ?| ARRAY['edited', 'missing']
                            ELSE true END
 ORDER BY runs.id DESC LIMIT %(limit)s
""".replace(b"MODE", _MODE)
    .replace(b"STATUS", _STATUS)
    .replace(b"DEGRADED", _DEGRADED)
)


class RunList:
    """List of recorded runs.

    Args:
        database: the database that holds them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, owner: str, run_filter: RunFilter, before_key: int | None, limit: int) -> list[ListedRun]:
        """Return up to ``limit`` of an owner's runs, newest first.

        Args:
            owner: value of the caller's owner claim.
            run_filter: filters.
            before_key: only runs before this one, by its key; None: from the newest.
            limit: most runs.
        """
        values: dict[str, Any] = {**asdict(run_filter), "owner": owner, "before": before_key, "limit": limit}
        (rows,) = self._database.read_records(owner, [(_SELECT_PAGE, values)])
        return [ListedRun(*row) for row in rows]
