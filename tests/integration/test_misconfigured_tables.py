"""Tables, roles and rights that are wrong as people get them wrong: one sentence of `doctor` names it and the mend."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from retrieval_client.errors import SettingsError
from worker.adapters.postgres.database import check
from worker.cli.doctor import examine
from worker.core.text import lexical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.devstack.stack import Stack
    from worker.adapters.durability import Finding
    from worker.settings import Settings

READER = "shop_reader"
TABLES = """
CREATE SCHEMA shop;
CREATE TABLE shop.articles (id text PRIMARY KEY, tenant_id text, path text);
CREATE TABLE shop.chunks (
  id bigint PRIMARY KEY, article text NOT NULL REFERENCES shop.articles, tenant_id text, body text NOT NULL, page int,
  section text, meta jsonb, path text, lang text, spare text, embedding vector(24) NOT NULL,
  hash bytea GENERATED ALWAYS AS (retrieval.hash_chunk_v1(body)) STORED,
  words tsvector GENERATED ALWAYS AS (to_tsvector('english'::regconfig, body)) STORED);
CREATE INDEX chunks_vector ON shop.chunks USING hnsw (embedding vector_cosine_ops);
CREATE INDEX ON shop.chunks USING gin (words);
CREATE INDEX ON shop.chunks (hash);
INSERT INTO shop.articles VALUES ('a1', 't1', 'a/1.md');
GRANT USAGE ON SCHEMA shop, retrieval TO shop_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA shop TO shop_reader;
GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA retrieval TO shop_reader;
"""
POLICIES = """
ALTER TABLE shop.{0} ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_tenant ON shop.{0} FOR SELECT
  USING (tenant_id = (SELECT nullif(current_setting('app.tenant_id', true), '')));
"""
COLUMNS = {
    "id": "id",
    "document_id": "article",
    "text": "body",
    "embedding": "embedding",
    "page": "page",
    "section": "section",
    "metadata": "meta",
    "chunk_hash": "hash",
    "text_search": "words",
}
CORPUS = {
    "table": "shop.chunks",
    "dimensions": 24,
    "columns": COLUMNS,
    "metadata_columns": {"lang": "lang"},
    "documents": {"table": "shop.articles", "id": "id", "path": "path"},
}
VIEW = (
    "CREATE VIEW shop.seen WITH (security_invoker = true) AS SELECT * FROM {0};GRANT SELECT ON shop.seen TO shop_reader"
)


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong.

    Attributes:
        sql: makes it so, as a superuser.
        says: what the sentence says, as a pattern.
        corpus: changes of the corpus's settings; those of `columns` and `documents` are merged.
        level: `problem` stops the start; `advice` does not.
        mended: True if the sentence has commands that mend it.
    """

    sql: str
    says: str
    corpus: dict[str, Any] = field(default_factory=dict)
    level: str = "problem"
    mended: bool = False


def column(name: str, **columns: str) -> dict[str, Any]:
    return {"columns": {name: "spare", **columns}}


def retyped(kind: str) -> str:
    return f"ALTER TABLE shop.chunks ALTER spare TYPE {kind} USING NULL"


def embedding(kind: str) -> str:
    return f"DROP INDEX shop.chunks_vector; TRUNCATE shop.chunks; ALTER TABLE shop.chunks ALTER embedding TYPE {kind}"


