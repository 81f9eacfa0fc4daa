"""Examples of every object, built from the types where possible.

A new example is one entry in `examples`; its file is named after the entry.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
from typing import TYPE_CHECKING, Any

from retrieval_client.canonical import canonical_json, canonical_sha256
from retrieval_client.contract.base import MAX_K, SCHEMA_VERSION, Result
from retrieval_client.contract.pinned import (
    CitationCheck,
    Citations,
    LabelCheck,
    Pinned,
    QuoteCheck,
    Replay,
    ReplayBatch,
    ReplayedChunk,
    UsedLabel,
)
from retrieval_client.contract.registry import TASKS
from retrieval_client.contract.results import FailedQuery, JobError, RankedChunk, Stage, TopK, TopKBatch, Trace
from retrieval_client.errors import ON_THE_WIRE
from retrieval_client.hashing import HASH_VERSION, hash_chunk
from workbench.schemas.hybrid_examples import hybrid_examples
from workbench.schemas.pipeline_examples import pipeline_examples
from worker.core.citations.document import CitationRecord, create_citations_json
from worker.core.pins.pinning import digest
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from workbench.schemas.rules import Schema

EXAMPLE_ID = "5e4bf4fd-8d1b-4112-adfa-a311fa875e92"
EXAMPLE_KEY = "an example's key, which is no secret at all"
_DELIVERY_TAG = "26e0d561-588b-405a-8455-1e2a4cebec93"
_ANSWERED_AT = "2026-01-31T12:00:00.250000+00:00"
_YEAR_2100 = 4_102_444_800
_FIRST = "Channel 18 carried a steady 50 Hz hum at −61 dBu."
_SECOND = "Moving the module to slot 19 moved the hum with it."
_QUERY: Schema = {"k": 12, "principal": {"roles": ["editor"], "tenant_id": "t1", "user_id": "u1"}}


def example_embedding(shift: int = 0) -> str:
    """Return a fixed vector as base64 of 768 little-endian float32; each component is an exact multiple of 1/8."""
    values = ((i + shift) % 17 / 8 - 1 for i in range(DIMENSIONS))
    return base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *values)).decode()


def examples() -> dict[str, tuple[str, Any]]:
    """Return every example by its file name's stem: the name of its schema, and the object."""
    job, result = "retrieve_top_k.job", "retrieve_top_k.result"
    return {
        job: (job, _filtered_job()),
        f"{job}.batch": (job, {**_QUERY, "query_embeddings": [example_embedding(), _zeros()]}),
        f"{job}.run": (job, {**_QUERY, "query_embedding": example_embedding(), "run": _run()}),
        f"{job}.token": (job, _signed({"query_embedding": example_embedding()}, "retrieve_top_k")),
        result: (result, _dump(_answer())),
        f"{result}.empty": (result, _dump(_empty_answer())),
        f"{result}.batch": (result, _dump(_batch_answer())),
        **_replay_examples(),
        **_citation_examples(),
        **hybrid_examples(),
        **pipeline_examples(),
        **_own_examples(),
        "message": ("message", _message(_filtered_job())),
        "success": ("success", _record("SUCCESS", _dump(_answer()))),
        "failure": ("failure", _record("FAILURE", _error("InvalidJob", "filters.pages[0]: expected an integer"))),
        "retry": ("retry", {**_record("RETRY", _error("Unavailable", "Postgres is away")), "date_done": None}),
    }


def _own_examples() -> dict[str, tuple[str, Any]]:
    """Return the examples that the types define."""
    return {
        name: (name, kind.example)
        for task in TASKS
        for name, kind in ((f"{task.name}.job", task.job), (f"{task.name}.result", task.answer))
        if getattr(kind, "example", None) is not None
    }


def _replay_examples() -> dict[str, tuple[str, Any]]:
    job, result = "pinned_replay.job", "pinned_replay.result"
    hashes = [hash_chunk(_FIRST), hash_chunk(_SECOND)]
    inline = [{"id": "s1", "weight": 0.8, "chunks": [_FIRST, {"text": _SECOND, "chunk_id": "c2"}]}]
    caller_field = {"principal": _QUERY["principal"]}
    return {
        job: (job, {**caller_field, "required_chunk_hashes": hashes, "top_k": 5, "fill": "text"}),
        f"{job}.run": (job, {**caller_field, "run": _run()}),
        f"{job}.runs": (job, {**caller_field, "runs": [_run(), {"subject_id": "song-1", "run_id": "r2"}]}),
        f"{job}.inline": (job, {"required_chunk_hashes": hashes, "sources": inline, "query": "any", "seed": 42}),
        result: (result, _dump(_replay())),
        f"{result}.runs": (result, _dump(_replay_batch())),
    }


