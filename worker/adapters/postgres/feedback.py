"""Feedback on recorded answers: the chunks that their owners report as used."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from retrieval_client.contract.jobs import RunRef
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.database import Database, Row


@dataclass(frozen=True, slots=True)
class Judgement:
    """Feedback on one chunk of one record.

    Attributes:
        task, step: the record of the run.
        corpus, chunk_id: the chunk of that record.
        used: True if it was used.
        at: time of the feedback, by the database's clock; None: now.
    """

    task: str
    step: str
    corpus: str
    chunk_id: str
    used: bool
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class CorpusFeedback:
    """One corpus of a recorded `retrieve_hybrid`, of which at least one chunk was used.

    Attributes:
        retrieval: (run, step) of the record; several corpora of one record share it.
        legs: recorded results of each leg: ``leg``, ``chunk_ids``, ``scores``.
        used: ids of the used chunks, sorted.
    """

    retrieval: tuple[int, str]
    legs: Sequence[Mapping[str, Any]]
    used: Sequence[str]


# Feedback of a run is recorded by one transaction after another: the next one sees the jobs of those before.
_IN_TURN = b"""
SELECT pg_advisory_xact_lock(hashtextextended(jsonb_build_array(%(owner)s::text, %(subject_id)s::text,
                                                                %(run_id)s::text)::text, 0))
"""

# A job that is delivered again, after others, would undo what they said.
_IS_NEW = b"""
NOT EXISTS (SELECT FROM retrieval.run_events e
             WHERE e.run = runs.id AND e.kind = 'feedback' AND e.data = jsonb_build_object('job', %(job)s::text))
"""

_RECORD_JOB = (
    b"""
INSERT INTO retrieval.run_events (run, kind, data)
SELECT id, 'feedback', jsonb_build_object('job', %(job)s::text) FROM retrieval.runs
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s AND """
    + _IS_NEW
)

# One event for each record that the feedback changes; repeated feedback changes nothing and adds no event.
_UPSERT = (
    b"""
WITH judged AS (
  INSERT INTO retrieval.run_feedback AS f (run, task, step, corpus, chunk_id, used)
  SELECT runs.id, j.*
    FROM retrieval.runs, unnest(%(tasks)s::text[], %(steps)s::text[], %(corpora)s::text[], %(chunk_ids)s::text[],
                                %(used)s::boolean[]) AS j
   WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s AND """
    + _IS_NEW
    + b"""
  ON CONFLICT (run, task, step, corpus, chunk_id) DO UPDATE SET used = excluded.used, at = now()
   WHERE f.used <> excluded.used
  RETURNING run, task, step, used
), events AS (
  INSERT INTO retrieval.run_events (run, kind, data)
  SELECT run, 'used', jsonb_build_object('task', task, 'step', step, 'used', used, 'chunks', count(*))
    FROM judged GROUP BY run, task, step, used
)
SELECT count(*) FROM judged
"""
)

# Existing feedback is the owner's own, and stays.
_INSERT = b"""
INSERT INTO retrieval.run_feedback (run, task, step, corpus, chunk_id, used, at)
SELECT runs.id, j.task, j.step, j.corpus, j.chunk_id, j.used, coalesce(j.at, now())
  FROM retrieval.runs, unnest(%(tasks)s::text[], %(steps)s::text[], %(corpora)s::text[], %(chunk_ids)s::text[],
                              %(used)s::boolean[], %(ats)s::timestamptz[])
                         AS j (task, step, corpus, chunk_id, used, at)
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
ON CONFLICT DO NOTHING
"""

_SELECT = b"""
SELECT f.task, f.step, f.corpus, f.chunk_id, f.used, f.at
  FROM retrieval.run_feedback f
  JOIN retrieval.run_records r USING (run, task, step) JOIN retrieval.runs ON runs.id = f.run
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
 ORDER BY r.sequence, f.corpus, f.chunk_id
"""

# The records' answers are long: only the needed ones are read.
_SELECT_JUDGED = b"""
WITH latest AS (
  SELECT f.run, f.task, f.step, f.corpus, r.sequence, array_agg(f.chunk_id ORDER BY f.chunk_id) AS used
    FROM retrieval.run_feedback f
    JOIN retrieval.run_records r USING (run, task, step) JOIN retrieval.runs ON runs.id = f.run
   WHERE f.task = 'retrieve_hybrid' AND f.used
     AND (%(owner)s::text IS NULL OR owner = %(owner)s) AND (%(corpus)s::text IS NULL OR f.corpus = %(corpus)s)
   GROUP BY f.run, f.task, f.step, f.corpus, r.sequence
   ORDER BY r.sequence DESC, f.corpus LIMIT %(limit)s
)
SELECT run, step, r.answer -> 'legs' -> corpus, used
  FROM latest JOIN retrieval.run_records r USING (run, task, step)
 ORDER BY r.sequence DESC, corpus
