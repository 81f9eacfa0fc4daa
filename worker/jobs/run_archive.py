"""Run archive: exports a run from one worker's Postgres as a JSON file, and imports it into another's."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from retrieval_client.contract.base import (
    ChunkHash,  # noqa: TC001 -- pydantic reads the annotations when it runs
    LegName,  # noqa: TC001 -- pydantic reads the annotations when it runs
)
from retrieval_client.contract.results import TopK
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import NORMALISERS
from worker.adapters.postgres.feedback import Judgement
from worker.adapters.postgres.runs import Event, Record, RecordedPin
from worker.core.pins.pinning import Pin
from worker.jobs.recording import json_digest
from worker.jobs.run_files import file_name, run_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.adapters.postgres.feedback import Judgements
    from worker.adapters.postgres.runs import Runs
    from worker.jobs.run_files import RunFiles
    from worker.jobs.run_reading import RunReader
    from worker.model import Principal

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=512, pattern=r"^[^\x00]*$")]


class ArchivedObject(BaseModel):
    """Object of the file: no unknown fields, no coerced types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ArchivedPin(ArchivedObject):
    """Archived pin; see `worker.core.pins.pinning.Pin`."""

    rank: Annotated[int, Field(ge=1, lt=2**31)]
    score: Annotated[float, Field(allow_inf_nan=False)] | None
    corpus: Text
    chunk_hash: ChunkHash
    hash_version: Annotated[int, Field(ge=1, lt=2**15)]
    raw_hash: ChunkHash
    chunk_id: Text
    document_id: Text


class ArchivedRecord(ArchivedObject):
    """Archived record; see `worker.adapters.postgres.runs.Record`. The embedding is base64 of little-endian float32."""

    task: Text
    step: Text
    job: dict[str, Any]
    job_sha256: Digest
    claims_sha256: Digest
    answer: dict[str, Any]
    models: dict[str, str]
    query_embedding: str | None
    pins: list[ArchivedPin]


class ArchivedEvent(ArchivedObject):
    """Archived event of the run."""

    at: Annotated[AwareDatetime, Field(strict=False)] | None
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,32}$")]
    data: dict[str, Any]


class ArchivedJudgement(ArchivedObject):
    """Archived judgement of a chunk; see `worker.adapters.postgres.feedback.Judgement`."""

    task: Text
    step: Text
    corpus: Text
    chunk_id: Text
    used: bool
    at: Annotated[AwareDatetime, Field(strict=False)]


class ArchivedLeg(ArchivedObject):
    """Archived result of a leg of a hybrid retrieval, used by `tune`; files of older versions have no `listed`."""

    leg: LegName
    chunk_ids: list[Text]
    scores: list[Annotated[float, Field(allow_inf_nan=False)]]
    listed: Annotated[int, Field(ge=0)] | None = None
    coverage: list[Annotated[float, Field(ge=0, le=1)]] | None = None
    usual: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _one_score_a_chunk(self) -> ArchivedLeg:
        if len(self.scores) != len({*self.chunk_ids}) or len(self.scores) != len(self.chunk_ids):
            raise ValueError("expected each chunk once, with its score")
        if (self.listed or 0) > len(self.scores) or len(self.coverage or self.scores) != len(self.scores):
            raise ValueError("expected a coverage of each chunk, and no more listed ones")
        return self


_Legs = TypeAdapter(dict[str, list[ArchivedLeg]])


