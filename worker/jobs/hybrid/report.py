"""Result of a hybrid search, and its answer and record in the contract's form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import LEGS
from retrieval_client.contract.jobs import HybridSearch
from retrieval_client.contract.results import NO_COSTS
from worker.core.degraded import EMBEDDER_LANGUAGE
from worker.core.prompting import costs
from worker.core.ranking.leg_figures import figures
from worker.jobs.answer import described, scores_of, trace
from worker.jobs.recording import RecordedAnswer, pins_of
from worker.jobs.search import statistics_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieval_client.errors import RetrievalError
    from worker.adapters.postgres.runs import Record
    from worker.core.prompting.costs import Bill
    from worker.core.ranking.fusion import RankedLeg
    from worker.core.trace import Tracer
    from worker.jobs.cache import CachedResult
    from worker.jobs.hybrid.queries import CorpusQuery, HybridRequest, Queries, QueryWording
    from worker.jobs.parallel_search import LegResult
    from worker.model import Candidate


@dataclass(frozen=True, slots=True)
class CorpusResult:
    """Result of one corpus.

    Attributes:
        query: its query.
        legs: the ranked list of each leg that did not fail.
        weights: weight of each in the fusion; empty for a fusion without weights.
        merged: all candidates, fused.
        candidates: those that are answered.
    """

    query: CorpusQuery
    legs: Sequence[RankedLeg]
    weights: Mapping[str, float]
    merged: Sequence[Candidate]
    candidates: Sequence[Candidate]

    @property
    def summary(self) -> dict[str, dict[str, Any]]:
        """Number of chunks and highest score of each leg, and of all merged."""
        scores = {leg.name: list(leg.scores) for leg in self.legs}
        scores["merged"] = [score for candidate in self.merged if (score := candidate.scores.fused) is not None]
        return {
            "counts": {**{name: len(leg_scores) for name, leg_scores in scores.items()}, "merged": len(self.merged)},
            "top_scores": {name: max(leg_scores) for name, leg_scores in scores.items() if leg_scores},
        }


@dataclass(frozen=True, slots=True)
class HybridResult:
    """Result of a search.

    Attributes:
        fusion: the method that combined its legs.
        wording: text of the query.
        queries: its vectors.
        legs: result of each leg.
        corpora: result of each corpus.
        failed: error of each failed leg.
        misread: what is not of the embedder's languages.
    """

    fusion: str
    wording: QueryWording
    queries: Queries
    legs: Sequence[LegResult]
    corpora: Sequence[CorpusResult]
    failed: Mapping[str, RetrievalError]
    misread: Sequence[str] = ()

    @property
    def header(self) -> dict[str, Any]:
        """The answer's fields about the query."""
        missing = [*self.failed, *([EMBEDDER_LANGUAGE] if self.misread else [])]
        return {**self.wording.header(missing), "fusion": self.fusion}

    @property
    def candidates(self) -> list[Candidate]:
        """The answered candidates of all corpora."""
        # Once, though the settings may name a corpus twice.
        corpus_candidates = {corpus.query.name: corpus.candidates for corpus in self.corpora}
        return [candidate for candidates in corpus_candidates.values() for candidate in candidates]

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Figures of each corpus."""
        error = self.failed.get("contextual")
        state = "failed" if error is not None else "used" if self.wording.keywords else "skipped"
        return {corpus.query.name: leg_metrics(corpus.legs, corpus.merged, state, error) for corpus in self.corpora}


def answer_of(result: HybridResult, bill: Bill, tracer: Tracer, cache: str | None = None) -> dict[str, Any]:
    """Return the answer of a search."""
    search = {"legs": [leg_trace(leg, [corpus.weights for corpus in result.corpora]) for leg in result.legs]}
    return {
        **result.header,
        "results": {corpus.query.name: _complete(corpus.query, corpus.candidates) for corpus in result.corpora},
        "metrics": result.metrics,
        **costs.as_json(bill.entries),
        "trace": trace(tracer, search, dict(result.queries.models), cache),
    }


def cached_answer(
    request: HybridRequest, wording: QueryWording, cached: CachedResult, bill: Bill, answer_trace: dict[str, Any]
) -> dict[str, Any]:
    """Return the answer from an equal job's cached result."""
    corpus_candidates = _by_corpus(cached.candidates, [query.name for query in request.corpora])
    return {
        **wording.header(),
        "fusion": request.fusion,
        "results": {query.name: _complete(query, corpus_candidates[query.name]) for query in request.corpora},
        "metrics": {name: cached.metrics[name] for name in corpus_candidates},
        **costs.as_json(bill.entries),
        "trace": answer_trace,
    }


