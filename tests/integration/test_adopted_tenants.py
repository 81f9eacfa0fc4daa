"""Own tables adopted under names that Postgres could take for others: two tenants, and nobody sees the other's rows."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.errors import NotAuthorised
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from tests.integration.adopting import Site

    from worker.settings import Settings

TENANTS = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")


@dataclass(frozen=True)
class Schema:
    """Tables of an application.

    Attributes:
        tables: creates them.
        documents: inserts document ``%(n)s`` of tenant ``%(tenant)s``; empty where no table holds documents.
        chunks: inserts chunk ``%(n)s`` of that document, with the text ``%(text)s`` and the vector ``%(vector)s``.
        claim: the claim whose policy is chosen.
    """

    tables: str
    documents: str
    chunks: str
    claim: str = "tenant_id"


INTO_DOCUMENTS = "INSERT INTO {} VALUES (%(n)s, %(tenant)s)"
INTO_CHUNKS = "INSERT INTO {} VALUES (%(n)s, %(n)s, %(text)s, %(vector)s)"

SCHEMAS = {
    "the same name of the key": Schema(
        "CREATE TABLE docs (document_id int PRIMARY KEY, tenant_id text);"
        "CREATE TABLE doc_chunks (chunk_id int PRIMARY KEY, document_id int REFERENCES docs, content text,"
        " embedding vector(3))",
        INTO_DOCUMENTS.format("docs"),
        INTO_CHUNKS.format("doc_chunks"),
    ),
    "a parent of the document": Schema(
        "CREATE TABLE docs (id int PRIMARY KEY, tenant_id text, parent_id int REFERENCES docs);"
        "CREATE TABLE chunks (id int PRIMARY KEY, parent_id int REFERENCES docs, content text, embedding vector(3))",
        "INSERT INTO docs VALUES (%(n)s, %(tenant)s, %(n)s)",
        INTO_CHUNKS.format("chunks"),
    ),
    "chunks that refer to chunks": Schema(
        "CREATE TABLE documents (id int PRIMARY KEY, org_id uuid);"
        "CREATE TABLE chunks (id int PRIMARY KEY, document_id int REFERENCES documents, content text,"
        " embedding vector(3), parent_id int REFERENCES chunks)",
        INTO_DOCUMENTS.format("documents"),
        "INSERT INTO chunks VALUES (%(n)s, %(n)s, %(text)s, %(vector)s, %(n)s)",
    ),
    "a tenant of the chunk": Schema(
        "CREATE TABLE documents (id int PRIMARY KEY, tenant text);"
        "CREATE TABLE chunks (id int PRIMARY KEY, doc_id int REFERENCES documents, text text, embedding vector(3),"
        " tenant_id text)",
        INTO_DOCUMENTS.format("documents"),
        "INSERT INTO chunks VALUES (%(n)s, %(n)s, %(text)s, %(vector)s, %(tenant)s)",
    ),
    "columns named as tables": Schema(
        "CREATE TABLE docs (chunks int PRIMARY KEY, tenant_id text, docs int, d int);"
        "CREATE TABLE chunks (docs int PRIMARY KEY, d int REFERENCES docs, chunks text, chunk vector(3))",
        INTO_DOCUMENTS.format("docs"),
        INTO_CHUNKS.format("chunks"),
    ),
    "a table named as the alias": Schema(
        "CREATE TABLE files (id int PRIMARY KEY, tenant_id text, file_id int);"
        "CREATE TABLE d (id int PRIMARY KEY, file_id int REFERENCES files, content text, embedding vector(3))",
        "INSERT INTO files VALUES (%(n)s, %(tenant)s, %(n)s)",
        INTO_CHUNKS.format("d"),
    ),
    "mixed case": Schema(
        'CREATE TABLE "Docs" ("documentId" int PRIMARY KEY, "tenantId" text);'
        'CREATE TABLE "DocChunks" ("Id" int PRIMARY KEY, "documentId" int REFERENCES "Docs", "Content" text,'
        ' "Embedding" vector(3))',
        INTO_DOCUMENTS.format('"Docs"'),
        INTO_CHUNKS.format('"DocChunks"'),
    ),
    "quoted names": Schema(
        'CREATE TABLE "my ""docs""" ("the id" int PRIMARY KEY, "tenant id" text);'
        'CREATE TABLE "it\'s chunks" (id int PRIMARY KEY, "the id" int REFERENCES "my ""docs""", content text,'
        " embedding vector(3))",
        INTO_DOCUMENTS.format('"my ""docs"""'),
        INTO_CHUNKS.format('"it\'s chunks"'),
    ),
    "keywords": Schema(
        'CREATE TABLE "user" ("select" int PRIMARY KEY, tenant text);'
        'CREATE TABLE "table" ("order" int PRIMARY KEY, "select" int REFERENCES "user", "group" text,'
        ' "from" vector(3))',
        INTO_DOCUMENTS.format('"user"'),
        INTO_CHUNKS.format('"table"'),
    ),
    "other schemas than public": Schema(
        "CREATE SCHEMA shop; CREATE SCHEMA base; CREATE TABLE public.docs (document_id int, tenant_id text);"
        "CREATE TABLE base.docs (document_id int PRIMARY KEY, tenant_id text);"
        "CREATE TABLE shop.docs (id int PRIMARY KEY, document_id int REFERENCES base.docs, content text,"
        " embedding vector(3))",
        INTO_DOCUMENTS.format("base.docs"),
        INTO_CHUNKS.format("shop.docs"),
    ),
    "a tenant in the metadata": Schema(
        "CREATE TABLE notes (id int PRIMARY KEY, doc_id int, content text, embedding vector(3), metadata jsonb)",
        "",
        "INSERT INTO notes"
        " VALUES (%(n)s, %(n)s, %(text)s, %(vector)s, jsonb_build_object('tenant_id', %(tenant)s::text))",
    ),
    "an owner of the document": Schema(
        "CREATE TABLE docs (document_id int PRIMARY KEY, owner_id text);"
        "CREATE TABLE doc_chunks (chunk_id int PRIMARY KEY, document_id int REFERENCES docs, content text,"
        " embedding vector(3))",
        INTO_DOCUMENTS.format("docs"),
        INTO_CHUNKS.format("doc_chunks"),
        claim="user_id",
    ),
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_no_tenant_sees_a_row_of_another(site: Site, schema: Schema) -> None:
    """Adopted with the policy that `adopt` writes, each tenant gets its own rows, and any other caller none."""
    site.admin.execute(schema.tables.encode())
    for n in range(20):
        tenant = TENANTS[n % 2]
        row = {"n": n, "tenant": tenant, "text": f"{n} of {tenant}", "vector": str([1, n, 2])}
        for statement in filter(None, (schema.documents, schema.chunks)):
            site.admin.execute(statement.encode(), row)
    (corpus,) = [one["corpus"] for one in site.adopt()["corpora"]]
    site.choose(schema.claim)
    site.admin.execute("ANALYZE")

    def texts(claims: dict[str, Any]) -> set[str]:
        return read(site.settings(), corpus, claims)

    assert texts({schema.claim: TENANTS[0]}) == {f"{n} of {TENANTS[0]}" for n in range(0, 20, 2)}
    assert texts({schema.claim: TENANTS[1]}) == {f"{n} of {TENANTS[1]}" for n in range(1, 20, 2)}
    for claims in ({schema.claim: "33333333-3333-3333-3333-333333333333"}, {"roles": ["x"]}):
        assert texts(claims) == set()