def _replay() -> Replay:
    replayed_chunk = ReplayedChunk(
        chunk_hash=hash_chunk(_FIRST),
        text=_FIRST,
        source_id="report-2023",
        weight=0.75,
        pinned=True,
        rank=1,
        chunk_id="report-2023-001",
        document_id="report-2023",
        page=3,
        section="Faults",
        coordinates=None,
        metadata={"language": "en"},
        hash_version=HASH_VERSION,
    )
    pins = [
        Pinned(
            chunk_hash=replayed_chunk.chunk_hash,
            verdict="exact",
            chunk_id="report-2023-001",
            document_id="report-2023",
            found_hash=replayed_chunk.chunk_hash,
            places=1,
        ),
        Pinned(
            chunk_hash=hash_chunk(_SECOND),
            verdict="missing",
            chunk_id=None,
            document_id=None,
            found_hash=None,
            places=0,
        ),
    ]
    return Replay(
        schema_version=SCHEMA_VERSION,
        chunks=[replayed_chunk],
        pins=pins,
        matched=1,
        missing=1,
        filled=0,
        truncated=0,
        skipped=0,
        digest=digest([(replayed_chunk.chunk_hash, _FIRST, "report-2023", True)]),
        trace=_trace(Stage(stage="resolve", duration_ms=0.5, counts={"pins": 2}), searched=False),
    )


def _replay_batch() -> ReplayBatch:
    failed = FailedQuery(error=JobError(type="InvalidJob", path="runs[1]", message="runs[1]: no such run"))
    trace = _trace(Stage(stage="batch", duration_ms=1.5, counts={"runs": 2, "failed": 1}), searched=False)
    return ReplayBatch(schema_version=SCHEMA_VERSION, results=[_replay(), failed], trace=trace)


def _citation_examples() -> dict[str, tuple[str, Any]]:
    job, result = "build_citations.job", "build_citations.result"
    record = {"source_id": "report-2023", "text": _FIRST, "weight": 0.75, "section": "Verse 1", "page": 3}
    checked = {
        "answer": "The hum was steady [S1].",
        "labels": {"S1": hash_chunk(_FIRST)},
        "quotes": [{"chunk_hash": hash_chunk(_FIRST), "quote": "a steady 50 Hz hum"}],
    }
    caller_field = {"principal": _QUERY["principal"]}
    sections = {hash_chunk(_FIRST): ["Verse 1", "Chorus"]}
    return {
        job: (job, {**caller_field, **checked, "records": [record], "run": _run()}),
        f"{job}.cite": (job, {**caller_field, "cite": _run(), "sections": sections, "store": False}),
        result: (result, _dump(_citations(record))),
    }


def _citations(record: Schema) -> Citations:
    cited = CitationRecord(hash_chunk(_FIRST), "report-2023", _FIRST, record["weight"], record["section"], HASH_VERSION)
    start = _FIRST.index("a steady")
    quote = QuoteCheck(
        claimed_hash=cited.chunk_hash,
        quote="a steady 50 Hz hum",
        verdict="verbatim",
        chunk_hash=cited.chunk_hash,
        citation=0,
        spans=[(start, start + 18)],
        differences=[],
        before=_FIRST[:start],
        after=_FIRST[start + 18 :],
        left_out=[],
        put_in=[],
        found_in=[],
        reason=None,
    )
    return Citations(
        schema_version=SCHEMA_VERSION,
        citations=create_citations_json([cited]),
        verification=[
            CitationCheck(
                chunk_hash=cited.chunk_hash,
                integrity=True,
                authorised=True,
                verdict="exact",
                document_id=cited.source_id,
            )
        ],
        quotes=[quote],
        labels=LabelCheck(
            used=[UsedLabel(label="S1", chunk_hash=cited.chunk_hash, spans=[(20, 22)])], unused=[], unknown=[]
        ),
        conflicts=[],
        artifact=f"{hashlib.sha256(b'u1').hexdigest()[:32]}/runs/song-1/r1/citations.json",
        trace=_trace(Stage(stage="verify", duration_ms=0.5, counts={}), searched=False),
    )


