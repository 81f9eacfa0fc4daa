"""Systems to evaluate: each leg alone, a hybrid retrieval, a profile of the pipeline; and the job of each query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RunPipeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from retrieval_client.contract.answers import PipelineAnswer
    from retrieval_client.contract.results import Hybrid
    from workbench.evaluation.queries import LabelledQuery

WHOLE = "whole"
DENSE, SPARSE, CONTEXTUAL = "dense", "sparse", "contextual"
"""Legs alone, by the names that reports have for them."""

_ALONE = {DENSE: "primary", SPARSE: "sparse"}
_OWN_ORDER = "rrf"
"""The fusion that keeps a single leg's own order."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A retrieved chunk.

    Attributes:
        chunk_id: its id.
        document_id: its document's id.
        score: what it was ranked by; None: unknown.
    """

    chunk_id: str
    document_id: str
    score: float | None


@dataclass(frozen=True, slots=True)
class System:
    """A way to answer a query.

    Attributes:
        name: its name in reports, unique among the systems of an evaluation.
        kind: a leg alone, several legs fused (`hybrid`), or a profile of the pipeline.
        fields: fields of its jobs beside query, corpus, depth and caller.
    """

    name: str
    kind: Literal["leg", "hybrid", "profile"]
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_contextual(self) -> bool:
        """Whether it is the contextual leg alone, which takes a second job; see `contextual_job`."""
        return self.kind == "leg" and self.name == CONTEXTUAL

    def other_names(self, wrong: str) -> str:
        """Return what else a wrong field could have named: of `--compare`, a profile or a fusion; else nothing."""
        is_compared = wrong == "profile" and self.name == self.fields["profile"]
        return f"; or a fusion: {', '.join(fusions())}" if is_compared else ""


def leg(name: str, transform: str = "none") -> System:
    """Return the system of one leg alone.

    The contract has no job for the contextual leg alone. Its first job asks for the keywords of the context.
    """
    legs = [_ALONE[name]] if name in _ALONE else ["primary", "contextual"]
    return System(name, "leg", {"legs": legs, "fusion": _OWN_ORDER, "transform": transform})


def hybrid(name: str, fusion: str = "", legs: Sequence[str] = (), transform: str = "none") -> System:
    """Return a hybrid retrieval; without fusion or legs those that the worker and its contract have as defaults."""
    fields: dict[str, Any] = {"fusion": fusion, "legs": [*legs], "transform": transform}
    return System(name, "hybrid", {key: value for key, value in fields.items() if value})


def profile(name: str, mode: str, called: str = "") -> System:
    """Return a profile of the pipeline: its sources, before any answer is written."""
    fields = {"profile": name, "stop_after": "build_sources", **({"mode": mode} if mode else {})}
    return System(called or name, "profile", fields)


def fusions() -> tuple[str, ...]:
    """Return the names of the fusions that a hybrid job may ask for."""
    choices = (get_args(union_member) for union_member in get_args(RetrieveHybrid.model_fields["fusion"].annotation))
    return next(filter(None, choices), ())


def job_of(
    system: System, query: LabelledQuery, corpus: str, depth: int, claims: Mapping[str, Any] | None
) -> RetrieveHybrid | RunPipeline:
    """Return the job of a query.

    Args:
        system: the system.
        query: the query.
        corpus: the corpus to search if the query names none.
        depth: number of chunks, 1-50.
        claims: the caller's claims if the query names none; None: no caller.

    Raises:
        InvalidJob: a field of the job.
    """
    caller = query.claims if query.claims is not None else claims
    fields = {
        **system.fields,
        "context": query.context,
        "searches": [{"corpus": query.corpus or corpus, "top_k": depth}],
        **({} if caller is None else {"principal": dict(caller)}),
    }
    if system.kind == "profile":
        return parse_job(RunPipeline, {**fields, "question": query.question, "k": depth})
    embedding = {} if query.embedding is None else {"query_embedding": query.embedding}
    return parse_job(RetrieveHybrid, {**fields, **embedding, "query": query.question})


def contextual_job(first_job: RetrieveHybrid, answer: Hybrid) -> RetrieveHybrid | None:
    """Return the job of the contextual leg alone: what the primary leg finds for query and keywords together.

    Args:
        first_job: the query's job of the system `CONTEXTUAL`.
        answer: its answer.

    Returns:
        The job; None if the context has no keywords.
    """
    if not answer.context_keywords:
        return None
    text = " ".join([answer.transformed_query, *answer.context_keywords])
    kept_fields = first_job.model_dump(mode="json", exclude_unset=True, exclude={"query_embedding", "context"})
    return parse_job(RetrieveHybrid, {**kept_fields, "query": text, "legs": ["primary"], "transform": "none"})


def hits_of(system: System, answer: Hybrid | PipelineAnswer) -> list[Hit]:
    """Return what an answer found, best first."""
    if not hasattr(answer, "results"):
        return [_hit(chunk, system) for chunk in answer.package.candidates]
    return [_hit(chunk, system) for result in answer.results.values() for chunk in result.chunks]


def _hit(chunk: Any, system: System) -> Hit:
    scores = chunk.scores
    leg_scores: Iterable[float | None] = (leg_score.score for leg_score in scores.legs) if system.kind == "leg" else ()
    score = next(
        (value for value in (*leg_scores, scores.rerank, scores.fused) if value is not None), chunk.similarity_score
    )
    return Hit(chunk.chunk_id, chunk.document_id, score)


_OF_THE_LINE = {"query": "question", "searches[0].corpus": "corpus", "principal": "caller"}
"""Field of a job → field of the line that it was made from."""


def of_line(path: str) -> str:
    """Return a path in a job as the path in the line that the job was made from.

    >>> of_line("principal.roles"), of_line("searches[0].corpus"), of_line("context")
    ('caller.roles', 'corpus', 'context')
    """
    for in_job, in_line in _OF_THE_LINE.items():
        if path == in_job or path.startswith((f"{in_job}.", f"{in_job}[")):
            return in_line + path.removeprefix(in_job)
    return path
