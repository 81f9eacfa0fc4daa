"""Corpora of other than 768 dimensions, as their settings say."""

from __future__ import annotations

import contextlib
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import ask as ask_pipeline
from tests.integration.asking import asker

from retrieval_client import encode_embedding
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.errors import InvalidJob, SettingsError
from worker.adapters.postgres.database import check
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.doctor import examine
from worker.cli.loader import load, migrate
from worker.cli.usage import WrongUsage
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.settings import Settings, read_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

WORDS = ["pump", "valve", "hose", "filter", "gauge", "motor", "belt", "seal", "tank", "fan", "rod", "cap", "nut"]
COLUMNS = {"id": "id", "document_id": "id", "text": "text", "embedding": "embedding"}


@pytest.fixture
def corpora(admin: psycopg.Connection[Any]) -> dict[str, Any]:
    """A corpus of 5 and one of 1,024 dimensions, both public, beside the shipped ones of 768."""
    for name, size in {"few": 5, "many": 1024}.items():
        admin.execute(
            f"CREATE TABLE {name} (id text PRIMARY KEY, text text NOT NULL, embedding vector({size}) NOT NULL)".encode()
        )
        admin.execute(f"GRANT SELECT ON {name} TO retrieval_worker".encode())
        for word, vector in zip(WORDS, lexical.embed(WORDS, size), strict=True):
            admin.execute(
                f"INSERT INTO {name} VALUES (%s, %s, %s::vector)".encode(), (word, word, str(vector.tolist()))
            )
    made = {
        name: {"table": f"public.{name}", "columns": COLUMNS, "public": True, "dimensions": size}
        for name, size in {"few": 5, "many": 1024}.items()
    }
    return {**made, **read_values()["corpora"]}


@pytest.fixture
def few_settings(make_settings: Callable[..., Settings], database: str, corpora: dict[str, Any]) -> Settings:
    modes = {"tools": {"corpora": {"many": 0}, "profile": "fast", "instructions": "Answer."}}
    return make_settings(database, corpora=corpora, modes=modes, profiles={"fast": {"legs": [{}]}})


@pytest.fixture
def engine(few_settings: Settings) -> Iterator[Engine]:
    made = Engine(few_settings, time.perf_counter)
    yield made
    made.close()


def top_k(engine: Engine, **fields: Any) -> dict[str, Any]:
    return engine.retrieval.top_k(parse_job(RetrieveTopK, fields), JobContext(lambda: asker("alice")))


def hybrid(engine: Engine, **fields: Any) -> dict[str, Any]:
    return engine.hybrid.retrieve(parse_job(RetrieveHybrid, fields), JobContext(lambda: asker("alice")))


@pytest.mark.parametrize(("corpus", "size"), [("few", 5), ("many", 1024), ("docs", 768)])
def test_a_query_has_as_many_numbers_as_its_corpus(engine: Engine, corpus: str, size: int) -> None:
    """As a list and as base64, alone and in a batch; every other count is refused, with both counts."""
    query = lexical.embed(["pump"], size)[0].tolist()
    alone = top_k(engine, query_embedding=query, corpus=corpus)["chunks"]
    assert alone
    assert corpus == "docs" or alone[0]["chunk_id"] == "pump"
    assert top_k(engine, query_embedding=encode_embedding(query), corpus=corpus)["chunks"] == alone
    batch = top_k(engine, query_embeddings=[query, query[1:], encode_embedding(query)], corpus=corpus)["results"]
    assert (batch[0]["chunks"], batch[2]["chunks"]) == (alone, alone)
    assert batch[1]["error"]["path"] == "query_embeddings[1]"
    for wrong in (query[1:], [*query, 0.5]):
        with pytest.raises(InvalidJob, match=f"query_embedding: expected exactly {size} finite numbers, got") as error:
            top_k(engine, query_embedding=wrong, corpus=corpus)
        assert str(len(wrong)) in str(error.value)
        with pytest.raises(InvalidJob, match=f"expected base64 of {size} little-endian float32"):
            top_k(engine, query_embedding=encode_embedding(wrong), corpus=corpus)