mended = functools.partial(Mistake, mended=True)
MISTAKES = {
    # the role
    "superuser": Mistake("ALTER ROLE shop_reader SUPERUSER", "is a superuser, .*connect as a role without it"),
    "bypass": Mistake("ALTER ROLE shop_reader BYPASSRLS", "has BYPASSRLS: connect as a role without it"),
    "member of a superuser": Mistake(
        "GRANT postgres TO shop_reader", "is a member of postgres, .*connect as a role without it"
    ),
    "owner": Mistake("ALTER TABLE shop.chunks OWNER TO shop_reader", "owns shop.chunks .*connect as another role"),
    "member of the owner": Mistake(
        "ALTER TABLE shop.chunks OWNER TO shop_owner; GRANT shop_owner TO shop_reader",
        "member of its owner shop_owner, .*connect as another role",
    ),
    "owner of documents": Mistake("ALTER TABLE shop.articles OWNER TO shop_reader", "owns shop.articles"),
    # rights
    "no schema": mended("REVOKE USAGE ON SCHEMA shop FROM shop_reader", "GRANT USAGE ON SCHEMA shop TO"),
    "no table": mended("REVOKE SELECT ON shop.chunks FROM shop_reader", "GRANT SELECT ON shop.chunks TO"),
    "no column": mended(
        "REVOKE SELECT ON shop.chunks FROM shop_reader; GRANT SELECT (id, article, body) ON shop.chunks TO shop_reader",
        "may not read all of shop.chunks: GRANT SELECT ON shop.chunks TO",
    ),
    "no documents": mended("REVOKE SELECT ON shop.articles FROM shop_reader", "GRANT SELECT ON shop.articles TO"),
    "no records' schema": mended(
        "REVOKE USAGE ON SCHEMA retrieval FROM shop_reader, PUBLIC", "GRANT USAGE ON SCHEMA retrieval TO"
    ),
    "no records' rights": mended(
        "REVOKE INSERT ON ALL TABLES IN SCHEMA retrieval FROM shop_reader",
        "jobs that record a run fail.*GRANT SELECT, INSERT ON ALL TABLES",
        level="advice",
    ),
    "no function": mended(
        "CREATE FUNCTION shop.low(text) RETURNS text LANGUAGE sql AS 'SELECT lower($1)';"
        "REVOKE EXECUTE ON FUNCTION shop.low FROM PUBLIC;"
        "CREATE VIEW shop.seen WITH (security_invoker = true) AS SELECT id, article, shop.low(body) AS body, embedding,"
        " page, section, meta, hash, words, lang FROM shop.chunks; GRANT SELECT ON shop.seen TO shop_reader",
        r"may not call shop.low\(text\), which shop.seen needs: GRANT EXECUTE ON FUNCTION shop.low\(text\) TO",
        {"table": "shop.seen"},
    ),
    # row-level security
    "no row-level security": mended(
        "ALTER TABLE shop.chunks DISABLE ROW LEVEL SECURITY",
        "shop.chunks has no row-level security: ALTER TABLE shop.chunks ENABLE ROW LEVEL SECURITY",
    ),
    "none of documents": mended(
        "ALTER TABLE shop.articles DISABLE ROW LEVEL SECURITY", "ALTER TABLE shop.articles ENABLE"
    ),
    "none of records": mended(
        "ALTER TABLE retrieval.runs DISABLE ROW LEVEL SECURITY", "ALTER TABLE retrieval.runs ENABLE"
    ),
    "a view of its owner's": mended(
        VIEW.format("shop.chunks") + "; ALTER VIEW shop.seen RESET (security_invoker)",
        r"ALTER VIEW shop.seen SET \(security_invoker = true\)",
        {"table": "shop.seen"},
    ),
    "a view above no row-level security": mended(
        VIEW.format("shop.chunks") + "; ALTER TABLE shop.chunks DISABLE ROW LEVEL SECURITY",
        "shop.chunks has no row-level security: ALTER TABLE",
        {"table": "shop.seen"},
    ),
    "a view above a definer's function": Mistake(
        "CREATE FUNCTION shop.all_chunks() RETURNS SETOF shop.chunks LANGUAGE sql SECURITY DEFINER"
        " AS 'SELECT * FROM shop.chunks';" + VIEW.format("shop.all_chunks()"),
        "is SECURITY DEFINER .*ALTER FUNCTION shop.all_chunks SECURITY INVOKER",
        {"table": "shop.seen"},
    ),
    "a materialized view": Mistake(
        "CREATE MATERIALIZED VIEW shop.seen AS SELECT * FROM shop.chunks; GRANT SELECT ON shop.seen TO shop_reader",
        "neither a table nor a view, so row-level security can't protect it",
        {"table": "shop.seen"},
    ),
    "no policy": Mistake(
        "DROP POLICY of_tenant ON shop.chunks", "no policy of shop.chunks lets .*CREATE POLICY", level="advice"
    ),
    "a policy for others": Mistake(
        "ALTER POLICY of_tenant ON shop.chunks TO pg_monitor", "no policy of shop.chunks lets", level="advice"
    ),
    "a slip in a policy's setting": Mistake(
        "ALTER POLICY of_tenant ON shop.chunks USING (tenant_id = current_setting('app.tennant_id', true))",
        "reads the setting app.tennant_id, to which principal.settings maps no claim",
        level="advice",
    ),
    # names
    "no such table": Mistake("", "there is no table shop.chunk ", {"table": "shop.chunk"}),
    "no such schema": Mistake("", "there is no table shp.chunks ", {"table": "shp.chunks"}),
    "no such column": Mistake("", "columns.text: shop.chunks has no column bdy", {"columns": {"text": "bdy"}}),
    "no such column of metadata": Mistake(
        "", "metadata_columns.lang: shop.chunks has no column language", {"metadata_columns": {"lang": "language"}}
    ),
    "no such documents": Mistake("", "there is no table shop.article ", {"documents": {"table": "shop.article"}}),
    "no such column of documents": Mistake(
        "", "documents.path: shop.articles has no column url", {"documents": {"path": "url"}}
    ),
    "no such language": Mistake("", "no text search configuration klingon", {"language": "klingon"}),
    # types
    "ids": Mistake(retyped("numeric"), "id: .*spare is numeric, expected .*: change its type", column("id")),
    "document ids": Mistake(
        retyped("json"), "document_id: .*spare is json, expected .*: change its type", column("document_id")
    ),
    "texts": Mistake(retyped("jsonb"), "text: .*spare is jsonb, expected text.*: change its type", column("text")),
    "pages": Mistake(retyped("numeric"), "page: .*spare is numeric, expected .*map a view", column("page")),
    "sections": Mistake(retyped("text[]"), r"section: .*spare is text\[\], expected .*map a view", column("section")),
    "paths": Mistake(retyped("json"), "path: .*spare is json, expected text.*map a view", column("path")),
    "hashes": Mistake("", "chunk_hash: .*spare is text, expected bytea: leave it out", column("chunk_hash")),
    "words": Mistake("", "text_search: .*spare is text, expected tsvector: leave it out", column("text_search")),
    "signatures": Mistake(
        retyped("bit(8) USING NULL").removesuffix(" USING NULL"),
        r"text_signature: .*is bit\(8\), expected bit\(2048\): leave it out",
        column("text_signature"),
    ),
    "documents of other ids": Mistake(
        "ALTER TABLE shop.articles ADD nr bigint", "Postgres can't compare them; ", {"documents": {"id": "nr"}}
    ),
    # vectors
    "other dimensions": Mistake("", r"is vector\(24\), .*set corpora.books.dimensions = 24", {"dimensions": 8}),
    "sparse vectors": Mistake(embedding("sparsevec(24)"), r"is sparsevec\(24\), expected vector\(24\)"),
    "vectors of numbers": Mistake(embedding("real[]"), r"is real\[\], expected vector\(24\)"),
    "vectors without dimensions": Mistake(
        "ALTER TABLE shop.chunks ALTER embedding TYPE vector", "any number of dimensions.*ALTER the column's TYPE",
        level="advice",
    ),
    "no index": mended(
        "DROP INDEX shop.chunks_vector",
        "no HNSW index by cosine distance over all its rows: CREATE INDEX CONCURRENTLY",
        level="advice",
    ),
    "an index by another distance": mended(
        "DROP INDEX shop.chunks_vector; CREATE INDEX ON shop.chunks USING hnsw (embedding vector_l2_ops)",
        "no HNSW index by cosine distance over all its rows: CREATE INDEX CONCURRENTLY",
        level="advice",
    ),
    "an index over some rows": mended(
        "DROP INDEX shop.chunks_vector;"
        "CREATE INDEX ON shop.chunks USING hnsw (embedding vector_cosine_ops) WHERE page > 1",
        "no HNSW index by cosine distance over all its rows: CREATE INDEX CONCURRENTLY",
        level="advice",
    ),
    "an invalid index": mended(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'shop.chunks_vector'::regclass",
        "no HNSW index by cosine distance over all its rows: CREATE INDEX CONCURRENTLY",
        level="advice",
    ),
    "pgvector in a hidden schema": Mistake(
        "CREATE SCHEMA ext; ALTER EXTENSION vector SET SCHEMA ext", "pgvector is in the schema ext.*GRANT USAGE"
    ),
    # what makes answers worse
    "ids that may be NULL": mended(
        "ALTER TABLE shop.chunks ALTER article DROP NOT NULL",
        "article may be NULL.*ALTER TABLE shop.chunks ALTER COLUMN article SET NOT NULL",
        level="advice",
    ),
    "no words": Mistake("", "no column for full-text.*ALTER TABLE", {"columns": {"text_search": None}}, "advice"),
    "no index of words": mended(
        "DROP INDEX shop.chunks_words_idx", "no GIN index: CREATE INDEX CONCURRENTLY ON shop.chunks", level="advice"
    ),
    "no hashes": Mistake("", "no hash column is mapped", {"columns": {"chunk_hash": None}}, "advice"),
    "no table of documents": Mistake("", "no table of documents is mapped", {"documents": None}, "advice"),
    "empty": Mistake("TRUNCATE shop.chunks", "seems empty: load it, or ANALYZE shop.chunks", level="advice"),
    "a path that no row has": Mistake(
        "", "path_field is pth, a field .* has: name another", {"path_field": "pth", "columns": {"metadata": None}},
        "advice",
    ),
}  # fmt: skip


