"""`build_sources`: from a question to the chunks and remote sources that an answer may use."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, NamedTuple

from retrieval_client.errors import InvalidJob
from worker.core import degraded
from worker.core.pins.pinning import Pin, bare, unique
from worker.core.prompting.costs import Bill
from worker.core.ranking.fusion import FUSIONS, RRF_K, convex, weights_used
from worker.jobs.pipeline.plan import mode_of, plan_of
from worker.jobs.pipeline.ranking import Ranking, cut_to_k, diversify, near_enough, prefer_recent, reranked
from worker.jobs.pipeline.source_cache import source_slot
from worker.jobs.pipeline.stages import MODEL_FAILED, StageLog
from worker.jobs.pipeline.types import ContextPackage, RetrievalTrace
from worker.jobs.search import ranked_legs, scored_by_each, search_legs, statistics_of
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
    from worker.settings.searching import ModeSettings

REUSE = "cache"
STAGES = ("query", "search", "rerank", "recency", "pinned", "refine", "cut", "remote")


class Found(NamedTuple):
    """Sources of a request.

    Attributes:
        ranking: the sources, and what was dropped.
        trace: the search's part of the trace.
        question: the question as remote sources are asked.
    """

    ranking: Ranking
    trace: RetrievalTrace
    question: str


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
        plan = plan_of(request, self._settings, self._corpora, self._now(), history)
        slot = source_slot(self._caching, self._queries, plan, caller) if reuse else None
        names = STAGES if slot is None else (REUSE, *STAGES)
        stages = StageLog(self._clock, names, report, Bill(self._prices), require_model=request.require_model)
        found = None if slot is None else _remembered(slot, plan, stages)
        cache: Literal["hit", "miss"] | None = None if slot is None else "miss" if found is None else "hit"
        if found is None:
            found = self._find(plan, caller, stages)
            # A later request should not inherit a failure.
            if slot is not None and not stages.warnings:
                slot.keep(map(StoredCandidate.of, found.ranking.sources), {})
        with stages.stage("remote") as counts:
            remote = self._find_remote(plan, found.question, stages)
            counts |= {"found": len(remote.sources), "failed": len(remote.failed)}
        return ContextPackage(
            request=plan.request,
            profile=plan.profile_name,
            candidates=tuple(dataclasses.replace(candidate, embedding=None) for candidate in found.ranking.sources),
            remote_sources=remote.sources,
            costs=tuple(stages.bill.entries),
            degraded=tuple(degraded.ordered(stages.degraded)),
            trace=dataclasses.replace(
                found.trace,
                stages=tuple(stages.stages),
                left=found.ranking.dropped,
                models=self._models(plan),
                cache=cache,
                warnings=tuple(stages.warnings),
            ),
        )

    def plan(self, request: QueryRequest) -> SearchPlan:
        """Return the plan of a request; see `plan_of`."""
        return plan_of(request, self._settings, self._corpora, self._now())

    def mode(self, request: QueryRequest) -> tuple[str, ModeSettings]:
        """Return the mode of a request with its name; see `mode_of`."""
        return mode_of(request, self._settings)

    def _find(self, plan: SearchPlan, caller: Principal, stages: StageLog) -> Found:
        """Search, rerank, refine and cut."""
        with stages.stage("query") as counts:
            dimensions = self._corpora.dimensions_of([target.corpus for target in plan.targets])
            queries = self._queries.make(plan, caller, dimensions, stages)
            counts |= {"legs": len(queries.legs)}
        with stages.stage("search") as counts:
            candidates, trace = self._search(plan, queries, caller, stages)
            counts |= {"found": len(candidates)}
            ranking = stages.ranked(near_enough(candidates, plan))
        with stages.stage("rerank"):
            ranking = stages.ranked(self._rerank(ranking, plan, queries, stages))
        with stages.stage("recency"):
            ranking = stages.ranked(prefer_recent(ranking, plan))
        with stages.stage("pinned") as counts:
            ranking = stages.ranked(self._pin(ranking, plan, caller, stages))
            counts |= {"pinned": len(ranking.pinned)}
        with stages.stage("refine"):
            ranking = stages.ranked(diversify(ranking, plan))
        with stages.stage("cut"):
            ranking = stages.ranked(cut_to_k(ranking, plan))
        self._queries.check_language(queries, ranking.candidates, stages)
        return Found(ranking, trace, queries.reworded or plan.request.question)

    def _models(self, plan: SearchPlan) -> dict[str, str]:
        """Return the models used, with names and versions."""
        reranker = self._rerankers.get(plan.profile.rerank)
        return {**self._queries.models(plan), **({} if reranker is None else {"rerank": reranker.name})}

    # --- stages ---------------------------------------------------------------------------------

    def _search(
        self, plan: SearchPlan, queries: Queries, caller: Principal, stages: StageLog
    ) -> tuple[Sequence[Candidate], RetrievalTrace]:
        """Search all corpora, and fuse the legs of all into one list."""
        requests, targets = queries.legs, plan.targets
        vectors = plan.profile.diversity is not None and plan.profile.diversity.relevance < 1
        legs = search_legs(self._legs, caller, targets, requests, queries.budget.left(), vectors=vectors)
        if plan.profile.fusion == "weighted":
            seconds, usual = queries.budget.left(), queries.language.usual
            legs = scored_by_each(self._legs, caller, targets, requests, legs, seconds, usual)
        for request, leg in zip(requests, legs, strict=True):
            if leg.error is not None:
                stages.degrade(request.without, request.name, leg.error.message)
        weights = {request.name: request.weight for request in requests if request.weight is not None}
        ranked, fusion = ranked_legs(legs, range(len(targets))), plan.profile.fusion
        return FUSIONS[fusion](ranked, weights, RRF_K), RetrievalTrace(
            queries={request.name: request.text for request in requests},
            conversation=queries.reworded or queries.joined,
            legs={leg.name: leg.duration_ms for leg in legs},
            methods={leg.name: tuple(search.method for search in leg.results or ()) for leg in legs},
            weights=weights_used(fusion, ranked, weights),
            statistics={leg.name: tuple(statistics) for leg in legs if (statistics := statistics_of(leg))},
            hyde=queries.hyde,
        )

    def _rerank(self, ranking: Ranking, plan: SearchPlan, queries: Queries, stages: StageLog) -> Ranking:
        if plan.profile.rerank == "none":
            return ranking
        reranker = self._rerankers.get(plan.profile.rerank)
        if reranker is None:
            raise InvalidJob("expected a profile that needs no language model: the settings name none", "profile")
        texts, paid = [candidate.chunk.text for candidate in ranking.candidates], stages.bill.of("rerank")
        try:
            scores = reranker.scores(queries.reworded or plan.request.question, texts, paid)
            if queries.joined is not None:
                share = plan.profile.conversation / (1.0 + plan.profile.conversation)
                scores = convex(scores, reranker.scores(queries.joined, texts, paid), share)
        except MODEL_FAILED as error:
            stages.degrade(degraded.RERANKER, "rerank", error.message)
            return ranking
        return reranked(ranking, plan, scores)

    def _pin(self, ranking: Ranking, plan: SearchPlan, caller: Principal, stages: StageLog) -> Ranking:
        """Put the chunks that the request pins by hash before all others."""
        if not plan.request.pinned_chunks:
            return ranking
        pins = unique(bare(plan.request.pinned_chunks))
        candidates_by_pin: dict[Pin, Candidate] = {}
        for target in plan.targets:
            missing_pins = [pin for pin in pins if pin not in candidates_by_pin]
            for outcome in self._replay.outcomes(target.corpus, caller, missing_pins) if missing_pins else []:
                if outcome.chunk is not None:
                    candidates_by_pin[outcome.pin] = Candidate(outcome.chunk, None, corpus=target.corpus.name)
        if len(candidates_by_pin) < len(pins):
            stages.warnings.append(f"pinned: {len(pins) - len(candidates_by_pin)} of {len(pins)} chunks are missing")
        return ranking.pin([candidates_by_pin[pin] for pin in pins if pin in candidates_by_pin])

    def _find_remote(self, plan: SearchPlan, question: str, stages: StageLog) -> RemoteResults:
        remote = self._remote.find(plan.mode.remote, question, plan.k, self._settings.hybrid.deadline_seconds)
        for service, reason in remote.failed:
            stages.degrade(degraded.remote(service), service, reason)
        stages.warnings += remote.incomplete
        return remote


def _remembered(slot: Slot, plan: SearchPlan, stages: StageLog) -> Found | None:
    """Return the cached sources of an equal request, if they are still valid."""
    with stages.stage(REUSE) as counts:
        remembered = slot.find()
        counts |= {"found": int(remembered is not None)}
        if remembered is None:
            return None
        ranking = stages.ranked(Ranking(remembered.candidates))
    trace = RetrievalTrace(conversation=plan.joined[-1] if plan.joined else None)
    return Found(ranking, trace, plan.request.question)
