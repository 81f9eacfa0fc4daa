"""The manual and the example patterns: other tables, other columns, and no caller needed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import NotAuthorised, SettingsError
from retrieval_client.hashing import format_hash, hash_chunk
from worker.adapters.postgres.database import check
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, Example, read
from worker.cli.doctor import LEAKPROOF, examine
from worker.cli.loader import load, migrate
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.devstack.stack import Stack
    from worker.adapters.durability import Finding
    from worker.settings import Settings

TABLES = {
    "documents": ("public.document_chunks", "text_content", "section"),
    "docs": ("public.doc_embeddings", "content", "section_title"),
    "examples": ("public.example_strudels", "content", "title"),
}


def ask(engine: Engine, corpus: str, question: str, who: Principal | None = None, **fields: Any) -> dict[str, Any]:
    """A question, without a caller by default."""
    query = lexical.embed([question])[0].tolist()
    job = parse_job(RetrieveTopK, {"query_embedding": query, "corpus": corpus, **fields})
    return engine.retrieval.top_k(job, JobContext(lambda: who))


def test_a_section_of_the_manual_is_a_chunk_of_its_page(engine: Engine) -> None:
    """The page's address is the document, its heading the section, and what else it has is in `metadata`."""
    (chunk,) = ask(engine, "docs", "euclidean rhythm rotation", filters={"sections": ["Rotation"]})["chunks"]
    assert (chunk["chunk_id"], chunk["document_id"]) == ("docs-euclid-002", "/manual/euclid")
    assert chunk["metadata"] == {"position": 2, "page_name": "Euclidean Rhythms", "page_url": "/manual/euclid"}
    assert chunk["chunk_hash"] == hash_chunk(chunk["text"])


def test_an_example_is_a_document_whose_text_is_all_of_it(engine: Engine) -> None:
    """Title, description and code are searched, hashed and cited as one text, and stand in `metadata` one by one."""
    chunk = ask(engine, "examples", "acid bass line")["chunks"][0]
    (example,) = [item for item in read(SAMPLES["examples"]).items if item.id == "example-acid-line"]
    assert isinstance(example, Example)
    assert (chunk["chunk_id"], chunk["document_id"]) == (example.id, example.id)
    assert chunk["text"] == f"{example.title}\n{example.description}\n\n{example.code}"
    assert chunk["metadata"] == example.model_dump(exclude={"id"})
    assert chunk["chunk_hash"] == hash_chunk(chunk["text"])


@pytest.mark.parametrize(
    ("corpus", "filters", "expected"),
    [
        ("docs", {"document_ids": ["/manual/euclid"]}, 5),
        ("docs", {"sections": ["Rotation"]}, 1),
        ("docs", {"path_contains": ["/euclid"]}, 5),
        ("docs", {"metadata": {"page_name": "Euclidean Rhythms", "position": 3}}, 1),
        ("examples", {"document_ids": ["example-bossa"]}, 1),
        ("examples", {"metadata": {"tags": ["minimal", "percussion", "phasing"]}}, 1),
        ("examples", {"metadata": {"tags": "minimal"}}, 0),
    ],
)
def test_filters_reach_the_mapped_columns(engine: Engine, corpus: str, filters: dict[str, Any], expected: int) -> None:
    """Addresses, headings, names and tags narrow a search; a list of tags is equal as a whole."""
    assert len(ask(engine, corpus, "rhythm", filters=filters)["chunks"]) == expected


@pytest.mark.parametrize("corpus", TABLES)
def test_stored_hashes_are_those_of_the_text(admin: psycopg.Connection[Any], corpus: str) -> None:
    """Each table's generated hash is version 1 of what the worker reads as the chunk's text."""
    table, text, _ = TABLES[corpus]
    rows = admin.execute(f"SELECT {text}, chunk_hash FROM {table}").fetchall()
    assert len(rows) == read(SAMPLES[corpus]).chunks
    assert all(format_hash(stored) == hash_chunk(content) for content, stored in rows)


@pytest.mark.parametrize(
    ("corpus", "words", "expected"),
    [
        ("documents", "hums", "handbook-desk-notes-006"),
        ("documents", "cancellation", "handbook-rates-004"),
        ("docs", "perlin sweeping", "docs-filters-006"),
        ("docs", "sine range slow", "docs-filters-006"),
        ("examples", "ab0 saturation", "example-sub-bass"),
        ("examples", "perlin round", "example-random-walk-melody"),
    ],
)
def test_full_text_search_sees_words_headings_and_code(
    admin: psycopg.Connection[Any], corpus: str, words: str, expected: str
) -> None:
    """Stems of English words, headings, and the names between the signs of code."""
    rows = admin.execute(
        f"SELECT id FROM {TABLES[corpus][0]} WHERE text_search @@ plainto_tsquery('english', %s)", (words,)
    ).fetchall()
    assert expected in {chunk_id for (chunk_id,) in rows}


@pytest.mark.parametrize("corpus", TABLES)
def test_a_heading_weighs_more_than_a_text(admin: psycopg.Connection[Any], corpus: str) -> None:
    """Words of headings have weight A, words of texts D."""
    table, _, heading = TABLES[corpus]
    words = f"plainto_tsquery('english', retrieval.search_text('retrieval.english', {heading}))"
    rows = admin.execute(
        f"SELECT count(*) FILTER (WHERE ts_filter(text_search, '{{a}}') @@ {words}),"
        f" count(*) FILTER (WHERE numnode({words}) > 0) FROM {table}"
    ).fetchone()
    assert rows is not None
    assert rows[0] == rows[1] > 0


