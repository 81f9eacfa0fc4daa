"""`build_sources`: from a question to the chunks and remote sources that an answer may use."""

from __future__ import annotations

import dataclasses
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from worker.core import degraded
from worker.core.pins.pinning import Pin, bare, unique
from worker.core.prompting.costs import Bill
from worker.core.ranking import diversity, temporal
from worker.core.ranking.diversity import Dropped, Selection
from worker.core.ranking.fusion import identity, min_max
from worker.core.ranking.total_order import descending
from worker.errors import InvalidJob, SettingsError
from worker.jobs.pipeline.reusing import keep
from worker.jobs.pipeline.search import Where, find
from worker.jobs.pipeline.stages import MODEL_FAILED, Stages, relevance
from worker.jobs.pipeline.types import ContextPackage, CorpusSearch
from worker.model import Candidate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.adapters.providers.remote_sources import RemoteSources
    from worker.adapters.providers.reranker import Reranker
    from worker.core.prompting.costs import PriceTable
    from worker.jobs.cache import Slot
    from worker.jobs.corpora import Corpora
    from worker.jobs.parallel_search import ParallelSearch
    from worker.jobs.pipeline.queries import QueryMaker
    from worker.jobs.pipeline.reusing import Reuse
    from worker.jobs.pipeline.stages import Report
    from worker.jobs.pipeline.types import QueryRequest
    from worker.jobs.replay import Replay
    from worker.model import Principal
    from worker.settings import DiversitySettings, ModeSettings, ProfileSettings, Settings

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
        reuse: finds cached sources of equal requests.
        prices: prices of the models.
        clock: for durations.
        now: seconds since 1970; only recency depends on it.
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
        reuse: Reuse,
        prices: PriceTable,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._corpora = corpora
        self._legs = legs
        self._queries = queries
        self._rerankers = rerankers
        self._replay = replay
        self._remote = remote
        self._reuse = reuse
        self._prices = prices
        self._clock = clock
        self._now = now

    def build(self, request: QueryRequest, asker: Principal, report: Report, *, reuse: bool = False) -> ContextPackage:
        """Find the sources for an answer.

        Args:
            request: the request.
            asker: the caller.
            report: called at each stage.
            reuse: whether to use cached sources of an equal request, and cache new ones. Remote sources are queried in
                any case: their changes can't be tracked.

        Raises:
            InvalidJob: a mode, profile, corpus or filter is unknown.
            RetrievalError: the search failed; see `worker.jobs.pipeline.search.find`.
        """
        mode, name, profile = self.resolve(request)
        searches = self.searches(request, mode)
        k = max(1, min(request.k, 50)) if request.k is not None else mode.k
        slot = self._reuse.slot(request, profile, searches, k, asker) if reuse else None
        stages = Stages(self._clock, STAGES if slot is None else (REUSE, *STAGES), report, Bill(self._prices))
        stages.models = self._models(profile)
        if slot is None or not _found_before(slot, stages):
            self._find(request, profile, searches, k, asker, stages)
            # A later request should not inherit a failure.
            if slot is not None and not stages.warnings:
                keep(slot, stages.sources)
        with stages.stage("remote") as counts:
            remote = self._remote.find(mode.remote, request.question, k, self._settings.hybrid.deadline_seconds)
            for service, reason in remote.failed:
                stages.degrade(degraded.remote(service), service, reason)
            stages.warnings += remote.incomplete
            counts |= {"found": len(remote.sources), "failed": len(remote.failed)}
        kept = tuple(dataclasses.replace(candidate, embedding=None) for candidate in stages.sources)
        return ContextPackage(
            request=request,
            profile=name,
            candidates=kept,
            remote_sources=remote.sources,
            costs=tuple(stages.bill.entries),
            degraded=tuple(degraded.ordered(stages.degraded)),
            trace=stages.trace(),
        )

    def _find(
        self,
        request: QueryRequest,
        profile: ProfileSettings,
        searches: Sequence[CorpusSearch],
        k: int,
        asker: Principal,
        stages: Stages,
    ) -> None:
        """Search, rerank, refine and cut."""
        with stages.stage("query") as counts:
            queries = self._queries.make(request, profile, stages)
            counts |= {"legs": len(queries.wanted)}
        with stages.stage("search") as counts:
            where = [Where(self._corpora.get(search.corpus, "searches"), search.filters) for search in searches]
            vectors = profile.diversity is not None
            merged = find(
                self._legs,
                asker,
                where,
                queries.wanted,
                profile.fusion,
                profile.fetch,
                queries.budget.left(),
                vectors=vectors,
            )
            for one in queries.wanted:
                if error := merged.results[one.name].error:
                    stages.degrade(one.without, one.name, error.message)
            stages.legs = {leg: round(found.duration_ms, 3) for leg, found in merged.results.items()}
            stages.candidates = merged.candidates
            stages.keep("search", self._near_enough(merged.candidates))
            counts |= {"found": len(merged.candidates)}
        with stages.stage("rerank"):
            self._rerank(request.question, profile, stages)
        with stages.stage("recency"):
            self._prefer_recent(profile, stages)
        with stages.stage("pinned") as counts:
            self._pin(request, searches, asker, stages)
            counts |= {"pinned": len(stages.pinned)}
        with stages.stage("refine"):
            _refine(profile.diversity, stages)
        with stages.stage("cut"):
            _cap(searches, stages)
            stages.keep("cut", diversity.cut(stages.candidates, max(0, k - len(stages.pinned))))

    def resolve(self, request: QueryRequest) -> tuple[ModeSettings, str, ProfileSettings]:
        """Return the mode, the profile's name and the profile of a request.

        Raises:
            InvalidJob: the settings have no such mode or profile.
            SettingsError: the settings have no mode at all.
        """
        mode = self._settings.modes.get(request.mode)
        if mode is None and not self._settings.modes:
            raise SettingsError(
                "this worker has no modes, so it answers no run_pipeline: the shipped ones are for other corpora. "
                "Name yours in [modes.NAME] of the settings (docs/pipeline.md)"
            )
        if mode is None:
            raise InvalidJob(f"expected one of {', '.join(self._settings.modes)}", "mode")
        name = mode.profile if request.profile is None else request.profile
        if name not in self._settings.profiles:
            raise InvalidJob(f"expected one of {', '.join(self._settings.profiles)}", "profile")
        return mode, name, self._settings.profiles[name]

    def searches(self, request: QueryRequest, mode: ModeSettings) -> list[CorpusSearch]:
        """Return the searches of a request, else the mode's; a corpus's own filters override the common ones."""
        own = request.searches or tuple(CorpusSearch(corpus, top_k) for corpus, top_k in mode.corpora.items())
        return [
            search if search.filters.given else dataclasses.replace(search, filters=request.filters) for search in own
        ]

    def _models(self, profile: ProfileSettings) -> dict[str, str]:
        """Return the models used, with names and versions."""
        reranker = self._rerankers.get(profile.rerank)
        return {**self._queries.models(profile), **({} if reranker is None else {"rerank": reranker.name})}

    # --- stages ---------------------------------------------------------------------------------

    def _near_enough(self, candidates: Sequence[Candidate]) -> Selection:
        """Drop candidates beyond their corpus's maximum distance; one without a distance has no such bound."""
        bounds = {corpus.name: corpus.settings.max_distance for corpus in self._corpora.all()}

        def near(candidate: Candidate) -> bool:
            bound = bounds[candidate.corpus]
            return bound is None or candidate.distance is None or candidate.distance <= bound

        far = [Dropped(candidate, "below threshold") for candidate in candidates if not near(candidate)]
        return Selection(tuple(filter(near, candidates)), tuple(far))

    def _rerank(self, question: str, profile: ProfileSettings, stages: Stages) -> None:
        if profile.rerank == "none":
            return
        reranker = self._rerankers.get(profile.rerank)
        if reranker is None:
            raise InvalidJob("expected a profile that needs no language model: the settings name none", "profile")
        try:
            texts = [candidate.chunk.text for candidate in stages.candidates]
            scores = reranker.scores(question, texts, stages.bill.of("rerank"))
        except MODEL_FAILED as error:
            stages.degrade(degraded.RERANKER, "rerank", error.message)
            return
        scored = [
            _with_scores(candidate, rerank=score) for candidate, score in zip(stages.candidates, scores, strict=True)
        ]
        # A stable sort keeps the fused order of equal scores.
        stages.candidates = sorted(scored, key=lambda candidate: descending(candidate.scores.rerank))

    def _prefer_recent(self, profile: ProfileSettings, stages: Stages) -> None:
        if profile.temporal is None or not stages.candidates:
            return
        half_life = profile.temporal.half_life_days * DAY
        fields = {corpus.name: corpus.settings.date for corpus in self._corpora.all()}
        recencies = [
            temporal.recency(_seconds(one.chunk.metadata.get(fields[one.corpus] or "")), self._now(), half_life)
            for one in stages.candidates
        ]
        relevances = [_relevance(candidate) for candidate in stages.candidates]
        blended = temporal.blended(relevances, recencies, profile.temporal.weight)
        scored = [
            (_with_scores(candidate, temporal=recency), total)
            for candidate, recency, total in zip(stages.candidates, recencies, blended, strict=True)
        ]
        stages.candidates = [one for one, _ in sorted(scored, key=lambda pair: descending(pair[1]))]

    def _pin(self, request: QueryRequest, searches: Sequence[CorpusSearch], asker: Principal, stages: Stages) -> None:
        """Put the chunks that the request pins by hash before all others."""
        if not request.pinned_chunks:
            return
        left = unique(bare(request.pinned_chunks))
        found: dict[Pin, Candidate] = {}
        for search in searches:
            corpus = self._corpora.get(search.corpus)
            asked = [pin for pin in left if pin not in found]
            for outcome in self._replay.outcomes(corpus, asker, asked) if asked else []:
                if outcome.chunk is not None:
                    found[outcome.pin] = Candidate(outcome.chunk, None, corpus=corpus.name)
        if len(found) < len(left):
            stages.warnings.append(f"pinned: {len(left) - len(found)} of {len(left)} chunks are missing")
        pinned = [found[pin] for pin in left if pin in found]
        ranked = {identity(candidate): candidate for candidate in stages.candidates}
        stages.pinned = [ranked.pop(identity(candidate), candidate) for candidate in pinned]
        stages.candidates = [*ranked.values()]


