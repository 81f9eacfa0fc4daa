"""The cache of `retrieve_hybrid`, on a real Postgres and a real Redis."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import threading
import time
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson
import psycopg
import pytest
from tests.integration.asking import CALLERS
from tests.waiting import PATIENCE

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.contract.results import Hybrid
from retrieval_client.errors import SettingsError, Unavailable
from workbench.devstack.redis import redis_server
from workbench.devstack.stack import local_stack
from worker.adapters.postgres.versions import version
from worker.adapters.redis_cache import LARGEST, PREFIX
from worker.cli.loader import migrate
from worker.core.text import lexical
from worker.jobs.cache import REST_SECONDS
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal
from worker.settings import CONFIG_VARIABLE, from_values
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from workbench.devstack.stack import Stack
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]


class Running(NamedTuple):
    """An engine, and the settings that it was made from."""

    engine: Engine
    settings: Settings


Start: TypeAlias = "Callable[..., Running]"

ON = {"tasks": ["retrieve_hybrid"]}
ALICE = {"user_id": "alice"}
EDITOR = 'sound("bd").fast(2)'
SEARCHES = [{"corpus": "documents", "top_k": 9}, {"corpus": "docs", "top_k": 4}]
NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def start(make_settings: MakeSettings, database: str, broker: redis.Redis) -> Iterator[Start]:
    """Starts engines with a cache, on an emptied Redis, with the changes of settings given."""
    del broker
    with contextlib.ExitStack() as opened:

        def make(cache: dict[str, Any] | None = None, **changes: Any) -> Running:
            settings = make_settings(database, cache={**ON, **(cache or {})}, **changes)
            running = Running(Engine(settings, time.perf_counter), settings)
            opened.callback(running.engine.close)
            return running

        yield make


@pytest.fixture
def running(start: Start) -> Running:
    return start()


def ask(running: Running, claims: dict[str, Any] | None = ALICE, **fields: Any) -> dict[str, Any]:
    job = parse_job(RetrieveHybrid, {"query": "phantom power of a microphone", "searches": SEARCHES, **fields})
    asker = as_principal(claims, running.settings, "principal") if claims else None
    answer = running.engine.hybrid.retrieve(job, JobContext(lambda: asker))
    Hybrid.model_validate(json.loads(json.dumps(answer)))
    return answer


def without_trace(answer: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in answer.items() if name != "trace"})


def state(answer: dict[str, Any]) -> str | None:
    reported: str | None = answer["trace"]["cache"]
    return reported


def ids(answer: dict[str, Any], corpus: str = "documents") -> list[str]:
    return [chunk["chunk_id"] for chunk in answer["results"][corpus]["chunks"]]


def entries(store: redis.Redis) -> list[bytes]:
    return sorted(store.scan_iter(f"{PREFIX}-*"))


def warnings(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in "".join(capfd.readouterr()).splitlines() if "cache" in line]


# --- a hit is the same answer -------------------------------------------------------------------

JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "with context": {"context": EDITOR},
    "all legs, weighted": {
        "context": EDITOR,
        "legs": ["primary", "contextual", "sparse"],
        "fusion": "weighted",
        "transform": "glossary",
    },
    "full text only": {"legs": ["sparse"], "query": "microphone"},
    "ranks and diversity": {"context": EDITOR, "fusion": "rrf", "diversity": {"lambda": 0.5, "per_document": 2}},
    "filtered, and short": {"searches": [{**SEARCHES[0], "filters": {"document_ids": ["handbook-safety"]}}]},
    "empty": {"searches": [{**SEARCHES[0], "filters": {"document_ids": []}}]},
    "other fusion": {"searches": SEARCHES[::-1], "fusion": "weighted", "weights": {"primary": 1}},
    "with an embedding": {"query_embedding": lexical.embed(["compressor"])[0].tolist(), "context": EDITOR},
}


@pytest.mark.parametrize("fields", JOBS.values(), ids=JOBS.keys())
def test_a_hit_is_the_answer_of_the_miss_but_for_its_trace(running: Running, fields: dict[str, Any]) -> None:
    """Byte for byte; the trace says so, names the same models, and nothing was embedded or searched."""
    first, second = ask(running, **fields), ask(running, **fields)
    assert (state(first), state(second)) == ("miss", "hit")
    assert without_trace(second) == without_trace(first)
    assert second["trace"]["models"] == first["trace"]["models"]
    assert second["trace"]["search"] == {"method": "cache"}
    assert [stage["stage"] for stage in second["trace"]["stages"]] == ["transform", "cache"]


def test_jobs_that_differ_in_anything_have_entries_of_their_own(running: Running, store: redis.Redis) -> None:
    """Each field that can change an answer is in the key."""
    plain: dict[str, Any] = {"query": "a microphone", "context": EDITOR}
    filters: list[dict[str, Any]] = [{"document_ids": []}, {"document_ids": ["handbook-safety"]}, {"sections": []}]
    jobs: list[dict[str, Any]] = [
        {},
        {"query": "a cable"},
        {"context": "note('c')"},
        {"query_embedding": lexical.embed(["compressor"])[0].tolist()},
        {"legs": ["primary"]},
        {"legs": ["primary", "contextual"]},
        {"fusion": "similarity"},
        {"rrf_k": 1},
        {"fusion": "rrf", "weights": {"primary": 2}},
        {"diversity": {"lambda": 0.5}},
        {"diversity": {"lambda": 0.5, "per_document": 1}},
        {"searches": SEARCHES[:1]},
        {"searches": SEARCHES[::-1]},
        {"searches": [{**SEARCHES[0], "top_k": 8}, SEARCHES[1]]},
        *({"searches": [{**SEARCHES[0], "filters": given}, SEARCHES[1]]} for given in filters),
    ]
    assert [state(ask(running, **{**plain, **job})) for job in jobs] == ["miss"] * len(jobs)
    assert len(entries(store)) == len(jobs)
    assert [state(ask(running, **{**plain, **job})) for job in jobs] == ["hit"] * len(jobs)


def test_it_is_off_unless_settings_name_the_task(start: Start, store: redis.Redis) -> None:
    """Nothing is kept and nothing is said."""
    off = start({"tasks": []})
    assert [state(ask(off)), state(ask(off))] == [None, None]
    assert list(store.scan_iter()) == []


def test_workers_share_it(start: Start) -> None:
    """An entry of one process is found by another."""
    first = ask(start())
    second = ask(start())
    assert (state(first), state(second)) == ("miss", "hit")
    assert without_trace(first) == without_trace(second)


def test_an_editor_that_moves_on_without_new_words_hits(running: Running) -> None:
    """The words made of a context are in the key, not the context."""
    ask(running, context=EDITOR)
    assert state(ask(running, context=f"  {EDITOR} // moved")) == "hit"
    assert state(ask(running, context=f"{EDITOR}.slow(3)")) == "miss"


def test_a_job_with_a_run_is_searched_and_recorded(running: Running, store: redis.Redis, admin: Admin) -> None:
    """Records are made from Postgres: nothing of the cache gets into a record, or out of one."""
    run = {"subject_id": "song-1", "run_id": "r1"}
    recorded = ask(running, run=run)
    assert (state(recorded), entries(store)) == (None, [])
    plain = ask(running)
    assert without_trace(plain) == without_trace(recorded)
    assert state(ask(running, run={**run, "run_id": "r2"})) is None
    assert admin.execute("SELECT count(*) FROM retrieval.run_records WHERE query_embedding IS NOT NULL").fetchone() == (
        2,
    )


def test_an_answer_without_its_contextual_leg_is_not_kept(start: Start, store: redis.Redis) -> None:
    """The next caller should not inherit a failure."""
    away = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "timeout_seconds": 1}
    running = start(embedder=away)
    vector = lexical.embed(["compressor"])[0].tolist()
    answer = ask(running, query_embedding=vector, context=EDITOR)
    assert (answer["metrics"]["docs"]["contextual"], entries(store)) == ("failed", [])
    assert state(ask(running, query_embedding=vector)) == "miss"
    assert len(entries(store)) == 1


# --- whose it is --------------------------------------------------------------------------------


def test_no_caller_gets_anothers_entry(running: Running, store: redis.Redis) -> None:
    """The same job of callers who differ in any claim that Postgres gets, the order of roles included."""
    job: dict[str, Any] = {"searches": [{"corpus": "docs", "top_k": 3}]}
    callers = [*CALLERS, None]
    assert [state(ask(running, caller, **job)) for caller in callers] == ["miss"] * len(callers)
    assert len(entries(store)) == len(callers)
    assert [state(ask(running, caller, **job)) for caller in callers] == ["hit"] * len(callers)


def test_callers_are_equal_if_the_database_can_not_tell_them_apart(running: Running) -> None:
    """Claims that nothing maps, and the order of claims, change no answer."""
    ask(running, {"user_id": "alice", "tenant_id": "studio"})
    assert state(ask(running, {"tenant_id": "studio", "user_id": "alice", "mood": "bright"})) == "hit"


def test_each_caller_hits_what_it_may_see(running: Running) -> None:
    """Filled for one, asked by another: private chunks stay private."""
    private = {"query": "hum on channel 18", "searches": [{"corpus": "documents", "top_k": 50}]}
    for _ in range(2):
        assert "handbook-desk-notes-006" in ids(ask(running, {"user_id": "alice"}, **private))
        assert "handbook-desk-notes-006" not in ids(ask(running, {"user_id": "bob"}, **private))


# --- what ends it -------------------------------------------------------------------------------

HIDDEN = {
    "a revoked right": "UPDATE documents SET visibility = 'private', owner_id = 'nobody'",
    "another policy": "ALTER POLICY documents_visible ON documents USING (false)",
    "a deleted chunk": "DELETE FROM document_chunks WHERE id = %(first)s",
    "another text": "UPDATE document_chunks SET text_content = text_content || ' ' WHERE id = %(first)s",
}


@pytest.mark.parametrize("statement", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_is_gone_hidden_or_changed_shows_at_once(running: Running, unnoticed: Admin, statement: str) -> None:
    """Rows are read again with current permissions, though the corpus's version says that nothing changed."""
    first = ask(running)
    assert state(ask(running)) == "hit"
    unnoticed.execute(statement, {"first": ids(first)[0]})
    now = ask(running)
    assert state(now) == "miss"
    assert without_trace(now) != without_trace(first)


