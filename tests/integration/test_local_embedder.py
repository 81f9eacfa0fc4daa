"""The local embedder with its real weights, and corpora that another embedder filled."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.command_line import command_line

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.postgres.embedders import identity, stored_by_table
from worker.adapters.providers import local_model
from worker.adapters.providers.embedder import LexicalEmbedder, make
from worker.adapters.providers.local_embedder import LocalEmbedder
from worker.adapters.providers.local_model import MINILM, read
from worker.cli import corpus_files, sample_vectors
from worker.cli.corpus_files import SAMPLES, CorpusFile
from worker.cli.doctor import examine
from worker.cli.loader import check_embedders, load
from worker.cli.sample_vectors import known, sample_texts
from worker.cli.usage import WrongUsage
from worker.core.text import lexical
from worker.core.text.fingerprint import agree, cosines
from worker.jobs import corpus_embedders
from worker.jobs.context import JobContext
from worker.model import Principal
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.jobs.engine import Engine
    from worker.settings import Settings

LOCAL = EmbedderSettings(kind="local")
TEXTS = [
    "Why is there a low buzz when nobody plays?",
    "Mains interference hums at 50 Hz.",
    "",
    "Größenmaß: −18 dBFS",
    "第十八通道的嗡嗡声",
    "The ferry leaves at noon. " * 30,
]
SILENCE = "why do I hear nothing"


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(LOCAL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The default model as a folder of its own."""
    shutil.copytree(Path(local_model.__file__).parent / "minilm", tmp_path / "model")
    (tmp_path / "model" / "model.onnx").write_bytes(read(LOCAL).weights)
    return tmp_path / "model"


def of(folder: Path) -> LocalEmbedder:
    return LocalEmbedder(EmbedderSettings(kind="local", folder=str(folder)))


def hybrid(engine: Engine, user: str = "", **job: Any) -> dict[str, Any]:
    caller = Principal(settings=(("app.user_id", user),), owner=user) if user else None
    return engine.hybrid.retrieve(parse_job(RetrieveHybrid, {"query": SILENCE, **job}), JobContext(lambda: caller))


# --- vectors --------------------------------------------------------------------------------------


def test_a_text_has_the_same_vector_alone_and_among_others(embedder: LocalEmbedder) -> None:
    """Of unit length, in their order; long, empty and foreign ones too."""
    together = embedder.embed(TEXTS)
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert together.shape == (len(TEXTS), 768)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert (cosines(together, alone) >= 0.9999).all()
    assert not together[:, 384:].any()
    assert embedder.embed([]).shape == (0, 768)


def test_texts_are_near_by_meaning(embedder: LocalEmbedder) -> None:
    """Without a word in common."""
    buzz, hum, ferry = embedder.embed([TEXTS[0], TEXTS[1], TEXTS[-1]], dimensions=384)
    assert buzz @ hum > buzz @ ferry + 0.1


def test_a_long_text_is_cut_and_that_is_said_once(embedder: LocalEmbedder, capsys: pytest.CaptureFixture[str]) -> None:
    """Text behind 32,768 characters counts for nothing; a million take no longer."""
    one = LocalEmbedder(LOCAL)
    start, other = "the buzzing hum " * 2048 + "?", "the buzzing hum " * 2048 + "a ferry in the harbour"
    assert np.array_equal(*one.embed([start, other]))
    assert one.truncated == 2
    assert capsys.readouterr().out.count("text truncated") == 1
    began = time.process_time()
    embedder.embed(["the buzzing hum " * 62_500])
    assert time.process_time() - began < 10


def test_a_long_query_takes_no_longer_than_a_job_can_wait(embedder: LocalEmbedder) -> None:
    """Of one that says all at its beginning, the rest counts for nothing."""
    start = ("the buzzing hum " * 125)[:2000]
    began = time.process_time()
    assert np.array_equal(*embedder.embed([start, start + "a b c d " * 10_000], is_query=True))
    assert time.process_time() - began < 3


def test_a_text_longer_than_the_model_reads_is_found_by_its_end(embedder: LocalEmbedder) -> None:
    """By windows: its vector is the mean of theirs; a short text's is that of the model."""
    start, end = "The desk hums at fifty hertz. " * 30, "The ferry crosses the harbour at noon. " * 30
    both, first, query = embedder.embed([start + end, start, "When does the ferry cross?"])
    assert both @ query > first @ query + 0.2


