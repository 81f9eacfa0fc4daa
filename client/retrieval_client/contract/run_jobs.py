"""Jobs on recorded runs: replays, citations, the check of runs."""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003 -- pydantic reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any, Literal, overload

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, StrictStr, WrapValidator, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import Self, TypeVar, Unpack

from retrieval_client.contract.base import (
    WHOLE,
    AnsweredBy,
    ChunkHash,
    Identifier,
    Label,
    Number,
    Part,
    PathPart,
)
from retrieval_client.contract.jobs import ClaimFields, Job, RunRef
from retrieval_client.contract.pinned import Citations, Replay, ReplayBatch

MAX_PINS = 10_000
MAX_RUNS = 64
DEFAULT_FILL = 5
MAX_SECTIONS = 100


class RunName(Part):
    """A recorded run, to be read.

    Attributes:
        subject_id: the run's subject.
        run_id: the run's name.
        step: only the record of this step; without it, the whole run.
    """

    subject_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    run_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    step: Annotated[StrictStr, Field(min_length=1, max_length=512)] | None = None


class InlineSource(Part):
    """A source whose chunks come with the job.

    Attributes:
        id: its id; without one its name, else ``unknown``.
        name: used if there is no id.
        weight: its weight, 0-1; default 0.5.
        chunks: texts, or ``{"text": …, "chunk_id": …}``; other or blank items are skipped and counted, and so is a
            source without this field.
    """

    id: Identifier | None = None
    name: Identifier | None = None
    weight: Annotated[Number, Field(ge=0, le=1)] = 0.5
    chunks: list[Any] | None = None


ReplayAnswerT = TypeVar("ReplayAnswerT", bound=Replay | ReplayBatch, default=Replay)


class ReplayFields(ClaimFields, total=False):
    """Keywords of each form of `PinnedReplay`, for type checkers."""

    corpus: str | None
    top_k: int | None
    fill: Literal["text", "hash", "none"] | None
    query: str | None
    seed: int | None


class PinnedReplay(Job, AnsweredBy[ReplayAnswerT]):
    """Job of `pinned_replay`: the same chunks again, by their content.

    Attributes:
        required_chunk_hashes: the chunks, in this order; the 64 hex digits, with or without ``sha256:``.
        runs: instead: several recorded runs, each answered as if alone.
        citations: instead: a citations document.
        sources: inline sources to search instead of the corpus.
        corpus: a corpus named in the worker's settings; default the first.
        top_k: number of chunks, any integer, clamped to 0-10,000; default the number of pins, or 5 without pins.
        fill: order of the chunks that follow the pinned ones up to ``top_k``: by ``text``, by ``hash``, or ``none``.
        query: accepted, and changes nothing.
        seed: accepted, and changes nothing.

    ``run`` alone names the run to replay; with hashes or citations it names the run to record.
    """

    required_chunk_hashes: Annotated[list[ChunkHash], Field(max_length=MAX_PINS)] | None = None
    runs: Annotated[list[RunName], Field(min_length=1, max_length=MAX_RUNS)] | None = None
    citations: dict[str, Any] | None = None
    sources: list[InlineSource] | None = None
    corpus: Identifier | None = None
    top_k: Annotated[StrictInt, WHOLE] | None = None
    fill: Literal["text", "hash", "none"] | None = None
    query: StrictStr | None = None
    seed: Annotated[StrictInt, WHOLE] | None = None

    if TYPE_CHECKING:  # they know from the keywords which answer a job has

        @overload
        def __init__(
            self: PinnedReplay[Replay],
            *,
            required_chunk_hashes: list[str] | None = None,
            citations: dict[str, Any] | None = None,
            run: RunRef | None = None,
            sources: list[InlineSource] | None = None,
            **fields: Unpack[ReplayFields],
        ) -> None: ...
        @overload
        def __init__(
            self: PinnedReplay[ReplayBatch], *, runs: list[RunName], **fields: Unpack[ReplayFields]
        ) -> None: ...
        def __init__(self, **fields: Any) -> None: ...

    @model_validator(mode="after")
    def _one_kind_of_pins(self) -> Self:
        pin_fields = [
            name for name in ("required_chunk_hashes", "runs", "citations") if getattr(self, name) is not None
        ]
        if len(pin_fields) > 1:
            raise PydanticCustomError(
                "both",
                "expected one of required_chunk_hashes, runs and citations, got {count}",
                {"count": len(pin_fields)},
            )
        if not pin_fields and self.run is None:
            raise PydanticCustomError("absent", "required_chunk_hashes", {"others": "run, runs or citations"})
        if self.runs is not None and self.sources is not None:
            raise PydanticCustomError("both", "expected runs or sources, got both: runs are of a corpus")
        if self.runs is not None and self.run is not None:
            raise PydanticCustomError("both", "expected runs or run, got both: several answers have no one record")
        return self


