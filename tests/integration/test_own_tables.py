"""A backend's own tables: other names, other id types, other policies, and nothing of ours but SELECT."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK, RunPipeline
from retrieval_client.errors import NotAuthorised, SettingsError
from retrieval_client.hashing import hash_chunk
from worker.adapters.postgres.database import check
from worker.cli.doctor import examine
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from worker.settings import Settings

QUERY = lexical.embed(["pump"])[0]
BOOKS = [f"00000000-0000-0000-0000-00000000000{n}" for n in (1, 2)]
SCHEMA = """
CREATE SCHEMA library;
CREATE TABLE library."Passages" (
  nr bigint PRIMARY KEY, book uuid NOT NULL, tenant text NOT NULL, "the text" text NOT NULL, lang text, leaf integer,
  vec vector(768) NOT NULL, path text);
ALTER TABLE library."Passages" ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_tenant ON library."Passages"
  USING (tenant = (SELECT nullif(current_setting('shop.tenant', true), '')));
GRANT USAGE ON SCHEMA library TO retrieval_worker;
GRANT SELECT ON library."Passages" TO retrieval_worker;
"""
CORPUS = {
    "table": "library.Passages",
    "columns": {
        "id": "nr",
        "document_id": "book",
        "text": "the text",
        "embedding": "vec",
        "page": "leaf",
        "path": "path",
    },
    "metadata_columns": {"language": "lang"},
}


@pytest.fixture
def own_settings(make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]) -> Settings:
    """Settings of a corpus that is not the reference schema's, which is made and filled."""
    admin.execute(SCHEMA)
    for nr in range(1, 25):
        tenant, book = ("red", BOOKS[nr % 2]) if nr <= 20 else ("blue", BOOKS[0])
        admin.execute(
            'INSERT INTO library."Passages" VALUES (%s, %s, %s, %s, %s, %s, %s, %s)',
            (nr, book, tenant, f"passage  {nr}", "en" if nr % 3 else "de", nr, str(QUERY.tolist()), f"b/{nr}.Md"),
        )
    principal = {"owner_claims": ["tenant"], "settings": {"tenant": "shop.tenant"}}
    return make_settings(database, corpora={"books": CORPUS}, principal=principal)


@pytest.fixture
def engine(own_settings: Settings) -> Iterator[Engine]:
    made = Engine(own_settings, time.perf_counter)
    yield made
    made.close()


def ask(engine: Engine, tenant: str, **fields: Any) -> dict[str, Any]:
    asker = Principal({"tenant": tenant}, (("shop.tenant", tenant),), tenant)
    return engine.retrieval.top_k(
        parse_job(RetrieveTopK, {"query_embedding": QUERY.tolist(), **fields}), JobContext(lambda: asker)
    )


def numbers(answer: dict[str, Any]) -> list[str]:
    return [chunk["chunk_id"] for chunk in answer["chunks"]]


def test_integer_ids_are_strings_ordered_by_value(engine: Engine) -> None:
    """Equal distances: 9 comes before 10, as the database orders bigint; and ids are strings on the wire."""
    assert numbers(ask(engine, "red")) == [str(n) for n in range(1, 16)]
    assert numbers(ask(engine, "red", exact=True)) == [str(n) for n in range(1, 16)]


def test_the_tables_own_policy_decides(engine: Engine) -> None:
    """Another setting, another policy: the tenant sees its own rows."""
    answer = ask(engine, "blue")
    assert numbers(answer) == ["21", "22", "23", "24"]
    assert (answer["status"], answer["short_reason"]) == ("short", "visible_rows")
    assert ask(engine, "green")["status"] == "empty"


