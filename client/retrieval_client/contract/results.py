"""Answers of searches: `retrieve_top_k` and `retrieve_hybrid`."""

from __future__ import annotations

from typing import Any, Literal

from retrieval_client.contract.base import Answer, Result


class Stage(Result):
    """One stage of a job: its name, its duration and its counts."""

    stage: str
    duration_ms: float
    counts: dict[str, int] = {}


class Trace(Result):
    """Trace of an answer. It differs between repetitions of a job.

    Attributes:
        stages: the stages, in order, with durations in milliseconds.
        search: ``index`` or ``exact`` if a search was made, and its parameters; of fused legs the `weights` that they
            had, by corpus in `retrieve_hybrid`.
        models: models (and their versions) that were used.
        worker_version: version of this project.
        cache: `hit` if the results of an equal job were reused, with their chunks read again; `miss` if there were
            none; null if the cache was not used.
    """

    stages: list[Stage]
    search: dict[str, Any] = {}
    models: dict[str, str] = {}
    worker_version: str
    cache: Literal["hit", "miss"] | None = None


class FoundChunk(Result):
    """A chunk that a search found.

    Attributes:
        rank: rank in the answer, from 1.
        chunk_id: the chunk's id, as a string whatever the column's type.
        document_id: its document's id, likewise.
        text: the chunk's text, as stored.
        page: page number in the document; null if unknown.
        section: section of the document; null if unknown.
        coordinates: place on the page, in the backend's own form; null if unknown.
        metadata: the chunk's metadata, and mapped columns without a field of their own.
        chunk_hash: `sha256:` and the hex of the text's hash; see `hash-vectors.json`.
        hash_version: version of the hash `chunk_hash`.
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


class TopK(Answer):
    """Answer of `retrieve_top_k` to one query.

    Attributes:
        status: `ok` with `k` chunks, `short` with fewer, `empty` with none, which is not an error.
        short_reason: null if `ok`; else the first that applies: `max_distance` removed a chunk, `filters` were
            given, no more rows are visible (`visible_rows`), or recorded chunks `changed`.
        k_requested: the job's `k`.
        k: the same, clamped to 10–15.
        corpus: the corpus that was searched.
        chunks: the nearest first.
        trace: trace of the answer; differs between repetitions.
    """

    status: Literal["ok", "short", "empty"]
    short_reason: Literal["max_distance", "filters", "visible_rows", "changed"] | None
    k_requested: int
    k: int
    corpus: str
    chunks: list[RankedChunk]
    trace: Trace


class JobError(Result):
    """Error of one query of a batch."""

    type: str
    path: str
    message: str


class FailedQuery(Result):
    """Result of a failed query, at its place in a batch."""

    error: JobError


class TopKBatch(Answer):
    """Answer of `retrieve_top_k` to ``query_embeddings``: one entry per query, in their order."""

    results: list[TopK | FailedQuery]
    trace: Trace


class LegScore(Result):
    """Score of a chunk in one leg: the leg's own score (higher is better) and its rank there, from 1.

    Under `weighted`, every leg scores every candidate: those that it did not find itself rank after those that it did.
    """

    leg: str
    score: float
    rank: int


class Scores(Result):
    """Scores that determine a chunk's rank.

    Attributes:
        legs: scores of each leg that found it.
        fused: score of the fusion.
        rerank: score of the rerank stage, to be compared within one answer only; null without one. With a
            `rerank_weight` below 1: its sum with `fused`, both scaled to 0-1. With 1 the reranker's own: of `lexical`
            BM25 (0 or more), of `llm` 0-10, of `http` and `cross_encoder` the model's, on any scale.
        temporal: recency by the profile's half-life; null if it has no weight.
    """

    legs: list[LegScore]
    fused: float | None
    rerank: float | None
    temporal: float | None


class FusedChunk(FoundChunk):
    """A chunk of a hybrid answer.

    Attributes:
        distance: cosine distance from the query, in [0, 2]; null if only full-text search found it.
        similarity_score: 1 − `distance`, or null.
        scores: scores of each leg and each later stage.
    """

    distance: float | None
    similarity_score: float | None
    scores: Scores


class HybridAnswer(Result):
    """Result of one corpus.

    Attributes:
        status: `ok` with ``top_k`` chunks, `short` with fewer, `empty` with none.
        short_reason: null if `ok`; else `filters` were given, no more were found or kept by `diversity`
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
    """Metrics of one corpus' legs.

    Attributes:
        contextual: state of the second search: `used`, `skipped` (no context) or `failed`.
        contextual_error: the reason of its failure.
        primary_count: chunks that the primary leg found.
        contextual_count: chunks that the contextual leg found.
        sparse_count: chunks that the sparse leg found.
        merged_count: chunks that any leg found, each once.
        duplicate_count: number of results that an earlier leg had found.
        dedup_rate: share of duplicates among all results, 0-1.
        top_similarity: leg → similarity of its best chunk; null if it found none.
        mean_similarity: leg → mean similarity of its chunks; null if it found none.
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


class Cost(Result):
    """Usage and cost of one call of a model, as its provider counted it.

    Attributes:
        kind: purpose: synthesis, rerank, hyde, transform or embed.
        provider: the model's provider.
        model: its name.
        input_tokens: tokens sent; null if unknown.
        cached_tokens: those of them found in the provider's prompt cache.
        output_tokens: tokens generated; null if unknown.
        search_units: units that a reranker bills instead of tokens; null if it bills tokens.
        cost: a decimal number as text; null, never 0, if a price or a count is unknown.
    """

    kind: str
    provider: str
    model: str
    input_tokens: int | None
    cached_tokens: int
    output_tokens: int | None
    search_units: int | None = None
    cost: str | None


class CostTotal(Result):
    """Total usage and cost of all calls of models.

    Attributes:
        calls: number of calls.
        input_tokens: tokens sent, as far as known.
        cached_tokens: those of them found in a provider's prompt cache.
        output_tokens: tokens generated, as far as known.
        search_units: units that rerankers billed instead of tokens.
        cost: a decimal number as text; null if that of a call is unknown.
        known_cost: sum of the known costs.
        unpriced: number of calls without a known cost.
    """

    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    search_units: int
    cost: str | None
    known_cost: str
    unpriced: int


NO_COSTS = CostTotal(
    calls=0,
    input_tokens=0,
    cached_tokens=0,
    output_tokens=0,
    search_units=0,
    cost="0",
    known_cost="0",
    unpriced=0,
)


class Hybrid(Answer):
    """Answer of `retrieve_hybrid`.

    Attributes:
        fusion: the method that combined the legs; null in records of earlier versions.
        transformed_query: the query after its rewriting.
        context_keywords: keywords that the second search added.
        results: corpus → its result.
        metrics: corpus → metrics of its legs.
        costs: cost of each call of a model.
        costs_total: their sum.
    """

    fusion: Literal["similarity", "rrf", "weighted"] | None = None
    transformed_query: str
    context_keywords: list[str]
    results: dict[str, HybridAnswer]
    metrics: dict[str, HybridMetrics]
    costs: list[Cost] = []
    costs_total: CostTotal = NO_COSTS
    trace: Trace