@dataclass
class Site:
    """A database with tables of its own.

    Attributes:
        admin: a superuser's connection.
        settings: makes the worker's settings, with changes of the corpus.
    """

    admin: psycopg.Connection[Any]
    settings: Callable[[dict[str, Any]], Settings]


@pytest.fixture
def site(
    stack: Stack, database: str, admin: psycopg.Connection[Any], make_settings: Callable[..., Settings]
) -> Iterator[Site]:
    """All is right."""
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as cluster:
        cluster.execute("CREATE ROLE shop_reader LOGIN; CREATE ROLE shop_owner")
        admin.execute(TABLES)
        for table in ("articles", "chunks"):
            admin.execute(POLICIES.format(table).encode())
        for n, vector in enumerate(lexical.embed([f"pump {n}" for n in range(30)], 24)):
            admin.execute(
                "INSERT INTO shop.chunks (id, article, tenant_id, body, page, meta, embedding)"
                " VALUES (%s, 'a1', 't1', %s, %s, '{}', %s::vector)",
                (n, f"pump {n}", n, str(vector.tolist())),
            )
        admin.execute("ANALYZE shop.chunks")

        def make(changes: dict[str, Any]) -> Settings:
            merged: dict[str, Any] = {**CORPUS, **changes}
            for part in ("columns", "documents"):
                if isinstance(changes.get(part), dict):
                    merged[part] = {**CORPUS[part], **changes[part]}  # type: ignore[dict-item] # tables
            return make_settings(database, READER, corpora={"books": merged}, hybrid={"searches": {}})

        yield Site(admin, make)
        admin.execute("REASSIGN OWNED BY shop_reader, shop_owner TO postgres; DROP OWNED BY shop_reader, shop_owner")
        cluster.execute("DROP ROLE shop_reader; DROP ROLE shop_owner")