@pytest.mark.parametrize("lower", [True, False])
def test_a_vocabulary_makes_the_tokens_of_tokenizer_json(folder: Path, embedder: LocalEmbedder, lower: bool) -> None:
    """Older exports have only that."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    words = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word, _ in words))
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    found = cosines(of(folder).embed(TEXTS), embedder.embed(TEXTS))
    assert (found >= 0.9999).all() == lower


def test_queries_and_passages_have_the_models_prefixes(folder: Path, embedder: LocalEmbedder) -> None:
    """They take their room of what the model reads of a text."""
    prompts = {"prompts": {"query": "query: ", "passage": "the passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prefixed = of(folder)
    assert np.array_equal(prefixed.embed(TEXTS[:1], is_query=True), embedder.embed([f"query: {TEXTS[0]}"]))
    assert np.array_equal(prefixed.embed(TEXTS[:1]), embedder.embed([f"the passage: {TEXTS[0]}"]))
    assert np.array_equal(embedder.embed(TEXTS[:1], is_query=True), embedder.embed(TEXTS[:1]))
    assert prefixed.encoder.window == embedder.encoder.window - 3


def test_cls_is_another_pooling(folder: Path, embedder: LocalEmbedder) -> None:
    """So a file that is not read changes vectors."""
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    other = of(folder)
    assert other.name == "model"
    assert other.version != embedder.version
    assert not agree(identity(other, 768).fingerprint, identity(embedder, 768).fingerprint)


@pytest.mark.parametrize(
    ("name", "says"), [("model.onnx", "onnxruntime can't load model"), ("tokenizer.json", "the tokenizer of model")]
)
def test_broken_files_are_refused_when_they_are_loaded(folder: Path, name: str, says: str) -> None:
    """Where no sum is expected of them."""
    (folder / name).write_bytes(b"broken")
    with pytest.raises(SettingsError, match=says):
        of(folder).embed(["a"])


def test_time_that_is_over_ends_it(embedder: LocalEmbedder) -> None:
    """Between two texts; fewer dimensions than the model has are refused."""
    with pytest.raises(Unavailable, match="longer than"):
        embedder.embed(["a", "b"], seconds=1e-9)
    with pytest.raises(SettingsError, match="384 dimensions, more than 100"):
        embedder.embed(["a"], dimensions=100)


# --- the sample's vectors -------------------------------------------------------------------------


def test_the_samples_vectors_are_current(embedder: LocalEmbedder) -> None:
    """`python -m worker.cli.sample_vectors` writes them again, for changed texts or another model."""
    made = json.loads(sample_vectors.FILE.read_text())
    assert (made["name"], made["version"], made["sha256"]) == (embedder.name, embedder.version, embedder.sha256)
    texts = sample_texts()
    assert made["texts"] == [sample_vectors._digest(text) for text in texts]
    some = texts[::5]
    assert (cosines(known(embedder).embed(some), embedder.embed(some)) >= 0.9999).all()


def test_known_texts_need_no_model_and_others_are_embedded(embedder: LocalEmbedder) -> None:
    """In their order; another embedder has none of them."""
    fresh = LocalEmbedder(LOCAL)
    known(fresh).embed(sample_texts())
    assert not fresh._is_loaded
    mixed = [TEXTS[0], sample_texts()[7], TEXTS[1]]
    assert (cosines(known(fresh).embed(mixed), embedder.embed(mixed)) >= 0.9999).all()
    other = LexicalEmbedder()
    assert known(other) is other


# --- the embedder of a corpus ---------------------------------------------------------------------


@pytest.fixture
def by_meaning(admin: psycopg.Connection[Any], embedder: LocalEmbedder) -> None:
    """The sample corpora, loaded by the local embedder."""
    for file in SAMPLES.values():
        load(admin, corpus_files.read(file), known(embedder))


@pytest.mark.usefixtures("by_meaning")
def test_a_corpus_that_another_embedder_filled_is_not_searched_by_text(open_engine: Any) -> None:
    """Both are named; a job that brings its own vector goes on, without the leg of its context."""
    engine = open_engine()
    with pytest.raises(SettingsError, match=r"corpus docs: .*all-MiniLM-L6-v2-int8.* lexical 1") as raised:
        hybrid(engine)
    assert SILENCE not in raised.value.message
    vector = LocalEmbedder(LOCAL).embed([SILENCE])[0].tolist()
    legs = ["primary", "contextual"]
    answer = hybrid(engine, query_embedding=vector, context='sound("bd").fast(2)', legs=legs)
    assert answer["results"]["docs"]["chunks"][0]["chunk_id"] == "docs-debugging-001"
    assert answer["degraded"] == ["contextual"]


@pytest.mark.usefixtures("by_meaning")
def test_full_text_searches_what_another_embedder_filled(open_engine: Any) -> None:
    """It needs no vector of the query: its chunks have no similarity, and their order is that of the right embedder."""
    job: dict[str, Any] = {"query": "sound", "legs": ["sparse"], "searches": [{"corpus": "docs", "top_k": 5}]}
    run = {"subject_id": "s", "run_id": "r"}
    engine = open_engine()
    answer = hybrid(engine, "alice", run=run, **job)
    chunks = answer["results"]["docs"]["chunks"]
    right = hybrid(open_engine(embedder={"kind": "local"}), **job)["results"]["docs"]["chunks"]
    assert [chunk["chunk_id"] for chunk in chunks] == [chunk["chunk_id"] for chunk in right]
    assert {chunk["similarity_score"] for chunk in chunks} == {None} != {chunk["similarity_score"] for chunk in right}
    assert (answer["degraded"], "embedder" in answer["trace"]["models"]) == ([], False)
    assert hybrid(engine, "alice", run=run, **job)["results"] == answer["results"]
    both = hybrid(engine, **{**job, "legs": ["sparse", "contextual"], "context": 'sound("bd")'})
    assert both["degraded"] == ["contextual"]
    with pytest.raises(SettingsError, match=r"corpus docs: "):
        hybrid(engine, **job, fusion="similarity")


@pytest.mark.usefixtures("by_meaning")
def test_the_embedder_that_filled_it_searches_it(open_engine: Any) -> None:
    """Named in the trace, with its version."""
    answer = hybrid(open_engine(embedder={"kind": "local"}), legs=["primary"])
    assert answer["results"]["docs"]["chunks"][0]["chunk_id"] == "docs-debugging-001"
    assert answer["trace"]["models"]["embedder"].startswith("all-MiniLM-L6-v2-int8 ")


def test_another_name_of_the_same_vectors_is_no_other_embedder(open_engine: Any, admin: Any, provider: Any) -> None:
    """Compared by three fixed texts; without a record, by texts of the corpus."""
    settings = {"kind": "openai", "base_url": provider.url, "api_key": "k"}
    assert hybrid(open_engine(embedder=settings))["results"]["docs"]["status"] == "ok"
    provider.embed = lambda texts: lexical.embed([text[::-1] for text in texts]).tolist()
    other = open_engine(embedder=settings)
    with pytest.raises(SettingsError, match=r"lexical 1.*text-embedding-3-small 1"):
        hybrid(other)
    admin.execute("TRUNCATE retrieval.embedders")
    unrecorded = open_engine(embedder=settings)
    with pytest.raises(SettingsError, match=r"not recorded, of 768 dimensions.*text-embedding-3-small 1"):
        hybrid(unrecorded)
    provider.embed = lambda texts: lexical.embed(texts).tolist()
    assert hybrid(open_engine(embedder=settings))["results"]["docs"]["status"] == "ok"


@pytest.mark.usefixtures("by_meaning")
def test_without_a_record_another_model_is_refused_and_the_same_one_searches(open_engine: Any, admin: Any) -> None:
    """The same one searches with any text embedded beside; a corpus without vectors is searched by any embedder."""
    admin.execute("TRUNCATE retrieval.embedders")
    with pytest.raises(SettingsError, match=r"corpus docs: .*not recorded, of 384 dimensions.* lexical 1"):
        hybrid(open_engine())
    assert hybrid(open_engine(embedder={"kind": "local"}))["results"]["docs"]["status"] == "ok"
    admin.execute("UPDATE doc_embeddings SET content = 'search_document: Manual > ' || left(content, 120)")
    assert hybrid(open_engine(embedder={"kind": "local"}))["results"]["docs"]["status"] == "ok"
    admin.execute("UPDATE doc_embeddings SET embedding = NULL")
    searches = [{"corpus": "docs", "top_k": 5}]
    assert hybrid(open_engine(), searches=searches, legs=["primary"])["results"]["docs"]["status"] == "empty"


@pytest.mark.usefixtures("by_meaning")
def test_a_corpus_that_is_not_compared_is_searched_by_any_embedder(
    open_engine: Any, settings: Settings, admin: Any
) -> None:
    """With a record of another embedder, and without one."""
    corpora = {name: one.model_copy(update={"compare_embedder": False}) for name, one in settings.corpora.items()}
    assert hybrid(open_engine(corpora=corpora))["results"]["docs"]["status"] == "ok"
    admin.execute("TRUNCATE retrieval.embedders")
    assert hybrid(open_engine(corpora=corpora))["results"]["docs"]["status"] == "ok"


@pytest.mark.usefixtures("by_meaning")
def test_rows_without_text_do_not_stand_for_those_with_text(open_engine: Any, admin: Any) -> None:
    """Were they sampled, they would leave nothing to compare."""
    admin.execute("TRUNCATE retrieval.embedders")
    admin.execute(
        "UPDATE doc_embeddings SET content = E' \\n' WHERE id IN (SELECT id FROM doc_embeddings ORDER BY id LIMIT 8)"
    )
    with pytest.raises(SettingsError, match=r"corpus docs: .*not recorded, of 384 dimensions"):
        hybrid(open_engine(), searches=[{"corpus": "docs", "top_k": 5}])


@pytest.mark.usefixtures("by_meaning")
def test_a_table_that_is_embedded_again_is_refused_until_it_is_done(open_engine: Any, admin: Any) -> None:
    """Half way, by either model, wherever the half is in the order of ids."""
    admin.execute("TRUNCATE retrieval.embedders")
    job: Any = {"searches": [{"corpus": "docs", "top_k": 5}]}
    rows = admin.execute("SELECT id, content FROM doc_embeddings ORDER BY id").fetchall()
    ids, texts = zip(*rows, strict=True)
    half = len(ids) // 2
    for some in (slice(half), slice(half, None)):
        for one, vector in zip(ids[some], lexical.embed(texts[some]), strict=True):
            admin.execute("UPDATE doc_embeddings SET embedding = %s WHERE id = %s", [str(vector.tolist()), one])
        if some.start is None:
            for kind in ("lexical", "local"):
                with pytest.raises(SettingsError, match=r"corpus docs: .*not recorded"):
                    hybrid(open_engine(embedder={"kind": kind}), **job)
    assert hybrid(open_engine(), **job)["results"]["docs"]["status"] == "ok"


def test_a_query_from_the_shell_is_compared_with_the_record(
    worker_environment: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the shell has a database; a database that is away from there says nothing of the worker's."""
    local = worker_environment(EMBEDDER__KIND="local")
    typed = command_line(capsys, {**local, "CELERY_BROKER_URL": "redis://127.0.0.1:1/0"})
    ask = ("query", "hum", "--as", "alice", "--timeout", "1")
    refused = typed(*ask)
    assert refused.returncode == 78
    assert "the corpus documents: its vectors were made by the embedder lexical 1" in refused.stderr
    for elsewhere in ("postgresql://x@127.0.0.1:1/x", ""):
        asked = typed(*ask, DATABASE_CONNECTION_STRING=elsewhere)
        assert (asked.returncode, "corpus documents" in asked.stderr) == (69, False)


