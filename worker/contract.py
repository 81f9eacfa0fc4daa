"""The jobs in and the results out: the public wire contract, as pydantic models.

Imported by the worker and by backends alike, so it needs neither numpy nor a database. Embeddings are only
typed here; `worker.core.vectors.decode` checks and decodes them in the worker.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from worker.core.shape import join_path
from worker.errors import InvalidJob
from worker.model import LegName  # noqa: TC001 -- pydantic reads the annotations when it runs

SCHEMA_VERSION = 1
DEFAULT_K, MIN_K, MAX_K = 15, 10, 15
MAX_BATCH = 64

Identifier = Annotated[StrictStr, Field(max_length=512)]
PathPart = Annotated[StrictStr, Field(max_length=512)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]

EMBEDDING_SCHEMA: dict[str, Any] = {
    "description": "768 finite numbers: a list, or base64 of 768 little-endian float32. Any length but zero; "
    "scaled to unit length before use.",
    "anyOf": [
        {"type": "array", "items": {"type": "number"}, "minItems": 768, "maxItems": 768},
        {"type": "string", "minLength": 4096, "maxLength": 4096, "contentEncoding": "base64"},
    ],
}
# Typed as anything for pydantic: 768 numbers are checked at once by numpy, not one by one.
Embedding = Annotated[Any, Field(json_schema_extra=EMBEDDING_SCHEMA)]


JobT = TypeVar("JobT", bound="Part")


# --- jobs ---------------------------------------------------------------------------------------


class Part(BaseModel):
    """An object inside a job: no unknown fields, no coerced types, and null only where it means something."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, serialize_by_alias=True)
    nullable: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for name in cls.model_fields:
                if name not in cls.nullable and data.get(name, 0) is None:
                    raise PydanticCustomError("null", "{name}", {"name": name})
        return data


class RunRef(Part):
    """Record this job, so that it can be replayed and cited.

    Attributes:
        subject_id: what the run is about, e.g. `song-1`; a run is known by its owner, this and `run_id`.
        run_id: the run's name among those of its subject.
        step: which of the run's records this is; a run has one for each task and step.
        reuse: replay the run if it exists, else search and record.
    """

    subject_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    run_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    step: Annotated[StrictStr, Field(min_length=1, max_length=512)] | None = None
    reuse: StrictBool = False


class Job(Part):
    """What every job may carry.

    Attributes:
        principal: who asks, as plain claims; only where the worker's settings trust the queue.
        principal_token: the same as a signed JWT, bound to this task, this id and this job.
        run: record the job under this name.
    """

    principal: dict[str, Any] | None = None
    principal_token: Annotated[StrictStr, Field(max_length=16_384)] | None = None
    run: RunRef | None = None

    @model_validator(mode="after")
    def _one_principal(self) -> Self:
        if self.principal is not None and self.principal_token is not None:
            raise PydanticCustomError("both", "expected principal or principal_token, got both")
        return self


class Filters(Part):
    """What to narrow a search to. A list matches any of its items; ``[]`` matches nothing.

    Attributes:
        document_ids: only chunks of these documents.
        sections: only chunks in one of these sections.
        pages: only chunks on one of these pages.
        path_contains: only documents whose path has one of these in it, as written.
        ext_allow: only documents whose path ends with one of these extensions, e.g. `.pdf`, in any letter case.
        ext_deny: no documents whose path ends with one of these; ``[]`` denies none.
        metadata: only chunks whose metadata has exactly this value at each of these keys.
    """

    document_ids: Annotated[list[Identifier], Field(max_length=1000)] | None = None
    sections: Annotated[list[PathPart], Field(max_length=1000)] | None = None
    pages: Annotated[list[Annotated[StrictInt, Field(ge=-(2**31), lt=2**31)]], Field(max_length=1000)] | None = None
    path_contains: Annotated[list[PathPart], Field(max_length=100)] | None = None
    ext_allow: Annotated[list[PathPart], Field(max_length=100)] | None = None
    ext_deny: Annotated[list[PathPart], Field(max_length=100)] | None = None
    metadata: Annotated[dict[StrictStr, Any], Field(max_length=32)] | None = None