class CitedChunk(Part):
    """A chunk that was used.

    Attributes:
        source_id: its document.
        text: its text.
        weight: its weight, 0-1.
        section: the part of the output that used it, or null.
        chunk_hash: the hash recorded for it; without one it is computed.
        chunk_id: its id.
        page: page in the source.
        coordinates: place on the page.
    """

    nullable = frozenset({"section", "page", "coordinates"})

    source_id: Identifier
    text: StrictStr
    weight: Annotated[Number, Field(ge=0, le=1)]
    section: PathPart | None = None
    chunk_hash: ChunkHash | None = None
    chunk_id: Identifier | None = None
    page: Annotated[StrictInt, WHOLE] | None = None
    coordinates: Any = None


class Quote(Part):
    """Words quoted from a chunk.

    Attributes:
        chunk_hash: the chunk.
        quote: the words.
    """

    chunk_hash: ChunkHash
    quote: Annotated[StrictStr, Field(max_length=100_000)]


class CitedRun(RunName):
    """A recorded run, to be cited.

    Attributes:
        what: ``retrieved``: every chunk of the run; ``cited``: only those that its recorded answers cite.
    """

    what: Literal["retrieved", "cited"] = "retrieved"

    @model_validator(mode="before")
    @classmethod
    def _of_a_name(cls, data: Any) -> Any:
        return data.model_dump(exclude_none=True) if type(data) is RunName else data  # from Python


def _listed(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise PydanticCustomError("no_sections", "expected a string, or a list of strings")
    return [value] if isinstance(value, str) else value


def _each_once(sections: Any, parse: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    parsed = parse(sections)
    if len(parsed) < len(sections):
        raise PydanticCustomError("repeated_hash", "expected each hash once, in whichever form")
    return parsed


_Sections = Annotated[list[PathPart], Field(min_length=1, max_length=MAX_SECTIONS)]
SectionNames = Annotated[_Sections, BeforeValidator(_listed, json_schema_input_type=PathPart | _Sections)]
"""One section, or several."""


class BuildCitations(Job, AnsweredBy[Citations]):
    """Job of `build_citations`: citations of used chunks, verified against the sources and stored with the run.

    Attributes:
        records: the chunks that were used, in their order.
        cite: instead: a recorded run with these chunks.
        sections: with ``cite``: chunk hash → the section that uses it, or several; other chunks have those of the run's
            own answer.
        answer: generated text with labels like ``[S1]``.
        labels: label → hash of its chunk.
        quotes: words to check, one by one.
        verify: compare each citation with the corpora, with this caller's permissions.
        store: store the document, with the conflicts, as ``runs/{subject_id}/{run_id}/citations.json`` of ``run``.
    """

    records: Annotated[list[CitedChunk], Field(max_length=MAX_PINS)] | None = None
    cite: CitedRun | None = None
    sections: Annotated[dict[ChunkHash, SectionNames], WrapValidator(_each_once)] | None = None
    answer: StrictStr | None = None
    labels: dict[Label, ChunkHash] | None = None
    quotes: Annotated[list[Quote], Field(max_length=MAX_PINS)] | None = None
    verify: StrictBool = True
    store: StrictBool = True

    @model_validator(mode="after")
    def _one_kind_of_records(self) -> Self:
        if (self.records is None) == (self.cite is None):
            if self.records is None:
                raise PydanticCustomError("absent", "records", {"others": "cite"})
            raise PydanticCustomError("both", "expected records or cite, got both")
        if self.sections is not None and self.cite is None:
            raise PydanticCustomError("both", "expected sections with cite only: records have their own")
        return self


class VerifyRuns(Part):
    """Job of `verify_runs`, for the schedule only: without fields, so that no sender can choose a caller."""
