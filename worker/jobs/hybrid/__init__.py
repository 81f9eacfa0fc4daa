"""`retrieve_hybrid`: searches for a query and for the user's context in parallel, fused to one ranking per corpus."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from worker.adapters import logs
from worker.contract import NO_COSTS, HybridSearch
from worker.core import degraded
from worker.core.prompting import costs
from worker.core.prompting.costs import Bill, unbilled
from worker.core.ranking import diversity, vectors
from worker.core.ranking.fusion import FUSIONS, RankedLeg, min_max
from worker.core.text.keywords import EXTRACTORS
from worker.core.time_budget import TimeBudget
from worker.core.trace import Tracer
from worker.errors import RetrievalError
from worker.jobs.answer import trace
from worker.jobs.cache import CacheBounds
from worker.jobs.corpora import chunk_ref
from worker.jobs.hybrid.asking import CorpusQuery, Queries, QueryWording, asks_of, deciding, leg_of
from worker.jobs.hybrid.report import corpus_answer, kept_legs, leg_metrics, leg_trace, scores_of
from worker.jobs.recording import RecordedAnswer, pins_of
from worker.model import LEGS, Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.adapters.postgres.runs import Record
    from worker.adapters.postgres.search import Found
    from worker.contract import Diversity, RetrieveHybrid
    from worker.core.prompting.costs import PriceTable
    from worker.core.ranking.vectors import Vector
    from worker.jobs.answer import Handler, Summary
    from worker.jobs.cache import CachedResult, ResultCache
    from worker.jobs.context import JobContext
    from worker.jobs.corpora import Corpora
    from worker.jobs.parallel_search import LegFound, ParallelSearch
    from worker.jobs.query_embeddings import QueryEmbeddings
    from worker.jobs.recording import Recording
    from worker.jobs.side_calls import SideCalls
    from worker.jobs.transforms import Transforms
    from worker.model import Principal
    from worker.settings import HybridSettings

TASK = "retrieve_hybrid"

log = logs.logger("worker.hybrid")


class HybridRetrieval:
    """Answers `retrieve_hybrid` jobs.

    Args:
        corpora: the corpora.
        legs: runs searches in parallel.
        embeddings: embeds queries.
        side_calls: runs the extraction of keywords, which is optional.
        transforms: query transformations.
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
        side_calls: SideCalls,
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
        self._side_calls = side_calls
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
        asks = asks_of(job, self._corpora, self._settings)
        given = vectors.decode(job.query_embedding) if job.query_embedding is not None else None
        asker = self._corpora.asker_of_all([ask.corpus for ask in asks], context)

        def make() -> RecordedAnswer:
            tracer, bill = Tracer(self._clock), Bill(self._prices)
            return self._made(job, asks, self._wording(job, tracer, bill), given, asker, tracer, bill)

        # A recorded answer is made from Postgres, not from the cache.
        if job.run is None:
            return self._perhaps_cached(job, asks, given, asker)
        return self._recording.answer(TASK, job, asker, make, replay=lambda record: self._from_record(record, asker))

    # --- from job to answer ---------------------------------------------------------------------

    def _perhaps_cached(
        self, job: RetrieveHybrid, asks: Sequence[CorpusQuery], given: Vector | None, asker: Principal
    ) -> dict[str, Any]:
        """Answer from an equal job's cached result if valid; else make an answer, and cache it if not degraded."""
        tracer, bill = Tracer(self._clock), Bill(self._prices)
        wording = self._wording(job, tracer, bill)
        if wording.error is not None:  # without its keywords it would equal a job without context
            return self._made(job, asks, wording, given, asker, tracer, bill).answer
        room = {ask.corpus.name: ask.wanted.clamped_top_k for ask in asks}
        slot = self._caching.slot(TASK, deciding(job, wording), asker, CacheBounds(room, LEGS, figures=True))
        if slot is None:
            return self._made(job, asks, wording, given, asker, tracer, bill).answer
        with tracer.stage("cache") as counts:
            remembered = slot.find()
            counts |= {"found": int(remembered is not None)}
        if remembered is not None:
            models = self._models(wording, embeds=given is None or bool(wording.keywords))
            return _from_cache(asks, wording, remembered, models, tracer, bill)
        made = self._made(job, asks, wording, given, asker, tracer, bill, cache="miss")
        if not made.header["degraded"]:  # a later job should not inherit a failure
            slot.keep(made.pins, made.header["scores"], made.header["metrics"])
        return made.answer

    def _made(
        self,
        job: RetrieveHybrid,
        asks: Sequence[CorpusQuery],
        wording: QueryWording,
        given: Vector | None,
        asker: Principal,
        tracer: Tracer,
        bill: Bill,
        cache: str | None = None,
    ) -> RecordedAnswer:
        queries = self._queries(wording, given, tracer, bill)
        with tracer.stage("search") as counts:
            names, results = self._search(job, asks, queries, asker, wording.budget)
            counts |= {"searches": len(asks) * len(names)}
        failed = {name: result.error for name, result in zip(names, results, strict=True) if result.error}
        if queries.contextual_error is not None:
            failed["contextual"] = queries.contextual_error
        for name, error in failed.items():
            log.warning("leg failed", leg=name, error=type(error).__name__, reason=error.message)
        with tracer.stage("fuse"):
            fused = [self._fused(job, ask, i, names, results) for i, ask in enumerate(asks)]
        header = wording.header() | {"degraded": degraded.ordered(failed)}
        state = _contextual_state(wording, failed)
        metrics = {
            ask.corpus.name: leg_metrics(legs, merged, state, failed.get("contextual"))
            for ask, (legs, merged, _) in zip(asks, fused, strict=True)
        }
        kept = {ask.corpus.name: cut for ask, (_, _, cut) in zip(asks, fused, strict=True)}
        results_of = {ask.corpus.name: _answered(ask, kept[ask.corpus.name]) for ask in asks}
        paid = costs.as_json(bill.entries)
        search = {"legs": [leg_trace(n, r) for n, r in zip(names, results, strict=True)]}
        answer = {
            **header,
            "results": results_of,
            "metrics": metrics,
            **paid,
            "trace": trace(tracer, search, dict(queries.models), cache),
        }
        recorded = {
            **header,
            "metrics": metrics,
            **paid,
            "searches": [ask.wanted.model_dump(include={"corpus", "top_k"}) for ask in asks],
            "filtered": [ask.corpus.name for ask in asks if ask.filters.given],
            "scores": [asdict(candidate.scores) for cut in kept.values() for candidate in cut],
            "legs": {ask.corpus.name: kept_legs(legs) for ask, (legs, _, _) in zip(asks, fused, strict=True)},
        }
        searched = [queries.primary] if queries.contextual is None else [queries.primary, queries.contextual]
        pins = pins_of([(candidate.corpus, candidate) for cut in kept.values() for candidate in cut])
        return RecordedAnswer(
            answer, recorded, pins, queries.models, b"".join(vector.astype("<f4").tobytes() for vector in searched)
        )

    # --- queries --------------------------------------------------------------------------------

    def _wording(self, job: RetrieveHybrid, tracer: Tracer, bill: Bill) -> QueryWording:
        with tracer.stage("transform") as counts:
            transformed = self._transforms.apply(job.transform, job.query, bill.of("transform"))
            budget = TimeBudget(self._settings.deadline_seconds, self._clock)
            found = self._keywords(job, budget)
            keywords, error = ([], found) if isinstance(found, RetrievalError) else (found, None)
            counts |= {"keywords": len(keywords)}
        return QueryWording(transformed.text, keywords, transformed.models, budget, error)

    def _keywords(self, job: RetrieveHybrid, budget: TimeBudget) -> Sequence[str] | RetrievalError:
        """Return the keywords of the context, or the error of their extraction."""
        if not job.context or "contextual" not in job.legs:
            return []
        extract = EXTRACTORS[self._settings.extractor]
        return self._side_calls.start(lambda _: extract(job.context)).outcome(unbilled, budget.share())

    def _queries(self, wording: QueryWording, given: Vector | None, tracer: Tracer, bill: Bill) -> Queries:
        """Embed the query and its contextual variant, each in its own call."""
        needed = [] if given is not None else [wording.text]
        text = wording.contextual_text
        optional = {} if text is None else {"contextual": [text]}
        with tracer.stage("embed") as counts:
            counts |= {"texts": len(needed) + len(optional)}
            own, others = self._embeddings.of(needed, optional, wording.budget, bill.of("embed"))
        primary = given if given is not None else own[0]
        contextual = others.get("contextual", wording.error)
        if contextual is None or isinstance(contextual, RetrievalError):
            models = self._models(wording, embeds=given is None)
            return Queries(wording.text, primary, None, models, contextual)
        return Queries(wording.text, primary, contextual[0], self._models(wording, embeds=True))

    def _models(self, wording: QueryWording, *, embeds: bool) -> Mapping[str, str]:
        """Return the models used, with names and versions."""
        return {**wording.models, **({"embedder": self._embeddings.name} if embeds else {})}

    # --- the legs -------------------------------------------------------------------------------

    def _search(
        self, job: RetrieveHybrid, asks: Sequence[CorpusQuery], queries: Queries, asker: Principal, budget: TimeBudget
    ) -> tuple[list[str], list[LegFound]]:
        """Run the job's legs; return their names in order of precedence, and their results."""
        legs = [leg for name in LEGS if name in job.legs and (leg := leg_of(name, job, asks, queries)) is not None]
        results = self._legs.run(asker, legs, budget.left())
        return [leg.name for leg in legs], results

    def _fused(
        self, job: RetrieveHybrid, ask: CorpusQuery, index: int, names: Sequence[str], results: Sequence[LegFound]
    ) -> tuple[list[RankedLeg], list[Candidate], list[Candidate]]:
        """Fuse one corpus; return its legs, the fused ranking, and the part that is answered."""
        legs = [
            _ranked(name, result.found[index])
            for name, result in zip(names, results, strict=True)
            if result.found is not None
        ]
        weights = {str(leg): weight for leg, weight in (job.weights or {}).items()}
        merged = FUSIONS[job.fusion](legs, self._settings.weights_of(job.fusion) | weights)
        return legs, merged, _refined(merged, ask.wanted.clamped_top_k, job.diversity)

    # --- a record -------------------------------------------------------------------------------

    def _from_record(self, record: Record, asker: Principal) -> dict[str, Any]:
        """Return the recorded answer with current permissions; changed or hidden chunks are left out and reported."""
        tracer = Tracer(self._clock)
        header = record.answer
        with tracer.stage("record") as counts:
            kept = self._still_there(record, asker)
            counts |= {"recorded": len(record.pins), "kept": sum(map(len, kept.values()))}
        results = {}
        for wanted in header["searches"]:
            name, search = wanted["corpus"], HybridSearch(**wanted)
            recorded = sum(pin.pin.corpus == name for pin in record.pins)
            results[name] = corpus_answer(search, kept[name], name in header["filtered"], recorded)
        return {
            "schema_version": header["schema_version"],
            "degraded": header.get("degraded", []),  # missing in records of earlier versions
            **{name: header[name] for name in ("transformed_query", "context_keywords")},
            "results": results,
            "metrics": {wanted["corpus"]: header["metrics"][wanted["corpus"]] for wanted in header["searches"]},
            "costs": header.get("costs", []),
            "costs_total": header.get("costs_total", NO_COSTS.model_dump()),
            "trace": trace(tracer, {"method": "record"}, dict(record.models)),
        }

    def _still_there(self, record: Record, asker: Principal) -> dict[str, list[Candidate]]:
        kept: dict[str, list[Candidate]] = {wanted["corpus"]: [] for wanted in record.answer["searches"]}
        chunks = self._corpora.unchanged(asker, [chunk_ref(recorded) for recorded in record.pins])
        for recorded, scores, chunk in zip(record.pins, record.answer["scores"], chunks, strict=True):
            name = recorded.pin.corpus
            if chunk is not None and name in kept:
                kept[name].append(Candidate(chunk, recorded.score, scores_of(scores), name))
        return kept


