"""`retrieve_hybrid`: searches for a query and for the user's context in parallel, fused to one ranking per corpus."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import LEGS
from retrieval_client.errors import RetrievalError
from worker.adapters import logs
from worker.core.prompting.costs import Bill
from worker.core.ranking import vectors
from worker.core.ranking.diversity import diversified, with_text
from worker.core.ranking.fusion import FUSIONS, weights_used
from worker.core.time_budget import TimeBudget
from worker.core.trace import Tracer
from worker.jobs.answer import trace
from worker.jobs.cache import CacheBounds
from worker.jobs.hybrid.queries import (
    HybridRequest,
    Queries,
    QueryWording,
    corpus_queries,
    deciding,
    fusion_weights,
    leg_requests,
)
from worker.jobs.hybrid.report import (
    CorpusResult,
    HybridResult,
    answer_of,
    cached_answer,
    recorded_answer,
    replayed_answer,
)
from worker.jobs.search import ranked_legs, scored_by_each, search_legs
from worker.jobs.stored_candidates import StoredCandidate, of_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from retrieval_client.contract.jobs import RetrieveHybrid
    from worker.adapters.postgres.runs import Record
    from worker.core.prompting.costs import PriceTable
    from worker.core.ranking.fusion import RankedLeg
    from worker.jobs.answer import Summary
    from worker.jobs.cache import ResultCache, Slot
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.jobs.hybrid.queries import CorpusQuery
    from worker.jobs.parallel_search import ParallelSearch
    from worker.jobs.query_embeddings import LanguageCheck, QueryEmbeddings
    from worker.jobs.recording import RecordedAnswer, Recording
    from worker.jobs.transforms import Transforms
    from worker.model import Principal
    from worker.settings.searching import HybridSettings

TASK = "retrieve_hybrid"

log = logs.logger("worker.hybrid")


class HybridRetrieval:
    """Handler of `retrieve_hybrid` jobs.

    Args:
        corpora: the corpora.
        legs: runs searches in parallel.
        embeddings: embeds queries.
        transforms: query transformations, and keywords of contexts.
        caching: finds results of equal jobs.
        recording: answers recorded jobs once.
        settings: the worker's settings of hybrid retrieval.
        prices: prices of the models.
        clock: for the trace, and for the deadline of the legs.
    """

    def __init__(
        self,
        corpora: Corpora,
        legs: ParallelSearch,
        embeddings: QueryEmbeddings,
        transforms: Transforms,
        caching: ResultCache,
        recording: Recording,
        settings: HybridSettings,
        prices: PriceTable,
        clock: Callable[[], float],
    ) -> None:
        self._corpora = corpora
        self._legs = legs
        self._embeddings = embeddings
        self._transforms = transforms
        self._caching = caching
        self._recording = recording
        self._settings = settings
        self._prices = prices
        self._clock = clock

    def retrieve(self, job: RetrieveHybrid, context: JobContext) -> dict[str, Any]:
        """Answer `retrieve_hybrid`.

        Raises:
            InvalidJob: a corpus, filter, embedding or transformation is unknown or wrong.
            NotAuthorised: the token is missing or invalid, and a corpus is not public.
            Unavailable, TimedOut, SettingsError, InternalError: the primary or the sparse leg failed.
        """
        fusion = job.fusion or self._settings.fusion
        corpora = corpus_queries(job, self._corpora, self._settings)
        weights = fusion_weights(job, fusion, self._settings, corpora)
        dimensions = self._corpora.dimensions_of([query.target.corpus for query in corpora])
        embedding = job.query_embedding
        vector = None if embedding is None else vectors.decode(embedding, dimensions=dimensions)
        caller = self._corpora.caller_of_all([query.target.corpus for query in corpora], context)
        request = HybridRequest(job, fusion, weights, corpora, dimensions, vector, caller)
        # A recorded answer is made from Postgres, not from the cache.
        if job.run is None:
            return self._perhaps_cached(request)
        return self._recording.answer(
            TASK,
            job,
            caller,
            make=lambda: self._recorded(request),
            replay=lambda record: self.from_record(record, caller),
        )

    # --- from job to answer ---------------------------------------------------------------------

    def _recorded(self, request: HybridRequest) -> RecordedAnswer:
        tracer, bill = Tracer(self._clock), Bill(self._prices)
        result = self._search(request, self._wording(request.job, tracer, bill), tracer, bill)
        return recorded_answer(result, answer_of(result, bill, tracer))

    def _perhaps_cached(self, request: HybridRequest) -> dict[str, Any]:
        """Answer from an equal job's cached result if valid; else make an answer, and cache it if not degraded."""
        tracer, bill = Tracer(self._clock), Bill(self._prices)
        wording = self._wording(request.job, tracer, bill)
        slot = self._slot(request, wording)
        if slot is None:
            return answer_of(self._search(request, wording, tracer, bill), bill, tracer)
        with tracer.stage("cache") as counts:
            cached = slot.find()
            counts |= {"found": int(cached is not None)}
        if cached is not None:
            models = self._models(wording, embeds=request.vector is None or bool(wording.keywords))
            return cached_answer(request, wording, cached, bill, trace(tracer, {"method": "cache"}, models, "hit"))
        result = self._search(request, wording, tracer, bill)
        answer = answer_of(result, bill, tracer, "miss")
        if not result.header["degraded"]:  # a later job should not inherit a failure
            slot.keep(map(StoredCandidate.of, result.candidates), answer["metrics"])
        return answer

    def _slot(self, request: HybridRequest, wording: QueryWording) -> Slot | None:
        if wording.error is not None:  # without its keywords it would equal a job without context
            return None
        room = {query.name: query.wanted.clamped_top_k for query in request.corpora}
        bounds = CacheBounds(room, LEGS, figures=True)
        return self._caching.slot(TASK, deciding(request, wording), request.caller, bounds)

    def _search(self, request: HybridRequest, wording: QueryWording, tracer: Tracer, bill: Bill) -> HybridResult:
        """Embed, search and fuse."""
        job, corpora = request.job, request.corpora
        queries = self._queries(wording, request, tracer, bill)
        language = self._embeddings.language_of(wording.embedded)
        with tracer.stage("search") as counts:
            targets, legs = [query.target for query in corpora], leg_requests(job, wording.text, queries)
            seconds = wording.budget.left()
            vectors = job.diversity is not None and job.diversity.relevance < 1
            leg_results = search_legs(self._legs, request.caller, targets, legs, seconds, vectors=vectors)
            if request.fusion == "weighted":
                seconds = wording.budget.left()
                leg_results = scored_by_each(
                    self._legs, request.caller, targets, legs, leg_results, seconds, language.usual
                )
            counts |= {"searches": len(targets) * len(legs)}
        failed = {leg.name: leg.error for leg in leg_results if leg.error is not None}
        if queries.contextual_error is not None:
            failed["contextual"] = queries.contextual_error
        for name, error in failed.items():
            log.warning("leg failed", leg=name, error=type(error).__name__, reason=error.message)
        with tracer.stage("fuse") as counts:
            results = [self._fused(request, query, ranked_legs(leg_results, [i])) for i, query in enumerate(corpora)]
            misread = _misread(request, language, results)
            counts |= {f"misread_{text_kind}": 1 for text_kind in misread}
        if logging.getLogger("worker.hybrid").isEnabledFor(logging.DEBUG):  # a command has not configured its logs
            for corpus in results:
                log.debug("hybrid search", corpus=corpus.query.name, **corpus.summary, keywords=list(wording.keywords))
        return HybridResult(request.fusion, wording, queries, leg_results, results, failed, misread)

    def _fused(self, request: HybridRequest, query: CorpusQuery, legs: Sequence[RankedLeg]) -> CorpusResult:
        """Fuse the legs of one corpus, and keep the best."""
        job = request.job
        merged = FUSIONS[request.fusion](legs, request.weights, job.rrf_k)
        candidates, k = with_text(merged).candidates, query.wanted.clamped_top_k
        if job.diversity is not None:
            candidates = diversified(candidates, job.diversity.relevance, job.diversity.per_document, k=k).candidates
        weights = weights_used(request.fusion, legs, request.weights)
        return CorpusResult(query, legs, weights, merged, candidates[:k])

    # --- queries --------------------------------------------------------------------------------

    def _wording(self, job: RetrieveHybrid, tracer: Tracer, bill: Bill) -> QueryWording:
        with tracer.stage("transform") as counts:
            transformed = self._transforms.apply(job.transform, job.query, bill.of("transform"))
            budget = TimeBudget(self._settings.deadline_seconds, self._clock)
            outcome = self._transforms.keywords(job.context if "contextual" in job.legs else "", budget)
            keywords, error = ([], outcome) if isinstance(outcome, RetrievalError) else (outcome, None)
            counts |= {"keywords": len(keywords)}
        return QueryWording(transformed.text, transformed.embedded, keywords, transformed.models, budget, error)

    def _queries(self, wording: QueryWording, request: HybridRequest, tracer: Tracer, bill: Bill) -> Queries:
        """Embed the query and its contextual variant, each in its own call; full text goes on if that fails."""
        job_vector, text = request.vector, wording.contextual_text
        own_text = [] if job_vector is not None else [wording.embedded]
        needed = own_text if request.needs_vector else []
        optional = {"contextual": [] if text is None else [text], "query": own_text if not needed else []}
        with tracer.stage("embed") as counts:
            counts |= {"texts": len(needed) + sum(map(len, optional.values()))}
            names = [query.name for query in request.corpora]
            needed_vectors, optional_vectors = self._embeddings.of(
                names, request.caller, needed, optional, wording.budget, bill.of("embed"), request.dimensions
            )
        outcome = needed_vectors or optional_vectors.get("query", [])
        vector = None if isinstance(outcome, RetrievalError) or not outcome else outcome[0]
        contextual = optional_vectors.get("contextual", wording.error)
        if contextual is None or isinstance(contextual, RetrievalError):
            models = self._models(wording, embeds=vector is not None)
            return Queries(vector if job_vector is None else job_vector, None, models, contextual)
        return Queries(vector if job_vector is None else job_vector, contextual[0], self._models(wording, embeds=True))

    def _models(self, wording: QueryWording, *, embeds: bool) -> dict[str, str]:
        """Return the models used, with names and versions."""
        return {**wording.models, **({"embedder": self._embeddings.name} if embeds else {})}

    # --- a record -------------------------------------------------------------------------------

    def from_record(self, record: Record, caller: Principal) -> dict[str, Any]:
        """Return the recorded answer with current permissions; changed or hidden chunks are left out and reported."""
        tracer = Tracer(self._clock)
        with tracer.stage("record") as counts:
            candidates = self._corpora.unchanged(caller, of_record(record.pins, record.answer["scores"]))
            counts |= {"recorded": len(record.pins), "kept": len(candidates)}
        return replayed_answer(record, candidates, trace(tracer, {"method": "record"}, dict(record.models)))


def _misread(request: HybridRequest, language: LanguageCheck, results: Sequence[CorpusResult]) -> Sequence[str]:
    """Return what is not of the embedder's languages; nothing where the job brings its own vector."""
    if request.vector is not None or not request.needs_vector:
        return ()
    return language.misread(candidate.chunk.text for corpus in results for candidate in corpus.candidates)


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of chunks of all corpora, and a text with the status of each."""
    corpus_answers = answer["results"]
    statuses = " ".join(f"{name}={corpus_answer['status']}" for name, corpus_answer in corpus_answers.items())
    return sum(len(corpus_answer["chunks"]) for corpus_answer in corpus_answers.values()), statuses
