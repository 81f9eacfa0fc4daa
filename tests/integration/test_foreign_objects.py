"""Objects of a role that may create schemas, under names that others look up: nothing of them is run or believed."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM, asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import SettingsError
from worker.adapters.postgres.database import check
from worker.cli.doctor import examine
from worker.cli.loader import migrate
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg
    from tests.integration.adopting import Site

    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

QUERY = lexical.embed([HUM])[0].tolist()

MADE_BEFORE = {
    "the schema, with a function": (
        """
        CREATE SCHEMA retrieval;
        CREATE FUNCTION retrieval.asker(setting text) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'alice' $$
        """,
        "the schema retrieval belongs to {eve}",
    ),
    "a table of records": (
        "CREATE TABLE retrieval.runs (id bigint, owner text, subject_id text, run_id text)",
        "the table retrieval.runs belongs to {eve}",
    ),
    "a function": (
        "CREATE FUNCTION retrieval.asker_grantees() RETURNS text[] LANGUAGE sql AS $$ SELECT '{carl}'::text[] $$",
        r"the function retrieval.asker_grantees\(\) belongs to {eve}",
    ),
    "a type": ("CREATE TYPE retrieval.vector AS (x int)", "the type retrieval.vector belongs to {eve}"),
    "a reference table": (
        "CREATE TABLE public.documents (id text PRIMARY KEY)",
        "the table public.documents belongs to {eve}",
    ),
}


@pytest.fixture
def eve(site: Site) -> Iterator[str]:
    """A role that may create schemas in the database, and tables in `public`."""
    (name,) = site.admin.execute("SELECT 'eve_of_' || current_database()").fetchone() or ("",)
    site.admin.execute(
        f"CREATE ROLE {name}; GRANT CREATE ON SCHEMA public TO {name};"
        f"DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {name}', current_database()); END $$"
    )
    yield name
    site.admin.execute(f"RESET SESSION AUTHORIZATION; DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


def make(site: Site, eve: str, statements: str) -> None:
    """Run statements as that role."""
    site.admin.execute(f"SET SESSION AUTHORIZATION {eve}; {statements}; RESET SESSION AUTHORIZATION".encode())


@pytest.mark.parametrize(("statements", "refusal"), MADE_BEFORE.values(), ids=MADE_BEFORE)
def test_migrate_keeps_nothing_that_another_role_made(site: Site, eve: str, statements: str, refusal: str) -> None:
    """Its owner and its name are in the refusal, and nothing is installed."""
    if "CREATE SCHEMA" not in statements and "public." not in statements:
        site.admin.execute(f"CREATE SCHEMA retrieval; GRANT CREATE, USAGE ON SCHEMA retrieval TO {eve}")
    make(site, eve, statements)
    with pytest.raises(SettingsError, match=refusal.replace("{eve}", eve)):
        migrate(site.admin)
    assert site.admin.execute("SELECT to_regclass('retrieval.run_records')").fetchone() == (None,)


def test_migrate_as_another_owner_than_before_is_refused_until_it_is_given_over(site: Site, eve: str) -> None:
    """Superusers may have installed it; what another role did is named with the cure, also the database's owner."""
    site.admin.execute(f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO {eve}', current_database()); END $$")
    migrate(site.admin)
    migrate(site.admin)
    site.admin.execute(f"ALTER FUNCTION retrieval.asker(text) OWNER TO {eve}")
    with pytest.raises(SettingsError, match=r"give the rest to postgres"):
        migrate(site.admin)
    site.admin.execute("ALTER FUNCTION retrieval.asker(text) OWNER TO postgres")
    migrate(site.admin)
    site.admin.execute("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO postgres', current_database()); END $$")


TRAP = """
CREATE SCHEMA {schema};
CREATE FUNCTION {schema}.trap() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$a trap of eve ran$$; END';
CREATE DOMAIN {schema}.vector AS text;
CREATE DOMAIN {schema}.halfvec AS text;
CREATE FUNCTION {schema}.vector_dims(public.vector) RETURNS integer LANGUAGE sql AS 'SELECT {schema}.trap()';
CREATE FUNCTION {schema}.vector_dims(anyelement) RETURNS integer LANGUAGE sql AS 'SELECT {schema}.trap()';
CREATE FUNCTION {schema}.distance(public.vector, public.vector) RETURNS float8 LANGUAGE sql AS 'SELECT {schema}.trap()';
CREATE FUNCTION {schema}.distance(public.halfvec, public.halfvec) RETURNS float8 LANGUAGE sql
  AS 'SELECT {schema}.trap()';
CREATE OPERATOR {schema}.<=> (LEFTARG = public.vector, RIGHTARG = public.vector, FUNCTION = {schema}.distance);
CREATE OPERATOR {schema}.<=> (LEFTARG = public.halfvec, RIGHTARG = public.halfvec, FUNCTION = {schema}.distance);
CREATE FUNCTION {schema}.vector_norm(public.vector) RETURNS float8 LANGUAGE sql AS 'SELECT {schema}.trap()';
CREATE FUNCTION {schema}.convert_to(text, text) RETURNS bytea LANGUAGE sql AS 'SELECT {schema}.trap()::text::bytea';
CREATE FUNCTION {schema}.length(varchar) RETURNS integer LANGUAGE sql AS 'SELECT {schema}.trap()';
CREATE FUNCTION {schema}.set_config(text, varchar, boolean) RETURNS text LANGUAGE sql AS 'SELECT {schema}.trap()::text';
CREATE FUNCTION {schema}.to_tsvector(regconfig, varchar) RETURNS tsvector LANGUAGE sql
  AS 'SELECT {schema}.trap()::text::tsvector';
CREATE TABLE {schema}.pg_class (oid oid);
CREATE TABLE {schema}.documents (id text);
GRANT USAGE ON SCHEMA {schema} TO PUBLIC
"""


def test_no_function_of_another_role_runs_as_the_superuser(site: Site, eve: str) -> None:
    """A schema named as the superuser, which Postgres looks in first, has all that the commands call.

    So has `public` what suits a column better than Postgres' own function of the name.
    """
    site.admin.execute("CREATE TABLE notes (id int PRIMARY KEY, tenant text, content varchar(99), v vector)")
    site.admin.execute("INSERT INTO notes VALUES (1, 't1', 'a text', '[1,2,3]')")
    make(site, eve, TRAP.replace("{schema}", "postgres"))
    make(site, eve, "CREATE FUNCTION public.length(varchar) RETURNS int LANGUAGE sql AS 'SELECT postgres.trap()'")
    make(site, eve, "CREATE TABLE postgres.chunks (id int PRIMARY KEY, content text, v postgres.vector)")
    said = site.adopt()
    assert [one["table"] for one in said["corpora"]] == ["public.notes"]
    site.choose("tenant_id")
    for command in (("migrate",), ("migrate", "--index", "vector"), ("load",), ("statistics",)):
        done = site.run(*command, MIGRATION_CONNECTION_STRING=site.url)
        assert done.returncode == 0, done.stderr


VECTORS = "id int PRIMARY KEY, content text, v public.vector"
CONSTANT = """
CREATE FUNCTION traps.constant() RETURNS int LANGUAGE plpgsql IMMUTABLE
  AS 'BEGIN RETURN CASE WHEN current_user LIKE $$eve%$$ THEN 1 ELSE traps.trap() END; END';
"""
UNREAD = {
    "an index of what is referred to": f"{CONSTANT} CREATE TABLE traps.docs (id int PRIMARY KEY, status text);"
    "CREATE INDEX ON traps.docs ((id + traps.constant())); GRANT SELECT, REFERENCES ON traps.docs TO PUBLIC",
    "an index": f"{CONSTANT} CREATE TABLE traps.chunks ({VECTORS});"
    "CREATE INDEX ON traps.chunks ((id + traps.constant())); GRANT SELECT ON traps.chunks TO PUBLIC",
    "a condition of an index": f"{CONSTANT} CREATE TABLE traps.chunks ({VECTORS});"
    "CREATE INDEX ON traps.chunks (id) WHERE id > traps.constant(); GRANT SELECT ON traps.chunks TO PUBLIC",
    "statistics": f"{CONSTANT} CREATE TABLE traps.chunks ({VECTORS});"
    "CREATE STATISTICS traps.s ON (id + traps.constant()), content FROM traps.chunks;"
    "GRANT SELECT ON traps.chunks TO PUBLIC",
    "a partition key": f"{CONSTANT} CREATE TABLE traps.chunks ({VECTORS.replace('PRIMARY KEY', '')})"
    "  PARTITION BY RANGE ((id + traps.constant()));"
    "CREATE TABLE traps.chunks_1 PARTITION OF traps.chunks DEFAULT; GRANT SELECT ON traps.chunks TO PUBLIC",
    "a policy": """
CREATE TABLE public.chunks (id int PRIMARY KEY, content text, v public.vector);
INSERT INTO public.chunks VALUES (1, 'text', '[1,2,3]');
ALTER TABLE public.chunks ENABLE ROW LEVEL SECURITY; GRANT SELECT ON public.chunks TO PUBLIC;
CREATE POLICY p ON public.chunks USING (traps.trap() = 1)
""",
    "a view of collections": """
CREATE TABLE traps.langchain_pg_embedding
  (id int PRIMARY KEY, collection_id uuid, document text, embedding public.vector(3));
CREATE VIEW traps.langchain_pg_collection AS SELECT gen_random_uuid() AS uuid, traps.trap()::text AS name;
GRANT SELECT ON ALL TABLES IN SCHEMA traps TO PUBLIC
""",
    "a cast": """
CREATE TYPE traps.id AS ENUM ('x');
CREATE FUNCTION traps.as_text(traps.id) RETURNS text LANGUAGE sql AS 'SELECT traps.trap()::text';
CREATE CAST (traps.id AS text) WITH FUNCTION traps.as_text;
CREATE TABLE traps.langchain_pg_collection (uuid traps.id, name text);
INSERT INTO traps.langchain_pg_collection VALUES ('x', 'x');
CREATE TABLE traps.langchain_pg_embedding
  (id int PRIMARY KEY, collection_id uuid, document text, embedding public.vector(3));
GRANT SELECT ON ALL TABLES IN SCHEMA traps TO PUBLIC
""",
}


@pytest.mark.parametrize("statements", UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("superuser", [True, False])
def test_no_code_of_a_table_s_owner_runs_as_whoever_adopts(
    site: Site, eve: str, statements: str, superuser: bool
) -> None:
    """Policies, views and casts of another role are not evaluated while its tables are looked at."""
    (name,) = site.admin.execute("SELECT 'owner_of_' || current_database()").fetchone() or ("",)
    site.admin.execute(f"CREATE ROLE {name} LOGIN {'SUPERUSER' if superuser else ''}")
    site.admin.execute("CREATE TABLE notes (id int PRIMARY KEY, tenant text, content text, v vector(3))")
    site.admin.execute(f"GRANT SELECT ON notes TO {name}")
    make(site, eve, TRAP.replace("{schema}", "traps") + ";" + statements)
    if "REFERENCES" in statements:
        site.admin.execute("ALTER TABLE notes ADD document_id int REFERENCES traps.docs")
        site.admin.execute(f"ALTER TABLE notes OWNER TO {name}")
    done = site.run("adopt", "--dsn", site.url.replace("postgres@", f"{name}@"), "--out", str(site.folder / "out"))
    site.admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
    assert done.returncode == 0, done.stderr


def test_words_are_counted_as_the_owner_of_the_table(site: Site, eve: str) -> None:
    """The superuser is told what the owner needs; with it, the owner counts."""
    site.admin.execute("CREATE TABLE notes (id int PRIMARY KEY, tenant text, content text, v vector(3))")
    site.admin.execute("INSERT INTO notes VALUES (1, 't1', 'a text', '[1,2,3]')")
    site.adopt()
    site.choose("tenant_id")
    named = {"RETRIEVAL_WORKER_CONFIG": str(site.folder / "adopted" / "worker.toml")}
    site.admin.execute(f"ALTER TABLE notes OWNER TO {eve}; ALTER ROLE {eve} LOGIN")
    make(site, eve, TRAP.replace("{schema}", "traps") + ";" + CONSTANT)
    make(site, eve, "CREATE INDEX ON public.notes ((id + traps.constant()))")
    refused = site.run("statistics", MIGRATION_CONNECTION_STRING=site.url, **named)
    assert refused.returncode == 78, refused.stderr
    said = " ".join(refused.stderr.split())
    assert f"{eve} owns public.notes" in said
    site.admin.execute(said.partition("has run: ")[2].encode())
    as_owner = site.url.replace("postgres@", f"{eve}@")
    counted = site.run("statistics", MIGRATION_CONNECTION_STRING=as_owner, **named)
    assert counted.returncode == 0, counted.stderr


def test_no_function_of_another_role_runs_as_the_worker(
    make_settings: Callable[..., Settings], database: str, admin: Admin
) -> None:
    """A schema named as the worker's role has all that a search calls: none of it is called."""
    admin.execute(TRAP.replace("{schema}", "retrieval_worker"))
    settings = make_settings(database)
    check(settings)
    with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
        assert searched(engine)
        assert searched(engine, exact=True)


def searched(engine: Engine, **fields: Any) -> list[str]:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, **fields})
    answer = engine.retrieval.top_k(job, JobContext(lambda: asker("nobody")))
    return [chunk["chunk_id"] for chunk in answer["chunks"]]