CHUNKS = "CREATE TABLE doc_chunks (id int PRIMARY KEY, document_id int{of}, content text, embedding vector(3){more})"
INTO = "INSERT INTO doc_chunks VALUES (%(n)s, %(n)s, %(text)s, %(vector)s{more})"


def of_docs(columns: str, values: str, more: str = "", more_values: str = "") -> Schema:
    """A table of documents with these columns, and of their chunks with more."""
    return Schema(
        f"CREATE TABLE docs (id int PRIMARY KEY, {columns});" + CHUNKS.format(of=" REFERENCES docs", more=more),
        f"INSERT INTO docs VALUES (%(n)s, {values})",
        INTO.format(more=more_values),
    )


OWNED = {
    "both of the chunk": Schema(
        CHUNKS.format(of="", more=", tenant_id text, owner_id text"), "", INTO.format(more=", %(tenant)s, %(user)s")
    ),
    "both in the metadata": Schema(
        CHUNKS.format(of="", more=", metadata jsonb"),
        "",
        INTO.format(more=", jsonb_build_object('tenant_id', %(tenant)s::text, 'user_id', %(user)s::text)"),
    ),
    "both of the document": of_docs("tenant_id text, owner_id text", "%(tenant)s, %(user)s"),
    "a tenant of the document": of_docs("tenant_id text", "%(tenant)s", ", owner_id text", ", %(user)s"),
    "an owner of the document": of_docs("owner_id text", "%(user)s", ", tenant_id text", ", %(tenant)s"),
    "a document of nobody": of_docs(
        "title text", "'title'", ", tenant_id text, owner_id text", ", %(tenant)s, %(user)s"
    ),
}