def test_a_revoked_grant_holds_at_once(running: Running, unnoticed: Admin) -> None:
    """Only that caller loses the document; what it may still see is searched again."""
    unnoticed.execute("UPDATE documents SET owner_id = 'alice', visibility = 'private' WHERE id = 'handbook-safety'")
    unnoticed.execute("INSERT INTO document_grants VALUES ('handbook-safety', 'role:crew')")
    crew = {"user_id": "carol", "roles": ["crew"]}
    asked: dict[str, Any] = {"query": "first aid", "searches": SEARCHES[:1]}
    before = ask(running, crew, **asked)
    assert any(chunk.startswith("handbook-safety") for chunk in ids(before))
    assert state(ask(running, crew, **asked)) == "hit"
    unnoticed.execute("DELETE FROM document_grants WHERE document_id = 'handbook-safety'")
    after = ask(running, crew, **asked)
    assert state(after) == "miss"
    assert not any(chunk.startswith("handbook-safety") for chunk in ids(after))


WRITTEN = {
    "a new chunk": "INSERT INTO doc_embeddings (id, page_name, page_url, section_title, content) "
    "VALUES ('new', '', '', '', '')",
    "another embedding": "UPDATE doc_embeddings SET embedding = NULL WHERE id = (SELECT max(id) FROM doc_embeddings)",
    "a deleted chunk": "DELETE FROM doc_embeddings WHERE id = (SELECT max(id) FROM doc_embeddings)",
    "a new grant": "INSERT INTO document_grants VALUES ('handbook-desk-notes', 'carol')",
    "a document": "UPDATE documents SET title = title",
}