def _filtered_job() -> Schema:
    filters = {"ext_allow": [".pdf"], "metadata": {"language": "en"}, "pages": [3, 4], "path_contains": ["reports/"]}
    return {**_QUERY, "filters": filters, "max_distance": 0.8, "query_embedding": example_embedding()}


def _zeros() -> str:
    """Return a vector without a direction: the failing query of the batch."""
    return base64.b64encode(bytes(4 * DIMENSIONS)).decode()


def _run() -> Schema:
    return {"subject_id": "song-1", "run_id": "r1", "step": "verse-1"}


def _signed(job: Schema, task: str) -> Schema:
    """Add its token to a job: a JWT (HS256), built by hand so that no library's version changes a byte."""
    claims = {**_QUERY["principal"], "exp": _YEAR_2100, "aud": "retrieval-worker", "task": task, "jti": EXAMPLE_ID}
    segments = ({"alg": "HS256", "kid": "example", "typ": "JWT"}, {**claims, "args_sha256": canonical_sha256(job)})
    signed = ".".join(_base64url(canonical_json(segment)) for segment in segments)
    signature = hmac.digest(EXAMPLE_KEY.encode(), signed.encode(), hashlib.sha256)
    return {**job, "principal_token": f"{signed}.{_base64url(signature)}"}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _answer() -> TopK:
    box = {"x": 72, "y": 96, "width": 451, "height": 56}
    return TopK(
        schema_version=SCHEMA_VERSION,
        status="short",
        short_reason="max_distance",
        k_requested=12,
        k=12,
        corpus="documents",
        chunks=[
            _chunk(1, _FIRST, 0.25, page=3, section="Faults", coordinates=box, metadata={"language": "en"}),
            _chunk(2, _SECOND, 0.625, page=None, section=None, coordinates=None, metadata={}),
        ],
        trace=_trace(Stage(stage="search", duration_ms=3.25, counts={"fetched": 100, "found": 12}), searched=True),
    )


def _chunk(rank: int, text: str, distance: float, **fields: Any) -> RankedChunk:
    return RankedChunk(
        rank=rank,
        chunk_id=f"report-2023-00{rank}",
        document_id="report-2023",
        text=text,
        chunk_hash=hash_chunk(text),
        hash_version=HASH_VERSION,
        distance=distance,
        similarity_score=1 - distance,
        **fields,
    )


def _empty_answer() -> TopK:
    """Return the answer to a caller who may see nothing and asked for more than 15."""
    trace = _trace(Stage(stage="search", duration_ms=1.5, counts={"fetched": 0, "found": 0}), searched=True)
    changes = {"status": "empty", "short_reason": "visible_rows", "chunks": [], "k_requested": 50, "k": MAX_K}
    return _answer().model_copy(update={**changes, "trace": trace})


def _batch_answer() -> TopKBatch:
    path = "query_embeddings[1]"
    message = f"{path}: expected a vector with a direction, got only zeros"
    failed = FailedQuery(error=JobError(type="InvalidJob", path=path, message=message))
    return TopKBatch(
        schema_version=SCHEMA_VERSION,
        results=[_answer(), failed],
        trace=_trace(Stage(stage="batch", duration_ms=6.5, counts={"queries": 2, "failed": 1}), searched=False),
    )


def _trace(stage: Stage, *, searched: bool) -> Trace:
    search = {"method": "index", "corpus_rows": 50_000, "ef_search": 100} if searched else {}
    return Trace(stages=[stage], search=search, models={}, worker_version="0.1.0")


def _dump(result: Result) -> Schema:
    return result.model_dump(mode="json")


def _message(job: Schema) -> Schema:
    properties = {
        "body_encoding": None,
        "correlation_id": EXAMPLE_ID,
        "delivery_info": {"exchange": "", "routing_key": "retrieval"},
        "delivery_tag": _DELIVERY_TAG,
    }
    return {
        "body": json.dumps([[job], {}, {}], sort_keys=True),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"id": EXAMPLE_ID, "task": "retrieve_top_k"},
        "properties": properties,
    }


def _record(status: str, result: Schema) -> Schema:
    return {
        "status": status,
        "result": result,
        "traceback": None,
        "children": [],
        "date_done": _ANSWERED_AT,
        "task_id": EXAMPLE_ID,
    }


def _error(exc_type: str, sentence: str) -> Schema:
    return {"exc_type": exc_type, "exc_message": [sentence], "exc_module": ON_THE_WIRE}