def test_what_is_not_mapped_is_null_and_hashes_are_computed(engine: Engine) -> None:
    """Without a hash column the worker hashes the text; mapped extra columns are in `metadata`."""
    chunk = ask(engine, "red")["chunks"][1]
    assert (chunk["section"], chunk["coordinates"], chunk["page"]) == (None, None, 2)
    assert chunk["metadata"] == {"language": "en"}
    assert chunk["document_id"] == BOOKS[0]
    assert (chunk["text"], chunk["chunk_hash"]) == ("passage  2", hash_chunk("passage 2"))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"document_ids": [BOOKS[1]]}, list(range(1, 21, 2))),
        ({"document_ids": [BOOKS[1].upper()]}, list(range(1, 21, 2))),
        ({"document_ids": ["no uuid", ""]}, []),
        ({"metadata": {"language": "de"}}, list(range(3, 21, 3))),
        ({"metadata": {"language": None}}, []),
        ({"ext_allow": ["md"], "pages": [4, 5]}, [4, 5]),
        ({"path_contains": ["b/7."]}, [7]),
        ({"ext_deny": ["md"]}, []),
    ],
)
def test_filters_work_on_mapped_columns(engine: Engine, filters: dict[str, Any], expected: list[int]) -> None:
    """Each filter reaches the column that the settings map it to."""
    assert numbers(ask(engine, "red", filters=filters)) == [str(n) for n in expected]


MISSING_RIGHTS = {
    "the schema": ("REVOKE USAGE ON SCHEMA library FROM retrieval_worker", "GRANT USAGE ON SCHEMA library TO"),
    "the table": (
        'REVOKE SELECT ON library."Passages" FROM retrieval_worker',
        'GRANT SELECT ON library."Passages" TO',
    ),
    "a column": (
        (
            'REVOKE SELECT ON library."Passages" FROM retrieval_worker;'
            'GRANT SELECT (nr, book, "the text", vec, leaf, path) ON library."Passages" TO retrieval_worker'
        ),
        'GRANT SELECT ON library."Passages" TO',
    ),
    "the schema and a policy": (
        "REVOKE USAGE ON SCHEMA library FROM retrieval_worker; ALTER ROLE retrieval_worker BYPASSRLS",
        "the role retrieval_worker has BYPASSRLS",
    ),
    "the schema of pgvector": (
        "CREATE SCHEMA extensions; ALTER EXTENSION vector SET SCHEMA extensions",
        "GRANT USAGE ON SCHEMA extensions TO",
    ),
}


@pytest.mark.parametrize("name", MISSING_RIGHTS)
def test_a_right_that_is_missing_is_named_with_its_grant(
    own_settings: Settings, admin: psycopg.Connection[Any], name: str
) -> None:
    """The start and `doctor` say on what, and the command that grants it."""
    revoke, said = MISSING_RIGHTS[name]
    check(own_settings)
    admin.execute(revoke.encode())
    try:
        with pytest.raises(SettingsError) as raised:
            check(own_settings)
        assert said in raised.value.message
        assert "doctor" not in raised.value.message
    finally:
        admin.execute("ALTER ROLE retrieval_worker NOBYPASSRLS")


@pytest.mark.parametrize("exact_rows", [0, 2000], ids=["index", "exact"])
def test_pgvector_may_be_in_a_schema_that_no_search_path_names(
    own_settings: Settings, admin: psycopg.Connection[Any], exact_rows: int
) -> None:
    """Its types and operators are found by the schema of the extension; the role needs no search path."""
    admin.execute("CREATE SCHEMA extensions; ALTER EXTENSION vector SET SCHEMA extensions")
    admin.execute("GRANT USAGE ON SCHEMA extensions TO retrieval_worker")
    search = own_settings.search.model_copy(update={"exact_rows": exact_rows})
    with contextlib.closing(Engine(own_settings.model_copy(update={"search": search}), time.perf_counter)) as engine:
        assert numbers(ask(engine, "red", filters={"pages": [4, 5]})) == ["4", "5"]