@pytest.mark.parametrize("statement", WRITTEN.values(), ids=WRITTEN.keys())
def test_a_corpus_that_changed_is_searched_anew(running: Running, stack: Stack, database: str, statement: str) -> None:
    """As soon as Postgres has counted what was written, to a corpus's tables and to those that its policies read."""
    ask(running)
    assert state(ask(running)) == "hit"
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as writer:
        writer.execute(statement)
    end = time.monotonic() + PATIENCE
    while state(ask(running)) == "hit":
        assert time.monotonic() < end, "the change was never noticed"


@pytest.mark.parametrize("statement", ["TRUNCATE doc_embeddings", "VACUUM FULL doc_embeddings"])
def test_a_rewritten_table_is_another_version_at_once(running: Running, unnoticed: Admin, statement: str) -> None:
    """Its file is another one, whatever was counted."""
    asked: dict[str, Any] = {"searches": [{"corpus": "documents"}, {"corpus": "docs", "filters": {"sections": []}}]}
    ask(running, **asked)
    assert state(ask(running, **asked)) == "hit"
    unnoticed.execute(statement)
    assert state(ask(running, **asked)) == "miss"


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER POLICY documents_visible ON documents USING (true)",
        "CREATE POLICY more ON documents FOR SELECT USING (kind = 'handbook')",
        "DROP POLICY documents_visible ON documents",
    ],
)
def test_another_definition_is_another_version_at_once(running: Running, unnoticed: Admin, statement: str) -> None:
    """Who may see more sees it now, without a row that was written."""
    asked: dict[str, Any] = {"query": "hum on channel 18", "searches": SEARCHES[:1]}
    ask(running, {"user_id": "bob"}, **asked)
    assert state(ask(running, {"user_id": "bob"}, **asked)) == "hit"
    unnoticed.execute(statement)
    assert state(ask(running, {"user_id": "bob"}, **asked)) == "miss"