@pytest.fixture
def mallory(admin: Admin, database: str) -> Iterator[str]:
    """Another role of the fresh database."""
    name = f"mallory_of_{database}"
    admin.execute(f"CREATE ROLE {name}")
    yield name
    admin.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


HANDED_OVER = {
    "a function of a policy": ("ALTER FUNCTION retrieval.asker(text) OWNER TO {role}", r"retrieval.asker\(text\)"),
    "a function that such a one calls": (
        "ALTER FUNCTION retrieval.asker_grantees() OWNER TO {role}",
        r"retrieval.asker_grantees\(\)",
    ),
    "a policy that calls another's function": (
        """
        CREATE FUNCTION public.everybody() RETURNS boolean LANGUAGE sql STABLE AS 'SELECT true';
        ALTER FUNCTION public.everybody() OWNER TO {role};
        CREATE POLICY all_of_it ON document_chunks USING (public.everybody())
        """,
        r"everybody\(\)",
    ),
    "an operator of a policy": (
        """
        CREATE FUNCTION public.same(text, text) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT true';
        CREATE OPERATOR public.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = public.same);
        ALTER FUNCTION public.same(text, text) OWNER TO {role};
        CREATE POLICY all_of_it ON documents USING (documents.id OPERATOR(public.===) 'x')
        """,
        r"same\(text,text\)",
    ),
    "a policy of another role on a table that is read with its rights": (
        """
        CREATE TABLE public.members (id text); ALTER TABLE public.members ENABLE ROW LEVEL SECURITY;
        CREATE FUNCTION public.everybody() RETURNS boolean LANGUAGE sql STABLE AS 'SELECT true';
        ALTER FUNCTION public.everybody() OWNER TO {role};
        CREATE POLICY of_members ON public.members TO {role} USING (public.everybody());
        CREATE FUNCTION public.listed() RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
          BEGIN ATOMIC SELECT EXISTS (SELECT FROM public.members); END;
        CREATE POLICY all_of_it ON document_chunks USING (public.listed())
        """,
        r"everybody\(\)",
    ),
}


