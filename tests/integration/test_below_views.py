"""Relations and functions below a corpus: rights of their own, partitions, children, copies, names that shadow."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM, asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import RetrievalError, SettingsError
from worker.adapters.postgres.database import Database, check
from worker.cli.doctor import examine
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]

QUERY = lexical.embed([HUM])[0].tolist()
BODY = "SELECT * FROM public.document_chunks"
LEAK = f"CREATE FUNCTION leak() RETURNS SETOF document_chunks LANGUAGE sql STABLE SECURITY DEFINER AS '{BODY}';"
VIEW = "CREATE VIEW chunks_view WITH (security_invoker) AS "
LEAKS = {
    "called by the view": LEAK + VIEW + "SELECT * FROM leak()",
    "called in a column": (
        "CREATE FUNCTION leak(text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER"
        " AS 'SELECT text_content FROM public.document_chunks WHERE id = $1';"
        + VIEW
        + "SELECT id, document_id, leak(id) AS text_content, embedding FROM document_chunks"
    ),
    "below a view below": LEAK
    + "CREATE VIEW inner_view WITH (security_invoker) AS SELECT * FROM leak();"
    + VIEW
    + "SELECT * FROM inner_view",
    "called by a function's text": LEAK
    + "CREATE FUNCTION outer_one() RETURNS SETOF document_chunks LANGUAGE plpgsql STABLE"
    " AS 'BEGIN RETURN QUERY SELECT * FROM leak(); END';" + VIEW + "SELECT * FROM outer_one()",
    "called by a function's body": LEAK
    + "CREATE FUNCTION outer_one() RETURNS SETOF document_chunks LANGUAGE sql STABLE"
    " BEGIN ATOMIC SELECT * FROM leak(); END;" + VIEW + "SELECT * FROM outer_one()",
    "behind an operator": (
        "CREATE FUNCTION leak(text, text) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER"
        " AS 'SELECT text_content FROM public.document_chunks WHERE id = $1';"
        "CREATE OPERATOR <<<< (LEFTARG = text, RIGHTARG = text, FUNCTION = leak);"
        + VIEW
        + "SELECT id, document_id, id::text <<<< id::text AS text_content, embedding FROM document_chunks"
    ),
}


def chunks(settings: Settings, table: str, **changes: Any) -> dict[str, Any]:
    """The documents' corpus over another relation."""
    corpus = settings.corpora["documents"].model_dump()
    columns = {name: corpus["columns"][name] for name in ("id", "document_id", "text", "embedding")}
    return {"documents": corpus | {"table": table, "columns": columns, "documents": None} | changes}


def found(engine: Engine, user: str = "nobody") -> set[str]:
    answer = engine.retrieval.top_k(
        parse_job(RetrieveTopK, {"query_embedding": QUERY}), JobContext(lambda: asker(user))
    )
    return {chunk["document_id"] for chunk in answer["chunks"]}


def private(admin: Admin) -> set[str]:
    return {name for (name,) in admin.execute("SELECT id FROM documents WHERE visibility = 'private'").fetchall()}


@pytest.mark.parametrize("name", LEAKS)
def test_a_function_with_its_owners_rights_below_a_view_is_refused(
    make_settings: MakeSettings, database: str, settings: Settings, admin: Admin, name: str
) -> None:
    """Directly or through views, functions and operators: the start and `doctor` refuse it, and name it."""
    admin.execute(LEAKS[name])
    admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO retrieval_worker")
    changed = make_settings(database, corpora=chunks(settings, "public.chunks_view"))
    with pytest.raises(SettingsError, match=r"the function public\.leak below .* is SECURITY DEFINER"):
        check(changed)
    assert any("public.leak" in one.text for one in examine(changed) if one.level == "problem")
    trusting = chunks(settings, "public.chunks_view", trusted_functions=["public.leak"])
    check(make_settings(database, corpora=trusting))


def test_a_function_that_reads_an_open_table_is_refused(
    make_settings: MakeSettings, database: str, settings: Settings, admin: Admin
) -> None:
    """Tables that a function below a view reads are checked, too."""
    admin.execute(
        "CREATE TABLE open_chunks AS TABLE document_chunks; CREATE FUNCTION of_all() RETURNS SETOF open_chunks"
        " LANGUAGE sql STABLE AS 'SELECT * FROM public.open_chunks';" + VIEW + "SELECT * FROM of_all();"
        "GRANT SELECT ON open_chunks, chunks_view TO retrieval_worker"
    )
    with pytest.raises(SettingsError, match=r"public\.open_chunks has no row-level security"):
        check(make_settings(database, corpora=chunks(settings, "public.chunks_view")))


def test_a_function_that_takes_its_owners_rights_later_is_refused_by_the_next_read(
    make_settings: MakeSettings, database: str, settings: Settings, admin: Admin
) -> None:
    """A running worker notices; once the function is as it was, jobs are answered again."""
    admin.execute(
        LEAK + "ALTER FUNCTION leak() SECURITY INVOKER;" + VIEW + "SELECT * FROM leak();"
        "GRANT SELECT ON chunks_view TO retrieval_worker"
    )
    with contextlib.closing(
        Engine(make_settings(database, corpora=chunks(settings, "public.chunks_view")), time.perf_counter)
    ) as engine:
        before = found(engine)
        assert not before & private(admin)
        admin.execute("ALTER FUNCTION leak() SECURITY DEFINER")
        with pytest.raises(SettingsError, match=r"public\.leak"):
            found(engine)
        admin.execute("ALTER FUNCTION leak() SECURITY INVOKER")
        assert found(engine) == before