def version_of(running: Running, *tables: str) -> str | None:
    anonymous = as_principal(ALICE, running.settings, "principal")
    return version(running.engine._database, anonymous, tables)


def test_another_view_is_another_version(running: Running, admin: Admin) -> None:
    """A changed definition of a view invalidates its cached results, as changed rows do."""
    admin.execute("CREATE VIEW shown AS SELECT id, content FROM doc_embeddings")
    before = version_of(running, "public.shown")
    admin.execute("CREATE OR REPLACE VIEW shown AS SELECT id, content FROM doc_embeddings WHERE id <> 'x'")
    assert before != version_of(running, "public.shown")


def test_what_postgres_does_not_count_has_no_version(running: Running, admin: Admin) -> None:
    """Rows of a foreign table change elsewhere, below a view as well."""
    admin.execute(
        "CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing;"
        "CREATE FOREIGN TABLE far (id text) SERVER elsewhere; CREATE VIEW near AS SELECT * FROM far"
    )
    assert version_of(running, "public.doc_embeddings") is not None
    assert version_of(running, "public.near", "public.doc_embeddings") is None


def test_counters_that_start_anew_are_another_version() -> None:
    """After the crash of one of its processes the server has counted nothing, and goes on; old entries are over."""
    with local_stack() as stack:
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
            migrate(admin)
            admin.execute("CHECKPOINT")
        values = tomllib.loads((config_folder() / "worker.toml").read_text())
        connections = {"database_connection_string": stack.postgres.dsn(user="retrieval_worker")}
        settings = from_values({**values, **connections, "broker_url": stack.redis.url(0)})
        before = _version_now(settings)
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as victim:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            with pytest.raises(psycopg.OperationalError):
                victim.execute("SELECT 1")
        assert before is not None
        assert before != _version_now(settings)