"""


# The rating is an event of the run, so that it is exported with it; a repeated rating is no new event.
_RATE = (
    b"""
INSERT INTO retrieval.run_events (run, kind, data)
SELECT id, 'rated', %(data)s::jsonb
  FROM retrieval.runs
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND %(data)s::jsonb IS DISTINCT FROM (
         SELECT data FROM retrieval.run_events e
          WHERE e.run = runs.id AND kind = 'rated' AND data -> 'step' = %(data)s::jsonb -> 'step'
          ORDER BY sequence DESC LIMIT 1)
   AND """
    + _IS_NEW
)


class Judgements:
    """The feedback on recorded runs.

    Args:
        database: the database that holds it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, owner: str, run: RunRef | RunName, judgements: Sequence[Judgement]) -> int:
        """Store an owner's feedback and an event; later feedback on the same chunk replaces earlier feedback.

        Returns:
            Number of judgements that are new or changed.
        """
        (rows,) = self._database.write(owner, [(_UPSERT, _values(owner, run, judgements))])
        return int(rows[0][0])

    def record(
        self,
        owner: str,
        run: RunRef | RunName,
        judgements: Sequence[Judgement],
        rating: Mapping[str, Any] | None,
        task_id: str,
    ) -> int:
        """Store a job's feedback and the owner's rating of an answer in one transaction, once.

        Args:
            owner: the run's owner.
            run: the run.
            judgements: feedback on its chunks.
            rating: ``step``, ``rating`` and ``note``; None: no rating of the whole answer.
            task_id: the job's; if its feedback is recorded already, nothing changes. Only its hash is stored.
        """
        job = hashlib.sha256(task_id.encode()).hexdigest() if task_id else None
        values = _values(owner, run, judgements) | {"job": job}
        statements = [(_IN_TURN, values), (_UPSERT, values)]
        if rating is not None:
            statements.append((_RATE, {**values, "data": Jsonb(dict(rating))}))
        if job is not None:
            statements.append((_RECORD_JOB, values))
        _, changed, *_ = self._database.write(owner, statements)
        return int(changed[0][0])

    def restore(self, owner: str, run: RunRef | RunName, judgements: Sequence[Judgement]) -> None:
        """Import feedback with its original times; existing feedback stays."""
        self._database.write(owner, [(_INSERT, _values(owner, run, judgements))])

    def of_run(self, owner: str, run: RunRef | RunName) -> list[Judgement]:
        """Return the feedback on one run, by record, then by corpus and chunk id."""
        values = {"owner": owner, "subject_id": run.subject_id, "run_id": run.run_id}
        (rows,) = self._database.read_records(owner, [(_SELECT, values)])
        return [Judgement(*row) for row in rows]

    def judged(self, owner: str | None, corpus: str | None, limit: int) -> list[CorpusFeedback]:
        """Return the latest ``limit`` recorded hybrid searches of which a chunk was used.

        Args:
            owner: only of this owner; None: of all.
            corpus: only over this one; None: over any.
            limit: maximum number.
        """
        statement = (_SELECT_JUDGED, {"owner": owner, "corpus": corpus, "limit": limit})
        rows: list[Row]
        if owner is None:
            (rows,) = self._database.audit([statement])
        else:
            (rows,) = self._database.read_records(owner, [statement])
        return [CorpusFeedback((run, step), legs, used) for run, step, legs, used in rows]


def _values(owner: str, run: RunRef | RunName, judgements: Sequence[Judgement]) -> dict[str, Any]:
    return {
        "owner": owner,
        "subject_id": run.subject_id,
        "run_id": run.run_id,
        "tasks": [judgement.task for judgement in judgements],
        "steps": [judgement.step for judgement in judgements],
        "corpora": [judgement.corpus for judgement in judgements],
        "chunk_ids": [judgement.chunk_id for judgement in judgements],
        "used": [judgement.used for judgement in judgements],
        "job": None,
        "ats": [judgement.at for judgement in judgements],
    }
