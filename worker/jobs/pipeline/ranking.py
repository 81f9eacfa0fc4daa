"""Ranking of a package's candidates, and the steps from what was found to what is kept: each a value from values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from worker.core.ranking import temporal
from worker.core.ranking.diversity import Removal, Selection, cut, diversified, per_corpus, with_text
from worker.core.ranking.fusion import convex, identity, relevance
from worker.jobs.pipeline.types import DroppedCandidate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.jobs.pipeline.plan import SearchPlan
    from worker.model import Candidate

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates between two stages.

    Attributes:
        candidates: those that may still be dropped, best first.
        pinned: chunks that the request pins by hash, before all others; never dropped.
        dropped: all others, with stage and reason.
    """

    candidates: Sequence[Candidate] = ()
    pinned: Sequence[Candidate] = ()
    dropped: tuple[DroppedCandidate, ...] = ()

    @property
    def sources(self) -> tuple[Candidate, ...]:
        """All sources, pinned ones first."""
        return (*self.pinned, *self.candidates)

    def keep(self, stage: str, selection: Selection) -> Ranking:
        """Go on with the candidates that a step kept."""
        dropped = [
            DroppedCandidate(removal.candidate.corpus, removal.candidate.chunk.id, stage, removal.reason)
            for removal in selection.dropped
        ]
        return dataclasses.replace(self, candidates=selection.candidates, dropped=(*self.dropped, *dropped))

    def pin(self, pinned: Sequence[Candidate]) -> Ranking:
        """Put chunks before all others; one that was dropped is dropped no more."""
        ranked = {identity(candidate): candidate for candidate in self.candidates}
        pinned = [ranked.pop(identity(candidate), candidate) for candidate in pinned]
        stays = {*map(identity, pinned)}
        dropped = tuple(item for item in self.dropped if (item.corpus, item.chunk_id) not in stays)
        return Ranking([*ranked.values()], pinned, dropped)


def near_enough(candidates: Sequence[Candidate], plan: SearchPlan) -> Ranking:
    """Drop candidates without text, and those beyond their corpus's maximum distance, if they have a distance."""
    bounds = {target.corpus.name: target.corpus.settings.max_distance for target in plan.targets}

    def is_near(candidate: Candidate) -> bool:
        bound = bounds[candidate.corpus]
        return bound is None or candidate.distance is None or candidate.distance <= bound

    ranking = Ranking().keep("search", with_text(candidates))
    far = [Removal(candidate, "below threshold") for candidate in ranking.candidates if not is_near(candidate)]
    return ranking.keep("search", Selection(tuple(filter(is_near, ranking.candidates)), tuple(far)))


def reranked(ranking: Ranking, plan: SearchPlan, scores: Sequence[float]) -> Ranking:
    """Order by a reranker's scores, one for each candidate, blended with the scores of the search."""
    relevances = [relevance(candidate) or 0.0 for candidate in ranking.candidates]
    blended = convex(relevances, scores, plan.profile.weight_of_reranker)
    return _reordered(ranking, blended, "rerank", blended)


def prefer_recent(ranking: Ranking, plan: SearchPlan) -> Ranking:
    """Blend the order with the recency of the candidates' dates."""
    if plan.profile.temporal is None or not ranking.candidates:
        return ranking
    fields = {target.corpus.name: target.corpus.settings.date for target in plan.targets}
    dates = [_seconds(found.chunk.metadata.get(fields[found.corpus] or "")) for found in ranking.candidates]
    half_life = plan.profile.temporal.half_life_days * DAY
    recencies = [temporal.recency(date, plan.current_time, half_life) for date in dates]
    relevances = [relevance(candidate) or 0.0 for candidate in ranking.candidates]
    blended = temporal.blended(relevances, recencies, plan.profile.temporal.weight)
    return _reordered(ranking, blended, "temporal", recencies)


def diversify(ranking: Ranking, plan: SearchPlan) -> Ranking:
    """Drop what repeats better candidates, and prefer what is new, as the profile says."""
    if (diversity := plan.profile.diversity) is None:
        return ranking
    bounds = diversity.relevance, diversity.per_document, ranking.pinned, _room(ranking, plan), _corpus_limits(plan)
    return ranking.keep("refine", diversified(ranking.candidates, *bounds))


def cut_to_k(ranking: Ranking, plan: SearchPlan) -> Ranking:
    """Keep as many of each corpus, and as many in all, as were asked for."""
    ranking = ranking.keep("cut", per_corpus(ranking.candidates, _corpus_limits(plan)))
    return ranking.keep("cut", cut(ranking.candidates, _room(ranking, plan)))


def _corpus_limits(plan: SearchPlan) -> dict[str, int]:
    return {search.corpus: search.top_k for search in plan.searches}


def _room(ranking: Ranking, plan: SearchPlan) -> int:
    return max(0, plan.k - len(ranking.pinned))


def _reordered(
    ranking: Ranking, order: Sequence[float], name: Literal["rerank", "temporal"], scores: Sequence[float]
) -> Ranking:
    """Order the candidates by one list of scores, and write another one down under a name."""
    noted: list[dict[str, Any]] = [{name: score} for score in scores]
    scored = [
        dataclasses.replace(candidate, scores=dataclasses.replace(candidate.scores, **score))
        for candidate, score in zip(ranking.candidates, noted, strict=True)
    ]
    return dataclasses.replace(ranking, candidates=temporal.reordered(scored, order))


def _seconds(value: Any) -> float | None:
    """Return a date of a chunk's metadata as seconds since 1970; None if it is not a date. The default zone is UTC."""
    if not isinstance(value, str):
        return None
    try:
        day = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (day if day.tzinfo else day.replace(tzinfo=UTC)).timestamp()