@pytest.mark.parametrize(("statements", "function"), HANDED_OVER.values(), ids=HANDED_OVER)
def test_a_policy_that_another_role_decides_is_refused_at_each_read(
    make_settings: Callable[..., Settings],
    database: str,
    settings: Settings,
    admin: Admin,
    mallory: str,
    statements: str,
    function: str,
) -> None:
    """A running worker notices, and names function and owner; a function that settings trust may be anybody's."""
    with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
        before = searched(engine)
        admin.execute(statements.replace("{role}", mallory).encode())
        with pytest.raises(SettingsError, match=f"a policy calls {function}, which belongs to {mallory}"):
            searched(engine)
        with pytest.raises(SettingsError, match=f"belongs to {mallory}"):
            check(settings)
        admin.execute(f"REASSIGN OWNED BY {mallory} TO postgres; DROP POLICY IF EXISTS all_of_it ON document_chunks")
        admin.execute("DROP POLICY IF EXISTS all_of_it ON documents")
        assert searched(engine) == before
    admin.execute(f"ALTER FUNCTION retrieval.asker(text) OWNER TO {mallory}")
    corpus = settings.corpora["documents"].model_dump() | {"trusted_functions": ["retrieval.asker"]}
    check(make_settings(database, corpora={"documents": corpus}))


