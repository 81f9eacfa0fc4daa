"""A backend's own tables: other names, other id types, other policies, and nothing of ours but SELECT."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from worker.contract import RetrieveHybrid, RetrieveTopK, RunPipeline, parse_job
from worker.core.pins.hashing import hash_chunk
from worker.core.text import lexical
from worker.errors import SettingsError
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
def engine(make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]) -> Iterator[Engine]:
    admin.execute(SCHEMA)
    for nr in range(1, 25):
        tenant, book = ("red", BOOKS[nr % 2]) if nr <= 20 else ("blue", BOOKS[0])
        admin.execute(
            'INSERT INTO library."Passages" VALUES (%s, %s, %s, %s, %s, %s, %s, %s)',
            (nr, book, tenant, f"passage  {nr}", "en" if nr % 3 else "de", nr, str(QUERY.tolist()), f"b/{nr}.Md"),
        )
    principal = {"owner_claim": "tenant", "settings": {"tenant": "shop.tenant"}}
    made = Engine(make_settings(database, corpora={"books": CORPUS}, principal=principal), time.perf_counter)
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


def test_settings_that_name_other_corpora_are_to_blame_not_the_job(engine: Engine) -> None:
    """No mode of the shipped ones is for these tables, and the shipped searches are of other corpora: both are said."""
    with pytest.raises(SettingsError, match=r"no modes.*\[modes\.NAME\]"):
        engine.pipeline_jobs.answer(parse_job(RunPipeline, {"question": "pump", "mode": "grounded"}), red)
    with pytest.raises(SettingsError, match=r"^hybrid\.searches: there is no corpus docs: name yours there"):
        engine.hybrid.retrieve(parse_job(RetrieveHybrid, {"query": "pump"}), red)


def red() -> Principal:
    return Principal({"tenant": "red"}, (("shop.tenant", "red"),), "red")