class RunFile(ArchivedObject):
    """Complete run.

    Attributes:
        format: identifies the format.
        version: version of the format.
        subject_id: the run's subject.
        run_id: the run's id. The file has no owner: the importing owner becomes the run's owner.
        records: the records, in the order of recording.
        events: in order.
        feedback: the used and unused chunks, by record; missing in files of older versions.
        files: name → base64 of the content.
        withheld: names of records and files that are left out, because a source changed or is no longer visible to the
            caller; missing if there are none.
        sha256: digest of the RFC 8785 JSON of all other fields.
    """

    format: Literal["retrieval-run"] = "retrieval-run"
    version: Literal[1] = 1
    subject_id: Annotated[str, Field(min_length=1, max_length=512)]
    run_id: Annotated[str, Field(min_length=1, max_length=512)]
    records: list[ArchivedRecord]
    events: list[ArchivedEvent]
    feedback: list[ArchivedJudgement] = []
    files: dict[str, str]
    withheld: list[Text] = []
    sha256: str

    def as_bytes(self) -> bytes:
        """Return the file's content."""
        return self.model_dump_json(indent=1, exclude=set() if self.withheld else {"withheld"}).encode() + b"\n"

    def digest(self) -> str:
        """Return the expected `sha256`."""
        # Without an empty one it is the digest of older versions, so that their files can still be imported.
        empty = {name for name in ("feedback", "withheld") if not getattr(self, name)}
        return json_digest(self.model_dump(mode="json", exclude={"sha256", *empty})).hex()


class RunArchive:
    """Archive that exports and imports runs.

    Args:
        runs: the recorded runs.
        judgements: their feedback.
        files: their files.
        reading: reads them with current permissions.
        withholds: tells whether a record's text may not be shown to a caller.
    """

    def __init__(
        self,
        runs: Runs,
        judgements: Judgements,
        files: RunFiles,
        reading: RunReader,
        withholds: Callable[[Record, Principal], bool],
    ) -> None:
        self._runs = runs
        self._judgements = judgements
        self._files = files
        self._reading = reading
        self._withholds = withholds

    def names(self, owner: Principal, subject_id: str | None = None) -> list[RunName]:
        """Return an owner's runs, in the order of creation."""
        return [RunName(subject_id=subject, run_id=run) for subject, run in self._runs.names(owner, subject_id)]

    def export(self, caller: Principal, name: RunName) -> RunFile:
        """Export a run; the same run gives the same file.

        What may hold a text of its sources is withheld unless the caller can still read all of them, as they were:
        recorded answers, and the run's files.

        Raises:
            InvalidJob: the caller has no such run.
            Unavailable, TimedOut, SettingsError, InternalError: see `Database.read`.
        """
        records, events = self._runs.find(caller, name, None, None), self._runs.events(caller, name)
        if not records and not events:
            raise InvalidJob("no such run", "run")
        files = self._files.read_all(caller.owner, name)
        withheld = [record for record in records if self._withholds(record, caller)]
        hidden = files if withheld or (records and not self._reading.is_whole(caller, name)) else {}
        places = {(record.task, record.step) for record in withheld}
        unsealed = RunFile(
            subject_id=name.subject_id,
            run_id=name.run_id,
            records=[_filed(record) for record in records if record not in withheld],
            events=[ArchivedEvent(at=event.at, kind=event.kind, data=dict(event.data)) for event in events],
            feedback=[
                ArchivedJudgement(**asdict(judgement))
                for judgement in self._judgements.of_run(caller, name)
                if (judgement.task, judgement.step) not in places
            ],
            files={file: base64.b64encode(files[file]).decode() for file in files if file not in hidden},
            withheld=[*(" ".join(place).strip() for place in sorted(places)), *sorted(hidden)],
            sha256="",
        )
        return unsealed.model_copy(update={"sha256": unsealed.digest()})

    def restore(self, owner: Principal, content: bytes) -> RunName:
        """Import a run for an owner; an identical existing run is left unchanged.

        A file grants no permission: its chunks are looked up with the permissions of the caller that replays the run.

        Raises:
            InvalidJob: the file is invalid or was changed, or another run has its name.
        """
        run = _parsed(content)
        name = RunName(subject_id=run.subject_id, run_id=run.run_id)
        run_path(name)
        files = {file_name(file): _decoded(text, f"files.{file}") for file, text in run.files.items()}
        existing_records = [_filed(record) for record in self._runs.find(owner, name, None, None)]
        if existing_records and existing_records != run.records:
            raise InvalidJob("another run has this name: import under another owner", "run_id")
        events = [Event(event.kind, event.data, event.at) for event in run.events]
        imported = Event("imported", {"sha256": run.sha256})
        self._runs.add(owner, name, [_record(record) for record in run.records], [*events, imported])
        self._judgements.restore(owner, name, [Judgement(**dict(judgement)) for judgement in run.feedback])
        for file, data in files.items():
            self._files.keep(owner, name, file, data)
        self._files.export_events(owner, name)
        return name


