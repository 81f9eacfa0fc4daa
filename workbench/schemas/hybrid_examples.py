"""Examples of `retrieve_hybrid`: the job of a backend whose user edits a pattern, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieval_client.contract.base import SCHEMA_VERSION
from retrieval_client.contract.results import (
    FusedChunk,
    Hybrid,
    HybridAnswer,
    HybridMetrics,
    LegScore,
    Scores,
    Stage,
    Trace,
)
from retrieval_client.hashing import HASH_VERSION, hash_chunk

if TYPE_CHECKING:
    from workbench.schemas.rules import Schema

_PRINCIPAL = {"roles": ["editor"], "tenant_id": "t1", "user_id": "u1"}
_TEXT = "A hi-hat on every eighth keeps the pulse: write its name eight times, or once with a star and a number."


def hybrid_examples() -> dict[str, tuple[str, Schema]]:
    """Return every example by its file name's stem: the name of its schema, and the object."""
    job, result = "retrieve_hybrid.job", "retrieve_hybrid.result"
    return {
        job: (job, _job()),
        f"{job}.sparse": (job, _with_everything()),
        result: (result, _answer().model_dump(mode="json")),
    }


def _job() -> Schema:
    searches = [{"corpus": "docs", "top_k": 5}, {"corpus": "examples", "top_k": 3}]
    context = 'sound("bd").fast(2)'
    return {"principal": _PRINCIPAL, "query": "add hi-hats", "context": context, "searches": searches}


def _with_everything() -> Schema:
    searches: list[Any] = [{"corpus": "docs", "top_k": 5, "filters": {"sections": ["Rhythm", "Samples"]}}]
    return {
        **_job(),
        "searches": searches,
        "legs": ["primary", "contextual", "sparse"],
        "fusion": "weighted",
        "weights": {"primary": 0.5, "contextual": 0.25, "sparse": 0.25},
        "transform": "glossary",
        "diversity": {"lambda": 0.75, "per_document": 2},
        "web_search": True,
        "run": {"subject_id": "song-1", "run_id": "r1", "step": "drums"},
    }


def _answer() -> Hybrid:
    legs = [LegScore(leg="primary", score=0.75, rank=1), LegScore(leg="contextual", score=0.625, rank=2)]
    chunk = FusedChunk(
        rank=1,
        chunk_id="docs-rhythm-004",
        document_id="/manual/rhythm",
        text=_TEXT,
        page=None,
        section="Hats",
        coordinates=None,
        metadata={"page_name": "Rhythm"},
        chunk_hash=hash_chunk(_TEXT),
        hash_version=HASH_VERSION,
        distance=0.25,
        similarity_score=0.75,
        scores=Scores(legs=legs, fused=0.75, rerank=None, temporal=None),
    )
    metrics = HybridMetrics(
        contextual="used",
        primary_count=1,
        contextual_count=1,
        sparse_count=0,
        merged_count=1,
        duplicate_count=1,
        dedup_rate=0.5,
        top_similarity={"primary": 0.75, "contextual": 0.625},
        mean_similarity={"primary": 0.75, "contextual": 0.625},
    )
    legs_run = [{"leg": leg.leg, "duration_ms": 3.5, "methods": ["index"]} for leg in legs]
    return Hybrid(
        schema_version=SCHEMA_VERSION,
        fusion="weighted",
        transformed_query="add hi-hats, hi-hat, hh",
        context_keywords=["bd", "fast"],
        results={
            "docs": HybridAnswer(
                status="short", short_reason="visible_rows", top_k_requested=5, top_k=5, chunks=[chunk]
            )
        },
        metrics={"docs": metrics},
        trace=Trace(
            stages=[Stage(stage="search", duration_ms=4.25, counts={"searches": 2})],
            search={"legs": legs_run},
            models={"embedder": "lexical 1"},
            worker_version="0.1.0",
            cache="miss",
        ),
    )