def test_a_policy_that_does_not_bind_the_worker_is_not_judged(settings: Settings, admin: Admin, mallory: str) -> None:
    """Those of other roles, as Supabase's applications have them, and of writes; at once refused where it is bound."""
    admin.execute(
        f"""
        CREATE FUNCTION public.uid() RETURNS text LANGUAGE sql STABLE AS
          $$ SELECT current_setting('request.jwt.claims', true)::json ->> 'sub' $$;
        ALTER FUNCTION public.uid() OWNER TO {mallory};
        CREATE POLICY of_readers ON documents FOR SELECT TO {mallory} USING (owner_id = public.uid());
        CREATE POLICY of_writers ON documents FOR INSERT WITH CHECK (owner_id = public.uid())
        """.encode()
    )
    check(settings)
    assert not [finding for finding in examine(settings) if "request.jwt.claims" in finding.text]
    with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
        before = searched(engine)
        admin.execute(f"GRANT {mallory} TO retrieval_worker")
        with pytest.raises(SettingsError, match=rf"a policy calls uid\(\), which belongs to {mallory}"):
            searched(engine)
        admin.execute(f"REVOKE {mallory} FROM retrieval_worker")
        assert searched(engine) == before


def test_no_function_looks_a_name_up_where_its_caller_does(admin: Admin) -> None:
    """The worker's functions have a body that was read when they were made, or a search path of their own."""
    open_ones = admin.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'retrieval'::regnamespace"
        " AND prosqlbody IS NULL AND NOT coalesce(proconfig::text LIKE '%search_path=pg_catalog, pg_temp%', false)"
    ).fetchall()
    assert open_ones == []