def test_a_caller_who_sees_few_rows_decides_nothing(open_engine: Any, admin: Any) -> None:
    """The next caller's rows are compared at once."""
    admin.execute("TRUNCATE retrieval.embedders")
    admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'alice', tenant_id = NULL")
    (document,) = admin.execute(
        "SELECT document_id FROM document_chunks GROUP BY 1 HAVING count(*) > 3 ORDER BY 1 LIMIT 1"
    ).fetchone()
    admin.execute("UPDATE documents SET owner_id = 'newcomer' WHERE id = %s", [document])
    admin.execute(
        "DELETE FROM document_chunks WHERE document_id = %(one)s AND id NOT IN"
        " (SELECT id FROM document_chunks WHERE document_id = %(one)s ORDER BY id LIMIT 3)",
        {"one": document},
    )
    engine = open_engine(embedder={"kind": "local"})
    job: Any = {"searches": [{"corpus": "documents", "top_k": 5}]}
    assert hybrid(engine, "nobody", **job)["results"]["documents"]["status"] == "empty"
    assert len(hybrid(engine, "newcomer", **job)["results"]["documents"]["chunks"]) == 3
    with pytest.raises(SettingsError, match=r"corpus documents: .*not recorded"):
        hybrid(engine, "alice", **job)


def own_chunks(admin: Any, owner: str, texts: list[str], vectors: Any) -> None:
    """Leave every document to alice but one of this owner, with these chunks."""
    admin.execute("TRUNCATE retrieval.embedders")
    admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'alice'")
    admin.execute("INSERT INTO documents (id, owner_id) VALUES (%(owner)s, %(owner)s)", {"owner": owner})
    for n, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        admin.execute(
            "INSERT INTO document_chunks (id, document_id, text_content, embedding) VALUES (%s, %s, %s, %s)",
            [f"{owner}-{n}", owner, text, str(vector.tolist())],
        )