class RetrieveTopK(Job):
    """Job of `retrieve_top_k`: the nearest 10–15 chunks by cosine distance that the caller may see.

    Attributes:
        query_embedding: one query; see `EMBEDDING_SCHEMA`.
        query_embeddings: instead, up to 64 queries, each answered as if alone.
        k: how many are wanted; any integer, clamped to 10–15.
        corpus: a corpus named in the worker's settings; default the first.
        filters: what to narrow the search to.
        max_distance: cosine distance in [0, 2]; farther chunks are left out.
        exact: search without an approximate index.
    """

    query_embedding: Embedding = None
    query_embeddings: Annotated[list[Embedding], Field(min_length=1, max_length=MAX_BATCH)] | None = None
    k: StrictInt = DEFAULT_K
    corpus: Identifier | None = None
    filters: Filters | None = None
    max_distance: Annotated[Number, Field(ge=0, le=2)] | None = None
    exact: StrictBool = False

    @model_validator(mode="after")
    def _one_kind_of_query(self) -> Self:
        if self.query_embeddings is None and self.query_embedding is None:
            raise PydanticCustomError("absent", "query_embedding")
        if self.query_embeddings is not None:
            if self.query_embedding is not None:
                raise PydanticCustomError("both", "expected query_embedding or query_embeddings, got both")
            if self.run is not None:
                raise PydanticCustomError("both", "expected query_embeddings or run, got both")
        return self

    @property
    def clamped_k(self) -> int:
        """``k`` within 10–15."""
        return max(MIN_K, min(self.k, MAX_K))


