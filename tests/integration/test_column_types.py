"""Columns of a backend's own tables: what the worker handles, it answers from; any other type stops the start."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.errors import SettingsError
from worker.cli.doctor import examine
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.settings import Settings

    Site = Callable[..., Settings]

QUERY = lexical.embed(["pump"])[0].tolist()
TYPES = {
    "id": "bigint",
    "document_id": "uuid",
    "text": "text",
    "embedding": "vector(768)",
    "page": "integer",
    "section": "text",
    "coordinates": "jsonb",
    "metadata": "jsonb",
    "chunk_hash": "bytea",
    "text_search": "tsvector",
    "path": "text",
}
COLUMNS = {field: field for field in TYPES}
UUID = "'00000000-0000-0000-0000-0000000000{n:02d}'"
VALUES = {
    "id": "{n}",
    "document_id": UUID,
    "text": "'x{n} pump'",
    "embedding": f"'{QUERY}'",
    "page": "{n}",
    "section": "'s{n}'",
    "coordinates": """'{{"x": {n}}}'""",
    "metadata": """'{{"a": {n}}}'""",
    "chunk_hash": "sha256('x{n}')",
    "text_search": "to_tsvector('x{n} pump')",
    "path": "'p/{n}.md'",
}
EXTRA = """
CREATE DOMAIN library.words AS text; CREATE DOMAIN library.number AS integer CHECK (VALUE > 0);
CREATE DOMAIN library.embedding AS vector(768); CREATE DOMAIN library.short AS vector(384);
CREATE TYPE library.kind AS ENUM ('s1', 'book');
"""


@pytest.fixture
def site(make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]) -> Site:
    """Makes a public table of 12 chunks with some columns of other types or values, and settings for it."""
    admin.execute(f"CREATE SCHEMA library; GRANT USAGE ON SCHEMA library TO retrieval_worker; {EXTRA}")

    def make(types: dict[str, str] | None = None, values: dict[str, str] | None = None, **corpus: Any) -> Settings:
        kinds, stored = {**TYPES, **(types or {})}, {**VALUES, **(values or {})}
        columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        admin.execute(f"CREATE TABLE library.p ({columns}); GRANT SELECT ON library.p TO retrieval_worker".encode())
        filled = [name for name in kinds if "GENERATED" not in kinds[name]]
        for n in range(1, 13):
            row = ", ".join(stored[name].format(n=n) for name in filled)
            admin.execute(f"INSERT INTO library.p ({', '.join(filled)}) VALUES ({row})".encode())
        settings = {"table": "library.p", "columns": COLUMNS, "public": True, **corpus}
        return make_settings(database, corpora={"books": settings})

    return make


def anonymous() -> JobContext:
    """A job without claims."""
    return JobContext(lambda: Principal(settings=()))


def answers(settings: Settings, filters: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The chunks of a search; every other way to read the corpus is taken as well, and every answer is JSON."""
    engine = Engine(settings, time.perf_counter)
    try:
        asked = {"query_embedding": QUERY, **({"filters": filters} if filters else {})}
        found = engine.retrieval.top_k(parse_job(RetrieveTopK, asked), anonymous())
        exactly = engine.retrieval.top_k(parse_job(RetrieveTopK, {**asked, "exact": True}), anonymous())
        assert exactly["chunks"] == found["chunks"]
        replayed = {"required_chunk_hashes": [chunk["chunk_hash"] for chunk in found["chunks"][:2]], "top_k": 4}
        for fill in ("text", "hash"):
            answer = engine.replay.pinned(parse_job(PinnedReplay, {**replayed, "fill": fill}), anonymous())
            assert answer["missing"] == 0
            json.dumps(answer, allow_nan=False)
        legs = {
            "query": "pump",
            "query_embedding": QUERY,
            "legs": ["primary", "sparse"],
            "searches": [{"corpus": "books"}],
        }
        hybrid = engine.hybrid.retrieve(
            parse_job(RetrieveHybrid, {**legs, "diversity": {"lambda": 0.5, "per_document": 2}}), anonymous()
        )
        json.dumps([found, hybrid], allow_nan=False)
        chunks: list[dict[str, Any]] = found["chunks"]
        return chunks
    finally:
        engine.close()