@pytest.mark.parametrize("corpus", ["docs", "examples"])
def test_everybody_may_read_at_the_price_of_nothing(stack: Stack, database: str, corpus: str) -> None:
    """Under the policy that lets all read, full-text search still uses its index: `@@` is not held back."""
    with psycopg.connect(stack.postgres.dsn(database, "retrieval_worker"), autocommit=True) as worker:
        worker.execute("SET enable_seqscan = off")
        statement = f"EXPLAIN SELECT id FROM {TABLES[corpus][0]} WHERE text_search @@ websearch_to_tsquery('bass')"
        plan = "\n".join(line for (line,) in worker.execute(statement).fetchall())
    assert f"{TABLES[corpus][0].removeprefix('public.')}_text_idx" in plan


def test_a_policy_and_a_setting_close_a_corpus(
    make_settings: Callable[..., Settings], settings: Settings, database: str, admin: psycopg.Connection[Any]
) -> None:
    """Row-level security is on in both tables, so another policy is all that a private manual needs."""
    admin.execute("ALTER POLICY docs_visible ON doc_embeddings USING (page_url <> '/manual/euclid')")
    docs = settings.corpora["docs"].model_dump() | {"public": False}
    engine = Engine(make_settings(database, corpora={"docs": docs}), time.perf_counter)
    try:
        with pytest.raises(NotAuthorised):
            ask(engine, "docs", "euclidean rhythm rotation")
        alice = Principal({"user_id": "alice"}, (("app.user_id", "alice"),), "alice")
        chunks = ask(engine, "docs", "euclidean rhythm rotation", who=alice)["chunks"]
        pages = {chunk["document_id"] for chunk in chunks}
    finally:
        engine.close()
    assert pages
    assert "/manual/euclid" not in pages


def test_an_earlier_installation_is_brought_up_to_date(settings: Settings, admin: psycopg.Connection[Any]) -> None:
    """Without the new tables and columns the worker says what is missing; `migrate` adds it and loses nothing."""
    admin.execute(
        "DROP TABLE doc_embeddings, example_strudels; ALTER TABLE document_chunks DROP COLUMN text_search;"
        "DROP FUNCTION retrieval.example_text"
    )
    with pytest.raises(SettingsError) as caught:
        check(settings)
    for missing in ("text_search", "no table public.doc_embeddings", "no table public.example_strudels", "migrate"):
        assert missing in caught.value.message
    migrate(admin)
    check(settings)
    rows = admin.execute("SELECT count(*), count(text_search) FROM document_chunks").fetchone()
    assert rows == (107, 107)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "ALTER TABLE doc_embeddings DROP COLUMN text_search",
            "corpora.docs.columns.text_search: public.doc_embeddings",
        ),
        (
            "ALTER TABLE doc_embeddings DROP COLUMN text_search; ALTER TABLE doc_embeddings ADD text_search text",
            "corpora.docs.columns.text_search: public.doc_embeddings.text_search is text, expected tsvector",
        ),
    ],
)
def test_a_column_without_a_text_search_vector_is_refused(
    settings: Settings, admin: psycopg.Connection[Any], statement: str, said: str
) -> None:
    """The start stops and names the setting, where the sparse leg would fail in each job."""
    admin.execute(statement)
    with pytest.raises(SettingsError, match=said):
        check(settings)


def test_an_unknown_language_is_refused(
    make_settings: Callable[..., Settings], settings: Settings, database: str
) -> None:
    """A corpus's language is a text search configuration of its database."""
    docs = settings.corpora["docs"].model_dump()
    check(make_settings(database, corpora={"docs": docs | {"language": "german"}}))
    with pytest.raises(SettingsError, match=r"corpora\.docs\.language: .* no text search configuration klingon"):
        check(make_settings(database, corpora={"docs": docs | {"language": "klingon"}}))


def test_the_doctor_has_no_advice_on_the_reference_corpora(settings: Settings, admin: psycopg.Connection[Any]) -> None:
    """The schema is as the worker likes it, but for what a superuser may decide; a missing index is named."""

    def of_corpora() -> list[Finding]:
        findings = [finding for finding in examine(settings) if finding.subject.startswith("corpus")]
        texts = [finding.text for finding in findings if finding.level == "ok"]
        assert [text for text in texts if "visible to no one" not in text] == [
            *(
                text
                for count in (107, 111, 51)
                for text in (f"about {count} rows", f"full-text search ranks by the words of {count} chunks")
            ),
            *["its vectors were made by lexical 1, with which the settings' embedder agrees"] * 3,
        ]
        return [finding for finding in findings if finding.level != "ok"]

    admin.execute("ANALYZE")
    (option,) = of_corpora()
    assert LEAKPROOF in option.text
    admin.execute(LEAKPROOF)
    admin.execute("DROP INDEX example_strudels_text_idx")
    (finding,) = of_corpora()
    assert (finding.level, finding.subject) == ("advice", "corpus examples")
    assert "USING gin (text_search)" in finding.text


def test_items_loaded_again_are_replaced(admin: psycopg.Connection[Any], tmp_path: Path) -> None:
    """The same id is the same item: what it said before is gone, and nothing is there twice."""
    path = tmp_path / "examples.json"
    item = {"id": "example-bossa", "title": "New", "description": "another", "code": 's("bd")'}
    path.write_text(json.dumps({"examples": [item]}))
    progress: list[int] = []
    assert load(admin, read(path), LexicalEmbedder(), progress.append) == 1
    rows = admin.execute(
        "SELECT content, tags, (SELECT count(*) FROM example_strudels) FROM example_strudels WHERE id = 'example-bossa'"
    ).fetchall()
    assert rows == [('New\nanother\n\ns("bd")', [], 51)]
    assert progress == [1]
