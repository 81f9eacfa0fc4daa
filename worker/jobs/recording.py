"""Recorded jobs: searched and recorded the first time, answered from the record every time after."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from retrieval_client.canonical import canonical_sha256
from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.adapters.postgres.runs import Record, RecordedPin
from worker.core.pins.pinning import Pin, raw_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from retrieval_client.contract.jobs import Job, RunRef
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.runs import Runs
    from worker.model import Candidate, Principal

_NOT_RECORDED = {"principal", "principal_token", "query_embedding"}
"""Fields left out of a recorded job: the caller is stored as a digest, the embedding as bytes, the token not at all."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """New answer, with the parts to be recorded.

    Attributes:
        answer: the whole answer.
        header: its fields besides chunks and trace.
        pins: its chunks.
        models: names and versions of the models used.
        query_embedding: little-endian float32, as searched; several are concatenated.
        then: called once it is recorded, before it is returned.
    """

    answer: dict[str, Any]
    header: Mapping[str, Any]
    pins: Sequence[RecordedPin]
    models: Mapping[str, str] = field(default_factory=dict)
    query_embedding: bytes | None = None
    then: Callable[[], None] = lambda: None


class Recording:
    """Recorder that answers recorded jobs.

    Args:
        runs: stored runs.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def answer(
        self,
        task: str,
        job: Job,
        caller: Principal,
        make: Callable[[], RecordedAnswer],
        replay: Callable[[Record], dict[str, Any]],
    ) -> dict[str, Any]:
        """Answer a job that names a run.

        Args:
            task: the job's task.
            job: the job; ``job.run`` is set.
            caller: the caller, who owns the run.
            make: makes an answer; called if nothing is recorded yet.
            replay: answers from a record, with current permissions.

        Raises:
            NotAuthorised: the caller has no owner claim.
            InvalidJob: another job is recorded there, and ``reuse`` is not set.
        """
        assert job.run is not None  # noqa: S101 -- for the type checker: callers check this
        owner = owner_of(caller)
        step = job.run.step or ""
        records = self._runs.find(owner, job.run, task, step)
        if not records:
            new_answer = make()
            if self._runs.add(owner, job.run, [_record(task, step, job, caller, new_answer)]):
                new_answer.then()
                return new_answer.answer
            # Another worker recorded it meanwhile: its answer is the one that counts.
            records = self._runs.find(owner, job.run, task, step)
        record = records[0]
        same = (record.job_sha256, record.claims_sha256) == (job_digest(job), claims_digest(caller))
        if not same and not job.run.reuse:
            raise InvalidJob("another job is recorded under this run, task and step", "run")
        return replay(record)

    def records(self, caller: Principal, run: RunRef | RunName, task: str) -> Sequence[Record]:
        """Return a task's records under a run of the caller's, in the order of recording.

        Raises:
            NotAuthorised: the caller has no owner claim.
            InvalidJob: there is no such run, or it has only records of other tasks.
        """
        run_records = self._runs.find(owner_of(caller), run, None, run.step)
        if not run_records:
            raise InvalidJob("no such run", "run")
        of_task = [record for record in run_records if record.task == task]
        if not of_task:
            other_tasks = ", ".join(dict.fromkeys(record.task for record in run_records))
            raise InvalidJob(f"there is no {task} in it, but {other_tasks}", "run")
        return of_task


def own_records(records: Iterable[Record], repeating: str) -> list[Record]:
    """Return the records that make up a run.

    Args:
        records: all records of the run.
        repeating: the task whose answers repeat chunks of other records: they count where there are no others.
    """
    listed = list(records)
    return [record for record in listed if record.task != repeating] or [record for record in listed if record.pins]


def owner_of(caller: Principal | None) -> Principal:
    """Return the caller, as an owner of runs.

    Raises:
        NotAuthorised: there is no caller, or none with the owner claim.
    """
    if caller is None or not caller.owner:
        raise NotAuthorised("run: only a caller with the owner claim (user_id, or principal.owner_claims) has runs")
    return caller


def job_digest(job: Job) -> bytes:
    """Return the SHA-256 of the canonical JSON of a job without its token."""
    plain = job.model_dump(mode="json", exclude_unset=True, exclude={"principal_token"})
    return json_digest(plain)


def claims_digest(caller: Principal) -> bytes:
    """Return the SHA-256 of the canonical JSON of the caller's mapped claims."""
    return json_digest(dict(caller.claims.items()))


def json_digest(value: dict[str, Any]) -> bytes:
    """Return the SHA-256 of the canonical JSON of an object, or of other JSON of it where it has none."""
    try:
        return bytes.fromhex(canonical_sha256(value))
    except ValueError:  # an integer beyond 2^53: allowed by the contract, without a form of its own in RFC 8785
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()


def pins_of(answer: Iterable[Candidate]) -> list[RecordedPin]:
    """Return the pins of an answer's candidates, in order."""
    return [
        RecordedPin(
            Pin(
                chunk_hash=candidate.chunk.chunk_hash,
                hash_version=candidate.chunk.hash_version,
                raw_hash=raw_hash(candidate.chunk.text),
                chunk_id=candidate.chunk.id,
                document_id=candidate.chunk.document_id,
                corpus=candidate.corpus,
            ),
            rank,
            candidate.similarity,
        )
        for rank, candidate in enumerate(answer, 1)
    ]


def _record(task: str, step: str, job: Job, caller: Principal, answer: RecordedAnswer) -> Record:
    return Record(
        task=task,
        step=step,
        job=job.model_dump(mode="json", exclude_unset=True, exclude=_NOT_RECORDED),
        job_sha256=job_digest(job),
        claims_sha256=claims_digest(caller),
        answer=answer.header,
        models=answer.models,
        query_embedding=answer.query_embedding,
        pins=answer.pins,
    )