REFUSED = {
    "another dimension": ("embedding", "vector(384)", "vector(384), expected vector(768) or halfvec(768): set "),
    "too many dimensions": ("embedding", "vector(1024)", "vector(1024), expected vector(768) or halfvec(768): set "),
    "halfvec of another": ("embedding", "halfvec(384)", "halfvec(384), expected vector(768) or halfvec(768)"),
    "sparsevec": ("embedding", "sparsevec(768)", "sparsevec(768), expected vector(768) or halfvec(768)"),
    "bit": ("embedding", "bit(768)", "bit(768), expected vector(768) or halfvec(768)"),
    "numbers": ("embedding", "real[]", "real[], expected vector(768) or halfvec(768)"),
    "a domain of another": ("embedding", "library.short", "library.short, expected vector(768) or halfvec(768)"),
    "json ids": ("id", "json", "json, expected text, character varying, char, name, smallint, integer, bigint or uuid"),
    "ids of time": ("id", "timestamptz", "timestamp with time zone, expected text"),
    "numeric ids": ("id", "numeric(9,2)", "numeric(9,2), expected text"),
    "enum ids": ("document_id", "library.kind", "library.kind, expected text"),
    "array ids": ("document_id", "text[]", "text[], expected text"),
    "json texts": ("text", "jsonb", "jsonb, expected text, character varying, char or name"),
    "bytes": ("text", "bytea", "bytea, expected text"),
    "pages of json": ("page", "json", "json, expected smallint, integer, bigint, text"),
    "numeric pages": ("page", "numeric", "numeric, expected smallint"),
    "many sections": ("section", "text[]", "text[], expected text"),
    "hashes as text": ("chunk_hash", "text", "text, expected bytea: leave it out, or map a column GENERATED"),
    "words as text": ("text_search", "text", "text, expected tsvector: leave it out"),
    "paths as an array": ("path", "text[]", "text[], expected text"),
}  # fmt: skip


@pytest.mark.parametrize(("field", "kind", "said"), REFUSED.values(), ids=REFUSED)
def test_a_column_of_a_type_that_is_not_handled_stops_the_start(site: Site, field: str, kind: str, said: str) -> None:
    """The sentence names the setting, the column, its type, what is expected and the mend; `doctor` says the same."""
    values = dict.fromkeys([field], "NULL")
    settings = site({field: kind}, values)
    with pytest.raises(SettingsError) as raised:
        Engine(settings, time.perf_counter)
    assert raised.value.message.startswith(f"corpora.books.columns.{field}: library.p.{field} is {said}")
    assert raised.value.message in {finding.text for finding in examine(settings) if finding.level == "problem"}


HANDLED = {
    "halfvec": {"embedding": "halfvec(768)"},
    "vectors without a dimension": {"embedding": "vector"},
    "a domain over vectors": {"embedding": "library.embedding"},
    "small ids": {"id": "smallint", "document_id": "text"},
    "a domain over numbers": {"id": "library.number", "page": "library.number"},
    "varying": {"document_id": "varchar(40)", "text": "varchar(40)", "section": "varchar(9)", "path": "varchar"},
    "padded": {"document_id": "char(40)", "section": "char(9)"},
    "a domain over text": {"document_id": "library.words", "text": "library.words", "section": "library.words"},
    "names": {"document_id": "name", "section": "name"},
    "json": {"metadata": "json", "coordinates": "json"},
    "large pages": {"page": "bigint"},
    "pages of text": {"page": "varchar(9)"},
    "a generated column": {
        "text_search": "tsvector GENERATED ALWAYS AS (to_tsvector('english'::regconfig, text)) STORED",
        "chunk_hash": "bytea GENERATED ALWAYS AS (retrieval.hash_chunk_v1(text)) STORED",
    },
}


@pytest.mark.parametrize("types", HANDLED.values(), ids=HANDLED)
def test_the_other_types_are_answered_from_in_the_order_of_their_ids(site: Site, types: dict[str, str]) -> None:
    """Equal distances: numbers stand by value, below a domain, too; filters and replays reach each column."""
    chunks = answers(site(types))
    assert [chunk["chunk_id"] for chunk in chunks] == [str(n) for n in range(1, 13)]
    assert chunks[1]["metadata"] == {"a": 2}
    assert chunks[1]["coordinates"] == {"x": 2}