def recorded_answer(result: HybridResult, answer: dict[str, Any]) -> RecordedAnswer:
    """Return an answer with its recorded part."""
    recorded = {
        **{name: value for name, value in answer.items() if name not in {"results", "trace"}},
        "searches": [corpus.query.wanted.model_dump(include={"corpus", "top_k"}) for corpus in result.corpora],
        "filtered": [corpus.query.name for corpus in result.corpora if corpus.query.target.filters.given],
        "scores": [*map(scores_of, result.candidates)],
        "legs": {corpus.query.name: kept_legs(corpus.legs) for corpus in result.corpora},
    }
    queries = result.queries
    return RecordedAnswer(answer, recorded, pins_of(result.candidates), queries.models, queries.searched or None)


def replayed_answer(record: Record, candidates: Sequence[Candidate], answer_trace: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded answer with the candidates that are still there."""
    header = record.answer
    corpus_candidates = _by_corpus(candidates, [recorded_search["corpus"] for recorded_search in header["searches"]])
    results = {}
    for recorded_search in header["searches"]:
        name, search = recorded_search["corpus"], HybridSearch(**recorded_search)
        recorded = sum(pin.pin.corpus == name for pin in record.pins)
        results[name] = corpus_answer(search, corpus_candidates[name], name in header["filtered"], recorded)
    return {
        "schema_version": header["schema_version"],
        "degraded": header.get("degraded", []),  # missing in records of earlier versions
        **{name: header[name] for name in ("transformed_query", "context_keywords")},
        "fusion": header.get("fusion"),  # missing in records of earlier versions
        "results": results,
        "metrics": {name: header["metrics"][name] for name in corpus_candidates},
        "costs": header.get("costs", []),
        "costs_total": header.get("costs_total", NO_COSTS.model_dump()),
        "trace": answer_trace,
    }


def _by_corpus(candidates: Sequence[Candidate], names: Sequence[str]) -> dict[str, list[Candidate]]:
    return {name: [candidate for candidate in candidates if candidate.corpus == name] for name in names}


def _complete(query: CorpusQuery, candidates: Sequence[Candidate]) -> dict[str, Any]:
    return corpus_answer(query.wanted, candidates, query.target.filters.given, len(candidates))


def corpus_answer(
    search: HybridSearch, candidates: Sequence[Candidate], filtered: bool, recorded: int
) -> dict[str, Any]:
    """Return one corpus's answer; ``recorded`` is its number of chunks when it was made."""
    k = search.clamped_top_k
    missing = "filters" if filtered else "visible_rows"
    reason = None if len(candidates) == k else missing if recorded < k else "changed"
    return {
        "status": "ok" if len(candidates) == k else "short" if candidates else "empty",
        "short_reason": reason,
        "top_k_requested": search.top_k,
        "top_k": k,
        "chunks": [
            {**described(candidate, rank), "scores": scores_of(candidate)}
            for rank, candidate in enumerate(candidates, 1)
        ],
    }


def leg_metrics(
    legs: Sequence[RankedLeg], merged: Sequence[Candidate], contextual: str, error: Exception | None
) -> dict[str, Any]:
    """Return the figures of one corpus in the contract's form; a leg that did not run has count 0."""
    merge_figures = figures(legs, merged)
    counts = {leg.leg: leg.count for leg in merge_figures.legs}
    return {
        "contextual": contextual,
        "contextual_error": None if error is None else f"{type(error).__name__}: {error}",
        **{f"{name}_count": counts.get(name, 0) for name in LEGS},
        "merged_count": merge_figures.merged,
        "duplicate_count": merge_figures.duplicates,
        "dedup_rate": merge_figures.dedup_rate,
        "top_similarity": {leg.leg: leg.top_similarity for leg in merge_figures.legs},
        "mean_similarity": {leg.leg: leg.mean_similarity for leg in merge_figures.legs},
    }


def leg_trace(leg: LegResult, weights: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return a leg's entry in the trace: its duration, and by corpus its method, its weight and its word statistics.

    Also how many chunks that only other legs found it scored.
    """
    entry = {
        "leg": leg.name,
        "duration_ms": leg.duration_ms,
        "methods": [search_result.method for search_result in leg.results or []],
        "weights": [corpus_weights[leg.name] for corpus_weights in weights if leg.name in corpus_weights],
        "scored": [len(scored.unlisted) for scored in leg.scored],
    }
    statistics = statistics_of(leg)
    return {**entry, "statistics": statistics} if statistics else entry


def kept_legs(legs: Sequence[RankedLeg]) -> list[dict[str, Any]]:
    """Return the chunks and scores of each leg, which `tune` needs later; those that it listed come first."""
    entries = []
    for leg in legs:
        scores = leg.score_list.known
        entry = {"leg": leg.name, "chunk_ids": [chunk_id for _, chunk_id in scores], "scores": [*scores.values()]}
        covered = {"coverage": [leg.coverage.get(chunk, 0.0) for chunk in scores]} if leg.coverage else {}
        usual = {} if leg.usual is None else {"usual": leg.usual}
        entries.append({**entry, "listed": len(leg.scores), **covered, **usual})
    return entries
