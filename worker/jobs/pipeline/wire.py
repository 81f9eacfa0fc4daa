"""Responses of the pipeline in the contract's form."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import SCHEMA_VERSION
from worker.core import degraded
from worker.core.prompting import costs
from worker.jobs.answer import WORKER_VERSION, described, scores_of

if TYPE_CHECKING:
    from worker.jobs.pipeline.types import ContextPackage, QueryResponse


def as_answer(response: QueryResponse) -> dict[str, Any]:
    """Return a response in the contract's form."""
    package = response.package
    return {
        "schema_version": SCHEMA_VERSION,
        "degraded": degraded.ordered(package.degraded),
        "status": response.status,
        "short_reason": None,
        "answer": response.answer,
        "citations": [{**vars(citation)} for citation in response.citations],
        "supported": list(response.supported),
        "unknown_labels": list(response.unknown_labels),
        "unreadable_labels": list(response.unreadable_labels),
        "package": {
            "package_id": package.package_id,
            "candidates": [
                {**described(candidate, rank), "scores": scores_of(candidate), "corpus": candidate.corpus}
                for rank, candidate in enumerate(package.candidates, 1)
            ],
            "source_labels": {label: dict(name) for label, name in package.source_labels.items()},
            "context_block": package.context_block,
            "starting_prompt": package.starting_prompt,
            "remote_sources": [asdict(source) for source in package.remote_sources],
        },
        **costs.as_json(package.costs),
        "conversation_id": response.conversation_id,
        "response_id": response.response_id,
        "trace": _trace(package),
    }


def _trace(package: ContextPackage) -> dict[str, Any]:
    trace = package.trace
    return {
        "stages": [
            {
                "stage": stage_trace.stage,
                "duration_ms": stage_trace.duration_ms,
                "counts": dict(stage_trace.counts),
                "candidates": [list(candidate) for candidate in stage_trace.candidates],
            }
            for stage_trace in trace.stages
        ],
        "search": {
            "profile": package.profile,
            "legs_ms": dict(trace.legs),
            "methods": {leg: list(methods) for leg, methods in trace.methods.items()},
            "weights": dict(trace.weights),
            "statistics": {leg: list(statistics) for leg, statistics in trace.statistics.items()},
        },
        "models": dict(trace.models),
        "worker_version": WORKER_VERSION,
        "cache": trace.cache,
        "left": [{**vars(candidate)} for candidate in trace.left],
        "queries": dict(trace.queries),
        "hyde": list(trace.hyde),
        "warnings": list(trace.warnings),
    }