def test_a_page_of_text_is_the_number_that_it_says(site: Site) -> None:
    """In answers and filters; another text is no page, and fails no job."""
    values = {"page": "CASE {n} WHEN 1 THEN 'xii' WHEN 2 THEN '99999999999' WHEN 3 THEN NULL ELSE '0{n}' END"}
    settings = site({"page": "text"}, values)
    assert [chunk["page"] for chunk in answers(settings)] == [None, None, None, *range(4, 13)]
    assert [chunk["chunk_id"] for chunk in answers(settings, {"pages": [7, 12]})] == ["7", "12"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"metadata": {"a": 3}}, ["3"]),
        ({"sections": ["s4"], "pages": [4]}, ["4"]),
        ({"document_ids": ["00000000-0000-0000-0000-000000000005"]}, ["5"]),
        ({"ext_allow": ["md"], "path_contains": ["p/6."]}, ["6"]),
    ],
)
def test_filters_reach_columns_of_these_types(site: Site, filters: dict[str, Any], found: list[str]) -> None:
    """Also where metadata is json, and ids are of a domain or padded."""
    settings = site({"metadata": "json", "document_id": "char(40)", "section": "library.words", "path": "varchar"})
    assert [chunk["chunk_id"] for chunk in answers(settings, filters)] == found


STORED = {
    "metadata that is a list": ({}, {"metadata": "'[1, 2]'"}, "metadata", {"metadata": [1, 2]}),
    "metadata that is a string": ({}, {"metadata": """'"s"'"""}, "metadata", {"metadata": "s"}),
    "metadata of no JSON": ({"metadata": "text[]"}, {"metadata": "ARRAY['s']"}, "metadata", {"metadata": ["s"]}),
    "no metadata": ({}, {"metadata": "NULL"}, "metadata", {}),
    "a box": ({"coordinates": "float8[]"}, {"coordinates": "ARRAY[0.5, 'NaN']"}, "coordinates", [0.5, None]),
    "a point": ({"coordinates": "point"}, {"coordinates": "'(1,2)'"}, "coordinates", "(1,2)"),
    "no text": ({}, {"text": "NULL"}, "text", ""),
    "a section that is NULL": ({}, {"section": "NULL"}, "section", None),
    "NULL elsewhere": ({}, {"page": "NULL", "path": "NULL", "coordinates": "NULL"}, "page", None),
}


@pytest.mark.parametrize(("types", "values", "field", "shown"), STORED.values(), ids=STORED)
def test_what_a_column_may_hold_is_shown_as_json_has_it(
    site: Site, types: dict[str, str], values: dict[str, str], field: str, shown: Any
) -> None:
    """Metadata that is no object, arrays, points and NULLs are in the answer, and fail no job."""
    assert answers(site(types, values))[0][field] == shown


EXTRAS = {
    "timestamptz": ("'2020-01-02 03:04:05.25+00'", "2020-01-02T03:04:05.25+00:00"),
    "timestamp": ("'infinity'", "infinity"),
    "date": ("'2020-01-02'", "2020-01-02"),
    "time": ("'24:00'", "24:00:00"),
    "library.kind": ("'book'", "book"),
    "library.kind[]": ("'{{book}}'", ["book"]),
    "numeric": ("'1.50'", "1.50"),
    "numeric(40,20)": ("'12345678901234567890.12345678901234567890'", "12345678901234567890.12345678901234567890"),
    "numeric(9,8)": ("0.00000001", "1E-8"),
    "numeric[]": ("'{{1.50, NULL}}'", ["1.50", None]),
    "float8": ("'NaN'", None),
    "uuid[]": (f"ARRAY[{UUID.format(n=1)}::uuid]", ["00000000-0000-0000-0000-000000000001"]),
    "bytea": ("'x'", "\\x78"),
    "int4range": ("'[1,3)'", "[1,3)"),
    "money": ("1", "$1.00"),
}


@pytest.mark.parametrize(("kind", "value", "shown"), [(kind, *case) for kind, case in EXTRAS.items()], ids=EXTRAS)
def test_a_metadata_column_may_have_any_type(site: Site, kind: str, value: str, shown: Any) -> None:
    """Enums, times without end and bytes are shown as Postgres writes them; a filter finds what is shown."""
    settings = site({"extra": kind}, {"extra": value}, metadata_columns={"extra": "extra"})
    assert answers(settings)[0]["metadata"]["extra"] == shown
    if kind != "float8":  # NaN is no number of JSON
        assert len(answers(settings, {"metadata": {"extra": shown}})) == 12