CHOSEN = [
    pytest.param(schema, chosen, id=f"{name}, {' and '.join(chosen)}")
    for name, schema in OWNED.items()
    for chosen in (("user_id",), ("tenant_id", "user_id"))
    # Both would read each other's table, which Postgres refuses: nothing is answered.
    if (name, len(chosen)) != ("an owner of the document", 2)
]


@pytest.mark.parametrize(("schema", "chosen"), CHOSEN)
def test_a_user_sees_no_row_of_a_namesake_of_another_tenant(
    site: Site, schema: Schema, chosen: tuple[str, ...]
) -> None:
    """The policy by users keeps to the tenant, which both have a dave; with the tenant's policy, all of it shows."""
    site.admin.execute(schema.tables.encode())
    for n in range(20):
        tenant, user = ("A", "B")[n % 2], ("dave", "erin")[n // 2 % 2]
        row = {"n": n, "tenant": tenant, "user": user, "text": f"{n} {tenant} {user}", "vector": str([1, n, 2])}
        for statement in filter(None, (schema.documents, schema.chunks)):
            site.admin.execute(statement.encode(), row)
    (said,) = site.adopt()["corpora"]
    assert {json.dumps({"tenant_id": "A", "user_id": "dave"})} <= {
        line.split(" would")[0] for lines in said["callers"].values() for line in lines
    } or schema is OWNED["a tenant of the document"]
    site.choose(*chosen)

    def texts(**claims: str) -> set[str]:
        return {text.split(" ", 1)[1] for text in read(site.settings(), said["corpus"], claims)}

    expected = {"A dave", "A erin"} if "tenant_id" in chosen else {"A dave"}
    assert texts(tenant_id="A", user_id="dave") == expected
    assert texts(user_id="dave") == texts(tenant_id="C", user_id="dave") == set()


def read(settings: Settings, corpus: str, claims: dict[str, Any]) -> set[str]:
    """The texts that a caller finds by an exact search, by any other, and by a replay that is filled."""
    caller = as_principal(claims, settings, "principal")
    context = JobContext(lambda: caller)
    job = {"query_embedding": [1, 1, 1], "corpus": corpus}
    fill = {"required_chunk_hashes": [], "corpus": corpus, "top_k": 40, "fill": "text"}
    with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
        try:
            exact = engine.retrieval.top_k(parse_job(RetrieveTopK, job | {"exact": True}), context)["chunks"]
            nearest = engine.retrieval.top_k(parse_job(RetrieveTopK, job), context)["chunks"]
            filled = engine.replay.pinned(parse_job(PinnedReplay, fill), context)["chunks"]
        except NotAuthorised:  # a claim that a policy can't cast
            return set()
    return {chunk["text"] for chunk in [*exact, *nearest, *filled]}