def _found_before(slot: Slot, stages: Stages) -> bool:
    """Use the cached sources of an equal request, if they are still valid; return whether there were any."""
    with stages.stage(REUSE) as counts:
        remembered = slot.find()
        counts |= {"found": int(remembered is not None)}
        if remembered is not None:
            stages.candidates = remembered.candidates
    stages.cache = "miss" if remembered is None else "hit"
    return remembered is not None


def _refine(wanted: DiversitySettings | None, stages: Stages) -> None:
    """Remove duplicates, apply MMR and cap chunks per document, if the profile has diversity settings."""
    if wanted is None:
        return
    unlike = diversity.without_duplicates(stages.sources)
    stages.keep("refine", Selection(unlike.kept[len(stages.pinned) :], unlike.dropped))
    kept = stages.candidates
    relevances = min_max([_relevance(candidate) for candidate in kept])
    chosen = diversity.mmr(kept, relevances, diversity.stacked(kept), len(kept), wanted.relevance)
    stages.candidates = chosen.kept
    if wanted.per_document is not None:
        stages.keep("refine", diversity.per_document(stages.candidates, wanted.per_document))


def _cap(searches: Sequence[CorpusSearch], stages: Stages) -> None:
    """Keep at most ``top_k`` chunks of each corpus; 0 means no bound."""
    most = {search.corpus: search.top_k for search in searches}
    seen: Counter[str] = Counter()
    kept, dropped = [], []
    for candidate in stages.candidates:
        seen[candidate.corpus] += 1
        bound = most.get(candidate.corpus, 0)
        if bound and seen[candidate.corpus] > bound:
            dropped.append(Dropped(candidate, "capped"))
        else:
            kept.append(candidate)
    stages.keep("cut", Selection(tuple(kept), tuple(dropped)))


def _relevance(candidate: Candidate) -> float:
    return relevance(candidate) or 0.0


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
