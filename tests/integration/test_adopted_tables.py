"""`retrieval-worker adopt`: from tables of LangChain, LlamaIndex or one's own to the first authorised answer."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from psycopg import sql
from tests.integration.library_tables import write

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.errors import NotAuthorised, SettingsError
from worker.cli.doctor import examine
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from tests.integration.adopting import Site

    from worker.settings import Settings

ROWS = 60
RED, BLUE = (str(uuid.UUID(int=n)) for n in (1, 2))
DOCUMENTS = [str(uuid.UUID(int=n)) for n in range(100, 105)]
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Row:
    """A chunk as the test knows it.

    Attributes:
        vector: of random numbers, so that no two are as near.
    """

    n: int
    text: str
    document: str
    path: str
    page: int
    section: str
    lang: str
    tenant: str
    vector: NDArray[np.float32]


def rows(dimensions: int) -> list[Row]:
    vectors = np.random.default_rng(20).standard_normal((ROWS, dimensions)).astype(np.float32)
    return [
        Row(
            n,
            f"passage {n}",
            DOCUMENTS[n % 5],
            f"shelf/{n % 5}/guide.{'pdf' if n % 5 < 3 else 'MD'}",
            n % 20,
            ("Pumps", "Valves", "Hoses")[n % 3],
            "de" if n % 4 == 0 else "en",
            RED if n % 2 else BLUE,
            vectors[n],
        )
        for n in range(ROWS)
    ]


def as_text(row: Row, **metadata: Any) -> dict[str, Any]:
    """A row for a library, which keeps all but text and vector in its metadata."""
    own = {"source": row.path, "page": row.page, "section": row.section, "lang": row.lang, "tenant_id": row.tenant}
    return {"text": row.text, "document": row.document, "vector": row.vector.tolist(), "metadata": own | metadata}


# --- tables -------------------------------------------------------------------------------------


def langchain(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    del admin
    write("langchain_new.py", url=url, table="notes", dimensions=384, texts=[*map(as_text, made)])


def langchain_own_columns(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    """With columns of metadata, as LangChain's guide has it."""
    del admin
    columns = {"tenant_id": "TEXT", "lang": "TEXT", "id": "TEXT"}
    texts = [as_text(row, id=f"own {row.n}") for row in made]
    write("langchain_new.py", url=url, table="notes", dimensions=384, columns=columns, texts=texts)