def test_a_recorded_query_of_another_size_is_replayed(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """The record has its numbers; the replay needs none."""
    run = {"subject_id": "s", "run_id": "r"}
    first = top_k(engine, query_embedding=[0.5, 1, 0, -1, 2], corpus="few", run=run)
    again = top_k(engine, query_embedding=[0.5, 1, 0, -1, 2], corpus="few", run=run)
    assert first["chunks"] == again["chunks"] != []
    job = parse_job(PinnedReplay, {"run": run})
    assert engine.replay.pinned(job, JobContext(lambda: asker("alice")))["matched"] == len(first["chunks"])
    assert admin.execute("SELECT length(query_embedding) FROM retrieval.run_records").fetchone() == (4 * 5,)


def test_text_is_embedded_in_the_dimensions_of_its_corpora(engine: Engine) -> None:
    """In hybrid retrieval with and without an embedding of the job's own, and in the pipeline."""
    searches = [{"corpus": "many", "top_k": 3}]
    by_text = hybrid(engine, query="pump", context="valve", searches=searches, legs=["primary", "contextual", "sparse"])
    assert by_text["results"]["many"]["chunks"][0]["chunk_id"] == "pump"
    query = lexical.embed(["hose"], 1024)[0].tolist()
    own = hybrid(engine, query="pump", query_embedding=query, searches=searches)
    assert own["results"]["many"]["chunks"][0]["chunk_id"] == "hose"
    assert ask_pipeline(engine, question="pump", mode="tools")["package"]["candidates"][0]["chunk_id"] == "pump"


def test_one_search_reads_corpora_of_one_size(engine: Engine) -> None:
    """No embedding fits two sizes; the refusal names the search that differs."""
    searches = [{"corpus": "docs"}, {"corpus": "many"}]
    expected = r"searches\[1\].corpus: expected corpora of as many dimensions as docs has \(768\), got 1024"
    with pytest.raises(InvalidJob, match=expected):
        hybrid(engine, query="pump", searches=searches)
    with pytest.raises(InvalidJob, match=expected):
        ask_pipeline(engine, question="pump", mode="tools", searches=searches)


@pytest.mark.parametrize("index", ["vector", "halfvec"])
def test_an_index_of_another_size_is_used(
    make_settings: Callable[..., Settings],
    database: str,
    corpora: dict[str, Any],
    admin: psycopg.Connection[Any],
    index: str,
) -> None:
    """Over the column itself, or over its halfvec."""
    indexed = {"vector": "embedding vector_cosine_ops", "halfvec": "(embedding::halfvec(5)) halfvec_cosine_ops"}[index]
    admin.execute(f"CREATE INDEX ON few USING hnsw ({indexed})".encode())
    admin.execute("ANALYZE few")
    settings = make_settings(database, corpora={"few": corpora["few"]}, search={"exact_rows": 0})
    engine = Engine(settings, time.perf_counter)
    try:
        query = lexical.embed(["pump"], 5)[0].tolist()
        found = top_k(engine, query_embedding=query)
        assert found["chunks"] == top_k(engine, query_embedding=query, exact=True)["chunks"]
    finally:
        engine.close()


def test_a_column_of_another_size_than_the_setting_stops_the_start(
    make_settings: Callable[..., Settings], database: str, corpora: dict[str, Any]
) -> None:
    """The message names both sizes and the setting."""
    settings = make_settings(database, corpora={"few": {**corpora["few"], "dimensions": 6}})
    expected = r"embedding is vector\(5\), expected vector\(6\) or halfvec\(6\).*corpora.few.dimensions"
    with pytest.raises(SettingsError, match=expected):
        check(settings)


def test_advice_is_in_the_dimensions_of_the_corpus(
    make_settings: Callable[..., Settings], database: str, corpora: dict[str, Any]
) -> None:
    """The index that `doctor` proposes can be created."""
    settings = make_settings(database, corpora={"few": corpora["few"]})
    texts = [finding.text for finding in examine(settings)]
    assert any("(embedding::public.halfvec(5)) public.halfvec_cosine_ops" in text for text in texts)
    assert not any("halfvec(768)" in text for text in texts)


def test_a_mode_of_two_sizes_stops_the_start(
    make_settings: Callable[..., Settings], database: str, corpora: dict[str, Any]
) -> None:
    """No question of it could be answered."""
    modes = {"tools": {"corpora": {"few": 0, "many": 0}, "profile": "fast", "instructions": "Answer."}}
    with pytest.raises(SettingsError, match=r"modes.tools.corpora: .* many has 1024 dimensions, few 5"):
        make_settings(database, corpora=corpora, modes=modes, profiles={"fast": {"legs": [{}]}})


@pytest.mark.parametrize(("size", "column"), [(5, "vector(5)"), (1536, "vector(1536)"), (3072, "halfvec(3072)")])
def test_the_reference_schema_has_the_dimensions_asked_for(
    make_settings: Callable[..., Settings], admin: psycopg.Connection[Any], database: str, size: int, column: str
) -> None:
    """Files are loaded and found in them, and a later `migrate` keeps them."""
    admin.execute("DROP TABLE document_grants, document_chunks, documents, doc_embeddings, example_strudels CASCADE")
    migrate(admin, dimensions=size)
    migrate(admin)
    with pytest.raises(WrongUsage, match=rf"--dimensions 9: .* holds embeddings of {size} dimensions"):
        migrate(admin, dimensions=9)
    load(admin, read(SAMPLES["docs"]), LexicalEmbedder())
    kind = admin.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'doc_embeddings'::regclass AND attname = 'embedding'"
    ).fetchone()
    assert kind == (column,)
    reference = {name: {**corpus, "dimensions": size} for name, corpus in read_values()["corpora"].items()}
    settings = make_settings(database, corpora=reference, search={"exact_rows": 0})
    with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
        query = lexical.embed(["delay"], size)[0].tolist()
        found = top_k(engine, query_embedding=query, corpus="docs")
        assert found["trace"]["search"]["method"] == "index"
        assert found["chunks"] == top_k(engine, query_embedding=query, corpus="docs", exact=True)["chunks"] != []
    advice = [one.text for one in examine(settings) if one.subject == "corpus docs" and one.level == "advice"]
    assert not [text for text in advice if "index" in text or "in line" in text]


@pytest.mark.parametrize(
    ("size", "advice"),
    [(2500, "no HNSW index by cosine distance over all its rows: CREATE"), (4500, "no HNSW index holds 4,500")],
)
def test_dimensions_that_no_index_holds_are_named(
    make_settings: Callable[..., Settings],
    admin: psycopg.Connection[Any],
    database: str,
    size: int,
    advice: str,
) -> None:
    """With the index that does, or that there is none; what is advised can be done."""
    admin.execute(f"CREATE TABLE wide (id text PRIMARY KEY, text text, embedding vector({size}))".encode())
    admin.execute("GRANT SELECT ON wide TO retrieval_worker")
    wide = {"table": "wide", "columns": COLUMNS, "public": True, "dimensions": size}
    settings = make_settings(database, corpora={"wide": wide})
    (said,) = [one.text for one in examine(settings) if advice in one.text]
    if size <= 4000:
        admin.execute(re.findall("CREATE INDEX [^;]+", said)[0].encode())
        assert not [one for one in examine(settings) if "HNSW" in one.text]