def test_a_number_is_found_by_its_text_and_by_itself(site: Site) -> None:
    """A `numeric` column is text in answers, so that no digit is lost; any other value finds nothing."""
    settings = site({"extra": "numeric"}, {"extra": "'1.50'"}, metadata_columns={"extra": "extra"})
    for same in ("1.5", "1.50", "15e-1", 1.5):
        assert len(answers(settings, {"metadata": {"extra": same}})) == 12, same
    for other in ("1.51", "1.5 ", "+1.5", "x", "", "1e999999", "1e-999999", True, ["1.50"], None):
        assert answers(settings, {"metadata": {"extra": other}}) == [], other


@pytest.mark.parametrize("field", ["id", "document_id"])
def test_a_row_without_an_id_fails_its_job_with_the_mend(site: Site, field: str) -> None:
    """It can't be named in an answer; `doctor` says that the column allows it."""
    settings = site(values={field: "NULL"})
    with pytest.raises(SettingsError) as raised:
        answers(settings)
    assert raised.value.message.startswith(f"corpora.books.columns.{field}: a row of library.p has no {field}")
    said = [finding.text for finding in examine(settings)]
    assert any(f"ALTER TABLE library.p ALTER COLUMN {field} SET NOT NULL" in text for text in said)


def test_an_embedding_of_another_length_fails_its_job_with_the_mend(site: Site) -> None:
    """A column without a dimension lets a row have any; `doctor` says so before."""
    settings = site({"embedding": "vector"}, {"embedding": "'[1, 2]'"})
    with pytest.raises(SettingsError, match="a stored embedding has other dimensions than its corpus"):
        answers(settings)
    said = [finding.text for finding in examine(settings)]
    assert any("ALTER the column's TYPE to vector(768)" in text for text in said)


def test_documents_whose_ids_can_not_be_compared_stop_the_start(site: Site, admin: psycopg.Connection[Any]) -> None:
    """The sentence names both columns and their types."""
    admin.execute("CREATE TABLE library.d (id text, path integer); GRANT SELECT ON library.d TO retrieval_worker")
    settings = site(documents={"table": "library.d", "id": "id", "path": "path"})
    with pytest.raises(SettingsError) as raised:
        Engine(settings, time.perf_counter)
    path, ids = raised.value.message.split("; corpora")
    assert path.startswith("corpora.books.documents.path: library.d.path is integer, expected text")
    assert ids.startswith(".books.documents.id: library.d.id is text, and columns.document_id library.p.document_id is")


def test_doctor_advises_on_the_table_below_a_view(site: Site, admin: psycopg.Connection[Any]) -> None:
    """A view has no columns and no indexes to add: the commands are for its table."""
    columns = {name: name for name in COLUMNS if name != "text_search"}
    settings = site(table="library.v", columns=columns)
    admin.execute(
        "CREATE VIEW library.v WITH (security_invoker = true) AS SELECT * FROM library.p;"
        "GRANT SELECT ON library.v TO retrieval_worker"
    )
    said = [finding.text for finding in examine(settings)]
    assert not [text for text in said if "ALTER TABLE library.v" in text or "ON library.v" in text]
    assert any("ALTER TABLE library.p ADD COLUMN text_search" in text for text in said)
    assert any("show it in the view library.v" in text for text in said)


def test_a_column_of_halfvec_is_searched_by_its_index(site: Site, admin: psycopg.Connection[Any]) -> None:
    """Its index is over halfvec; `doctor` finds it, and no problem."""
    settings = site({"embedding": "halfvec(768)"})
    admin.execute("CREATE INDEX by_distance ON library.p USING hnsw (embedding halfvec_cosine_ops)")
    said = [(finding.level, finding.text) for finding in examine(settings)]
    assert not [text for level, text in said if level == "problem" or "index is over" in text or "no HNSW" in text]
    forced = settings.model_copy(update={"search": settings.search.model_copy(update={"exact_rows": 0})})
    engine = Engine(forced, time.perf_counter)
    try:
        job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "k": 10})
        answer = engine.retrieval.top_k(job, anonymous())
    finally:
        engine.close()
    assert len(answer["chunks"]) == 10
