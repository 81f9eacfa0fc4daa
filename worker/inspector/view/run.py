"""Run: one view of an answer, live or recorded, whatever task made it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.results import TopK
from worker.core.citations.quoting.differences import ACCEPTED
from worker.inspector.view.answer import AnswerText, ContextPiece, answer_views, context_pieces
from worker.inspector.view.candidates import (
    BEYOND_K,
    WITHHELD,
    CandidateView,
    Leg,
    LegRank,
    Place,
    Ranking,
    in_order,
    kept_candidate,
    labels_by_place,
    legs_of,
    stage_ranks,
    title_of,
)
from worker.inspector.view.sources import SourceView
from worker.inspector.view.waterfall import Waterfall, leg_methods, leg_times, waterfall_of
from worker.inspector.view.wording import clamped, nearness, said, wording

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from retrieval_client.contract.answers import Cited
    from retrieval_client.contract.results import Cost, Hybrid

Facts = tuple[tuple[str, str], ...]

_OF_QUESTION = ("dense", "primary", "sparse")
"""Legs whose similarities are to the question, not to a context or to a made answer."""


@dataclass(frozen=True, slots=True)
class RecordedPlace:
    """Chunk of a record: its place, document, rank and similarity."""

    corpus: str
    chunk_id: str
    document_id: str
    rank: int
    similarity: float | None


@dataclass(frozen=True, slots=True)
class About:
    """Facts of an answer that the answer itself does not have.

    Attributes:
        subject_id, run_id: the run; empty for a live answer.
        step: the run's step, empty for none.
        question: the question; empty if unknown.
        job: further fields of the job worth showing, by name.
        rankings: order of the candidates after each stage.
        legs: full results of the legs, where the record has them.
        recorded: the record's chunks, in its order.
        paths: corpus → field of its chunks' metadata with the document's readable name.
        accepted: kinds of differences that a ``normalised`` quote may have.
    """

    subject_id: str = ""
    run_id: str = ""
    step: str = ""
    question: str = ""
    job: Facts = ()
    rankings: tuple[Ranking, ...] = ()
    legs: tuple[Leg, ...] = ()
    recorded: tuple[RecordedPlace, ...] = ()
    paths: Mapping[str, str] = field(default_factory=dict)
    accepted: frozenset[str] = ACCEPTED


@dataclass(frozen=True, slots=True)
class RunView:
    """View of an answer.

    Attributes:
        task: the task that answered.
        about: the run, the question and the job.
        status: status of the answer; of a hybrid answer, of each corpus.
        short_reason: reason why there are fewer chunks than wanted, or no text; None without one.
        degraded: codes of missing parts.
        warnings: failures that the job continued without.
        facts: further facts, by name.
        waterfall: the stages.
        legs: result of each leg in each corpus.
        candidates: every known candidate, in a total order.
        context: the context block, cut at its sources; empty without one.
        answer: the text; None without one.
        sources: labelled sources, by label.
        costs: cost of each call of a model.
        total_cost: their sum; None if that of a call is unknown.
        models: models used, by purpose.
        response: the pipeline's answer itself; None of a search.
    """

    task: str
    about: About
    status: str
    short_reason: str | None
    degraded: tuple[str, ...]
    warnings: tuple[str, ...]
    facts: Facts
    waterfall: Waterfall
    legs: tuple[Leg, ...]
    candidates: tuple[CandidateView, ...]
    context: tuple[ContextPiece, ...] = ()
    answer: AnswerText | None = None
    sources: tuple[SourceView, ...] = ()
    costs: tuple[Cost, ...] = ()
    total_cost: str | None = None
    models: Facts = ()
    response: PipelineAnswer | None = None

    @property
    def kept(self) -> tuple[CandidateView, ...]:
        """Candidates in the answer, in its order."""
        return tuple(candidate for candidate in self.candidates if candidate.outcome == "kept")

    @property
    def said(self) -> tuple[str, ...]:
        """Sentences on what is known of the answer: how it is worded, and how near its nearest source is."""
        if not self.kept:
            return () if self.answer is None else (wording(self.answer),)
        near = nearness(self.nearest, dict(self.models).get("embedder", ""))
        return (near,) if self.answer is None else (wording(self.answer), near)

    @property
    def nearest(self) -> float | None:
        """Highest cosine similarity of a source to the question itself; None if none is known."""
        return max(
            (
                candidate.similarity
                for candidate in self.kept
                if candidate.similarity is not None
                and (self.task == "retrieve_top_k" or any(leg.leg in _OF_QUESTION for leg in candidate.legs))
            ),
            default=None,
        )


def run_view(answer: TopK | Hybrid | PipelineAnswer, about: About | None = None) -> RunView:
    """Return the view of an answer.

    Args:
        answer: a live answer, or one made from a record.
        about: facts that the answer does not have.
    """
    about = about or About()
    if isinstance(answer, TopK):
        return _top_k_view(answer, about)
    return _pipeline_view(answer, about) if isinstance(answer, PipelineAnswer) else _hybrid_view(answer, about)


# --- retrieve_top_k -----------------------------------------------------------------------------


def _top_k_view(answer: TopK, about: About) -> RunView:
    answer_candidates = [kept_candidate(chunk, answer.corpus, paths=about.paths) for chunk in answer.chunks]
    facts = {"corpus": answer.corpus, "k": clamped(answer.k_requested, answer.k), **_search_facts(answer.trace.search)}
    query = about.question or None
    places = tuple(
        (candidate.chunk_id, LegRank("dense", candidate.rank or 0, candidate.similarity))
        for candidate in answer_candidates
    )
    leg = Leg(answer.corpus, "dense", places, query, (str(answer.trace.search.get("method", "")),))
    return RunView(
        "retrieve_top_k",
        about,
        answer.status,
        answer.short_reason,
        tuple(answer.degraded),
        (),
        _facts(facts),
        waterfall_of(answer.trace, {"cut": len(answer_candidates)}),
        (leg,),
        _with_withheld(answer_candidates, about, [answer.corpus]),
        models=_facts(answer.trace.models),
    )


# --- retrieve_hybrid ----------------------------------------------------------------------------


def _hybrid_view(answer: Hybrid, about: About) -> RunView:
    corpora = list(answer.results)
    answer_candidates = [
        kept_candidate(chunk, corpus, paths=about.paths)
        for corpus, corpus_result in answer.results.items()
        for chunk in corpus_result.chunks
    ]
    times, methods = leg_times(answer.trace.search), leg_methods(answer.trace.search)
    legs = tuple(_timed(leg, times, methods) for leg in about.legs or legs_of(answer_candidates))
    states = {corpus_metrics.contextual for corpus_metrics in answer.metrics.values()}
    facts = {
        "fusion": answer.fusion or "unknown",
        "searched for": answer.transformed_query,
        "context keywords": " ".join(answer.context_keywords) or "none",
        "contextual search": ", ".join(sorted(states)),
        "cache": answer.trace.cache or "",
    }
    candidates = _with_withheld([*answer_candidates, *_beyond(legs, answer_candidates, about)], about, corpora)
    return RunView(
        "retrieve_hybrid",
        about,
        ", ".join(
            f"{corpus}: {said('status', corpus_result.status).words}"
            for corpus, corpus_result in answer.results.items()
        ),
        ", ".join(
            dict.fromkeys(
                corpus_result.short_reason for corpus_result in answer.results.values() if corpus_result.short_reason
            )
        )
        or None,
        tuple(answer.degraded),
        tuple(
            corpus_metrics.contextual_error
            for corpus_metrics in answer.metrics.values()
            if corpus_metrics.contextual_error
        ),
        _facts(facts),
        waterfall_of(answer.trace, {"fuse": len(answer_candidates)}),
        legs,
        candidates,
        costs=tuple(answer.costs),
        total_cost=answer.costs_total.cost,
        models=_facts(answer.trace.models),
    )


def _timed(leg: Leg, times: Mapping[str, float], methods: Mapping[str, tuple[str, ...]]) -> Leg:
    return replace(leg, duration_ms=times.get(leg.name), methods=methods.get(leg.name, ()))


def _beyond(legs: Iterable[Leg], answer_candidates: Iterable[CandidateView], about: About) -> list[CandidateView]:
    """Return the chunks that legs found and the answer does not have."""
    inside = {candidate.place for candidate in answer_candidates} | {
        (recorded.corpus, recorded.chunk_id) for recorded in about.recorded
    }
    ranks_by_place: dict[Place, list[LegRank]] = {}
    for leg in legs:
        for chunk_id, rank in leg.places:
            if (leg.corpus, chunk_id) not in inside:
                ranks_by_place.setdefault((leg.corpus, chunk_id), []).append(rank)
    return [
        CandidateView(corpus, chunk_id, "dropped", stage="fuse", reason=BEYOND_K, legs=tuple(ranks))
        for (corpus, chunk_id), ranks in ranks_by_place.items()
    ]


# --- run_pipeline -------------------------------------------------------------------------------


def _pipeline_view(answer: PipelineAnswer, about: About) -> RunView:
    package, trace = answer.package, answer.trace
    labels, stages = labels_by_place(package.source_labels), stage_ranks(about.rankings)
    answer_candidates = [
        kept_candidate(
            *(
                chunk,
                chunk.corpus,
                labels.get((chunk.corpus, chunk.chunk_id)),
                stages.get((chunk.corpus, chunk.chunk_id), ()),
            ),
            about.paths,
        )
        for chunk in package.candidates
    ]
    inside = {candidate.place for candidate in answer_candidates}
    dropped = [
        CandidateView(
            *(dropped_chunk["corpus"], dropped_chunk["chunk_id"], "dropped"),
            stage=dropped_chunk["stage"],
            reason=dropped_chunk["reason"],
            stages=tuple(stages.get((dropped_chunk["corpus"], dropped_chunk["chunk_id"]), ())),
        )
        for dropped_chunk in trace.left
        if (dropped_chunk["corpus"], dropped_chunk["chunk_id"]) not in inside
    ]
    text, sources = _answered(answer, about)
    times, methods = leg_times(trace.search), leg_methods(trace.search)
    legs = tuple(
        replace(_timed(leg, times, methods), query=trace.queries.get(leg.name)) for leg in legs_of(answer_candidates)
    )
    facts = {"profile": str(trace.search.get("profile", "")), "cache": trace.cache or ""}
    facts |= {f"hypothetical answer {i}": hyde for i, hyde in enumerate(trace.hyde, 1)}
    # A stage before the search ranks nothing; "0 left" would say that it threw all away.
    remaining = {ranking.stage: len(ranking.places) for ranking in about.rankings if ranking.places}
    return RunView(
        "run_pipeline",
        about,
        answer.status,
        answer.short_reason,
        tuple(answer.degraded),
        tuple(trace.warnings),
        _facts(facts),
        waterfall_of(trace, remaining),
        legs,
        _with_withheld(
            [*answer_candidates, *dropped],
            about,
            list(dict.fromkeys(candidate.corpus for candidate in answer_candidates)),
        ),
        context_pieces(package.context_block) if package.context_block else (),
        text,
        sources,
        tuple(answer.costs),
        answer.costs_total.cost,
        _facts(trace.models),
        answer,
    )


def _answered(answer: PipelineAnswer, about: About) -> tuple[AnswerText | None, tuple[SourceView, ...]]:
    sources = _labelled(answer, about.paths)
    return (None, sources) if answer.answer is None else answer_views(answer.answer, sources, about.accepted)


def _labelled(answer: PipelineAnswer, paths: Mapping[str, str]) -> tuple[SourceView, ...]:
    chunks = {(candidate.corpus, candidate.chunk_id): candidate for candidate in answer.package.candidates}
    remote = {(source.provider, source.url): source for source in answer.package.remote_sources}
    cited: dict[str, Cited] = {citation.label: citation for citation in answer.citations}
    source_views: list[SourceView] = []
    for label, name in answer.package.source_labels.items():
        citation = cited.get(label)
        if chunk := chunks.get((name.get("corpus", ""), name.get("chunk_id", ""))):
            title = (citation.source_path if citation else None) or title_of(chunk, chunk.corpus, paths)
            url = citation.url_or_doi if citation else None
            place = (chunk.corpus, chunk.chunk_id, chunk.document_id)
            source_views.append(SourceView(label, *place, title, chunk.page, chunk.section, url, chunk.text))
        elif remote_source := remote.get((name.get("provider", ""), name.get("url", ""))):
            source_views.append(
                SourceView(
                    label,
                    remote_source.provider,
                    None,
                    None,
                    remote_source.title,
                    None,
                    None,
                    remote_source.url,
                    remote_source.snippet,
                )
            )
    return tuple(sorted(source_views, key=lambda source: int(source.label[1:])))


# --- shared -------------------------------------------------------------------------------------


def _with_withheld(
    candidates: Sequence[CandidateView], about: About, corpora: Sequence[str]
) -> tuple[CandidateView, ...]:
    """Add the record's chunks that the answer made from it does not have, and sort all."""
    inside = {candidate.place for candidate in candidates}
    withheld = [
        CandidateView(
            *(recorded.corpus, recorded.chunk_id, "withheld"),
            rank=recorded.rank,
            stage="reading",
            reason=WITHHELD,
            document_id=recorded.document_id,
            similarity=recorded.similarity,
        )
        for recorded in about.recorded
        if (recorded.corpus, recorded.chunk_id) not in inside
    ]
    return in_order([*candidates, *withheld], corpora)


def _search_facts(search: Mapping[str, Any]) -> dict[str, str]:
    return {name.replace("_", " "): str(value) for name, value in search.items() if value is not None}


def _facts(facts: Mapping[str, str]) -> Facts:
    return tuple((name, value) for name, value in facts.items() if value)