def _version_now(settings: Settings) -> str | None:
    """As a new process reads it, as soon as Postgres takes connections."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            running = Running(Engine(settings, time.perf_counter), settings)
        except Unavailable:
            assert time.monotonic() < end, "Postgres did not come back"
            continue
        with contextlib.closing(running.engine):
            return version_of(running, "public.doc_embeddings")


def test_another_corpus_ends_nothing(running: Running, stack: Stack, database: str) -> None:
    """Only the tables of the corpora that are asked count."""
    asked: dict[str, Any] = {"searches": SEARCHES[1:]}
    ask(running, **asked)
    both = [{"corpus": "docs", "top_k": 4}, {"corpus": "examples", "top_k": 3}]
    ask(running, searches=both)
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as writer:
        writer.execute("DELETE FROM example_strudels WHERE id = (SELECT max(id) FROM example_strudels)")
    end = time.monotonic() + PATIENCE
    while state(ask(running, searches=both)) == "hit":
        assert time.monotonic() < end, "the change was never noticed"
    assert state(ask(running, **asked)) == "hit"


SETTINGS: list[dict[str, Any]] = [
    {"search": {"exact_rows": 1999}},
    {"hybrid": {"searches": {"docs": 4}}},
    {"embedder": {"kind": "openai", "base_url": "http://127.0.0.1:1/v1"}},
    {"embedder": {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "version": "2"}},
]


def test_other_settings_have_other_entries(start: Start, settings: Settings, store: redis.Redis) -> None:
    """Workers with different settings, or different models, can share a Redis."""
    corpora = settings.model_dump(mode="json", exclude_none=True)["corpora"]
    mapped = {**corpora, "docs": {**corpora["docs"], "max_distance": 1.5}}
    asked: dict[str, Any] = {"query_embedding": lexical.embed(["compressor"])[0].tolist()}
    workers = [start(**changes) for changes in ({}, {"corpora": mapped}, *SETTINGS)]
    assert [state(ask(running, **asked)) for running in workers] == ["miss"] * len(workers)
    assert len(entries(store)) == len(workers)
    assert [state(ask(running, **asked)) for running in workers] == ["hit"] * len(workers)


def test_integers_that_a_double_can_not_tell_apart_are_two_filters(running: Running, admin: Admin) -> None:
    """The database tells them apart, and so does the key."""
    admin.execute(
        "UPDATE document_chunks SET metadata = '{\"n\": 9007199254740993}' WHERE document_id = 'handbook-safety'"
    )
    found = {}
    for n in (2**53, 2**53 + 1):
        answer = ask(running, searches=[{**SEARCHES[0], "filters": {"metadata": {"n": n}}}])
        assert state(answer) == "miss"
        found[n] = len(ids(answer))
    assert found[2**53] == 0 < found[2**53 + 1]


def test_another_glossary_is_another_query(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's content is in the key."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(shutil.copy(config_folder() / "worker.toml", tmp_path)))
    glossary = tmp_path / "glossary.toml"
    asked: dict[str, Any] = {"query": "hats", "transform": "glossary"}
    glossary.write_text('hats = ["hi-hat"]')
    running = start()
    ask(running, **asked)
    assert state(ask(running, **asked)) == "hit"
    glossary.write_text('hats = ["cymbals"]')
    assert state(ask(start(), **asked)) == "miss"


# --- bounds -------------------------------------------------------------------------------------


def test_the_oldest_leave_where_there_are_too_many(start: Start, store: redis.Redis) -> None:
    """No more entries than the settings say, and none that is not counted."""
    running = start({"entries": 3})
    queries = [f"microphone {i}" for i in range(5)]
    for query in queries:
        ask(running, query=query)
    kept = entries(store)
    assert len(kept) == 3
    assert sorted(store.zrange(PREFIX, 0, -1)) == kept
    assert [state(ask(running, query=query)) for query in queries[2:]] == ["hit"] * 3
    assert state(ask(running, query=queries[0])) == "miss"
    assert len(entries(store)) == 3


def test_entries_expire(start: Start, store: redis.Redis) -> None:
    """Both they and their list."""
    running = start({"seconds": 1})
    ask(running, query="one")
    assert {store.ttl(key) for key in [*entries(store), PREFIX]} <= {0, 1}
    end = time.monotonic() + PATIENCE
    while state(ask(running, query="one")) == "hit":
        assert time.monotonic() < end, "it never expired"
    while list(store.scan_iter()):
        assert time.monotonic() < end, "something never expired"


def test_what_expired_does_not_count(start: Start, store: redis.Redis) -> None:
    """An empty place in the list pushes no corpus out."""
    store.zadd(PREFIX, {f"{PREFIX}-gone": 1.0})
    running = start({"entries": 1})
    ask(running)
    assert state(ask(running)) == "hit"
    assert store.zrange(PREFIX, 0, -1) == entries(store)


# --- Redis --------------------------------------------------------------------------------------


def test_a_redis_that_is_away_is_done_without(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    """The same answer, one warning, no address in it."""
    there = ask(start())
    capfd.readouterr()
    answer = ask(start({"url": NOWHERE}))
    assert without_trace(answer) == without_trace(there)
    assert state(answer) == "miss"
    (line,) = warnings(capfd)
    assert "cache unused" in line
    assert "127.0.0.1" not in line


def test_a_redis_that_failed_is_left_alone_for_a_while(
    make_settings: MakeSettings, database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One warning for the jobs of the next seconds; then it is asked again."""
    now = [0.0]
    with contextlib.ExitStack() as opened:
        with redis_server(tmp_path) as redis_of_its_own:
            settings = make_settings(database, cache={**ON, "url": redis_of_its_own.url()})
            running = Running(Engine(settings, lambda: now[0]), settings)
            opened.callback(running.engine.close)
            assert [state(ask(running)) for _ in range(2)] == ["miss", "hit"]
        capfd.readouterr()
        assert [state(ask(running)) for _ in range(3)] == ["miss", None, None]
        assert len(warnings(capfd)) == 1
        now[0] += REST_SECONDS
        assert [state(ask(running)) for _ in range(2)] == ["miss", None]
        assert len(warnings(capfd)) == 1