ChunkHash = Annotated[StrictStr, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
MAX_PINS = 10_000
MAX_RUNS = 64
DEFAULT_FILL = 5


class RunName(Part):
    """A recorded run, to be read.

    Attributes:
        subject_id: what the run is about.
        run_id: which run.
        step: only what was recorded under this step; without it, all of the run.
    """

    subject_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    run_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    step: Annotated[StrictStr, Field(min_length=1, max_length=512)] | None = None


class InlineSource(Part):
    """A source whose chunks come with the job.

    Attributes:
        id: its id; without one its name, else ``unknown``.
        name: stands for the id where there is none.
        weight: how much it counts, 0-1; default 0.5.
        chunks: texts, or ``{"text": …, "chunk_id": …}``; what is neither is skipped and counted.
    """

    id: Identifier | None = None
    name: Identifier | None = None
    weight: Annotated[Number, Field(ge=0, le=1)] = 0.5
    chunks: list[Any]


class PinnedReplay(Job):
    """Job of `pinned_replay`: the same chunks again, by what they say.

    Attributes:
        required_chunk_hashes: the chunks wanted, in this order.
        runs: instead: several recorded runs, each answered as if alone.
        citations: instead: a citations document.
        sources: where to look; absent: the corpus.
        corpus: a corpus named in the worker's settings; default the first.
        top_k: how many chunks, any integer, clamped to 0-10,000; default as many as are pinned, or 5 without pins.
        fill: what follows the pinned chunks up to ``top_k``: by ``text``, by ``hash``, or ``none``.
        query: accepted, and changes nothing.
        seed: accepted, and changes nothing.

    ``run`` alone names the run to replay; beside hashes or citations it is where to record.
    """

    required_chunk_hashes: Annotated[list[ChunkHash], Field(max_length=MAX_PINS)] | None = None
    runs: Annotated[list[RunName], Field(min_length=1, max_length=MAX_RUNS)] | None = None
    citations: dict[str, Any] | None = None
    sources: list[InlineSource] | None = None
    corpus: Identifier | None = None
    top_k: StrictInt | None = None
    fill: Literal["text", "hash", "none"] | None = None
    query: StrictStr | None = None
    seed: StrictInt | None = None

    @model_validator(mode="after")
    def _one_kind_of_pins(self) -> Self:
        given = [name for name in ("required_chunk_hashes", "runs", "citations") if getattr(self, name) is not None]
        if len(given) > 1:
            raise PydanticCustomError(
                "both", f"expected one of required_chunk_hashes, runs and citations, got {len(given)}"
            )
        if not given and self.run is None:
            raise PydanticCustomError("absent", "required_chunk_hashes")
        if self.runs is not None and self.sources is not None:
            raise PydanticCustomError("both", "expected runs or sources, got both: runs are of a corpus")
        if self.runs is not None and self.run is not None:
            raise PydanticCustomError("both", "expected runs or run, got both: several answers have no one record")
        return self


class CitedChunk(Part):
    """A chunk that was used.

    Attributes:
        source_id: the document that it was cut from.
        text: what it says.
        weight: how much it counted, 0-1.
        section: the part of the output that used it, or null.
        chunk_hash: the hash recorded for it; without one it is computed.
        chunk_id: the chunk that it was.
        page: page in the source.
        coordinates: where on the page.
    """

    nullable = frozenset({"section", "page", "coordinates"})

    source_id: Identifier
    text: StrictStr
    weight: Annotated[Number, Field(ge=0, le=1)]
    section: PathPart | None = None
    chunk_hash: ChunkHash | None = None
    chunk_id: Identifier | None = None
    page: StrictInt | None = None
    coordinates: Any = None


class Quote(Part):
    """Words that are said to stand in a chunk.

    Attributes:
        chunk_hash: the chunk.
        quote: the words.
    """

    chunk_hash: ChunkHash
    quote: Annotated[StrictStr, Field(max_length=100_000)]


class BuildCitations(Job):
    """Job of `build_citations`: what was used, verified against the sources, stored as the run's artifact.

    Attributes:
        records: the chunks that were used, in their order.
        cite: instead: a recorded run, whose chunks they are.
        sections: with ``cite``: chunk hash → section.
        answer: generated text with labels like ``[S1]``.
        labels: label → hash of the chunk that it stands for.
        quotes: words to check, one by one.
        verify: compare each citation with the corpora, with this caller's rights.
        store: keep the document as ``runs/{subject_id}/{run_id}/citations.json`` of ``run``.
    """

    records: Annotated[list[CitedChunk], Field(max_length=MAX_PINS)] | None = None
    cite: RunName | None = None
    sections: dict[ChunkHash, PathPart] | None = None
    answer: StrictStr | None = None
    labels: dict[Annotated[StrictStr, Field(max_length=16)], ChunkHash] | None = None
    quotes: Annotated[list[Quote], Field(max_length=MAX_PINS)] | None = None
    verify: StrictBool = True
    store: StrictBool = True

    @model_validator(mode="after")
    def _one_kind_of_records(self) -> Self:
        if (self.records is None) == (self.cite is None):
            if self.records is None:
                raise PydanticCustomError("absent", "records")
            raise PydanticCustomError("both", "expected records or cite, got both")
        if self.sections is not None and self.cite is None:
            raise PydanticCustomError("both", "expected sections with cite only: records have their own")
        return self


MAX_TOP_K = 50
MAX_SEARCHES = 8


class HybridSearch(Part):
    """One corpus of a hybrid retrieval.

    Attributes:
        corpus: a corpus named in the worker's settings.
        top_k: how many chunks are wanted; any integer, clamped to 1-50.
        filters: what to narrow this corpus to.
    """

    corpus: Identifier
    top_k: StrictInt = 5
    filters: Filters | None = None

    @property
    def clamped_top_k(self) -> int:
        """``top_k`` within 1-50."""
        return max(1, min(self.top_k, MAX_TOP_K))


class Diversity(Part):
    """How to keep an answer from saying one thing many times.

    Attributes:
        relevance: what counts against likeness to what is chosen already: 1, only relevance; 0, only difference.
        per_document: at most so many chunks of one document.
    """

    relevance: Annotated[Number, Field(ge=0, le=1, alias="lambda")] = 1.0
    per_document: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None


class RetrieveHybrid(Job):
    """Job of `retrieve_hybrid`: several searches at once over several corpora, made one ranking a corpus.

    Attributes:
        query: what the user wants.
        query_embedding: of the query, if the backend has it already; see `EMBEDDING_SCHEMA`.
        context: what the user is working on; its keywords widen the second search. Empty: no second search.
        searches: the corpora, each once; default those of the worker's settings.
        legs: `primary` (the query), `contextual` (query and keywords), `sparse` (full text).
        fusion: how legs become one: by `similarity`, reciprocal ranks (`rrf`), or `weighted` scores.
        weights: leg → its weight, for `rrf` and `weighted`; of a leg that is not in it, the worker's settings say it.
        transform: what is done to the query first: `none`, `glossary` (terms of the corpus for the user's),
            `llm` (a language model words it anew). An embedding that comes with the query is used as it is.
        diversity: null: none.
    """

    nullable = frozenset({"diversity"})

    query: Annotated[StrictStr, Field(min_length=1, max_length=100_000)]
    query_embedding: Embedding = None
    context: StrictStr = ""
    searches: Annotated[list[HybridSearch], Field(min_length=1, max_length=MAX_SEARCHES)] | None = None
    legs: Annotated[list[LegName], Field(min_length=1, max_length=3)] = ["primary", "contextual"]
    fusion: Literal["similarity", "rrf", "weighted"] = "similarity"
    weights: dict[LegName, Annotated[Number, Field(ge=0, le=1_000_000)]] | None = None
    transform: Literal["none", "glossary", "llm"] = "none"
    diversity: Diversity | None = None

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if not self.query.strip():
            raise PydanticCustomError("blank", "query")
        if len({*self.legs}) < len(self.legs):
            raise PydanticCustomError("repeated", "legs")
        if self.legs == ["contextual"]:
            raise PydanticCustomError("alone", "legs")
        corpora = [search.corpus for search in self.searches or []]
        if len({*corpora}) < len(corpora):
            raise PydanticCustomError("repeated", "searches")
        return self


class VerifyRuns(Part):
    """Job of `verify_runs`, for the schedule only: nothing to say, so nobody else's rights can be asked for."""


def parse_job(model: type[JobT], data: Any) -> JobT:
    """Validate one decoded job object.

    Raises:
        InvalidJob: with the path of the first wrong field and what was expected, never with its value.
    """
    if not isinstance(data, dict):
        raise InvalidJob("expected one job object as the only positional argument")
    return parse_part(model, data)


def parse_part(model: type[JobT], data: dict[str, Any]) -> JobT:
    """The same of any object of the contract."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise first_problem(error) from None


def first_problem(error: ValidationError) -> InvalidJob:
    """The first of pydantic's problems as a sentence: where, and what was expected there; never a value."""
    first = error.errors(include_input=False, include_url=False)[0]
    kind, location = first["type"], list(first["loc"])
    if kind in _OF_FIELDS:
        return InvalidJob(_OF_FIELDS[kind], _path([*location, first["msg"]]))
    return InvalidJob(_expectation(kind, first["msg"]), _path(location))


_OF_FIELDS = {
    "null": "expected a value or no such field, got null",
    "absent": "expected this field",
    "blank": "expected more than white space",
    "repeated": "expected each one once",
    "alone": "expected primary or sparse beside contextual, which only widens them",
}
"""What our own validators found; their message is the field."""


def _path(location: list[str | int]) -> str:
    path = ""
    for part in location:
        path = join_path(path, part)
    return path


_EXPECTATIONS = {
    "missing": "expected this field",
    "extra_forbidden": "this field is not known",
    "bool_type": "expected true or false",
    "int_type": "expected an integer",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "string_type": "expected a string",
    # The only pattern of the contract is that of a chunk hash.
    "string_pattern_mismatch": "expected sha256: and 64 lower-case hex digits",
    "list_type": "expected a list",
    "dict_type": "expected an object",
    "model_type": "expected an object",
}


def _expectation(kind: str, message: str) -> str:
    """Pydantic's messages name bounds and choices, never the input."""
    if kind in _EXPECTATIONS:
        return _EXPECTATIONS[kind]
    return re.sub(r"^\w+ should (be|have)", "expected", message).replace(" after validation", "")


# --- results ------------------------------------------------------------------------------------


class Result(BaseModel):
    """An object inside a result. Unknown fields are ignored, so that a newer worker may say more."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Stage(Result):
    """One step of a job: its name, how long it took, and what it counted."""

    stage: str
    duration_ms: float
    counts: dict[str, int] = {}


class Trace(Result):
    """How an answer came about. Not part of what a repeat repeats.

    Attributes:
        stages: what was done, in order, with durations in milliseconds.
        search: ``index`` or ``exact`` where a search was made, and its parameters.
        models: models (and their versions) that took part.
        worker_version: version of this project.
        cache: `hit` where an equal job's answer was taken, its chunks read anew; `miss` where there was none; null
            where none was looked for.
    """

    stages: list[Stage]
    search: dict[str, Any] = {}
    models: dict[str, str] = {}
    worker_version: str
    cache: Literal["hit", "miss"] | None = None


class FoundChunk(Result):
    """A chunk that a search found.

    Attributes:
        rank: place in the answer, from 1.
        chunk_id: the chunk's id, as a string whatever the column's type.
        document_id: its document's id, likewise.
        text: the chunk's text, as stored.
        page: page number in the document; null where none is known.
        section: section of the document; null where none is known.
        coordinates: where on the page, in whatever form the backend stores; null where none are known.
        metadata: the chunk's metadata, and mapped columns without a field of their own.
        chunk_hash: `sha256:` and the hex of the text's hash; see `hash-vectors.json`.
        hash_version: which version of the hash `chunk_hash` is.
    """

    rank: int
    chunk_id: str
    document_id: str
    text: str
    page: int | None
    section: str | None
    coordinates: Any
    metadata: dict[str, Any]
    chunk_hash: str
    hash_version: int


class RankedChunk(FoundChunk):
    """A chunk of a `retrieve_top_k` answer.

    Attributes:
        distance: cosine distance from the query, in [0, 2].
        similarity_score: 1 − `distance`.
    """

    distance: float
    similarity_score: float


class TopK(Result):
    """Answer of `retrieve_top_k` to one query.

    Attributes:
        schema_version: version of this contract.
        status: `ok` with `k` chunks, `short` with fewer, `empty` with none, which is no failure.
        short_reason: null if `ok`; else the first that applies: `max_distance` removed a chunk, `filters` were
            given, no more rows are visible (`visible_rows`), or recorded chunks `changed`.
        k_requested: the job's `k`.
        k: the same, clamped to 10–15.
        corpus: the corpus that was searched.
        chunks: the nearest first.
        trace: how the answer came about; differs from repeat to repeat.
    """

    schema_version: Literal[1]
    status: Literal["ok", "short", "empty"]
    short_reason: Literal["max_distance", "filters", "visible_rows", "changed"] | None
    k_requested: int
    k: int
    corpus: str
    chunks: list[RankedChunk]
    trace: Trace


class JobError(Result):
    """Why one query of a batch has no answer."""

    type: str
    path: str
    message: str


class FailedQuery(Result):
    """Stands at its query's place in a batch."""

    error: JobError


class TopKBatch(Result):
    """Answer of `retrieve_top_k` to ``query_embeddings``: one entry a query, in their order."""

    schema_version: Literal[1]
    results: list[TopK | FailedQuery]
    trace: Trace


class Pinned(Result):
    """What became of one pin.

    Attributes:
        chunk_hash: the pin's hash.
        verdict: what became of it.
        chunk_id: the chunk that answers it, or that was edited; null if missing.
        document_id: that chunk's document.
        found_hash: what that chunk's hash is now.
        places: how many visible chunks say the same now.
    """

    chunk_hash: str
    verdict: Literal["exact", "normalised", "moved", "ambiguous", "edited", "missing", "matched"]
    chunk_id: str | None
    document_id: str | None
    found_hash: str | None
    places: int


class ReplayedChunk(Result):
    """A chunk of a replay; the fields from ``rank`` on are there where a corpus was asked."""

    chunk_hash: str
    text: str
    source_id: str
    weight: float
    pinned: bool
    rank: int | None = None
    chunk_id: str | None = None
    document_id: str | None = None
    page: int | None = None
    section: str | None = None
    coordinates: Any = None
    metadata: dict[str, Any] | None = None
    hash_version: int | None = None


class Replay(Result):
    """Answer of `pinned_replay`.

    Attributes:
        chunks: the pinned ones in the order asked, then the fill.
        pins: what became of each pin.
        matched: pins answered with a chunk.
        missing: pins gone, or not visible to this caller.
        filled: chunks that nobody pinned.
        truncated: pins beyond ``top_k``.
        skipped: inline chunks that were no text.
        digest: two replays are the same if their digests are.
    """

    schema_version: Literal[1]
    chunks: list[ReplayedChunk]
    pins: list[Pinned]
    matched: int
    missing: int
    filled: int
    truncated: int
    skipped: int
    digest: str
    trace: Trace


class ReplayBatch(Result):
    """Answer of `pinned_replay` to ``runs``: one entry a run, in their order."""

    schema_version: Literal[1]
    results: list[Replay | FailedQuery]
    trace: Trace


class LegScore(Result):
    """How one leg judged a chunk: its own score (higher is better) and its place there, from 1."""

    leg: str
    score: float
    rank: int


class Scores(Result):
    """Why a chunk stands where it stands.

    Attributes:
        legs: of every leg that found it.
        fused: what the fusion made of them.
        rerank: a reranker's score; null where none took part.
        temporal: how recent it is, by the profile's half-life; null where that counts nothing.
    """

    legs: list[LegScore]
    fused: float | None
    rerank: float | None
    temporal: float | None


class FusedChunk(FoundChunk):
    """A chunk of a hybrid answer.

    Attributes:
        distance: cosine distance from the query, in [0, 2]; null where only the full text found it.
        similarity_score: 1 − `distance`, or null.
        scores: what each leg and each later step made of it.
    """

    distance: float | None
    similarity_score: float | None
    scores: Scores


class HybridAnswer(Result):
    """What one corpus answered.

    Attributes:
        status: `ok` with ``top_k`` chunks, `short` with fewer, `empty` with none.
        short_reason: null if `ok`; else `filters` were given, no more were found or left by `diversity`
            (`visible_rows`), or recorded chunks `changed`.
        top_k_requested: the search's `top_k`.
        top_k: the same, clamped to 1-50.
        chunks: the best first.
    """

    status: Literal["ok", "short", "empty"]
    short_reason: Literal["filters", "visible_rows", "changed"] | None
    top_k_requested: int
    top_k: int
    chunks: list[FusedChunk]


class HybridMetrics(Result):
    """How one corpus' legs did.

    Attributes:
        contextual: whether the second search was `used`, `skipped` (no context) or `failed`.
        contextual_error: why it failed.
        primary_count: chunks that the primary leg found.
        contextual_count: chunks that the contextual leg found.
        sparse_count: chunks that the sparse leg found.
        merged_count: chunks that any leg found, each once.
        duplicate_count: how often a leg found what an earlier one had.
        dedup_rate: duplicates among all that was found, 0-1.
        top_similarity: leg → similarity of its best chunk; null where it found none.
        mean_similarity: leg → mean similarity of its chunks; null where it found none.
    """

    contextual: Literal["used", "skipped", "failed"]
    contextual_error: str | None = None
    primary_count: int
    contextual_count: int
    sparse_count: int
    merged_count: int
    duplicate_count: int
    dedup_rate: float
    top_similarity: dict[str, float | None]
    mean_similarity: dict[str, float | None]


class Hybrid(Result):
    """Answer of `retrieve_hybrid`.

    Attributes:
        transformed_query: what was searched for.
        context_keywords: what the second search added to it.
        results: corpus → its chunks.
        metrics: corpus → how its legs did.
    """

    schema_version: Literal[1]
    transformed_query: str
    context_keywords: list[str]
    results: dict[str, HybridAnswer]
    metrics: dict[str, HybridMetrics]
    trace: Trace


class CitationCheck(Result):
    """What became of one citation.

    Attributes:
        chunk_hash: the citation's hash.
        integrity: whether its text is what its hash says.
        authorised: whether this caller may see its source now; null where nothing was verified.
        verdict: what became of the chunk, as in a replay; null where nothing was verified.
    """

    chunk_hash: str
    integrity: bool
    authorised: bool | None
    verdict: str | None


class QuoteCheck(Result):
    """Where a quote stands.

    Attributes:
        chunk_hash: the chunk that it was said to be from.
        quote: the words.
        verdict: how it stands there.
        normalised: what had to be normalised for it.
        spans: where, as (start, end) in code points of the chunk's own text.
        citation: index in ``all_citations`` of that text (texts that differ only in white space have one hash);
            null where it does not stand in the chunk named.
        found_in: hashes of the other chunks that it stands in, where it is misattributed.
    """

    chunk_hash: str
    quote: str
    verdict: Literal["verbatim", "normalised", "elided", "misattributed", "not_found"]
    normalised: list[str]
    spans: list[tuple[int, int]]
    citation: int | None = None
    found_in: list[str]


class UsedLabel(Result):
    """A label that the answer uses."""

    label: str
    chunk_hash: str
    spans: list[tuple[int, int]]


class UnknownLabel(Result):
    """What looks like a label, and was not given."""

    text: str
    span: tuple[int, int]


class LabelCheck(Result):
    """What an answer did with its labels."""

    used: list[UsedLabel]
    unused: list[str]
    unknown: list[UnknownLabel]


class Citations(Result):
    """Answer of `build_citations`.

    Attributes:
        citations: the document: ``by_section``, ``all_citations``, ``total_count``, ``source_ids``.
        verification: what became of each citation, in the order of ``all_citations``.
        quotes: where each quote stands.
        labels: what the answer did with its labels.
        conflicts: what contradicts itself or each other among the citations.
        artifact: where the document is kept, or null.
    """

    schema_version: Literal[1]
    citations: dict[str, Any]
    verification: list[CitationCheck]
    quotes: list[QuoteCheck]
    labels: LabelCheck
    conflicts: list[dict[str, Any]]
    artifact: str | None
    trace: Trace