def _parsed(content: bytes) -> RunFile:
    try:
        run = RunFile.model_validate_json(content)
        digest = run.digest()
    except ValidationError as error:
        first_error = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(str(key) for key in first_error["loc"])
        raise InvalidJob(f"expected a file from 'runs export' ({first_error['msg']})", path) from None
    except ValueError:
        raise InvalidJob("expected text that can be stored, without lone surrogates", "file") from None
    if digest != run.sha256:
        raise InvalidJob("the file was changed after it was exported", "sha256")
    for i, record in enumerate(run.records):
        _check(record, f"records[{i}]")
    chunks = {(record.task, record.step, pin.corpus, pin.chunk_id) for record in run.records for pin in record.pins}
    for i, judgement in enumerate(run.feedback):
        if (judgement.task, judgement.step, judgement.corpus, judgement.chunk_id) not in chunks:
            raise InvalidJob("expected a chunk of the run", f"feedback[{i}].chunk_id")
    return run


def _check(record: ArchivedRecord, path: str) -> None:
    """Check what the types do not cover: a replayable answer, hash versions, and ranks."""
    unknown_versions = [pin.hash_version for pin in record.pins if pin.hash_version not in NORMALISERS]
    if unknown_versions:
        raise InvalidJob(f"this worker does not know hash version {unknown_versions[0]}", f"{path}.pins")
    if record.task == "retrieve_top_k":
        try:
            TopK.model_validate({**record.answer, "chunks": [], "trace": {"stages": [], "worker_version": ""}})
        except ValidationError:
            raise InvalidJob("expected the header of an answer", f"{path}.answer") from None
    if record.task == "retrieve_hybrid":
        try:
            _Legs.validate_python(record.answer.get("legs"))
        except ValidationError:
            raise InvalidJob("expected the results of each leg", f"{path}.answer.legs") from None
    ranks = [pin.rank for pin in record.pins]
    if ranks != list(range(1, len(ranks) + 1)):
        raise InvalidJob("expected ranks from 1, in order", f"{path}.pins")


def _decoded(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidJob("expected base64", path) from None


def _filed(record: Record) -> ArchivedRecord:
    return ArchivedRecord(
        task=record.task,
        step=record.step,
        job=dict(record.job),
        job_sha256=record.job_sha256.hex(),
        claims_sha256=record.claims_sha256.hex(),
        answer=dict(record.answer),
        models=dict(record.models),
        query_embedding=base64.b64encode(record.query_embedding).decode() if record.query_embedding else None,
        pins=[_filed_pin(recorded) for recorded in record.pins],
    )


def _filed_pin(recorded: RecordedPin) -> ArchivedPin:
    pin = recorded.pin
    return ArchivedPin(
        rank=recorded.rank,
        score=recorded.score,
        corpus=pin.corpus or "",
        chunk_hash=pin.chunk_hash,
        hash_version=pin.hash_version,
        raw_hash=pin.raw_hash or pin.chunk_hash,
        chunk_id=pin.chunk_id or "",
        document_id=pin.document_id or "",
    )


def _record(filed: ArchivedRecord) -> Record:
    embedding = filed.query_embedding
    return Record(
        task=filed.task,
        step=filed.step,
        job=filed.job,
        job_sha256=bytes.fromhex(filed.job_sha256),
        claims_sha256=bytes.fromhex(filed.claims_sha256),
        answer=filed.answer,
        models=filed.models,
        query_embedding=_decoded(embedding, "query_embedding") if embedding is not None else None,
        pins=[RecordedPin(Pin(**pin.model_dump(exclude={"rank", "score"})), pin.rank, pin.score) for pin in filed.pins],
    )
