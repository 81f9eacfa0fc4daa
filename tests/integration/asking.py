"""Callers, and those of `run_pipeline` without a queue between."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from worker.jobs.context import JobContext
from worker.jobs.pipeline.types import QueryRequest, from_json, to_json
from worker.model import Principal

if TYPE_CHECKING:
    from worker.jobs.engine import Engine
    from worker.jobs.pipeline.types import ContextPackage, QueryResponse
    from worker.settings import Settings

HUM = "What causes the 50 Hz hum on channel 18?"
CALLERS: list[dict[str, Any]] = [
    {"user_id": "alice"},
    {"user_id": "bob"},
    {"user_id": "alice", "tenant_id": "studio"},
    {"user_id": "alice", "roles": ["editor"]},
    {"user_id": "alice", "roles": ["editor", "admin"]},
    {"user_id": "alice", "roles": ["admin", "editor"]},
    {"user_id": "alice", "roles": []},
    {"user_id": '["editor"]'},
    {"roles": ["editor"]},
    {"roles": ["alice"]},
    {"tenant_id": "alice"},
]
"""Claims of callers who differ in what Postgres gets, the order of roles included."""


def asker(user: str, **claims: str) -> Principal:
    settings = (("app.user_id", user), ("app.tenant_id", claims.get("tenant_id", "")), ("app.roles", ""))
    return Principal({"user_id": user, **claims}, settings, user)


def ask(engine: Engine, user: str | Principal | None = "alice", **fields: Any) -> dict[str, Any]:
    """The answer to a job; its JSON is what the contract says."""
    principal = asker(user) if isinstance(user, str) else user
    job = parse_job(RunPipeline, fields)
    answer = engine.pipeline_jobs.answer(job, JobContext(lambda: principal, "t1", min_lsn=job.min_lsn))
    PipelineAnswer.model_validate(json.loads(json.dumps(answer)))
    return answer


def as_asked(settings: Settings) -> dict[str, Any]:
    """The profile `hybrid` without the conversation: its sources depend on the question alone."""
    hybrid = settings.profiles["hybrid"].model_dump(mode="json", by_alias=True)
    return {"hybrid": {**hybrid, "conversation": 0}}


def in_stages(engine: Engine, request: QueryRequest, user: str = "alice") -> QueryResponse:
    """The three stages, with JSON between them: what comes back is what went in."""
    request = _there_and_back(request)
    package: ContextPackage = _there_and_back(engine.pipeline.build_sources(request, asker(user)))
    package = _there_and_back(engine.pipeline.synthesize_context(package))
    response, _ = engine.pipeline.execute(package, user)
    return _there_and_back(response)  # type: ignore[no-any-return] # it is what it was


def _there_and_back(value: Any) -> Any:
    again = from_json(type(value), to_json(value))
    assert again == value
    return again


def without_trace(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an answer that a repeat of other tasks repeats."""
    return {name: value for name, value in answer.items() if name != "trace"}


def ids(answer: dict[str, Any]) -> list[str]:
    return [chunk["chunk_id"] for chunk in answer["package"]["candidates"]]


def repeated(answer: dict[str, Any]) -> str:
    """Return the part of an answer that a repeat repeats: all but trace and costs, as JSON."""
    return json.dumps({name: value for name, value in answer.items() if name not in {"trace", "costs", "costs_total"}})