def _ranked(name: str, found: Found) -> RankedLeg:
    if found.scores is None:
        return RankedLeg.dense(name, found.candidates)
    return RankedLeg(name, tuple(found.candidates), tuple(found.scores))


def _refined(merged: Sequence[Candidate], k: int, wanted: Diversity | None) -> list[Candidate]:
    """Return the best ``k``; with ``wanted``, without duplicate texts, with a cap per document and MMR."""
    if wanted is None:
        return list(merged[:k])
    kept = diversity.without_duplicates(merged).kept
    relevance = min_max([candidate.scores.fused or 0.0 for candidate in kept])
    kept = diversity.mmr(kept, relevance, diversity.stacked(kept), len(kept), wanted.relevance).kept
    if wanted.per_document is not None:
        kept = diversity.per_document(kept, wanted.per_document).kept
    return list(kept[:k])


# --- answers ------------------------------------------------------------------------------------


def _from_cache(
    asks: Sequence[CorpusQuery],
    wording: QueryWording,
    remembered: CachedResult,
    models: Mapping[str, str],
    tracer: Tracer,
    bill: Bill,
) -> dict[str, Any]:
    """Return the answer from an equal job's cached result."""
    kept: dict[str, list[Candidate]] = {ask.corpus.name: [] for ask in asks}
    for candidate in remembered.candidates:
        kept[candidate.corpus].append(candidate)
    return {
        **wording.header(),
        "results": {ask.corpus.name: _answered(ask, kept[ask.corpus.name]) for ask in asks},
        "metrics": {name: remembered.metrics[name] for name in kept},
        **costs.as_json(bill.entries),
        "trace": trace(tracer, {"method": "cache"}, dict(models), "hit"),
    }


def _answered(ask: CorpusQuery, kept: Sequence[Candidate]) -> dict[str, Any]:
    return corpus_answer(ask.wanted, kept, ask.filters.given, len(kept))


def _contextual_state(wording: QueryWording, failed: Mapping[str, Any]) -> str:
    if "contextual" in failed:
        return "failed"
    return "used" if wording.keywords else "skipped"


def handler(engine: Any) -> Handler:
    """Return the handler of `retrieve_hybrid`."""
    answer: Handler = engine.hybrid.retrieve
    return answer


def summary(answer: Mapping[str, Any]) -> Summary:
    """Return the number of chunks of all corpora, and a text with the status of each."""
    parts = answer["results"]
    statuses = " ".join(f"{name}={part['status']}" for name, part in parts.items())
    return sum(len(part["chunks"]) for part in parts.values()), statuses
