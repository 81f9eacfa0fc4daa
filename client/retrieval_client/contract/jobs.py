"""The jobs that a backend sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, overload

from pydantic import Field, StrictBool, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError
from typing_extensions import Self, TypedDict, TypeVar, Unpack

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.base import (
    DEFAULT_K,
    LEGS,
    MAX_BATCH,
    MAX_K,
    MIN_K,
    WHOLE,
    AnsweredBy,
    ChunkHash,
    Embedding,
    EmbeddingOfBatch,
    Identifier,
    LegName,
    Lsn,
    Number,
    Part,
    PathPart,
)
from retrieval_client.contract.results import Hybrid, TopK, TopKBatch


class RunRef(Part):
    """Record this job, so that it can be replayed and cited.

    Attributes:
        subject_id: the run's subject, e.g. `song-1`; owner, subject and `run_id` identify a run.
        run_id: the run's name, unique to its subject.
        step: name of this record; a run has one record for each task and step.
        reuse: replay the run if it exists, else search and record.
    """

    subject_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    run_id: Annotated[StrictStr, Field(min_length=1, max_length=512)]
    step: Annotated[StrictStr, Field(min_length=1, max_length=512)] | None = None
    reuse: StrictBool = False


class Job(Part):
    """Fields that every job may have.

    Attributes:
        principal: the caller's claims in plain form; only if the worker's settings trust the queue.
        principal_token: the caller's claims as a signed JWT, bound to this task, this id and this job.
        run: record the job under this name.
        min_lsn: position in Postgres' WAL, such as `pg_current_wal_insert_lsn()` after a write or a change of rights.
            No server that has not replayed it is asked.
    """

    principal: dict[str, Any] | None = None
    principal_token: Annotated[StrictStr, Field(max_length=16_384)] | None = None
    run: RunRef | None = None
    min_lsn: Lsn | None = None

    @model_validator(mode="after")
    def _one_principal(self) -> Self:
        if self.principal is not None and self.principal_token is not None:
            raise PydanticCustomError("both", "expected principal or principal_token, got both")
        return self


class Filters(Part):
    """Filters of a search. A list matches any of its items; ``[]`` matches nothing.

    Attributes:
        document_ids: only chunks of these documents.
        sections: only chunks in one of these sections.
        pages: only chunks on one of these pages.
        path_contains: only documents whose path contains one of these, case-sensitive.
        ext_allow: only documents whose path ends with one of these extensions, e.g. `.pdf`, in any letter case.
        ext_deny: no documents whose path ends with one of these; ``[]`` denies none.
        metadata: only chunks whose metadata has exactly this value at each of these keys.
    """

    document_ids: Annotated[list[Identifier], Field(max_length=1000)] | None = None
    sections: Annotated[list[PathPart], Field(max_length=1000)] | None = None
    pages: Annotated[list[Annotated[StrictInt, Field(ge=-(2**31), lt=2**31), WHOLE]], Field(max_length=1000)] | None = (
        None
    )
    path_contains: Annotated[list[PathPart], Field(max_length=100)] | None = None
    ext_allow: Annotated[list[PathPart], Field(max_length=100)] | None = None
    ext_deny: Annotated[list[PathPart], Field(max_length=100)] | None = None
    metadata: Annotated[dict[StrictStr, Any], Field(max_length=32)] | None = None


TopKAnswerT = TypeVar("TopKAnswerT", bound=TopK | TopKBatch, default=TopK)


class ClaimFields(TypedDict, total=False):
    """Keywords of every job, for type checkers."""

    principal: dict[str, Any] | None
    principal_token: str | None
    min_lsn: str | None


class TopKFields(ClaimFields, total=False):
    """Keywords of each form of `RetrieveTopK`, for type checkers."""

    k: int
    corpus: str | None
    filters: Filters | None
    max_distance: float | None
    exact: bool


class RetrieveTopK(Job, AnsweredBy[TopKAnswerT]):
    """Job of `retrieve_top_k`: the nearest 10–15 chunks by cosine distance that the caller may see.

    Attributes:
        query_embedding: one query; see `EMBEDDING_SCHEMA`.
        query_embeddings: instead, up to 64 queries, each answered as if alone.
        k: number of chunks; any integer, clamped to 10–15.
        corpus: a corpus named in the worker's settings; default the first.
        filters: the filters of the search.
        max_distance: cosine distance in [0, 2]; farther chunks are left out.
        exact: search without an approximate index.
    """

    query_embedding: Embedding = None
    query_embeddings: Annotated[list[EmbeddingOfBatch], Field(min_length=1, max_length=MAX_BATCH)] | None = None
    k: Annotated[StrictInt, WHOLE] = DEFAULT_K
    corpus: Identifier | None = None
    filters: Filters | None = None
    max_distance: Annotated[Number, Field(ge=0, le=2)] | None = None
    exact: StrictBool = False

    if TYPE_CHECKING:  # they know from the keywords which answer a job has

        @overload
        def __init__(
            self: RetrieveTopK[TopK], *, query_embedding: Any, run: RunRef | None = None, **fields: Unpack[TopKFields]
        ) -> None: ...
        @overload
        def __init__(
            self: RetrieveTopK[TopKBatch], *, query_embeddings: list[Any], **fields: Unpack[TopKFields]
        ) -> None: ...
        def __init__(self, **fields: Any) -> None: ...

    @model_validator(mode="after")
    def _one_kind_of_query(self) -> Self:
        if self.query_embeddings is None and self.query_embedding is None:
            raise PydanticCustomError("absent", "query_embedding", {"others": "query_embeddings"})
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


MAX_TOP_K = 50
MAX_SEARCHES = 8


class HybridSearch(Part):
    """One corpus of a hybrid retrieval.

    Attributes:
        corpus: a corpus named in the worker's settings.
        top_k: number of chunks; any integer, clamped to 1-50.
        filters: the filters of this search.
    """

    corpus: Identifier
    top_k: Annotated[StrictInt, WHOLE] = 5
    filters: Filters | None = None

    @property
    def clamped_top_k(self) -> int:
        """``top_k`` within 1-50."""
        return max(1, min(self.top_k, MAX_TOP_K))


class Diversity(Part):
    """Limits of repetition in an answer.

    Attributes:
        relevance: weight of relevance against similarity to chunks already chosen: 1, only relevance; 0, only
            difference.
        per_document: maximum number of chunks of one document.
    """

    relevance: Annotated[Number, Field(ge=0, le=1, alias="lambda")] = 1.0
    per_document: Annotated[StrictInt, Field(ge=1, le=1000), WHOLE] | None = None


class RetrieveHybrid(Job, AnsweredBy[Hybrid]):
    """Job of `retrieve_hybrid`: several searches at once over several corpora, fused into one ranking per corpus.

    Attributes:
        query: the user's query.
        query_embedding: embedding of the query, if the backend has it; see `EMBEDDING_SCHEMA`.
        context: the text that the user is working on; its keywords widen the second search. Empty: no second search.
        searches: the corpora, each once; default those of the worker's settings.
        legs: `primary` (the query), `contextual` (query and keywords), `sparse` (full text); default all, but without
            `sparse` for a corpus without a column of full text.
        fusion: method that combines the legs: `similarity`, reciprocal ranks (`rrf`), or `weighted` scores; default the
            worker's `hybrid.fusion`.
        rrf_k: constant of `rrf`: a chunk at rank r of a leg gets its weight / (rrf_k + r). Others ignore it.
        weights: leg → its weight, for `rrf` and `weighted`; missing legs have the weights of the worker's settings.
        transform: rewriting of the query before the search: `none`, `glossary` (adds the corpus's words),
            `llm` (a language model rewrites it). An embedding given with the query is used unchanged.
        diversity: null: none.
        web_search: `sparse` reads the query in web search syntax: `"a phrase"`, `or`, `-without`. Else these are words.
    """

    nullable = frozenset({"diversity"})

    query: Annotated[StrictStr, Field(min_length=1, max_length=100_000)]
    query_embedding: Embedding = None
    context: StrictStr = ""
    searches: Annotated[list[HybridSearch], Field(min_length=1, max_length=MAX_SEARCHES)] | None = None
    legs: Annotated[list[LegName], Field(min_length=1, max_length=3)] = [*LEGS]
    fusion: Literal["similarity", "rrf", "weighted"] | None = None
    rrf_k: Annotated[StrictInt, Field(ge=1, le=1_000_000), WHOLE] = 60
    weights: dict[LegName, Annotated[Number, Field(ge=0, le=1_000_000)]] | None = None
    transform: Literal["none", "glossary", "llm"] = "none"
    diversity: Diversity | None = None
    web_search: StrictBool = False

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if not self.query.strip():
            raise PydanticCustomError("blank", "query")
        if len({*self.legs}) < len(self.legs):
            raise PydanticCustomError("repeated", "legs")
        if self.legs == ["contextual"]:
            raise PydanticCustomError("alone", "legs")
        weights = {} if self.fusion == "similarity" else self.weights or {}
        if all(weights.get(leg) == 0 for leg in self.searching_legs):
            raise PydanticCustomError("weightless", "weights")
        corpora = [search.corpus for search in self.searches or []]
        if len({*corpora}) < len(corpora):
            raise PydanticCustomError("repeated", "searches")
        return self

    @property
    def searching_legs(self) -> list[LegName]:
        """The legs without ``contextual`` where the job has no context."""
        return [leg for leg in self.legs if leg != "contextual" or self.context.strip()]


class Message(Part):
    """A message of a conversation.

    Attributes:
        role: `user` or `assistant`.
        content: the text.
    """

    role: Literal["user", "assistant"]
    content: Annotated[StrictStr, Field(max_length=100_000)]


class RunPipeline(Job, AnsweredBy[PipelineAnswer]):
    """Job of `run_pipeline`: from a question to an answer with citations.

    Attributes:
        question: the question.
        mode: a mode of the worker's settings; default the first.
        profile: a search profile of the worker's settings; default the mode's.
        filters: the filters of every corpus.
        k: number of sources; any integer, clamped to 1-50; default the mode's.
        starting_prompt: instructions to the model in place of the mode's.
        conversation_id: continues this conversation, or begins one of that name.
        prior_response_id: continues from this answer.
        conversation_history: earlier messages, if the backend stores them.
        chat_mode: `single`: an independent question; `chat`: each answer continues from the last.
        pinned_chunks: hashes of chunks that come first among the sources.
        context: the text that the user is working on.
        searches: corpora to search instead of the mode's.
        seed: passed on to the model that writes the answer, and recorded.
        temperature: likewise.
        stop_after: stop after this stage; the answer is a package, to inspect and to `resume`.
        resume: instead of a question: the id of a package to continue.
        require_model: fail as `Unavailable` if the language model fails, instead of answering without it.
    """

    question: Annotated[StrictStr, Field(min_length=1, max_length=100_000)] | None = None
    mode: Identifier | None = None
    profile: Identifier | None = None
    filters: Filters | None = None
    k: Annotated[StrictInt, WHOLE] | None = None
    starting_prompt: Annotated[StrictStr, Field(max_length=100_000)] | None = None
    conversation_id: Annotated[StrictStr, Field(min_length=1, max_length=512)] | None = None
    prior_response_id: Annotated[StrictStr, Field(min_length=1, max_length=512)] | None = None
    conversation_history: Annotated[list[Message], Field(max_length=1000)] | None = None
    chat_mode: Literal["single", "chat"] = "single"
    pinned_chunks: Annotated[list[ChunkHash], Field(max_length=50)] | None = None
    context: StrictStr = ""
    searches: Annotated[list[HybridSearch], Field(min_length=1, max_length=MAX_SEARCHES)] | None = None
    seed: Annotated[StrictInt, Field(ge=-(2**63), lt=2**63), WHOLE] | None = None
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = None
    stop_after: Literal["build_sources", "synthesize_context"] | None = None
    resume: Annotated[StrictStr, Field(min_length=1, max_length=512)] | None = None
    require_model: StrictBool = False

    @model_validator(mode="after")
    def _question_or_package(self) -> Self:
        if self.resume is None and self.question is None:
            raise PydanticCustomError("absent", "question", {"others": "resume"})
        if self.question is not None and not self.question.strip():
            raise PydanticCustomError("blank", "question")
        if self.resume is not None:
            package_fields = self.model_fields_set - {
                "resume",
                "stop_after",
                "require_model",
                "principal",
                "principal_token",
                "min_lsn",
            }
            if package_fields:
                raise PydanticCustomError(
                    "both", "expected resume without {name}: the package has its own", {"name": min(package_fields)}
                )
        corpora = [search.corpus for search in self.searches or []]
        if len({*corpora}) < len(corpora):
            raise PydanticCustomError("repeated", "searches")
        return self
