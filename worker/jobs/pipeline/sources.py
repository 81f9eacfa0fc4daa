"""`build_sources`: from a question to the chunks and remote sources that an answer may use."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from retrieval_client.errors import InvalidJob
from worker.core import degraded
from worker.core.pins.pinning import Pin, bare, unique
from worker.core.prompting.costs import Bill
from worker.core.ranking import temporal
from worker.core.ranking.diversity import (
    Removal,
    Selection,
    cut,
    diversified,
    per_corpus,
    with_text,
)
from worker.core.ranking.fusion import FUSIONS, RRF_K, convex, identity, relevance, weights_used
from worker.jobs.pipeline.plan import plan_of
from worker.jobs.pipeline.source_cache import source_slot
from worker.jobs.pipeline.stages import MODEL_FAILED, Stages
from worker.jobs.pipeline.types import ContextPackage
from worker.jobs.search import SearchTarget, ranked_legs, scored_by_each, search_legs, statistics_of
from worker.jobs.stored_candidates import StoredCandidate
from worker.model import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.adapters.providers.remote_sources import RemoteResults, RemoteSources
    from worker.adapters.providers.reranker import Reranker
    from worker.core.prompting.costs import PriceTable
    from worker.jobs.cache import ResultCache, Slot
    from worker.jobs.corpora import Corpora
    from worker.jobs.parallel_search import ParallelSearch
    from worker.jobs.pipeline.plan import SearchPlan
    from worker.jobs.pipeline.queries import Queries, QueryMaker
    from worker.jobs.pipeline.stages import Report
    from worker.jobs.pipeline.types import QueryRequest, Turn
    from worker.jobs.replay import Replay
    from worker.model import Principal
    from worker.settings import Settings
    from worker.settings.searching import ProfileSettings

REUSE = "cache"
STAGES = ("query", "search", "rerank", "recency", "pinned", "refine", "cut", "remote")
DAY = 86_400.0


class SourceBuilder:
    """Builder of packages.

    Args:
        settings: profiles, modes and limits.
        corpora: the corpora.
        legs: runs searches in parallel.
        queries: makes the queries.
        rerankers: rerankers by their kind in a profile; missing kinds can't be used.
        replay: finds pinned chunks.
        remote: queries remote sources.
        caching: finds cached sources of equal requests.
        prices: prices of the models.
        clock: for durations.
        wall_clock: seconds since 1970; only recency depends on it.
    """

    def __init__(
        self,
        settings: Settings,
        corpora: Corpora,
        legs: ParallelSearch,
        queries: QueryMaker,
        rerankers: Mapping[str, Reranker],
        replay: Replay,
        remote: RemoteSources,
        caching: ResultCache,
        prices: PriceTable,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._corpora = corpora
        self._legs = legs
        self._queries = queries
        self._rerankers = rerankers
        self._replay = replay
        self._remote = remote
        self._caching = caching
        self._prices = prices
        self._clock = clock
        self._now = wall_clock

    def build(
        self,
        request: QueryRequest,
        caller: Principal,
        report: Report,
        *,
        reuse: bool = False,
        history: Sequence[Turn] = (),
    ) -> ContextPackage:
        """Find the sources for an answer.

        Args:
            request: the request.
            caller: the caller.
            report: called at each stage.
            reuse: True: use cached sources of an equal request, and cache new ones. Remote sources are queried in
                any case: their changes can't be tracked.
            history: earlier turns; without any those of the request.

        Raises:
            InvalidJob: a mode, profile, corpus or filter is unknown.
            RetrievalError: the search failed; see `worker.jobs.search.search_legs`.
        """
        plan = plan_of(request, self._settings, history)
        slot = source_slot(self._caching, self._queries, plan, caller) if reuse else None
        names = STAGES if slot is None else (REUSE, *STAGES)
        stages = Stages(self._clock, names, report, Bill(self._prices), require_model=request.require_model)
        stages.models = self._models(plan)
        stages.joined = next(reversed(plan.joined), None)
        if slot is None or not _found_before(slot, stages):
            self._find(plan, caller, stages)
            # A later request should not inherit a failure.
            if slot is not None and not stages.warnings:
                slot.keep(map(StoredCandidate.of, stages.sources), {})
        with stages.stage("remote") as counts:
            remote = self._find_remote(plan, stages)
            counts |= {"found": len(remote.sources), "failed": len(remote.failed)}
        return ContextPackage(
            request=plan.request,
            profile=plan.profile_name,
            candidates=tuple(dataclasses.replace(candidate, embedding=None) for candidate in stages.sources),
            remote_sources=remote.sources,
            costs=tuple(stages.bill.entries),
            degraded=tuple(degraded.ordered(stages.degraded)),
            trace=stages.trace(),
        )

    def plan(self, request: QueryRequest) -> SearchPlan:
        """Return the plan of a request; see `plan_of`."""
        return plan_of(request, self._settings)

    def _find(self, plan: SearchPlan, caller: Principal, stages: Stages) -> None:
        """Search, rerank, refine and cut."""
        with stages.stage("query") as counts:
            searched = [self._corpora.get(search.corpus, "searches") for search in plan.searches]
            dimensions, names = self._corpora.dimensions_of(searched), [corpus.name for corpus in searched]
            queries = self._queries.make(plan, names, caller, dimensions, stages)
            counts |= {"legs": len(queries.wanted)}
        with stages.stage("search") as counts:
            merged = self._search(plan, queries, caller, stages)
            stages.keep("search", with_text(merged))
            stages.keep("search", self._near_enough(stages.candidates))
            counts |= {"found": len(merged)}
        with stages.stage("rerank"):
            self._rerank(plan, stages)
        with stages.stage("recency"):
            self._prefer_recent(plan.profile, stages)
        with stages.stage("pinned") as counts:
            self._pin(plan, caller, stages)
            counts |= {"pinned": len(stages.pinned)}
        corpus_limits = {search.corpus: search.top_k for search in plan.searches}
        k = max(0, plan.k - len(stages.pinned))
        with stages.stage("refine"):
            if (diversity := plan.profile.diversity) is not None:
                bounds = diversity.relevance, diversity.per_document, stages.pinned, k, corpus_limits
                stages.keep("refine", diversified(stages.candidates, *bounds))
        with stages.stage("cut"):
            stages.keep("cut", per_corpus(stages.candidates, corpus_limits))
            stages.keep("cut", cut(stages.candidates, k))
        texts = (candidate.chunk.text for candidate in stages.candidates)
        self._queries.check_language(queries.language, texts, stages)

    def _models(self, plan: SearchPlan) -> dict[str, str]:
        """Return the models used, with names and versions."""
        reranker = self._rerankers.get(plan.profile.rerank)
        return {**self._queries.models(plan), **({} if reranker is None else {"rerank": reranker.name})}

    # --- stages ---------------------------------------------------------------------------------

    def _search(self, plan: SearchPlan, queries: Queries, caller: Principal, stages: Stages) -> Sequence[Candidate]:
        """Search all corpora, and fuse the legs of all into one list."""
        targets = [
            SearchTarget(self._corpora.get(search.corpus, "searches"), search.filters, plan.profile.fetch)
            for search in plan.searches
        ]
        vectors = plan.profile.diversity is not None and plan.profile.diversity.relevance < 1
        leg_results = search_legs(self._legs, caller, targets, queries.wanted, queries.budget.left(), vectors=vectors)
        if plan.profile.fusion == "weighted":
            seconds, usual = queries.budget.left(), queries.language.usual
            leg_results = scored_by_each(self._legs, caller, targets, queries.wanted, leg_results, seconds, usual)
        for request, leg in zip(queries.wanted, leg_results, strict=True):
            if leg.error is not None:
                stages.degrade(request.without, request.name, leg.error.message)
        stages.legs = {leg.name: leg.duration_ms for leg in leg_results}
        stages.methods = {leg.name: tuple(search.method for search in leg.found or ()) for leg in leg_results}
        stages.statistics = {leg.name: tuple(statistics) for leg in leg_results if (statistics := statistics_of(leg))}
        weights = {request.name: request.weight for request in queries.wanted if request.weight is not None}
        ranked, fusion = ranked_legs(leg_results, range(len(targets))), plan.profile.fusion
        stages.weights = weights_used(fusion, ranked, weights)
        return FUSIONS[fusion](ranked, weights, RRF_K)

    def _near_enough(self, candidates: Sequence[Candidate]) -> Selection:
        """Drop candidates beyond their corpus's maximum distance; one without a distance has no such bound."""
        bounds = {corpus.name: corpus.settings.max_distance for corpus in self._corpora.all()}

        def near(candidate: Candidate) -> bool:
            bound = bounds[candidate.corpus]
            return bound is None or candidate.distance is None or candidate.distance <= bound

        far = [Removal(candidate, "below threshold") for candidate in candidates if not near(candidate)]
        return Selection(tuple(filter(near, candidates)), tuple(far))

    def _rerank(self, plan: SearchPlan, stages: Stages) -> None:
        if plan.profile.rerank == "none":
            return
        reranker = self._rerankers.get(plan.profile.rerank)
        if reranker is None:
            raise InvalidJob("expected a profile that needs no language model: the settings name none", "profile")
        try:
            texts = [candidate.chunk.text for candidate in stages.candidates]
            paid = stages.bill.of("rerank")
            scores = reranker.scores(stages.reworded or plan.request.question, texts, paid)
            if stages.joined is not None and stages.reworded is None:
                share = plan.profile.conversation / (1.0 + plan.profile.conversation)
                scores = convex(scores, reranker.scores(stages.joined, texts, paid), share)
        except MODEL_FAILED as error:
            stages.degrade(degraded.RERANKER, "rerank", error.message)
            return
        relevances = [relevance(candidate) or 0.0 for candidate in stages.candidates]
        combined = convex(relevances, scores, plan.profile.weight_of_reranker)
        scored = [
            _with_scores(candidate, rerank=score) for candidate, score in zip(stages.candidates, combined, strict=True)
        ]
        stages.candidates = temporal.reordered(scored, combined)

    def _prefer_recent(self, profile: ProfileSettings, stages: Stages) -> None:
        if profile.temporal is None or not stages.candidates:
            return
        half_life = profile.temporal.half_life_days * DAY
        fields = {corpus.name: corpus.settings.date for corpus in self._corpora.all()}
        recencies = [
            temporal.recency(
                _seconds(candidate.chunk.metadata.get(fields[candidate.corpus] or "")), self._now(), half_life
            )
            for candidate in stages.candidates
        ]
        relevances = [relevance(candidate) or 0.0 for candidate in stages.candidates]
        blended = temporal.blended(relevances, recencies, profile.temporal.weight)
        scored = [
            _with_scores(candidate, temporal=recency)
            for candidate, recency in zip(stages.candidates, recencies, strict=True)
        ]
        stages.candidates = temporal.reordered(scored, blended)

    def _pin(self, plan: SearchPlan, caller: Principal, stages: Stages) -> None:
        """Put the chunks that the request pins by hash before all others."""
        if not plan.request.pinned_chunks:
            return
        pins = unique(bare(plan.request.pinned_chunks))
        candidates_by_pin: dict[Pin, Candidate] = {}
        for search in plan.searches:
            corpus = self._corpora.get(search.corpus)
            missing_pins = [pin for pin in pins if pin not in candidates_by_pin]
            for outcome in self._replay.outcomes(corpus, caller, missing_pins) if missing_pins else []:
                if outcome.chunk is not None:
                    candidates_by_pin[outcome.pin] = Candidate(outcome.chunk, None, corpus=corpus.name)
        if len(candidates_by_pin) < len(pins):
            stages.warnings.append(f"pinned: {len(pins) - len(candidates_by_pin)} of {len(pins)} chunks are missing")
        pinned = [candidates_by_pin[pin] for pin in pins if pin in candidates_by_pin]
        ranked = {identity(candidate): candidate for candidate in stages.candidates}
        stages.pinned = [ranked.pop(identity(candidate), candidate) for candidate in pinned]
        stages.candidates = [*ranked.values()]

    def _find_remote(self, plan: SearchPlan, stages: Stages) -> RemoteResults:
        deadline = self._settings.hybrid.deadline_seconds
        remote = self._remote.find(plan.mode.remote, stages.reworded or plan.request.question, plan.k, deadline)
        for service, reason in remote.failed:
            stages.degrade(degraded.remote(service), service, reason)
        stages.warnings += remote.incomplete
        return remote


def _found_before(slot: Slot, stages: Stages) -> bool:
    """Use the cached sources of an equal request, if they are still valid; return whether there were any."""
    with stages.stage(REUSE) as counts:
        remembered = slot.find()
        counts |= {"found": int(remembered is not None)}
        if remembered is not None:
            stages.candidates = remembered.candidates
    stages.cache = "miss" if remembered is None else "hit"
    return remembered is not None


def _with_scores(candidate: Candidate, **scores: Any) -> Candidate:
    return dataclasses.replace(candidate, scores=dataclasses.replace(candidate.scores, **scores))


def _seconds(value: Any) -> float | None:
    """Return a date of a chunk's metadata as seconds since 1970; None if it is not a date. The default zone is UTC."""
    if not isinstance(value, str):
        return None
    try:
        day = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (day if day.tzinfo else day.replace(tzinfo=UTC)).timestamp()