def found(settings: Settings) -> set[Finding]:
    """The findings but those that say that all is well."""
    return {one for one in examine(settings) if one.level != "ok"}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_with_its_mend(site: Site, mistake: Mistake) -> None:
    """One finding is new. What stops the start says the same there; commands in the sentence mend it."""
    before = found(site.settings({}))
    assert not [one for one in before if one.level == "problem"]
    if mistake.sql:
        site.admin.execute(mistake.sql.encode())
    settings = site.settings(mistake.corpus)
    news = found(settings) - before
    (new,) = [one for one in news if re.search(mistake.says, one.text)]
    assert new.level == mistake.level
    assert news == {new} or mistake.level == "advice", news
    assert starts(settings) == (None if mistake.level == "advice" else new.text)
    if mistake.mended:
        for command in commands_of(new.text):
            site.admin.execute(command.encode())
        assert not [one for one in found(settings) if re.search(mistake.says, one.text)]


def starts(settings: Settings) -> str | None:
    """Why a worker does not start (exit code 78); None where it does."""
    try:
        check(settings, at_start=True)
    except SettingsError as error:
        return error.message
    return None


def commands_of(sentence: str) -> list[str]:
    """The SQL in a sentence."""
    pattern = r"(?:ALTER|GRANT|CREATE INDEX) .*?(?=; | \(and| \(docs|, or |, and |$)"
    return re.findall(pattern, sentence)


def test_there_are_forty() -> None:
    """As many as the issue asks for, without those of settings and servers (`test_misconfigured.py`)."""
    assert len(MISTAKES) >= 40