def langchain_old(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    del admin
    for name in ("Other notes", "My notes"):
        write("langchain_old.py", url=url, collection=name, jsonb=True, texts=[*map(as_text, made)])


def langchain_oldest(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    del admin
    write("langchain_old.py", url=url, collection="My notes", jsonb=False, texts=[*map(as_text, made)])


def llamaindex(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    del admin
    write("llamaindex.py", url=url, table="essays", dimensions=1536, texts=[*map(as_text, made)])


def llamaindex_hybrid(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    del admin
    options = {"use_jsonb": True, "use_halfvec": True, "hybrid_search": True}
    texts = [as_text(row) for row in made]
    write("llamaindex.py", url=url, table="essays", dimensions=1536, options=options, texts=texts)


def with_tenants(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    """A uuid schema: the documents say whose a chunk is."""
    del url
    admin.execute("""
        CREATE SCHEMA shop;
        CREATE TABLE shop.files (id uuid PRIMARY KEY, tenant_id uuid NOT NULL, path text NOT NULL);
        CREATE TABLE shop.chunks (
          id uuid PRIMARY KEY DEFAULT gen_random_uuid(), file_id uuid NOT NULL REFERENCES shop.files, content text,
          page varchar(9), section text, metadata json, embedding vector(384) NOT NULL)
    """)
    for tenant in (RED, BLUE):
        for document, path in sorted({(row.document, row.path) for row in made}):
            admin.execute("INSERT INTO shop.files VALUES (%s, %s, %s)", (of_tenant(document, tenant), tenant, path))
    for row in made:
        admin.execute(
            "INSERT INTO shop.chunks (file_id, content, page, section, metadata, embedding)"
            " VALUES (%s, %s, %s, %s, %s, %s::vector)",
            (
                *(of_tenant(row.document, row.tenant), row.text, row.page, row.section),
                *(json.dumps({"lang": row.lang}), str(row.vector.tolist())),
            ),
        )


def of_tenant(document: str, tenant: str) -> str:
    return str(uuid.uuid5(uuid.UUID(document), tenant))


def wide(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    """1,536 dimensions, a key of two columns, integer documents."""
    del url
    admin.execute("""
        CREATE TABLE "Pages" (doc varchar NOT NULL, nr int NOT NULL, body text, "order" text, tenant text, path text,
          page int, section varchar, meta jsonb, embedding vector(1536), PRIMARY KEY (doc, nr))
    """)
    for row in made:
        admin.execute(
            'INSERT INTO "Pages" VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s::vector)',
            (
                *(row.document, row.n, row.text, "x", row.tenant, row.path, row.page, row.section),
                *(json.dumps({"lang": row.lang, "document_id": row.document}), str(row.vector.tolist())),
            ),
        )


def halfvec(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    del url
    admin.execute("""
        CREATE TABLE items (id bigserial PRIMARY KEY, source_id text, text varchar NOT NULL, owner_id uuid, page text,
          path text, section text, metadata jsonb, embedding halfvec(3072))
    """)
    for row in made:
        admin.execute(
            "INSERT INTO items (source_id, text, owner_id, page, path, section, metadata, embedding)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s::halfvec)",
            (
                *(row.document, row.text, row.tenant, str(row.page), row.path, row.section),
                *(json.dumps({"lang": row.lang}), str(row.vector.tolist())),
            ),
        )


def partitioned(url: str, admin: psycopg.Connection[Any], made: list[Row]) -> None:
    del url
    admin.execute("""
        CREATE TABLE log (id bigint, day date, document_id text NOT NULL, content text, tenant_id text, path text,
          page smallint, section text, metadata jsonb, embedding vector(384), PRIMARY KEY (id, day))
          PARTITION BY RANGE (day);
        CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
        CREATE TABLE log_2 PARTITION OF log DEFAULT
    """)
    for row in made:
        day = dt.date(2024, 1, 1) + dt.timedelta(days=row.n)
        admin.execute(
            "INSERT INTO log VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s::vector)",
            (
                *(row.n, day, row.document, row.text, row.tenant, row.path, row.page, row.section),
                *(json.dumps({"lang": row.lang}), str(row.vector.tolist())),
            ),
        )


@dataclass(frozen=True)
class Recipe:
    """A table, and what `adopt` should make of it.

    Attributes:
        make: writes the table.
        corpus: the corpus that it becomes.
        dimensions: of its vectors.
        claim: says whose a row is.
        document: a row's document id, as the table has it.
        view: True if a view is needed.
    """

    make: Callable[[str, psycopg.Connection[Any], list[Row]], None]
    corpus: str
    dimensions: int = 384
    claim: str = "tenant_id"
    document: Callable[[Row], str] = field(default=lambda row: row.document)
    view: bool = True


RECIPES = {
    "LangChain": Recipe(langchain, "notes", document=lambda row: row.path),
    "LangChain, columns of its own": Recipe(langchain_own_columns, "notes", document=lambda row: row.path),
    "LangChain, before": Recipe(langchain_old, "my_notes", document=lambda row: row.path),
    "LangChain, long before": Recipe(langchain_oldest, "my_notes", document=lambda row: row.path),
    "LlamaIndex": Recipe(llamaindex, "essays", 1536),
    "LlamaIndex, hybrid": Recipe(llamaindex_hybrid, "essays", 1536),
    "uuids with tenants": Recipe(with_tenants, "chunks", document=lambda row: of_tenant(row.document, row.tenant)),
    "1,536 dimensions": Recipe(wide, "pages", 1536),
    "halfvec": Recipe(halfvec, "items", 3072, claim="user_id", view=False),
    "partitioned": Recipe(partitioned, "log"),
}


# --- from the table to an answer ----------------------------------------------------------------


FILTERS: dict[str, tuple[Callable[[Recipe], dict[str, Any]], Callable[[Row], bool]]] = {
    "none": (lambda _: {}, lambda _: True),
    "pages": (lambda _: {"pages": [3, 4, 5, 6]}, lambda row: row.page in {3, 4, 5, 6}),
    "sections": (lambda _: {"sections": ["Pumps", "Hoses"]}, lambda row: row.section != "Valves"),
    "path_contains": (lambda _: {"path_contains": ["f/1/", "f/4/"]}, lambda row: row.path[6] in "14"),
    "ext_allow": (lambda _: {"ext_allow": ["md"]}, lambda row: row.path.endswith("MD")),
    "ext_deny": (lambda _: {"ext_deny": ["MD"]}, lambda row: row.path.endswith("pdf")),
    "metadata": (lambda _: {"metadata": {"lang": "de"}}, lambda row: row.lang == "de"),
    "several": (
        lambda _: {"metadata": {"lang": "en"}, "ext_allow": ["pdf"], "sections": ["Pumps"]},
        lambda row: row.lang == "en" and row.path.endswith("pdf") and row.section == "Pumps",
    ),
    "nothing": (lambda _: {"pages": []}, lambda _: False),
}


def nearest(made: list[Row], query: NDArray[np.float32], tenant: str, wanted: Callable[[Row], bool]) -> list[str]:
    """Brute force: the texts of the nearest rows of a tenant."""
    seen = [row for row in made if row.tenant == tenant and wanted(row)]
    similarity = {row.text: float(row.vector @ query / np.linalg.norm(row.vector)) for row in seen}
    return sorted(similarity, key=lambda text: -similarity[text])[:15]


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_table_that_is_there_is_adopted(site: Site, recipe: Recipe) -> None:
    """With migrate, adopt and tables.sql; each caller then finds its own rows, by each filter, as brute force does."""
    made = rows(recipe.dimensions)
    recipe.make(site.url, site.admin, made)
    said = site.adopt()
    (one,) = [one for one in said["corpora"] if one["corpus"] == recipe.corpus]
    assert (one["dimensions"], one["view"] is not None) == (recipe.dimensions, recipe.view)
    assert recipe.claim in one["claims"]
    with pytest.raises(SettingsError):
        Engine(site.settings(), time.perf_counter)
    site.choose(recipe.claim)
    site.admin.execute("ANALYZE")
    assert "Index Scan" in plan(site, recipe)
    for search in ({"exact_rows": 0}, {}):
        settings = site.settings(search=search)
        with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
            check_answers(engine, settings, recipe, made)
    levels = {
        finding.level for finding in examine(settings) if finding.subject in {"Postgres", f"corpus {recipe.corpus}"}
    }
    assert "problem" not in levels


def plan(site: Site, recipe: Recipe) -> str:
    """How Postgres finds the nearest rows, where it may not read all."""
    corpus = site.settings().corpora[recipe.corpus]
    column = sql.Identifier(corpus.columns.embedding)
    typed = "SELECT atttypid::regtype::text FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = %s"
    (kind,) = site.admin.execute(typed, (corpus.table, corpus.columns.embedding)).fetchone() or ("",)
    query = sql.SQL("EXPLAIN SELECT * FROM {} ORDER BY {} <=> {}::{} LIMIT 30").format(
        sql.Identifier(*corpus.table.split(".")),
        column,
        sql.Literal(str([1] * recipe.dimensions)),
        sql.Identifier(kind),
    )
    with site.admin.transaction():
        site.admin.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        return "\n".join(line for (line,) in site.admin.execute(query).fetchall())


def check_answers(engine: Engine, settings: Settings, recipe: Recipe, made: list[Row]) -> None:
    def ask(claims: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
        job = parse_job(RetrieveTopK, {"query_embedding": query.tolist(), "corpus": recipe.corpus, **fields})
        context = JobContext(lambda: as_principal(claims, settings, "principal"))
        found: list[dict[str, Any]] = engine.retrieval.top_k(job, context)["chunks"]
        return found

    query = np.random.default_rng(7).standard_normal(recipe.dimensions).astype(np.float32)
    named = [recipe.document(row) for row in made if row.tenant == RED][3]
    by_document = (lambda _: {"document_ids": [named]}, lambda row: recipe.document(row) == named)
    for filters, wanted in [*FILTERS.values(), by_document]:
        for tenant in (RED, BLUE):
            found = ask({recipe.claim: tenant}, filters=filters(recipe))
            assert [one["text"] for one in found] == nearest(made, query, tenant, wanted), filters
    first = ask({recipe.claim: RED})[0]
    row = next(row for row in made if row.text == first["text"])
    assert (first["document_id"], first["page"], first["section"]) == (recipe.document(row), row.page, row.section)
    assert first["metadata"]["lang"] == row.lang
    assert not [key for key in first["metadata"] if key.startswith("_")]
    assert first["metadata"].get("id") in {None, f"own {row.n}"}
    context = JobContext(lambda: as_principal({"user_id": "u1", recipe.claim: RED}, settings, "principal"))
    searches = [{"corpus": recipe.corpus, "top_k": 5}]
    legs = {"query": "passage", "query_embedding": query.tolist(), "legs": ["primary", "sparse"], "searches": searches}
    run = {"subject_id": "s", "run_id": f"r{next(_numbers)}"}
    hybrid = engine.hybrid.retrieve(parse_job(RetrieveHybrid, {**legs, "run": run}), context)
    chunks = hybrid["results"][recipe.corpus]["chunks"]
    assert len(chunks) == 5
    assert {chunk["text"] for chunk in chunks} <= {row.text for row in made if row.tenant == RED}
    replay = engine.replay.pinned(parse_job(PinnedReplay, {"run": run}), context)
    assert [pin["verdict"] for pin in replay["pins"]] == ["exact"] * 5
    for unknown in (str(uuid.UUID(int=9)), "no such"):
        with contextlib.suppress(NotAuthorised):  # a claim that is no uuid, where the policy casts it
            assert ask({recipe.claim: unknown}) == []
    with contextlib.suppress(NotAuthorised):
        assert ask({"roles": ["x"]}) == []


def test_adopt_changes_nothing_and_overwrites_nothing(site: Site) -> None:
    """Not in the database, not in a folder; a second proposal has a folder of its own."""
    wide(site.url, site.admin, rows(1536))
    before = site.admin.execute(STATE).fetchall()
    folder = site.folder / "adopted"
    arguments = ("adopt", "--dsn", site.url, "--out", str(folder))
    assert site.run(*arguments).returncode == 0
    kept = {file.name: file.read_text() for file in folder.iterdir()}
    assert kept.keys() == {"worker.toml", "modes.toml", "tables.sql"}
    done = site.run(*arguments)
    assert done.returncode == 2
    assert f"{folder / 'worker.toml'} is there, and nothing is overwritten: name another folder" in done.stderr
    assert {file.name: file.read_text() for file in folder.iterdir()} == kept
    assert site.admin.execute(STATE).fetchall() == before
    with contextlib.chdir(site.folder):
        site.run("adopt", "--dsn", site.url)
        assert (site.folder / "adopted-2" / "worker.toml").read_text() == kept["worker.toml"]


STATE = """
SELECT 'relation', oid, relname::text, reltuples::text, relrowsecurity, relacl::text FROM pg_class
UNION ALL SELECT 'policy', oid, polname, '', true, '' FROM pg_policy
UNION ALL SELECT 'role', oid, rolname, '', true, '' FROM pg_roles ORDER BY 1, 2
"""

UNFIT = {
    "vectors without rows": ("id int PRIMARY KEY, text text, v vector", "public.t.v: it has no vectors yet"),
    "no text": ("id int PRIMARY KEY, v vector(3)", "public.t.v: it has no column of text"),
    "no key": ("id int, text text, v vector(3)", "public.t.v: no primary key, and no unique index without NULL"),
}


@pytest.mark.parametrize(("columns", "reason"), UNFIT.values(), ids=UNFIT)
def test_a_table_that_can_not_be_a_corpus_is_named_with_the_reason(site: Site, columns: str, reason: str) -> None:
    """Where none can, the exit code is 1 and nothing is written."""
    site.admin.execute(f"CREATE TABLE t ({columns})".encode())
    done = site.run("adopt", "--dsn", site.url, "--out", str(site.folder / "adopted"))
    assert done.returncode == 1
    assert f"left out: {reason}" in done.stdout
    assert done.stderr.endswith("no table can be a corpus: none has vectors, text and a key\n")
    assert not (site.folder / "adopted").exists()


def test_names_can_not_end_a_comment(site: Site) -> None:
    """A table's name, that of a table it refers to, and a collection's, are data: nothing of them is run."""
    harmful = 'x\n; CREATE TABLE harmed (); --"'
    columns = "id int PRIMARY KEY, text text, tenant_id text, v vector(3)"
    for name in (harmful, harmful.replace("\n", " "), 'a"b'):
        site.admin.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(columns)))
    referred = sql.Identifier("documents" + harmful)
    site.admin.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, tenant_id text)").format(referred))
    site.admin.execute(
        sql.SQL(
            "CREATE TABLE parts (id int PRIMARY KEY, document_id int REFERENCES {}, text text, v vector(3))"
        ).format(referred)
    )
    site.admin.execute("CREATE TABLE langchain_pg_collection (uuid uuid, name text)")
    site.admin.execute(
        "CREATE TABLE langchain_pg_embedding (id text PRIMARY KEY, collection_id uuid, document text, embedding vector)"
    )
    site.admin.execute("INSERT INTO langchain_pg_collection VALUES (gen_random_uuid(), %s)", (harmful,))
    site.admin.execute(
        "INSERT INTO langchain_pg_embedding SELECT 'c', uuid, 'text', '[1,2,3]' FROM langchain_pg_collection"
    )
    said = site.adopt()
    assert len(said["corpora"]) == 3
    with site.admin.transaction(force_rollback=True):
        site.admin.execute((site.folder / "adopted" / "tables.sql").read_bytes())
        assert site.admin.execute("SELECT to_regclass('public.harmed')").fetchone() == (None,)
    site.choose("tenant_id")
    assert site.admin.execute("SELECT to_regclass('public.harmed')").fetchone() == (None,)
    assert site.settings().corpora.keys() == {one["corpus"] for one in said["corpora"]}


def test_names_of_other_styles_are_known_and_a_guess_is_said(site: Site) -> None:
    """Tenants in camel case or with a space; without a known name the text is the column with the longest texts."""
    tables = {
        "camel": '(id int PRIMARY KEY, "tenantId" text, content text, v vector(3))',
        "spaced": '(id int PRIMARY KEY, "Tenant ID" text, status text, "The Text" text, v vector(3))',
        "kept": "(id int PRIMARY KEY, organization_id int, lang text, status text, words text, v vector(3),"
        " discarded_at timestamp)",
    }
    for name, columns in tables.items():
        site.admin.execute(sql.SQL("CREATE TABLE {} {}").format(sql.Identifier(name), sql.SQL(columns)))
    site.admin.execute("INSERT INTO spaced VALUES (1, 't1', 'published', 'a text that is longer than the others')")
    site.admin.execute("INSERT INTO kept VALUES (1, 7, 'en', 'published', 'words that are more than these')")
    found = {one["corpus"]: one for one in site.adopt()["corpora"]}
    assert {name: one["columns"]["text"] for name, one in found.items()} == {
        "camel": "content",
        "spaced": "The Text",
        "kept": "words",
    }
    assert {name: one["claims"] for name, one in found.items()} == {name: ["tenant_id"] for name in tables}
    assert [one.split(",")[0] for one in found["kept"]["may_be_hidden"]] == ["kept.status", "kept.discarded_at"]
    guessed = {name for name, one in found.items() if any("check it" in note for note in one["notes"])}
    assert guessed == {"kept", "spaced"}


def test_only_policies_of_reads_decide(site: Site) -> None:
    """One of inserts, as Supabase's applications have it beside those of their own roles, shows no row."""
    for name, policy in {"written": "FOR INSERT WITH CHECK (true)", "shown": "FOR SELECT USING (true)"}.items():
        site.admin.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, content text, v vector(3));"
            f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON {name} {policy}".encode()
        )
    notes = {corpus["corpus"]: corpus["notes"] for corpus in site.adopt()["corpora"]}
    assert "row-level security is on, with 1 policies: they decide" in notes["shown"]
    assert not any("they decide" in note for note in notes["written"])