@pytest.mark.parametrize("through", ["table", "view"])
def test_rows_of_partitions_and_children_have_their_parents_policies(
    make_settings: MakeSettings, database: str, settings: Settings, admin: Admin, through: str
) -> None:
    """Row security of the parent is enough for what is read through it."""
    admin.execute(
        """
        CREATE TABLE parted (id text, document_id text, text_content text, embedding vector(768))
          PARTITION BY LIST (id);
        CREATE TABLE parted_all PARTITION OF parted DEFAULT;
        CREATE TABLE parent (id text, document_id text, text_content text, embedding vector(768));
        CREATE TABLE child () INHERITS (parent);
        INSERT INTO parted SELECT id, document_id, text_content, embedding FROM document_chunks;
        INSERT INTO child SELECT id, document_id, text_content, embedding FROM document_chunks;
        ALTER TABLE parted ENABLE ROW LEVEL SECURITY;
        ALTER TABLE parent ENABLE ROW LEVEL SECURITY;
        CREATE POLICY seen ON parted USING (document_id IN (SELECT id FROM documents));
        CREATE POLICY seen ON parent USING (document_id IN (SELECT id FROM documents));
        CREATE VIEW parted_view WITH (security_invoker) AS SELECT * FROM parted;
        CREATE VIEW parent_view WITH (security_invoker) AS SELECT * FROM parent;
        GRANT SELECT ON ALL TABLES IN SCHEMA public TO retrieval_worker
        """
    )
    for name in ("parted", "parent"):
        relation = f"public.{name}" + ("_view" if through == "view" else "")
        made = make_settings(database, corpora=chunks(settings, relation))
        with contextlib.closing(Engine(made, time.perf_counter)) as engine:
            assert found(engine)
            assert not found(engine) & private(admin)


@pytest.mark.parametrize(
    "made",
    [
        "CREATE MATERIALIZED VIEW copied AS SELECT * FROM document_chunks",
        (
            "CREATE FOREIGN DATA WRAPPER elsewhere; CREATE SERVER elsewhere FOREIGN DATA WRAPPER elsewhere;"
            "CREATE FOREIGN TABLE copied (id text, document_id text, text_content text, embedding vector(768))"
            " SERVER elsewhere"
        ),
    ],
    ids=["materialised view", "foreign table"],
)
@pytest.mark.parametrize("below", [False, True], ids=["itself", "below a view"])
def test_a_copy_that_no_policy_can_protect_is_refused(
    make_settings: MakeSettings, database: str, settings: Settings, admin: Admin, made: str, below: bool
) -> None:
    """A materialised view and a foreign table have no row security; public they may be."""
    admin.execute(made)
    if below:
        admin.execute(VIEW + "SELECT * FROM copied")
    admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO retrieval_worker")
    relation = "public.chunks_view" if below else "public.copied"
    with pytest.raises(SettingsError, match=r"public\.copied is neither a table nor a view"):
        check(make_settings(database, corpora=chunks(settings, relation)))
    check(make_settings(database, corpora=chunks(settings, relation, public=True)))


def test_a_table_that_shadows_another_is_checked_like_the_first(
    make_settings: MakeSettings, database: str, settings: Settings, admin: Admin
) -> None:
    """A name without a schema: what takes its place in the search path later must be as safe."""
    admin.execute(f"ALTER ROLE retrieval_worker IN DATABASE {database} SET search_path = shop, public")
    with contextlib.closing(
        Engine(make_settings(database, corpora=chunks(settings, "document_chunks")), time.perf_counter)
    ) as engine:
        before = found(engine)
        admin.execute(
            "CREATE SCHEMA shop; CREATE TABLE shop.document_chunks AS TABLE document_chunks;"
            "GRANT USAGE ON SCHEMA shop TO retrieval_worker; GRANT SELECT ON shop.document_chunks TO retrieval_worker"
        )
        with pytest.raises(SettingsError, match="document_chunks has no row-level security"):
            found(engine)
        admin.execute("DROP SCHEMA shop CASCADE")
        assert found(engine) == before


def test_no_temporary_table_can_shadow_one(settings: Settings) -> None:
    """A reading transaction makes none, so none can stand before a corpus in the search path."""
    database = Database(settings)
    with pytest.raises(RetrievalError):
        database.read(asker("alice"), [(b"CREATE TEMPORARY TABLE document_chunks (id text)", {})])
    database.close()


def test_a_function_that_shadows_one_of_postgres_is_not_called(
    make_settings: MakeSettings, database: str, admin: Admin
) -> None:
    """pg_catalog comes first in every search path: a function of the same name changes no check."""
    admin.execute(
        "CREATE FUNCTION public.row_security_active(oid) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE FUNCTION public.pg_has_role(oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';"
        "CREATE TABLE public.pg_class AS SELECT * FROM pg_catalog.pg_class LIMIT 0;"
        "GRANT SELECT ON public.pg_class TO retrieval_worker"
    )
    with contextlib.closing(Engine(make_settings(database), time.perf_counter)) as engine:
        found(engine)
        admin.execute("ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY")
        with pytest.raises(SettingsError):
            found(engine)
