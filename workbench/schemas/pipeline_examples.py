"""Examples of `run_pipeline`: a question, a package of a stopped job, and an answer with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieval_client.contract.answers import Cited, Package, PipelineAnswer, PipelineCandidate, PipelineTrace
from retrieval_client.contract.base import SCHEMA_VERSION
from retrieval_client.contract.results import LegScore, Scores, Stage
from retrieval_client.hashing import HASH_VERSION, hash_chunk

if TYPE_CHECKING:
    from workbench.schemas.rules import Schema

_PRINCIPAL = {"roles": ["editor"], "tenant_id": "t1", "user_id": "u1"}
_TEXT = "Channel 18 carried a steady 50 Hz hum at −61 dBu."


def pipeline_examples() -> dict[str, tuple[str, Schema]]:
    """Return every example by its file name's stem: the name of its schema, and the object."""
    job, result = "run_pipeline.job", "run_pipeline.result"
    question = {"principal": _PRINCIPAL, "question": "What hums on channel 18?", "mode": "grounded", "k": 8}
    chat = {
        **question,
        "chat_mode": "chat",
        "conversation_id": "desk",
        "prior_response_id": "resp_5d1c",
        "starting_prompt": "Answer in one sentence.",
        "pinned_chunks": [hash_chunk(_TEXT)],
        "profile": "dense_rerank",
        "run": {"subject_id": "desk", "run_id": "r1"},
    }
    return {
        job: (job, question),
        f"{job}.chat": (job, chat),
        f"{job}.stop": (job, {**question, "stop_after": "synthesize_context"}),
        f"{job}.resume": (job, {"principal": _PRINCIPAL, "resume": "pkg_0c2f"}),
        result: (result, _answer().model_dump(mode="json")),
    }


def _answer() -> PipelineAnswer:
    legs = [LegScore(leg="dense", score=0.75, rank=1), LegScore(leg="sparse", score=0.5, rank=1)]
    candidate = PipelineCandidate(
        rank=1,
        chunk_id="report-2023-001",
        document_id="report-2023",
        text=_TEXT,
        page=3,
        section="Faults",
        coordinates=None,
        metadata={},
        chunk_hash=hash_chunk(_TEXT),
        hash_version=HASH_VERSION,
        distance=0.25,
        similarity_score=0.75,
        scores=Scores(legs=legs, fused=0.03125, rerank=None, temporal=None),
        corpus="documents",
    )
    label = {"corpus": "documents", "chunk_id": "report-2023-001", "chunk_hash": hash_chunk(_TEXT)}
    return PipelineAnswer(
        schema_version=SCHEMA_VERSION,
        status="ok",
        answer=f"{_TEXT} [S1]",
        citations=[
            Cited(
                label="S1",
                chunk_id="report-2023-001",
                source_path="report-2023",
                heading="Faults",
                page_number=3,
                url_or_doi=None,
                snippet=_TEXT,
                quote="verbatim",
            )
        ],
        supported=[1.0],
        unknown_labels=[],
        package=Package(
            package_id="pkg_0c2f",
            candidates=[candidate],
            source_labels={"S1": label},
            context_block="Sources, …\n\nQuestion: What hums on channel 18?\n",
            starting_prompt="Answer the question from the sources below and from nothing else.",
            remote_sources=[],
        ),
        costs=[],
        conversation_id="conv_5d1c",
        response_id="resp_0c2f",
        trace=PipelineTrace(
            stages=[Stage(stage="search", duration_ms=4.25, counts={"found": 30})],
            search={
                "profile": "hybrid_rrf",
                "legs_ms": {"dense": 3.5, "sparse": 2.25},
                "methods": {"dense": ["index"], "sparse": ["all_words"]},
                "statistics": {"sparse": [{"chunks": 1200, "age_seconds": 3600, "of_tenant": False}]},
            },
            models={"embedder": "lexical 1"},
            worker_version="0.1.0",
            queries={"dense": "What hums on channel 18?", "sparse": "What hums on channel 18?"},
        ),
    )