def test_a_redis_that_does_not_answer_is_not_waited_for(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    """It is asked once, for no longer than the settings say."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(server.accept()[0])

        silent = threading.Thread(target=accept)
        silent.start()
        running = start({"url": f"redis://127.0.0.1:{server.getsockname()[1]}/0", "timeout_seconds": 0.1})
        capfd.readouterr()
        answer = ask(running)
        cached = next(stage for stage in answer["trace"]["stages"] if stage["stage"] == "cache")
        assert 100 <= cached["duration_ms"] < 5000
        assert len(warnings(capfd)) == 1
        server.shutdown(socket.SHUT_RDWR)
    silent.join()
    for connection in connections:
        connection.close()


def test_a_connection_that_died_is_made_anew(running: Running, store: redis.Redis) -> None:
    """A Redis that restarted, or a firewall that forgot, costs no hit."""
    ask(running)
    store.client_kill_filter(_type="normal", skipme=True)
    assert state(ask(running)) == "hit"


def test_a_full_redis_costs_the_cache_only(
    running: Running, store: redis.Redis, capfd: pytest.CaptureFixture[str]
) -> None:
    """It refuses to write: there is an answer, and a warning."""
    capfd.readouterr()
    store.config_set("maxmemory", 1)
    try:
        answer = ask(running)
    finally:
        store.config_set("maxmemory", 0)
    assert state(answer) == "miss"
    assert len(warnings(capfd)) == 1
    assert entries(store) == []


@pytest.mark.parametrize("url", ["http://127.0.0.1/", "redis://127.0.0.1/0?no_such_option=1"])
def test_a_url_that_is_none_stops_the_start(start: Start, url: str) -> None:
    """The setting is named, its value is not."""
    with pytest.raises(SettingsError, match=r"^the setting cache\.url: expected a URL of Redis") as caught:
        start({"url": url})
    assert "127.0.0.1" not in caught.value.message


# --- what stands in Redis -----------------------------------------------------------------------


def everything(store: redis.Redis) -> bytes:
    """Every key, every value, every member."""
    parts = []
    for key in store.scan_iter():
        members = store.zrange(key, 0, -1) if store.type(key) == b"zset" else [store.get(key)]
        parts += [key, *members]
    return b"\n".join(parts)


def test_nothing_that_anybody_wrote_is_in_redis(running: Running, store: redis.Redis) -> None:
    """No word of a query, a context, a claim or a chunk; the ids of chunks are there."""
    claims = {"user_id": "canary-user", "tenant_id": "canary-tenant", "roles": ["canary-role"]}
    answer = ask(running, claims, query="canaryquery microphone", context='sound("canarysound")', transform="glossary")
    assert "canarysound" in answer["context_keywords"]
    there = everything(store)
    assert answer["results"]["docs"]["chunks"][0]["chunk_id"].encode() in there
    assert b"canary" not in there
    for part in answer["results"].values():
        for chunk in part["chunks"]:
            words = chunk["text"].split()
            for start in range(len(words) - 1):
                assert " ".join(words[start : start + 2]).encode() not in there


def planted(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    """An entry with something done to it."""

    def plant(value: bytes) -> bytes:
        entry = orjson.loads(value)
        change(entry)
        return json.dumps(entry).encode()

    return plant


POISON: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda value: value[:-20],
    "no JSON": lambda _: b"\x80\x04\x95pickle",
    "not UTF-8": lambda value: value.replace(b"primary", b"prim\xffry"),
    "JSON of something else": lambda _: b"[1, 2, 3]",
    "null": lambda _: b"null",
    "nested without end": lambda _: b"[" * 100_000,
    "too long": lambda value: value[:-1] + b" " * LARGEST + value[-1:],
    "an unknown field": planted(lambda entry: entry.update(text="planted")),
    "a text in a chunk": planted(lambda entry: entry["chunks"][0].update(text="planted")),
    "a text for a score": planted(lambda entry: entry["chunks"][0].update(similarity="planted")),
    "no number for a score": planted(lambda entry: entry["chunks"][0]["scores"].update(fused=float("nan"))),
    "a similarity that none is": planted(lambda entry: entry["chunks"][0].update(similarity=7.5)),
    "an unknown leg": planted(lambda entry: entry["chunks"][0]["scores"]["legs"][0].update(leg="planted")),
    "a boolean for a rank": planted(lambda entry: entry["chunks"][0]["scores"]["legs"][0].update(rank=True)),
    "a corpus that was not asked": planted(lambda entry: entry["chunks"][0].update(corpus="examples")),
    "a chunk twice": planted(lambda entry: entry["chunks"].__setitem__(1, entry["chunks"][0])),
    "too many chunks": planted(
        lambda entry: entry["chunks"].extend({**entry["chunks"][-1], "chunk_id": f"more-{i}"} for i in range(9))
    ),
    "figures missing": planted(lambda entry: entry["metrics"].pop("docs")),
    "a text in the figures": planted(lambda entry: entry["metrics"]["docs"].update(contextual_error="planted")),
    "a leg of the figures": planted(lambda entry: entry["metrics"]["docs"]["top_similarity"].update(planted=1.0)),
    "an unknown figure": planted(lambda entry: entry["metrics"]["docs"].update(planted=1.0)),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_a_value_that_no_worker_wrote_is_a_miss(
    running: Running, store: redis.Redis, capfd: pytest.CaptureFixture[str], poison: Callable[[bytes], bytes]
) -> None:
    """Searched again, with a warning that quotes nothing of it, and overwritten."""
    first = ask(running)
    (key,) = entries(store)
    value = store.get(key)
    assert isinstance(value, bytes)
    store.set(key, poison(value))
    capfd.readouterr()
    second = ask(running)
    assert state(second) == "miss"
    assert without_trace(second) == without_trace(first)
    (line,) = warnings(capfd)
    assert "cache entry ignored" in line
    assert "planted" not in line
    assert state(ask(running)) == "hit"


def test_a_key_of_another_type_is_a_miss(running: Running, store: redis.Redis) -> None:
    """Redis refuses to read it."""
    first = ask(running)
    (key,) = entries(store)
    store.delete(key)
    store.rpush(key, "planted")
    assert without_trace(ask(running)) == without_trace(first)


def test_a_planted_id_shows_nobody_more_than_it_may_see(running: Running, store: redis.Redis) -> None:
    """Rows come from Postgres under the caller's rights, whatever Redis says."""
    private = {"query": "hum on channel 18", "searches": [{"corpus": "documents", "top_k": 50}]}
    private_chunk = "handbook-desk-notes-006"
    assert private_chunk in ids(ask(running, {"user_id": "alice"}, **private))
    (alices,) = entries(store)
    before = ask(running, {"user_id": "bob"}, **private)
    (bobs,) = {*entries(store)} - {alices}
    value = store.get(alices)
    assert isinstance(value, bytes)
    store.set(bobs, value)
    answer = ask(running, {"user_id": "bob"}, **private)
    assert state(answer) == "miss"
    assert without_trace(answer) == without_trace(before)
