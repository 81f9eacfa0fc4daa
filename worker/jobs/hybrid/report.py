"""Report of one corpus and of each leg in a hybrid answer and its record, in the contract's form."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from worker.core.ranking.leg_figures import figures
from worker.jobs.answer import described
from worker.model import LegScore, ScoreBreakdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from worker.contract import HybridSearch
    from worker.core.ranking.fusion import RankedLeg
    from worker.jobs.parallel_search import LegFound
    from worker.model import Candidate


def corpus_answer(wanted: HybridSearch, kept: Sequence[Candidate], filtered: bool, recorded: int) -> dict[str, Any]:
    """Return one corpus's answer; ``recorded`` is its number of chunks when it was made."""
    k = wanted.clamped_top_k
    missing = "filters" if filtered else "visible_rows"
    reason = None if len(kept) == k else missing if recorded < k else "changed"
    return {
        "status": "ok" if len(kept) == k else "short" if kept else "empty",
        "short_reason": reason,
        "top_k_requested": wanted.top_k,
        "top_k": k,
        "chunks": [
            {**described(candidate, rank), "scores": asdict(candidate.scores)} for rank, candidate in enumerate(kept, 1)
        ],
    }


def leg_metrics(
    legs: Sequence[RankedLeg], merged: Sequence[Candidate], contextual: str, error: Exception | None
) -> dict[str, Any]:
    """Return the figures of one corpus in the contract's form; a leg that did not run has count 0."""
    told = figures(legs, merged)
    counts = {leg.leg: leg.count for leg in told.legs}
    return {
        "contextual": contextual,
        "contextual_error": None if error is None else f"{type(error).__name__}: {error}",
        **{f"{name}_count": counts.get(name, 0) for name in ("primary", "contextual", "sparse")},
        "merged_count": told.merged,
        "duplicate_count": told.duplicates,
        "dedup_rate": told.dedup_rate,
        "top_similarity": {leg.leg: leg.top_similarity for leg in told.legs},
        "mean_similarity": {leg.leg: leg.mean_similarity for leg in told.legs},
    }


def leg_trace(name: str, result: LegFound) -> dict[str, Any]:
    """Return a leg's entry in the trace: its duration, and the search method for each corpus."""
    methods = [found.method for found in result.found or []]
    return {"leg": name, "duration_ms": round(result.duration_ms, 3), "methods": methods}


def kept_legs(legs: Sequence[RankedLeg]) -> list[dict[str, Any]]:
    """Return the chunks and scores of each leg, which `tune` needs later."""
    return [
        {"leg": leg.name, "chunk_ids": [c.chunk.id for c in leg.candidates], "scores": list(leg.scores)} for leg in legs
    ]


def scores_of(plain: Mapping[str, Any]) -> ScoreBreakdown:
    """Restore recorded scores."""
    return ScoreBreakdown(**{**plain, "legs": tuple(LegScore(**leg) for leg in plain["legs"])})