def is_refused(engine: Engine, user: str) -> bool:
    """Return whether a text query of a user is refused for the rows that it sees."""
    try:
        hybrid(engine, user, searches=[{"corpus": "documents", "top_k": 5}])
    except SettingsError as error:
        return "not recorded" in error.message
    return False


def test_a_callers_rows_decide_for_that_caller(open_engine: Any, admin: Any) -> None:
    """Whoever asks first: rows of another model refuse the one who sees them, and nobody else."""
    texts = [f"the pump {verb} twice" for verb in ("hums", "rattles", "leaks", "stops", "floods")]
    own_chunks(admin, "mallory", texts, -lexical.embed(texts))
    for order in (("mallory", "alice"), ("alice", "mallory")):
        engine = open_engine()
        seen = [(user, is_refused(engine, user)) for user in order * 2]
        assert {*seen} == {("mallory", True), ("alice", False)}


def test_texts_that_begin_alike_tell_nothing_of_the_embedder(open_engine: Any, admin: Any) -> None:
    """Only their beginning is compared, and their vectors are of the whole."""
    notice = "This notice stands before every part of the manual. " * 40
    texts = [notice + " ".join(f"part{n}x{i}" for i in range(500)) for n in range(10)]
    own_chunks(admin, "tenant", texts, lexical.embed(texts))
    engine = open_engine()
    assert [is_refused(engine, user) for user in ("tenant", "alice")] == [False, False]


