"""Questions and corpora that are not of the embedder's languages: said in answers, and by `doctor` and `load`."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.command_line import command_line
from tests.integration.asking import ask

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from worker.adapters.providers.local_embedder import LocalEmbedder, misreads
from worker.cli import corpus_files
from worker.cli.corpus_files import SAMPLES
from worker.cli.loader import load
from worker.cli.sample_vectors import known
from worker.core.ranking.fusion import MISREAD, PRIMARY_WEIGHT
from worker.core.text.legibility import is_foreign_corpus
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.query_embeddings import LanguageCheck
from worker.settings.providers import DEFAULT_MODEL, USUAL_SIMILARITIES, EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

    from workbench.devstack.stack import Stack
    from worker.adapters.providers.local_embedder import Encoder
    from worker.settings import Settings

LOCAL = EmbedderSettings(kind="local")
USUAL = USUAL_SIMILARITIES[DEFAULT_MODEL]
ENGLISH = "Why is there a low buzz when nobody plays?"
GERMAN = "Warum brummt der Verstärker leise, wenn niemand spielt?"
PARAGRAPH = (
    "Brummen entsteht meistens durch Netzeinstreuungen. Prüfen Sie zuerst die Masseverbindung des Verstärkers und "
    "verlegen Sie Signalleitungen nicht neben Stromkabeln."
)
FOREIGN = (
    GERMAN,
    "Почему усилитель тихо гудит, когда никто не играет?",
    "为什么没有人演奏时放大器会发出低沉的嗡嗡声？",
    "Dlaczego wzmacniacz cicho buczy, kiedy nikt nie gra?",
    "Kimse çalmazken amplifikatör neden hafifçe uğuldar?",
)
LEGIBLE = (
    ENGLISH,
    "What did Temüjin's patron Toghrul ask of Ludwig Mies van der Rohe?",
    "kubectl get pods -n kube-system --field-selector=status.phase!=Running",
    "hnsw ef_search pgvector",
    "hypophysectomized rats and the catecholamine content of the adrenal glands",
    'psycopg.errors.UndefinedTable: relation "chunks" does not exist at getElementById (index.js:33:7)',
    "2026-11-12T10:14:03Z ERROR [pool-3] c.e.p.OrderSvc - txn 8f3c9ab2 aborted: deadlock detected",
    "detuned saws",
    "",
)


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(LOCAL)


@pytest.fixture
def engine(
    admin: psycopg.Connection[Any], embedder: LocalEmbedder, make_settings: Callable[..., Settings], database: str
) -> Any:
    """The sample corpora, loaded and searched by the local embedder."""
    for file in SAMPLES.values():
        load(admin, corpus_files.read(file), known(embedder))
    opened = Engine(make_settings(database, embedder={"kind": "local"}), time.perf_counter)
    yield opened
    opened.close()


def hybrid(engine: Engine, query: str, **job: Any) -> dict[str, Any]:
    wanted = {"query": query, "searches": [{"corpus": "docs", "top_k": 5}], **job}
    return engine.hybrid.retrieve(parse_job(RetrieveHybrid, wanted), JobContext(lambda: None))


def pipeline(engine: Engine, question: str) -> dict[str, Any]:
    return ask(engine, question=question, profile="dense", searches=[{"corpus": "docs", "top_k": 5}])


@pytest.mark.parametrize("text", FOREIGN)
def test_another_language_is_noticed(embedder: LocalEmbedder, text: str) -> None:
    """By the pieces into which the model's vocabulary splits its words."""
    assert misreads(embedder, text)


@pytest.mark.parametrize("text", LEGIBLE)
def test_names_terms_code_and_logs_are_english(embedder: LocalEmbedder, text: str) -> None:
    """So are texts of too few words."""
    assert not misreads(embedder, text)


def test_the_sample_is_english(embedder: LocalEmbedder) -> None:
    """Every item of it, code included."""
    texts = [text for file in SAMPLES.values() for item in corpus_files.read(file).items for _, text in item.to_embed()]
    assert not is_foreign_corpus([misreads(embedder, text) for text in texts])