def test_a_view_over_a_table_that_may_not_be_read_names_the_table(
    own_settings: Settings, make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """Rights on the view are not enough where it reads with those of the caller."""
    del own_settings  # its tables are there
    admin.execute(
        'CREATE VIEW library.seen WITH (security_invoker) AS SELECT * FROM library."Passages";'
        'GRANT SELECT ON library.seen TO retrieval_worker; REVOKE SELECT ON library."Passages" FROM retrieval_worker'
    )
    changed = make_settings(database, corpora={"books": CORPUS | {"table": "library.seen"}})
    with pytest.raises(SettingsError, match=r'GRANT SELECT ON library\."Passages" TO retrieval_worker'):
        check(changed)


def sql_of_the_docs(beginning: str) -> str:
    """The block of SQL in docs/schema.md that begins so."""
    page = (Path(__file__).parents[2] / "docs" / "schema.md").read_text()
    (found,) = re.findall(rf"```sql\n({re.escape(beginning)}.*?)```", page, flags=re.DOTALL)
    return str(found)


def test_another_role_needs_the_rights_of_the_docs(
    own_settings: Settings, make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """`doctor` names the rights that are missing on the records; with them, a run is recorded."""
    role = f"reader_of_{database}"
    admin.execute(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA library, retrieval TO {role};"
        f'GRANT SELECT ON library."Passages" TO {role}'.encode()
    )
    changed = make_settings(
        database, user=role, corpora={"books": CORPUS}, principal=own_settings.principal.model_dump()
    )
    said = [one.text for one in examine(changed) if one.subject == "records"]
    assert said == [
        (
            "jobs that record a run fail: the worker's role may not read and write the worker's own tables. "
            f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA retrieval TO {role} (docs/schema.md has the rest)"
        )
    ]
    admin.execute(
        sql_of_the_docs("GRANT USAGE ON SCHEMA retrieval TO shop_reader").replace("shop_reader", role).encode()
    )
    assert [one for one in examine(changed) if one.subject == "records"] == []
    with contextlib.closing(Engine(changed, time.perf_counter)) as engine:
        answer = ask(engine, "red", run={"subject_id": "s", "run_id": "r"})
        assert ask(engine, "red", run={"subject_id": "s", "run_id": "r"})["chunks"] == answer["chunks"]


BY_ROLE = "CREATE POLICY by_role ON shop.doc_embeddings FOR SELECT"


@pytest.mark.parametrize(
    ("claim", "seen"),
    [
        ('["editor"]', 15),
        ('["author", "editor"]', 15),
        ('["author"]', 0),
        ("editor", 0),
        ("[", 0),
        ('{"a": 1}', 0),
        ("", 0),
    ],
)
def test_the_policy_of_the_docs_takes_any_claim_of_roles(
    own_settings: Settings, admin: psycopg.Connection[Any], claim: str, seen: int
) -> None:
    """A string instead of a list gives no rights, and does not fail the query."""
    admin.execute("""ALTER TABLE library."Passages" ADD COLUMN role text DEFAULT 'editor'""")
    admin.execute('DROP POLICY by_tenant ON library."Passages"')
    policy = sql_of_the_docs(BY_ROLE).replace("shop.doc_embeddings", 'library."Passages"')
    admin.execute(policy.replace("doc_embeddings.", '"Passages".').encode())
    with contextlib.closing(Engine(own_settings, time.perf_counter)) as engine:
        assert len(numbers(ask_as(engine, ("app.roles", claim)))) == seen


LEVEL = """
CREATE FUNCTION library.level() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF coalesce(current_setting('app.level', true), '') = '' THEN RAISE EXCEPTION 'no level'; END IF;
  RETURN current_setting('app.level');
END $$
"""
CASTS = {
    "a list": ("jsonb_typeof(current_setting('app.roles', true)::jsonb) = 'array'", "app.roles", '["a"]', "editor"),
    "a uuid": (f"current_setting('app.tenant')::uuid = '{BOOKS[0]}'", "app.tenant", BOOKS[0], "red"),
    "a missing uuid": (f"current_setting('app.tenant')::uuid = '{BOOKS[0]}'", "app.tenant", BOOKS[0], ""),
    "a number": ("current_setting('app.level', true)::smallint > 1", "app.level", "2", "99999999"),
    "no object": (
        "EXISTS (SELECT FROM json_object_keys(current_setting('app.rights', true)::json))",
        *("app.rights", '{"read": 1}', "[1]"),
    ),
    "what a function wants": ("library.level() > 1", "app.level", "2", ""),
    "a day": ("current_setting('app.until', true)::date > '2020-01-01'", "app.until", "2030-01-01", "2030-13-01"),
}


@pytest.mark.parametrize(("condition", "setting", "good", "bad"), CASTS.values(), ids=CASTS)
def test_a_claim_that_a_policy_can_not_cast_is_not_authorised(
    own_settings: Settings, admin: psycopg.Connection[Any], condition: str, setting: str, good: str, bad: str
) -> None:
    """Callers whose claim has the form that the policy casts it to are answered."""
    admin.execute('DROP POLICY by_tenant ON library."Passages"')
    admin.execute(LEVEL)
    admin.execute(f'CREATE POLICY strict ON library."Passages" USING (leaf > 100 OR {condition})'.encode())
    check(own_settings, at_start=True)
    with contextlib.closing(Engine(own_settings, time.perf_counter)) as engine:
        assert len(numbers(ask_as(engine, (setting, good)))) == 15
        with pytest.raises(NotAuthorised, match=r"on the claims of this caller .* missing or malformed") as error:
            ask_as(engine, (setting, bad))
        assert not bad or bad not in error.value.message


def test_a_stored_value_that_a_view_can_not_cast_is_a_wrong_setting(
    own_settings: Settings, make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """It fails for each caller, so no claim is to blame."""
    admin.execute(
        'CREATE VIEW library.numbered WITH (security_invoker) AS SELECT *, "the text"::integer AS number'
        ' FROM library."Passages"; GRANT SELECT ON library.numbered TO retrieval_worker'
    )
    corpus = CORPUS | {"table": "library.numbered", "metadata_columns": {"number": "number"}}
    principal = own_settings.principal.model_dump()
    settings = make_settings(database, corpora={"books": corpus}, principal=principal)
    with (
        contextlib.closing(Engine(settings, time.perf_counter)) as engine,
        pytest.raises(SettingsError, match=r"22P02\): a view or a generated column casts it"),
    ):
        ask(engine, "red")


def ask_as(engine: Engine, *stated: tuple[str, str]) -> dict[str, Any]:
    """The answer to a caller of whom this is stated."""
    asker = Principal({}, (*stated, ("shop.tenant", "red")), "red")
    return engine.retrieval.top_k(
        parse_job(RetrieveTopK, {"query_embedding": QUERY.tolist()}), JobContext(lambda: asker)
    )


JOINED = """
CREATE TABLE library.books (id uuid PRIMARY KEY, "Vec" text, shelf text);
CREATE TABLE library.pages (nr bigint, book uuid, "the text" text, "My Vec" vector(768));
ALTER TABLE library.books ENABLE ROW LEVEL SECURITY;
ALTER TABLE library.pages ENABLE ROW LEVEL SECURITY;
CREATE VIEW library.seen WITH (security_invoker) AS
  SELECT p.nr, p.book, p."the text", p."My Vec" AS vec, b.shelf
    FROM library.pages p JOIN library.books b ON b.id = p.book;
GRANT SELECT ON library.books, library.pages, library.seen TO retrieval_worker;
"""


def test_advice_quotes_names_as_postgres_needs_them(
    own_settings: Settings, make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """Each command can be copied and run."""
    admin.execute('ALTER TABLE library."Passages" RENAME vec TO "My Vec"; ALTER TABLE library."Passages" DROP book')
    admin.execute('ALTER TABLE library."Passages" ADD "select" bigint')
    own = CORPUS | {"columns": {**CORPUS["columns"], "embedding": "My Vec", "document_id": "select"}}  # type: ignore[dict-item] # a table
    del own_settings
    said = [one.text for one in examine(make_settings(database, corpora={"books": own}))]
    assert any('library."Passages" ALTER COLUMN "select" SET NOT NULL' in text for text in said)
    assert any(
        'ON library."Passages" USING hnsw (("My Vec"::public.halfvec(768)) public.halfvec_cosine_ops)' in text
        for text in said
    )
    assert any(
        """(retrieval.text_vector('retrieval.english'::regconfig, "the text")) STORED""" in text for text in said
    )


def test_advice_on_a_view_names_the_table_that_holds_the_column(
    own_settings: Settings, make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """Not each table that the view reads; and under the name that the column has there."""
    del own_settings
    admin.execute(JOINED)
    columns = {"id": "nr", "document_id": "book", "text": "the text", "embedding": "vec"}
    changed = make_settings(database, corpora={"books": {"table": "library.seen", "columns": columns}})
    said = "\n".join(one.text for one in examine(changed) if one.subject == "corpus books")
    assert 'ON library.pages USING hnsw (("My Vec"::public.halfvec(768)) public.halfvec_cosine_ops)' in said
    assert 'ALTER TABLE library.pages ALTER COLUMN "My Vec" SET STORAGE PLAIN' in said
    assert """ALTER TABLE library.pages ADD COLUMN text_search""" in said
    assert not re.search(r"(TABLE|INDEX ON|USING hnsw .*|ON) library\.books (ALTER|ADD|USING)", said)
    admin.execute('CREATE INDEX ON library.pages USING hnsw ("My Vec" vector_cosine_ops)')
    assert not [one for one in examine(changed) if "no HNSW index" in one.text]


def test_advice_on_a_view_that_does_not_show_the_table_has_no_command(
    own_settings: Settings, make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """Two tables below it have embeddings, and neither calls them as the view does."""
    del own_settings
    admin.execute(JOINED)
    admin.execute(
        'CREATE VIEW library.both WITH (security_invoker) AS SELECT p.nr, p.book, p."the text", p."My Vec" + a.vec AS v'
        '  FROM library.pages p JOIN library."Passages" a ON a.nr = p.nr;'
        "GRANT SELECT ON library.both TO retrieval_worker"
    )
    columns = {"id": "nr", "document_id": "book", "text": "the text", "embedding": "v"}
    changed = make_settings(database, corpora={"books": {"table": "library.both", "columns": columns}})
    said = [one.text for one in examine(changed) if "HNSW" in one.text]
    assert said == [
        ("no HNSW index: make one in the table below the view library.both that holds its column v (docs/schema.md)")
    ]


def test_settings_that_name_other_corpora_are_to_blame_not_the_job(engine: Engine, own_settings: Settings) -> None:
    """No mode of the shipped ones is for these tables, and the shipped searches are of other corpora: both are said."""
    with pytest.raises(SettingsError, match=r"no modes.*\[modes\.NAME\]"):
        engine.pipeline_jobs.answer(parse_job(RunPipeline, {"question": "pump", "mode": "grounded"}), JobContext(red))
    found = examine(own_settings)
    assert [one.level for one in found if one.text.startswith("hybrid.searches")] == ["advice"]
    assert [(one.level, one.subject) for one in found if "no mode of yours" in one.text] == [("advice", "pipeline")]
    with pytest.raises(SettingsError, match=r"^hybrid\.searches: there is no corpus docs: name yours there"):
        engine.hybrid.retrieve(parse_job(RetrieveHybrid, {"query": "pump"}), JobContext(red))


def red() -> Principal:
    return Principal({"tenant": "red"}, (("shop.tenant", "red"),), "red")
