"""The reference schema's policy: equal users and roles of two tenants see nothing of each other."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.command_line import command_line
from tests.integration.asking import ask

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.hashing import hash_chunk
from workbench.devstack.workers import stack_environment
from worker.adapters.postgres.database import Database
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg
    from tests.command_line import Command

    from workbench.devstack.stack import Stack
    from worker.model import Principal
    from worker.settings import Settings

PHRASE = "zebrafish vault combination"
QUERY = lexical.embed([PHRASE])[0].tolist()
TENANTS = ("A", "B", None)
USERS = ("dave", "carl")
GRANTEES = ("role:admin", "carl", None)


@pytest.fixture
def settings(make_settings: Callable[..., Settings], database: str) -> Settings:
    return make_settings(database)


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = Engine(settings, time.perf_counter)
    yield engine
    engine.close()


def caller(settings: Settings, tenant: str | None, user: str, *roles: str) -> Principal:
    claims = {"user_id": user, "roles": list(roles), **({"tenant_id": tenant} if tenant else {})}
    return as_principal(claims, settings, "principal")


def add_document(
    admin: psycopg.Connection[Any], tenant: str | None, owner: str, visibility: str, grantee: str | None
) -> str:
    """Add a document with one chunk; its text holds the document's id."""
    document = f"{tenant}-{owner}-{visibility}-{grantee}"
    admin.execute(
        "INSERT INTO documents (id, owner_id, tenant_id, visibility) VALUES (%s, %s, %s, %s)",
        (document, owner, tenant, visibility),
    )
    if grantee:
        admin.execute("INSERT INTO document_grants VALUES (%s, %s)", (document, grantee))
    admin.execute(
        "INSERT INTO document_chunks (id, document_id, text_content, embedding) VALUES (%s, %s, %s, %s::vector)",
        (f"{document}-1", document, text(document), str(QUERY)),
    )
    return document


def text(document: str) -> str:
    return f"{PHRASE} of {document}"


def test_the_policy_shows_what_its_rule_says(settings: Settings, admin: psycopg.Connection[Any]) -> None:
    """Public to all; else to equal tenants only, the tenant's to all of it, the rest to owner and grantees."""
    admin.execute("TRUNCATE documents CASCADE")
    documents = list(itertools.product(TENANTS, USERS, ("public", "tenant", "private"), GRANTEES))
    for document in documents:
        add_document(admin, *document)
    database = Database(settings)
    for tenant, user, roles in itertools.product(TENANTS, USERS, ((), ("admin",))):
        names = {user, *(f"role:{role}" for role in roles)}
        expected = {
            f"{of}-{owner}-{visibility}-{grantee}"
            for of, owner, visibility, grantee in documents
            if visibility == "public"
            or (of == tenant and ((visibility == "tenant" and of is not None) or owner == user or grantee in names))
        }
        statements = [(b"SELECT document_id FROM document_chunks", dict[str, Any]())]
        (rows,) = database.read(caller(settings, tenant, user, *roles), statements)
        assert {document for (document,) in rows} == expected, (tenant, user, roles)
    database.close()


def test_no_task_shows_a_namesake_of_another_tenant_anything(
    engine: Engine, settings: Settings, admin: psycopg.Connection[Any]
) -> None:
    """Search, replay, cite and ask as the owner's and grantee's namesakes, who are admins of B or of no tenant."""
    documents = [add_document(admin, "A", "dave", "private", grantee) for grantee in ("role:admin", "carl")]
    hashes = [hash_chunk(text(document)) for document in documents]
    records = [{"source_id": "s", "text": text(document), "weight": 1, "section": None} for document in documents]

    def answers(principal: Principal) -> list[dict[str, Any]]:
        context = JobContext(lambda: principal)
        filters = {"document_ids": documents}
        return [
            engine.retrieval.top_k(parse_job(RetrieveTopK, {"query_embedding": QUERY, "exact": True}), context),
            engine.retrieval.top_k(parse_job(RetrieveTopK, {"query_embedding": QUERY, "filters": filters}), context),
            engine.hybrid.retrieve(
                parse_job(
                    RetrieveHybrid,
                    {"query": PHRASE, "searches": [{"corpus": "documents"}], "legs": ["primary", "sparse"]},
                ),
                context,
            ),
            engine.replay.pinned(parse_job(PinnedReplay, {"required_chunk_hashes": hashes}), context),
            ask(engine, principal, question=f"What is the {PHRASE}?", mode="grounded"),
        ]

    def authorised(principal: Principal) -> list[bool | None]:
        cited = engine.citing.build(parse_job(BuildCitations, {"records": records}), JobContext(lambda: principal))
        return [line["authorised"] for line in cited["verification"]]

    assert all(PHRASE in json.dumps(answer["chunks"]) for answer in answers(caller(settings, "A", "dave"))[:2])
    assert authorised(caller(settings, "A", "dave")) == [True, True]
    for tenant, user in itertools.product(("B", None), USERS):
        namesake = caller(settings, tenant, user, "admin")
        for answer in answers(namesake):
            shown = json.dumps(answer, ensure_ascii=False)
            assert not any(text(document) in shown or f"{document}-1" in shown for document in documents)
        assert not any(authorised(namesake))


COMMANDS = {
    "runs list": ("runs", "list"),
    "runs export": ("runs", "export", "desk", "r1"),
    "runs keep": ("runs", "keep", "desk", "r1", "{file}"),
    "runs used": ("runs", "used", "desk", "r1", "A-dave-private-None-1"),
    "trace": ("trace", "desk", "r1"),
    "report": ("report", "desk", "r1", "--html", "{file}"),
    "verify": ("verify", "desk", "r1"),
}


@pytest.fixture
def run(stack: Stack, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command of an operator, with the files of runs in a folder."""
    place = stack_environment(stack, TRUST_QUEUE="true", ARTIFACTS__URL=str(tmp_path / "runs"))
    dsn = stack.postgres.dsn(database, "retrieval_worker")
    return command_line(capsys, {**place, "DATABASE_CONNECTION_STRING": dsn})


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_no_command_shows_a_namesake_a_run(
    engine: Engine, settings: Settings, admin: psycopg.Connection[Any], run: Command, tmp_path: Path, words: Any
) -> None:
    """The run of a dave of A: to the daves of B and of no tenant it is no other than one that does not exist."""
    document = add_document(admin, "A", "dave", "private", None)
    dave = {"user_id": "dave", "tenant_id": "A"}
    ask(
        engine,
        caller(settings, "A", "dave"),
        question=f"What is the {PHRASE}?",
        mode="grounded",
        run={"subject_id": "desk", "run_id": "r1"},
    )
    file = tmp_path / "file.json"
    file.write_text("{}")
    words = [word.replace("{file}", str(file)) for word in words]

    def said(*words: str, **claims: str) -> tuple[int, str]:
        done = run(*words, "--claims", json.dumps(claims))
        return done.returncode, f"{done.stdout} {done.stderr} {file.read_text()}".replace("no-such-subject", "desk")

    own, unknown = said(*words, **dave), [word.replace("desk", "no-such-subject") for word in words]
    assert own[0] == 0, own[1]
    for claims in ({"user_id": "dave", "tenant_id": "B"}, {"user_id": "dave"}):
        file.write_text("{}")
        code, text = said(*words, **claims)
        assert document not in text
        assert "r1" not in text or (code, text) == said(*unknown, **claims)