def test_verdicts_of_callers_are_bounded(open_engine: Any, admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller who asked longest ago is compared again."""
    monkeypatch.setattr(corpus_embedders, "MOST_CALLERS", 2)
    admin.execute("TRUNCATE retrieval.embedders")
    engine = open_engine()
    for user in ("alice", "bob", "alice", "carol"):
        hybrid(engine, user, searches=[{"corpus": "documents", "top_k": 5}])
    kept = [dict(settings)["app.user_id"] for _, settings in engine.hybrid._embeddings._filled._verdicts]
    assert kept == ["alice", "carol"]


@pytest.mark.usefixtures("by_meaning")
def test_a_sample_is_compared_once(open_engine: Any, admin: Any, provider: Any) -> None:
    """In one call for a corpus; the jobs after it pay nothing, and an embedder that is away is no other one."""
    admin.execute("TRUNCATE retrieval.embedders")
    asked: list[int] = []
    model = LocalEmbedder(LOCAL)

    def embed(texts: list[str]) -> list[list[float]]:
        asked.append(len(texts))
        return model.embed(texts).tolist()

    provider.embed = embed
    url = {"kind": "openai", "base_url": provider.url, "api_key": "k"}
    searches = [{"corpus": "docs", "top_k": 5}]
    engine = open_engine(embedder=url)
    for _ in range(3):
        hybrid(engine, searches=searches)
    assert asked == [8, 1, 1, 1]
    away = open_engine(embedder=url | {"base_url": "http://127.0.0.1:9"})
    with pytest.raises(Unavailable):
        hybrid(away, searches=searches)


def test_a_sample_holds_only_what_its_caller_may_see(open_engine: Any, admin: Any) -> None:
    """So one caller's rows decide nothing by rows of others."""
    engine = open_engine()
    sample = engine.hybrid._embeddings._filled._sample
    callers = {name: Principal(settings=(("app.user_id", name),)) for name in ("alice", "")}
    rows = {name: len(sample("documents", caller, 5.0).texts) for name, caller in callers.items()}
    admin.execute("UPDATE documents SET visibility = 'private'")
    rows["hidden"] = len(sample("documents", callers[""], 5.0).texts)
    assert rows["alice"] == 8
    assert rows["hidden"] == 0


def test_a_view_is_as_the_table_below_it(
    open_engine: Any, settings: Settings, admin: psycopg.Connection[Any], embedder: LocalEmbedder
) -> None:
    """A view that renames its columns is refused for the model that filled its table, as the table is."""
    load(admin, corpus_files.read(SAMPLES["docs"]), known(embedder))
    admin.execute("CREATE VIEW manual WITH (security_invoker) AS SELECT *, embedding AS vec FROM doc_embeddings")
    admin.execute("GRANT SELECT ON manual TO retrieval_worker")
    docs = settings.corpora["docs"].model_dump()
    docs |= {"table": "public.manual", "columns": docs["columns"] | {"embedding": "vec"}}
    engine = open_engine(corpora={"docs": docs}, hybrid={"searches": {"docs": 5}})
    with pytest.raises(SettingsError, match="all-MiniLM"):
        hybrid(engine)


def test_files_do_not_mix_their_vectors_with_those_of_another_embedder(
    admin: psycopg.Connection[Any], embedder: LocalEmbedder
) -> None:
    """Unless they replace every row; nothing is written."""
    files = [corpus_files.read(SAMPLES["docs"])]
    check_embedders(admin, files, embedder)
    some = [CorpusFile("docs", files[0].items[:3])]
    check_embedders(admin, some, LexicalEmbedder())
    with pytest.raises(WrongUsage, match=r"docs has rows .* lexical 1"):
        check_embedders(admin, some, embedder)
    load(admin, files[0], known(embedder))
    assert stored_by_table(admin)["public.doc_embeddings"].name == embedder.name


def test_the_doctor_compares_what_is_recorded(
    settings: Settings, make_settings: Callable[..., Settings], database: str
) -> None:
    """And says what the local model takes."""
    said = [one for one in examine(settings) if "vectors" in one.text]
    assert [one.level for one in said] == ["ok"] * 3
    local = examine(make_settings(database, embedder={"kind": "local"}))
    differ = [one for one in local if "vectors" in one.text]
    assert [one.level for one in differ] == ["problem"] * 3
    assert all("lexical 1" in one.text and "all-MiniLM-L6-v2-int8" in one.text for one in differ)
    (loaded,) = [one.text for one in local if one.subject == "embedder"]
    assert "loaded in" in loaded
    assert "MB in each worker process" in loaded


def test_the_doctor_compares_stored_texts_where_nothing_is_recorded(
    settings: Settings, make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """By a sample of rows, with the columns that are joined to them, as far as they are seen without a caller."""

    def said(of: Settings) -> dict[str, tuple[str, str]]:
        return {one.subject: (one.level, one.text) for one in examine(of) if "vectors" in one.text}

    admin.execute("TRUNCATE retrieval.embedders")
    by_words = said(settings)
    assert {level for level, _ in by_words.values()} == {"ok"}
    local = said(make_settings(database, embedder={"kind": "local"}))
    assert local["corpus docs"][0] == "problem"
    assert "not recorded, of 768 dimensions" in local["corpus docs"][1]
    assert "all-MiniLM-L6-v2-int8" in local["corpus docs"][1]
    admin.execute("UPDATE documents SET visibility = 'private'")
    assert "no row with text and vector is visible" in said(settings)["corpus documents"][1]
    admin.execute("UPDATE doc_embeddings SET content = left(content, length(content) / 2)")
    assert "name its columns in embed_with" in said(settings)["corpus docs"][1]


def test_the_default_model_is_the_package() -> None:
    """So the demo, `up` and a worker with `kind = "local"` need no other setting."""
    assert LOCAL.folder == MINILM
    assert isinstance(make(LOCAL), LocalEmbedder)