def test_a_foreign_question_degrades_the_answer(engine: Engine) -> None:
    """Named in the trace; a vector of the job's own is no affair of the embedder."""
    answer = hybrid(engine, GERMAN)
    assert answer["degraded"] == ["embedder_language"]
    (counts,) = [stage["counts"] for stage in answer["trace"]["stages"] if stage["stage"] == "fuse"]
    assert counts == {"misread_question": 1}
    assert hybrid(engine, ENGLISH)["degraded"] == []
    assert hybrid(engine, GERMAN, legs=["sparse"], fusion="rrf")["degraded"] == []
    vector = [1.0] + [0.0] * 767
    assert hybrid(engine, GERMAN, query_embedding=vector)["degraded"] == []


def test_a_job_reads_each_text_once_for_its_language() -> None:
    """Though it asks for every leg and corpus, and again of what it answers."""
    texts: list[str] = []

    class German:
        def misreads(self, text: str) -> bool:
            texts.append(text)
            return True

    embedder = LocalEmbedder(LOCAL)
    embedder.encoder = cast("Encoder", German())
    language = LanguageCheck(embedder, GERMAN, USUAL)
    assert [language.usual([PARAGRAPH]) for _ in range(2)] == [USUAL * MISREAD] * 2
    assert language.misread([PARAGRAPH]) == ["question", "chunks"]
    assert sorted(texts) == sorted([GERMAN, PARAGRAPH])


def test_similarities_to_a_foreign_text_count_less(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """By the usual deviation, which is wider for a question or a corpus of another language; words decide more."""
    assert deviation(engine, ENGLISH) == pytest.approx(USUAL)
    assert deviation(engine, GERMAN) == pytest.approx(USUAL * MISREAD)
    admin.execute("UPDATE doc_embeddings SET content = %s || ' ' || id", (PARAGRAPH,))
    assert deviation(engine, ENGLISH) == pytest.approx(USUAL * MISREAD)


def deviation(engine: Engine, question: str) -> float:
    """The deviation by which an answer's similarities were divided."""
    first, second, *_ = hybrid(engine, question, legs=["primary"])["results"]["docs"]["chunks"]
    nearer = first["similarity_score"] - second["similarity_score"]
    return float(PRIMARY_WEIGHT * nearer / (first["scores"]["fused"] - second["scores"]["fused"]))


def test_a_foreign_corpus_degrades_the_answer(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """By the nearest chunks, whatever the question's language."""
    admin.execute("UPDATE doc_embeddings SET content = %s || ' ' || id", (PARAGRAPH,))
    answer = hybrid(engine, ENGLISH)
    assert answer["degraded"] == ["embedder_language"]
    assert pipeline(engine, ENGLISH)["degraded"] == ["embedder_language"]


def test_the_pipeline_says_which_is_foreign(engine: Engine) -> None:
    """Among its warnings."""
    answer = pipeline(engine, GERMAN)
    assert answer["degraded"] == ["embedder_language"]
    (warning,) = answer["trace"]["warnings"]
    assert warning.startswith("embed: not of the languages of all-MiniLM-L6-v2-int8 ")
    assert warning.endswith(": question")
    assert pipeline(engine, ENGLISH)["degraded"] == []


def test_load_counts_foreign_chunks(
    stack: Stack, database: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, admin: psycopg.Connection[Any]
) -> None:
    """By corpus; an English one is not named."""
    admin.execute("DELETE FROM public.document_chunks")
    typed = command_line(capsys, {"MIGRATION_CONNECTION_STRING": stack.postgres.dsn(database)})
    told = {}
    for name, text in (("english", "Mains interference hums at fifty hertz in every cable."), ("german", PARAGRAPH)):
        chunks = [{"id": f"{name}-{number}", "text": f"{text} {number}"} for number in range(4)]
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"id": name, "owner": "zoe", "chunks": chunks}) + "\n")
        load_it = ("load", str(tmp_path / f"{name}.jsonl"), "--dry-run")
        report = json.loads(typed(*load_it, "--json", RETRIEVAL_WORKER_EMBEDDER__KIND="local").stdout)
        told[name] = report["not_of_the_embedders_languages"]
        printed = typed(*load_it, RETRIEVAL_WORKER_EMBEDDER__KIND="local").stdout
        assert ("4 documents chunks are not of the embedder's languages" in printed) is (name == "german")
    assert told == {"english": {}, "german": {"documents": 4}}
