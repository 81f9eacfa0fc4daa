"""Records of runs in the worker's own schema: written once, read by their owner only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from worker.core.hashing import format_hash, parse_hash
from worker.core.pinning import Pin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.adapters.postgres import Database, Row
    from worker.contract import RunName, RunRef


@dataclass(frozen=True, slots=True)
class RecordedPin:
    """A pin of a record: where in the answer it stood, and its similarity where that is known."""

    pin: Pin
    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded answer.

    Attributes:
        task: the task that gave it.
        step: the run's step, ``''`` for none.
        job: the job, without principal, token and embedding.
        job_sha256: digest of the whole job without its token.
        claims_sha256: digest of the caller's mapped claims.
        answer: what the answer said besides its chunks.
        models: name and version of what a model made.
        query_embedding: 768 little-endian float32, as it was searched, or None.
        pins: the chunks, in the answer's order.
    """

    task: str
    step: str
    job: Mapping[str, Any]
    job_sha256: bytes
    claims_sha256: bytes
    answer: Mapping[str, Any]
    models: Mapping[str, str]
    query_embedding: bytes | None
    pins: Sequence[RecordedPin]


_INSERT_RUN = b"""
INSERT INTO retrieval.runs (owner, subject_id, run_id) VALUES (%(owner)s, %(subject_id)s, %(run_id)s)
ON CONFLICT DO NOTHING
"""

_INSERT_RECORD = b"""
WITH record AS (
  INSERT INTO retrieval.run_records
         (run, task, step, job, job_sha256, claims_sha256, answer, models, query_embedding)
  SELECT id, %(task)s, %(step)s, %(job)s, %(job_sha256)s, %(claims_sha256)s, %(answer)s, %(models)s,
         %(query_embedding)s
    FROM retrieval.runs WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
  ON CONFLICT DO NOTHING
  RETURNING run
), pins AS (
  INSERT INTO retrieval.run_pins
         (run, task, step, rank, corpus, chunk_hash, hash_version, raw_hash, chunk_id, document_id, score)
  SELECT record.run, %(task)s, %(step)s, pin.*
    FROM record, unnest(%(ranks)s::int[], %(corpora)s::text[], %(hashes)s::bytea[], %(versions)s::smallint[],
                        %(raw_hashes)s::bytea[], %(chunk_ids)s::text[], %(document_ids)s::text[],
                        %(scores)s::float8[]) AS pin
), events AS (
  INSERT INTO retrieval.run_events (run, kind, data)
  SELECT run, 'recorded', jsonb_build_object('task', %(task)s::text, 'step', %(step)s::text,
                                             'chunks', cardinality(%(ranks)s::int[]))
    FROM record
)
SELECT count(*) FROM record
"""

_SELECT_RECORDS = b"""
SELECT r.task, r.step, r.job, r.job_sha256, r.claims_sha256, r.answer, r.models, r.query_embedding
  FROM retrieval.run_records r JOIN retrieval.runs ON runs.id = r.run
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND (%(task)s::text IS NULL OR task = %(task)s) AND (%(step)s::text IS NULL OR step = %(step)s)
 ORDER BY r.sequence
"""

_SELECT_PINS = b"""
SELECT p.task, p.step, p.rank, p.score, p.chunk_hash, p.hash_version, p.raw_hash, p.chunk_id, p.document_id, p.corpus
  FROM retrieval.run_pins p JOIN retrieval.runs ON runs.id = p.run
 WHERE owner = %(owner)s AND subject_id = %(subject_id)s AND run_id = %(run_id)s
   AND (%(task)s::text IS NULL OR task = %(task)s) AND (%(step)s::text IS NULL OR step = %(step)s)
 ORDER BY p.task, p.step, p.rank
"""


class Runs:
    """The records of runs.

    Args:
        database: where they are kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, owner: str, run: RunRef | RunName, task: str | None, step: str | None) -> list[Record]:
        """Records of one run, in the order in which they were made.

        Args:
            owner: value of the caller's owner claim; another's run is an unknown run.
            run: which run.
            task: only of this task; None for all.
            step: only of this step (``''``: those without a step); None for all.
        """
        names = {"owner": owner, "subject_id": run.subject_id, "run_id": run.run_id, "task": task, "step": step}
        records, pins = self._database.read_records(owner, [(_SELECT_RECORDS, names), (_SELECT_PINS, names)])
        by_record: dict[tuple[str, str], list[RecordedPin]] = {}
        for row in pins:
            by_record.setdefault((row[0], row[1]), []).append(_recorded_pin(row))
        return [Record(*fields, by_record.get((fields[0], fields[1]), [])) for fields in map(_record_fields, records)]

    def add(self, owner: str, run: RunRef, record: Record) -> bool:
        """Write a record, whole, in one transaction on the primary; False if there was one already."""
        columns: list[list[Any]] = [list(column) for column in zip(*map(_pin_row, record.pins), strict=True)]
        ranks, corpora, hashes, versions, raw_hashes, chunk_ids, document_ids, scores = columns or [[]] * 8
        values = {
            "owner": owner,
            "subject_id": run.subject_id,
            "run_id": run.run_id,
            "task": record.task,
            "step": record.step,
            "job": Jsonb(record.job),
            "job_sha256": record.job_sha256,
            "claims_sha256": record.claims_sha256,
            "answer": Jsonb(record.answer),
            "models": Jsonb(record.models),
            "query_embedding": record.query_embedding,
            "ranks": ranks,
            "corpora": corpora,
            "hashes": hashes,
            "versions": versions,
            "raw_hashes": raw_hashes,
            "chunk_ids": chunk_ids,
            "document_ids": document_ids,
            "scores": scores,
        }
        _, written = self._database.write(owner, [(_INSERT_RUN, values), (_INSERT_RECORD, values)])
        return bool(written[0][0])


def _record_fields(row: Row) -> tuple[Any, Any, Any, Any, Any, Any, Any, Any]:
    """A row of `_SELECT_RECORDS`, in the order of `Record`."""
    task, step, job, job_sha256, claims_sha256, answer, models, query_embedding = row
    return task, step, job, job_sha256, claims_sha256, answer, models, query_embedding


def _recorded_pin(row: Row) -> RecordedPin:
    _, _, rank, score, chunk_hash, version, raw_hash, chunk_id, document_id, corpus = row
    pin = Pin(
        chunk_hash=format_hash(chunk_hash),
        hash_version=version,
        raw_hash=format_hash(raw_hash),
        chunk_id=chunk_id,
        document_id=document_id,
        corpus=corpus,
        weight=None if score is None else min(1.0, max(0.0, score)),
    )
    return RecordedPin(pin, rank, score)


def _pin_row(recorded: RecordedPin) -> tuple[Any, ...]:
    pin = recorded.pin
    raw = parse_hash(pin.raw_hash or pin.chunk_hash)
    return (
        *(recorded.rank, pin.corpus, parse_hash(pin.chunk_hash), pin.hash_version, raw),
        *(pin.chunk_id, pin.document_id, recorded.score),
    )