SLIPS = {
    "the same column": "EXISTS (SELECT FROM docs d WHERE d.document_id = document_id)",
    "another column": "EXISTS (SELECT FROM docs d WHERE d.document_id = parent_id OFFSET 0)",
    "in a part": "tenant_id = 'x' OR (EXISTS (SELECT FROM docs d WHERE d.name = document_name) AND true)",
    "of a type with a length": "EXISTS (SELECT FROM docs d WHERE d.document_name = document_name)",
}
SELECTED = {
    "a list": "document_id IN (SELECT document_id FROM docs_of d WHERE d.name = 'x')",
    "an array": "document_id = ANY (ARRAY(SELECT document_id FROM docs_of d JOIN docs_of e ON e.name = d.name))",
    "one value": "document_id = (SELECT document_id FROM docs_of d WHERE d.name = 'x' ORDER BY d.name LIMIT 1)",
    "an expression": "tenant_id IN (SELECT lower(tenant_id) FROM docs_of)",
}
MEANT = {
    "by its table": "EXISTS (SELECT FROM docs d WHERE d.document_id = doc_chunks.document_id)",
    "with a condition of its own": (
        "EXISTS (SELECT FROM docs d WHERE d.document_id = doc_chunks.document_id AND d.parent_id = d.document_id)"
    ),
    "in a query below": (
        "EXISTS (SELECT FROM docs d WHERE d.parent_id = d.document_id AND EXISTS (SELECT FROM docs e"
        " WHERE e.document_id = doc_chunks.document_id))"
    ),
    "of the caller alone": "EXISTS (SELECT FROM docs d WHERE d.name = current_setting('app.user_id', true))",
    "of what the row has": "document_id IN (SELECT d.document_id + doc_chunks.id - doc_chunks.id FROM docs d)",
    "without a table": "tenant_id = (SELECT doc_chunks.tenant_id)",
    "of a list": "document_id IN (SELECT d.document_id FROM docs d WHERE d.document_id = d.parent_id)",
}


