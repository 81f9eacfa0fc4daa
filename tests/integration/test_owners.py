"""Whose runs, conversations and files are: users of the same id in two tenants share nothing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM
from tests.integration.asking import ask as ask_pipeline

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay, RunName
from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from worker.model import Principal
    from worker.settings import Settings

QUERY = lexical.embed([HUM])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}
NAME = RunName(**RUN)


@pytest.fixture
def tenants(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> Settings:
    return make_settings(database, artifacts={"url": str(tmp_path)})


@pytest.fixture
def engine(tenants: Settings) -> Iterator[Engine]:
    made = Engine(tenants, time.perf_counter)
    yield made
    made.close()


def dave(settings: Settings, tenant: str | None) -> Principal:
    claims = {"user_id": "dave", **({"tenant_id": tenant} if tenant else {})}
    return as_principal(claims, settings, "principal")


def search(engine: Engine, caller: Principal, **fields: Any) -> dict[str, Any]:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": {**RUN, "reuse": True}, **fields})
    return engine.retrieval.top_k(job, JobContext(lambda: caller))


def chain(engine: Engine, caller: Principal, **fields: Any) -> dict[str, Any]:
    return ask_pipeline(engine, caller, question=HUM, mode="grounded", **fields)


def test_users_of_one_id_in_two_tenants_share_nothing(engine: Engine, tenants: Settings) -> None:
    """Neither the run that `reuse` finds nor its replay, citations, files, feedback, package or conversation."""
    of_a, of_b = dave(tenants, "A"), dave(tenants, "B")
    search(engine, of_a, k=10)
    other = lexical.embed(["tape alignment"])[0].tolist()
    fresh = search(engine, of_b, query_embedding=other, k=12)
    assert (fresh["k"], fresh["trace"]["search"]["method"]) == (12, "exact")
    only_a = {"subject_id": "song-1", "run_id": "of-a"}
    search(engine, of_a, run=only_a)
    for attempt in (
        lambda: engine.replay.pinned(parse_job(PinnedReplay, {"run": only_a}), JobContext(lambda: of_b)),
        lambda: engine.citing.build(parse_job(BuildCitations, {"cite": only_a}), JobContext(lambda: of_b)),
        lambda: engine.exchange.export(of_b, RunName(**only_a)),
        lambda: engine.feedback.record(of_b, RunName(**only_a), ["c"]),
    ):
        with pytest.raises(InvalidJob, match="no such run"):
            attempt()
    engine.files.keep(of_a, NAME, "lyrics.json", b"{}")
    assert engine.files.read_all(of_b.owner, NAME) == {}
    first = chain(engine, of_a, starting_prompt="A's own instructions")
    for continued in ({"prior_response_id": first["response_id"]}, {"conversation_id": first["conversation_id"]}):
        answer: Any = None
        try:
            answer = chain(engine, of_b, **continued)
        except InvalidJob:
            continue
        assert "A's own instructions" not in json.dumps(answer)
    with pytest.raises(InvalidJob):
        ask_pipeline(engine, of_b, resume=first["package"]["package_id"])


def test_owners_are_written_so_that_no_two_are_alike(make_settings: Callable[..., Settings]) -> None:
    """However claims are cut, quoted or left out, other claims are another owner."""
    settings = make_settings()
    claims = [
        *({"tenant_id": "a", "user_id": "bc"}, {"tenant_id": "ab", "user_id": "c"}, {"user_id": "abc"}),
        *({"tenant_id": "A", "user_id": "dave"}, {"user_id": '{"tenant_id":"A","user_id":"dave"}'}),
        *({"user_id": ["A", "dave"]}, {"tenant_id": ["A"], "user_id": "dave"}, {"user_id": '{"user_id":"dave"}'}),
        *({"tenant_id": '"', "user_id": "x"}, {"tenant_id": "\\", "user_id": '"x'}, {"user_id": "dave"}),
        *({"tenant_id": 'a","b', "user_id": "c"}, {"tenant_id": "a", "user_id": 'b","c'}),
    ]
    owners = [as_principal(one, settings, "principal").owner for one in claims]
    assert len({*owners}) == len(claims)
    assert as_principal({"tenant_id": "A"}, settings, "principal").owner == ""


def test_records_of_one_claim_are_found_as_before(
    engine: Engine, tenants: Settings, admin: psycopg.Connection[Any], make_settings: Callable[..., Settings]
) -> None:
    """A user without a tenant, and a worker that names one claim, store the owner as ever."""
    search(engine, dave(tenants, None))
    assert admin.execute("SELECT owner FROM retrieval.runs").fetchall() == [("dave",)]
    assert dave(make_settings(principal={"owner_claims": ["user_id"]}), "A").owner == "dave"


def test_a_tenant_without_a_user_owns_nothing(engine: Engine, tenants: Settings) -> None:
    """All callers of a tenant without a user would share their runs."""
    caller = as_principal({"tenant_id": "A"}, tenants, "principal")
    with pytest.raises(NotAuthorised, match=r"owner claim \(user_id, or principal\.owner_claims\) has runs"):
        search(engine, caller)
