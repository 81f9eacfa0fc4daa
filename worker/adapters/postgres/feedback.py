"""Feedback on recorded answers: the chunks that their owners report as used."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from retrieval_client.contract.jobs import RunRef
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.database import Database, Row
    from worker.model import Principal


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


_SQL = blocks("feedback")
_WAIT_IN_TURN = _SQL["wait_in_turn"]
_INSERT_JOB = _SQL["insert_job"]
_UPSERT_FEEDBACK = _SQL["upsert_feedback"]
_INSERT_FEEDBACK = _SQL["insert_feedback"]
_SELECT_FEEDBACK = _SQL["select_feedback"]
_SELECT_JUDGED = _SQL["select_judged"]
_INSERT_RATING = _SQL["insert_rating"]


class Judgements:
    """The feedback on recorded runs.

    Args:
        database: the database that holds it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def note(self, caller: Principal, run: RunRef | RunName, judgements: Sequence[Judgement]) -> int:
        """Store an owner's feedback and an event; later feedback on the same chunk replaces earlier feedback.

        Returns:
            Number of judgements that are new or changed.
        """
        (rows,) = self._database.write(caller, [(_UPSERT_FEEDBACK, _values(caller.owner, run, judgements))])
        return int(rows[0][0])

    def record(
        self,
        caller: Principal,
        run: RunRef | RunName,
        judgements: Sequence[Judgement],
        rating: Mapping[str, Any] | None,
        task_id: str,
    ) -> int:
        """Store a job's feedback and the owner's rating of an answer in one transaction, once.

        Args:
            caller: the run's owner.
            run: the run.
            judgements: feedback on its chunks.
            rating: ``step``, ``rating`` and ``note``; None: no rating of the whole answer.
            task_id: the job's; if its feedback is recorded already, nothing changes. Only its hash is stored.
        """
        job = hashlib.sha256(task_id.encode()).hexdigest() if task_id else None
        values = _values(caller.owner, run, judgements) | {"job": job}
        statements = [(_WAIT_IN_TURN, values), (_UPSERT_FEEDBACK, values)]
        if rating is not None:
            statements.append((_INSERT_RATING, {**values, "data": Jsonb(dict(rating))}))
        if job is not None:
            statements.append((_INSERT_JOB, values))
        _, changed, *_ = self._database.write(caller, statements)
        return int(changed[0][0])

    def restore(self, caller: Principal, run: RunRef | RunName, judgements: Sequence[Judgement]) -> None:
        """Import feedback with its original times; existing feedback stays."""
        self._database.write(caller, [(_INSERT_FEEDBACK, _values(caller.owner, run, judgements))])

    def of_run(self, caller: Principal, run: RunRef | RunName) -> list[Judgement]:
        """Return the feedback on one run, by record, then by corpus and chunk id."""
        values = {"owner": caller.owner, "subject_id": run.subject_id, "run_id": run.run_id}
        (rows,) = self._database.read_records(caller, [(_SELECT_FEEDBACK, values)])
        return [Judgement(*row) for row in rows]

    def judged(self, caller: Principal | None, corpus: str | None, limit: int) -> list[CorpusFeedback]:
        """Return the latest ``limit`` recorded hybrid searches of which a chunk was used.

        Args:
            caller: only this owner's; None: of all.
            corpus: only over this one; None: over any.
            limit: maximum number.
        """
        statement = (_SELECT_JUDGED, {"owner": caller and caller.owner, "corpus": corpus, "limit": limit})
        rows: list[Row]
        if caller is None:
            (rows,) = self._database.audit([statement])
        else:
            (rows,) = self._database.read_records(caller, [statement])
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