CONDITIONS = {**{f"exists, {name}": condition for name, condition in SLIPS.items()}, **SELECTED, **MEANT}


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
def test_a_policy_that_compares_a_table_with_itself_is_refused(
    make_settings: Callable[..., Settings], database: str, settings: Settings, admin: Admin, condition: str
) -> None:
    """An `EXISTS` that compares columns of its own table, or a list of columns of the row, shows every row or none."""
    admin.execute(
        "CREATE TABLE docs (document_id int, parent_id int, name text, document_name varchar(9));"
        "CREATE TABLE doc_chunks (id int, document_id int, tenant_id text, content text, embedding vector(768));"
        "ALTER TABLE docs ENABLE ROW LEVEL SECURITY; ALTER TABLE doc_chunks ENABLE ROW LEVEL SECURITY;"
        "CREATE TABLE docs_of (name text);"
        "CREATE POLICY p ON docs USING (true); GRANT SELECT ON docs, docs_of, doc_chunks TO retrieval_worker"
    )
    admin.execute(f"CREATE POLICY p ON doc_chunks USING ({condition})".encode())
    columns = {"id": "id", "document_id": "document_id", "text": "content", "embedding": "embedding"}
    corpus = settings.corpora["documents"].model_dump() | {"table": "public.doc_chunks", "columns": columns}
    changed = make_settings(database, corpora={"documents": corpus | {"documents": None}})
    if condition in MEANT.values():
        check(changed)
        return
    slip = "has a subquery that selects a column of" if condition in SELECTED.values() else "compares columns of the"
    with pytest.raises(SettingsError, match=f"the policy p of doc_chunks {slip}"):
        check(changed)


UNBOUND = {
    "row security is off": "ALTER TABLE docs DISABLE ROW LEVEL SECURITY",
    "the worker owns it": "ALTER TABLE docs OWNER TO retrieval_worker",
}


@pytest.mark.parametrize("statements", UNBOUND.values(), ids=UNBOUND)
def test_a_policy_that_relies_on_policies_that_are_off_is_refused_at_each_read(
    make_settings: Callable[..., Settings], database: str, settings: Settings, admin: Admin, statements: str
) -> None:
    """Chunks show with their documents, which the settings do not name: they would all show."""
    admin.execute(
        "CREATE TABLE docs (id text, owner text); CREATE TABLE doc_chunks AS SELECT * FROM document_chunks;"
        "INSERT INTO docs SELECT DISTINCT document_id, 'nobody' FROM doc_chunks;"
        "ALTER TABLE docs ENABLE ROW LEVEL SECURITY; ALTER TABLE doc_chunks ENABLE ROW LEVEL SECURITY;"
        "CREATE POLICY p ON docs USING (owner = current_setting('app.user_id', true));"
        "CREATE POLICY p ON doc_chunks USING (EXISTS (SELECT FROM docs d WHERE d.id = doc_chunks.document_id));"
        "GRANT SELECT ON docs, doc_chunks TO retrieval_worker"
    )
    corpus = settings.corpora["documents"].model_dump() | {"table": "public.doc_chunks", "documents": None}
    with contextlib.closing(
        Engine(make_settings(database, corpora={"documents": corpus}), time.perf_counter)
    ) as engine:
        assert len(searched(engine)) == 15
        admin.execute("UPDATE docs SET owner = 'alice'")
        assert searched(engine) == []
        admin.execute(statements.encode())
        with pytest.raises(SettingsError, match=r"a policy reads public\.docs, whose own policies do not bind"):
            searched(engine)
        admin.execute("ALTER TABLE docs OWNER TO postgres; ALTER TABLE docs ENABLE ROW LEVEL SECURITY")
        admin.execute("GRANT SELECT ON docs TO retrieval_worker")
        assert searched(engine) == []
