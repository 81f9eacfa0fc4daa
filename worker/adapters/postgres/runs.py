"""Records of runs in the worker's own schema: written once, read by their owner only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from psycopg.types.json import Json, Jsonb

from retrieval_client.hashing import format_hash, parse_hash
from worker.adapters.postgres.sql import blocks
from worker.core.pins.pinning import Pin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from retrieval_client.contract.jobs import RunRef
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.database import Database, Row
    from worker.model import Principal


@dataclass(frozen=True, slots=True)
class RecordedPin:
    """A pin of a record: its rank in the answer, and its similarity if known."""

    pin: Pin
    rank: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """One recorded answer.

    Attributes:
        task: the task that answered.
        step: the run's step, ``''`` for none.
        job: the job, without principal, token and embedding.
        job_sha256: digest of the whole job without its token.
        claims_sha256: digest of the caller's mapped claims.
        answer: the answer without its chunks.
        models: name and version of the models used.
        query_embedding: 768 little-endian float32, as searched, or None.
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


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a run.

    Attributes:
        kind: ``recorded``, ``kept`` (a file), ``used`` and ``feedback`` (the job of it), ``imported`` or ``drifted``.
        data: its details; names and counts, no text.
        at: its time, by the database's clock; None: now.
    """

    kind: str
    data: Mapping[str, Any]
    at: datetime | None = None


_SQL = blocks("runs")
_INSERT_RUN = _SQL["insert_run"]
_INSERT_RECORD = _SQL["insert_record"]
_SELECT_RECORDS = _SQL["select_records"]
_SELECT_PINS = _SQL["select_pins"]
_INSERT_EVENT = _SQL["insert_event"]
_SELECT_EVENTS = _SQL["select_events"]
_SELECT_NAMES = _SQL["select_names"]


class Runs:
    """The records of runs.

    Args:
        database: the database that holds them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, caller: Principal, run: RunRef | RunName, task: str | None, step: str | None) -> list[Record]:
        """Return the records of one run, in the order of recording.

        Args:
            caller: the run's owner; another's run is an unknown run.
            run: the run.
            task: only of this task; None for all.
            step: only of this step (``''``: those without a step); None for all.
        """
        names = {**_name(caller.owner, run), "task": task, "step": step}
        records, pins = self._database.read_records(caller, [(_SELECT_RECORDS, names), (_SELECT_PINS, names)])
        by_record: dict[tuple[str, str], list[RecordedPin]] = {}
        for row in pins:
            by_record.setdefault((row[0], row[1]), []).append(_recorded_pin(row))
        return [Record(*fields, by_record.get((fields[0], fields[1]), [])) for fields in map(_record_fields, records)]

    def add(
        self, caller: Principal, run: RunRef | RunName, records: Sequence[Record] = (), events: Sequence[Event] = ()
    ) -> int:
        """Write events and records in one transaction on the primary.

        Returns:
            Number of new records. An existing event is not added twice, either.
        """
        name = _name(caller.owner, run)
        noted = [(_INSERT_EVENT, {**name, **_event_values(event)}) for event in events]
        inserts = [(_INSERT_RECORD, {**name, **_record_values(record)}) for record in records]
        row_lists = self._database.write(caller, [(_INSERT_RUN, name), *noted, *inserts])
        return sum(rows[0][0] for rows in row_lists[1 + len(noted) :])

    def names(self, caller: Principal, subject_id: str | None) -> list[tuple[str, str]]:
        """Return (subject_id, run_id) of an owner's runs, in the order of creation."""
        values = {"owner": caller.owner, "subject_id": subject_id}
        (rows,) = self._database.read_records(caller, [(_SELECT_NAMES, values)])
        return [(subject, run) for subject, run in rows]

    def events(self, caller: Principal, run: RunRef | RunName) -> list[Event]:
        """Return a run's events, in their order."""
        (rows,) = self._database.read_records(caller, [(_SELECT_EVENTS, _name(caller.owner, run))])
        return [Event(*row) for row in rows]


def _name(owner: str, run: RunRef | RunName) -> dict[str, Any]:
    return {"owner": owner, "subject_id": run.subject_id, "run_id": run.run_id}


def _event_values(event: Event) -> dict[str, Any]:
    return {"at": event.at, "kind": event.kind, "data": Jsonb(event.data)}


def _record_values(record: Record) -> dict[str, Any]:
    """Return the parameters of `_INSERT_RECORD`."""
    return {
        "task": record.task,
        "step": record.step,
        "job": Jsonb(record.job),
        "job_sha256": record.job_sha256,
        "claims_sha256": record.claims_sha256,
        "answer": Json(record.answer),
        "models": Jsonb(record.models),
        "query_embedding": record.query_embedding,
        "pins": Jsonb([_pin_row(pin) for pin in record.pins], orjson.dumps),  # arrays would be written item by item
    }


def _record_fields(row: Row) -> tuple[Any, Any, Any, Any, Any, Any, Any, Any]:
    """Read a row of `_SELECT_RECORDS`, in the order of `Record`."""
    task, step, job, job_sha256, claims_sha256, answer, models, query_embedding = row
    return task, step, job, job_sha256, claims_sha256, answer, models, query_embedding


def _recorded_pin(row: Row) -> RecordedPin:
    _, _, rank, score, *pin = row
    return RecordedPin(pin_of(score, *pin), rank, score)


def pin_of(
    score: float, chunk_hash: bytes, version: int, raw_hash: bytes, chunk_id: str, document_id: str, corpus: str
) -> Pin:
    """Build a pin from its columns; its weight is the chunk's similarity."""
    return Pin(
        chunk_hash=format_hash(chunk_hash),
        hash_version=version,
        raw_hash=format_hash(raw_hash),
        chunk_id=chunk_id,
        document_id=document_id,
        corpus=corpus,
        weight=None if score is None else min(1.0, max(0.0, score)),
    )


def _pin_row(recorded: RecordedPin) -> dict[str, Any]:
    pin = recorded.pin
    return {
        "rank": recorded.rank,
        "corpus": pin.corpus,
        "chunk_hash": parse_hash(pin.chunk_hash).hex(),
        "hash_version": pin.hash_version,
        "raw_hash": parse_hash(pin.raw_hash or pin.chunk_hash).hex(),
        "chunk_id": pin.chunk_id,
        "document_id": pin.document_id,
        "score": recorded.score,
    }
