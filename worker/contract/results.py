"""What a search is answered with: `retrieve_top_k` and `retrieve_hybrid`."""

from __future__ import annotations

from typing import Any, Literal

from worker.contract.base import Answer, Result


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
        cache: `hit` where what an equal job found was taken, its chunks read anew; `miss` where there was none; null
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


class TopK(Answer):
    """Answer of `retrieve_top_k` to one query.

    Attributes:
        status: `ok` with `k` chunks, `short` with fewer, `empty` with none, which is no failure.
        short_reason: null if `ok`; else the first that applies: `max_distance` removed a chunk, `filters` were
            given, no more rows are visible (`visible_rows`), or recorded chunks `changed`.
        k_requested: the job's `k`.
        k: the same, clamped to 10–15.
        corpus: the corpus that was searched.
        chunks: the nearest first.
        trace: how the answer came about; differs from repeat to repeat.
    """

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


class TopKBatch(Answer):
    """Answer of `retrieve_top_k` to ``query_embeddings``: one entry a query, in their order."""

    results: list[TopK | FailedQuery]
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


class Cost(Result):
    """What one call of a model took, as its provider counted it.

    Attributes:
        kind: what it was for: synthesis, rerank, hyde, transform or embed.
        provider: whose model.
        model: its name.
        input_tokens: sent; null where the provider did not say.
        cached_tokens: of those sent, found in the provider's prompt cache.
        output_tokens: made; null where the provider did not say.
        search_units: what a reranker bills by in place of tokens; null where it bills tokens.
        cost: a decimal number as text; null where a price or a count is unknown, never 0 for that.
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
    """What all calls of models took together.

    Attributes:
        calls: how many.
        input_tokens: sent, as far as the providers said.
        cached_tokens: of those sent, found in a provider's prompt cache.
        output_tokens: made, as far as the providers said.
        search_units: what rerankers billed in place of tokens.
        cost: a decimal number as text; null where that of a call is unknown.
        known_cost: what the calls with a known cost cost.
        unpriced: how many calls have no known cost.
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
        transformed_query: what was searched for.
        context_keywords: what the second search added to it.
        results: corpus → its chunks.
        metrics: corpus → how its legs did.
        costs: of every call of a model.
        costs_total: their sum.
    """

    transformed_query: str
    context_keywords: list[str]
    results: dict[str, HybridAnswer]
    metrics: dict[str, HybridMetrics]
    costs: list[Cost] = []
    costs_total: CostTotal = NO_COSTS
    trace: Trace
