"""The cache of `run_pipeline`: what `build_sources` found, on a real Postgres and a real Redis."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest
from tests.integration.asking import CALLERS, HUM, as_asked, ask, asker, ids, repeated
from tests.integration.provider import Fault, provider_that_says
from tests.integration.site import says, serving
from tests.waiting import PATIENCE

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from retrieval_client.hashing import hash_chunk
from worker.adapters.redis_cache import PREFIX
from worker.core import observations
from worker.core.prompting.prompts import prompt_cache_key
from worker.jobs.context import JobContext
from worker.jobs.pipeline.sources import STAGES
from worker.jobs.pipeline.types import QueryRequest
from worker.jobs.principal import as_principal
from worker.settings import CONFIG_VARIABLE
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis
    from tests.integration.provider import Provider

    from workbench.devstack.stack import Stack
    from worker.jobs.engine import Engine
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]
    Open = Callable[..., Engine]

ON = {"tasks": ["run_pipeline"]}
BEAT = "add hi-hats to the beat"
EDITOR = 'sound("bd").fast(2)'
SAID = "A dried-out 470 µF supply capacitor is the likely cause [S1]."
RUN = {"subject_id": "song-1", "run_id": "r1"}
MODELS = ["hyde_hybrid", "multi_query", "llm_rerank", "worded"]
"""Profiles that ask a language model."""

PROFILES: dict[str, Any] = {
    "worded": {"legs": [{"kind": "dense"}], "transform": "llm"},
    "glossary": {"legs": [{"kind": "dense"}, {"kind": "sparse"}], "transform": "glossary"},
    "recent": {"legs": [{"kind": "dense"}], "temporal": {"half_life_days": 30, "weight": 0.5}},
}


@pytest.fixture
def open_engine(open_engine: Open, broker: redis.Redis) -> Open:
    """Opens engines with a cache, on an emptied Redis, with settings of their own."""
    del broker

    def open_(model_of: Provider | None = None, **changes: Any) -> Engine:
        model = {} if model_of is None else {"kind": "openai", "model": "m", "base_url": model_of.url}
        return open_engine(**{"cache": ON, "language_model": {**model}, "profiles": PROFILES, **changes})

    return open_


@pytest.fixture
def engine(open_engine: Open) -> Engine:
    return open_engine()


def writes(asked: dict[str, Any]) -> str:
    """Return a model's answer to each kind of request."""
    instructions = asked["instructions"]
    if "Passage" in instructions:
        return "A dried-out capacitor of the supply makes the canary-desk hum."
    if "Reword the question" in instructions:
        return "why does the canary-desk hum\nmains ripple\nsupply capacitor dried out"
    if "search query" in instructions:
        return "hum, mains ripple, canary-desk"
    if "number from 0" in instructions:
        return "".join(f"{i}: {i % 11}\n" for i in range(1, 21))
    return SAID


provider = provider_that_says(writes)


def state(answer: dict[str, Any]) -> str | None:
    reported: str | None = answer["trace"]["cache"]
    return reported


def states(engine: Engine, *jobs: dict[str, Any]) -> list[str | None]:
    return [state(ask(engine, **{"question": HUM, **job})) for job in jobs]


def stages(answer: dict[str, Any]) -> list[str]:
    return [stage["stage"] for stage in answer["trace"]["stages"]]


def entries(store: redis.Redis) -> list[bytes]:
    return sorted(store.scan_iter(f"{PREFIX}-*"))


def value_of(store: redis.Redis, key: bytes) -> bytes:
    value = store.get(key)
    assert isinstance(value, bytes)
    return value


def chunks_of_alice(engine: Engine) -> list[dict[str, Any]]:
    """All that alice may see of the ferry, best first."""
    found: list[dict[str, Any]] = ask(engine, question="a song about the ferry", profile="dense", k=50)["package"][
        "candidates"
    ]
    return found


# --- a hit is the same package ------------------------------------------------------------------

JOBS: dict[str, dict[str, Any]] = {
    "grounded": {},
    "code, with an editor": {"question": BEAT, "mode": "code", "context": EDITOR},
    "lyrics, fewer": {"question": "a song about the harbour ferry", "mode": "lyrics", "k": 3},
    "extraction, reranked": {"mode": "extraction", "profile": "dense_rerank"},
    "filtered": {"filters": {"document_ids": ["handbook-desk-notes"]}},
    "other corpora": {"question": BEAT, "searches": [{"corpus": "examples", "top_k": 2}, {"corpus": "docs"}], "k": 20},
    "empty": {"filters": {"document_ids": []}},
    "glossary": {"question": BEAT, "profile": "glossary"},
    "up to a package": {"stop_after": "build_sources"},
    "up to a context": {"stop_after": "synthesize_context"},
    "in a chat": {"chat_mode": "chat", "conversation_id": "c1", "starting_prompt": "As a pirate."},
}


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS.keys())
def test_a_hit_is_the_answer_of_the_miss_but_for_its_trace(engine: Engine, job: dict[str, Any]) -> None:
    """Byte for byte, context block included; nothing was embedded, searched or reranked, and the trace says so."""
    first, second = (ask(engine, **{"question": HUM, **job}) for _ in range(2))
    assert (state(first), state(second)) == ("miss", "hit")
    assert repeated(second) == repeated(first)
    assert second["trace"]["models"] == first["trace"]["models"]
    later = [] if job.get("stop_after") == "build_sources" else ["synthesize_context", "execute"]
    later = later[:1] if job.get("stop_after") else later
    assert stages(first) == ["cache", *STAGES, *later]
    assert stages(second) == ["cache", "remote", *later]
    assert (second["trace"]["queries"], second["trace"]["search"]["legs_ms"]) == ({}, {})


@pytest.mark.parametrize("profile", MODELS)
def test_a_hit_asks_no_model_for_help(open_engine: Open, provider: Provider, profile: str) -> None:
    """Hypothetical answers, rewordings and judgements are in the ranking already: only the answer is asked for."""
    engine = open_engine(provider)
    first = ask(engine, question=HUM, profile=profile)
    helped = len(provider.requests) - 1
    second = ask(engine, question=HUM, profile=profile)
    assert helped >= 1
    assert len(provider.requests) == helped + 2
    assert (state(first), state(second)) == ("miss", "hit")
    assert repeated(second) == repeated(first)
    assert second["trace"]["models"] == first["trace"]["models"]
    assert provider.requests[-1] == provider.requests[helped]
    assert [one["kind"] for one in second["costs"]] == ["synthesis"]


def test_pinned_chunks_come_first_from_the_cache_as_well(engine: Engine) -> None:
    """In their order, beyond k; with one that is missing nothing is kept, so that it is reported each time."""
    pinned = [*{chunk["chunk_hash"]: chunk for chunk in chunks_of_alice(engine)}][-3:]
    job = {"question": HUM, "pinned_chunks": pinned, "k": 2}
    first, second = ask(engine, **job), ask(engine, **job)
    assert (state(first), state(second)) == ("miss", "hit")
    assert repeated(second) == repeated(first)
    assert [chunk["chunk_hash"] for chunk in second["package"]["candidates"]] == pinned
    job["pinned_chunks"] = [*pinned, hash_chunk("nothing says this")]
    for _ in range(2):
        answer = ask(engine, **job)
        assert state(answer) == "miss"
        assert answer["trace"]["warnings"] == ["pinned: 1 of 4 chunks are missing"]


def test_progress_is_told_of_a_hit_and_of_a_miss(engine: Engine) -> None:
    """Each stage that there is, with its place among all."""
    reported: list[list[tuple[str, int, int]]] = []
    for _ in range(2):
        reported.append([])
        context = JobContext(lambda: asker("alice"), report=lambda *said: reported[-1].append(said))
        engine.pipeline_jobs.answer(parse_job(RunPipeline, {"question": HUM}), context)
    all_stages = ["cache", *STAGES]
    assert reported[0] == [*((stage, i, len(all_stages)) for i, stage in enumerate(all_stages)), ("execute", 1, 1)]
    assert reported[1] == [("cache", 0, 9), ("remote", 8, 9), ("execute", 1, 1)]


def test_it_is_off_unless_settings_name_the_task(open_engine: Open, store: redis.Redis) -> None:
    """Nothing is kept and nothing is said; nor is it from Python, where a stage is called by itself."""
    for tasks in ([], ["retrieve_hybrid"]):
        off = open_engine(cache={"tasks": tasks})
        assert states(off, {}, {}) == [None, None]
        assert stages(ask(off, question=HUM)) == [*STAGES, "synthesize_context", "execute"]
    on = open_engine()
    assert [on.pipeline.build_sources(QueryRequest(HUM), asker("alice")).trace.cache for _ in range(2)] == [None, None]
    assert list(store.scan_iter()) == []


def test_a_job_with_a_run_is_searched_and_recorded(engine: Engine, store: redis.Redis) -> None:
    """Records are made from Postgres: nothing of the cache gets into a record, or out of one."""
    recorded = ask(engine, question=HUM, run=RUN)
    assert (state(recorded), entries(store)) == (None, [])
    assert states(engine, {}, {}) == ["miss", "hit"]
    assert state(ask(engine, question=HUM, run={**RUN, "run_id": "r2"})) is None


def test_what_is_looked_for_is_counted(engine: Engine) -> None:
    """One look-up a job, by its state; a hit has the stages that it had."""
    answers = [ask(engine, question=HUM) for _ in range(3)]
    seen = [one for answer in answers for one in observations.of_job("run_pipeline", "ok", 0.1, answer)]
    found = [one.labels for one in seen if one.metric == "retrieval_cache_lookups_total"]
    assert found == [("run_pipeline", "miss"), ("run_pipeline", "hit"), ("run_pipeline", "hit")]
    searched = [one for one in seen if one.labels == ("run_pipeline", "search")]
    assert len(searched) == 1


# --- a chain ------------------------------------------------------------------------------------


TURNS = [HUM, "Which capacitor is it?", "And what does it cost?"]


@pytest.mark.parametrize("cached", [[1], [0, 1, 2]], ids=["in the middle", "everywhere"])
def test_a_chain_goes_on_over_a_hit(
    open_engine: Open, provider: Provider, admin: Admin, settings: Settings, cached: list[int]
) -> None:
    """Three turns, each on another worker: the provider is sent what it would be without a cache."""
    engines = [open_engine(provider, profiles=as_asked(settings)) for _ in TURNS]
    for i in cached:
        ask(engines[0], question=TURNS[i], stop_after="build_sources")
    assert provider.requests == []
    answers: list[dict[str, Any]] = []
    for engine, question in zip(engines, TURNS, strict=True):
        prior = {"prior_response_id": answers[-1]["response_id"]} if answers else {"conversation_id": "c1"}
        answers.append(ask(engine, question=question, chat_mode="chat", **prior))
    assert [state(answer) for answer in answers] == ["hit" if i in cached else "miss" for i in range(3)]
    sent = provider.requests
    key = prompt_cache_key("alice", "openai", "m", "grounded", "c1")
    assert [one.get("previous_response_id") for one in sent] == [None, "resp_1", "resp_2"]
    assert [one["prompt_cache_key"] for one in sent] == [key] * 3
    assert [one["store"] for one in sent] == [True] * 3
    assert [one["input"] for one in sent] == [answer["package"]["context_block"] for answer in answers]
    assert {answer["conversation_id"] for answer in answers} == {"c1"}
    assert len({answer["response_id"] for answer in answers}) == 3
    assert [answer["trace"]["warnings"] for answer in answers] == [[], [], []]
    kept = admin.execute("SELECT question, provider_response_id FROM retrieval.responses ORDER BY sequence").fetchall()
    assert kept == [*zip(TURNS, ["resp_1", "resp_2", "resp_3"], strict=True)]
    off = open_engine(provider, cache={"tasks": []}, profiles=as_asked(settings))
    for i, question in enumerate(TURNS):
        prior = {"prior_response_id": answers[i - 1]["response_id"]} if i else {"conversation_id": "c1"}
        ask(off, question=question, chat_mode="chat", **prior)
    assert provider.requests[3:] == provider.requests[:3]


def test_a_turn_after_a_hit_is_told_what_was_said(open_engine: Open, provider: Provider, settings: Settings) -> None:
    """Where the worker keeps the conversation, a hit is a turn of it like any other."""
    answers = iter(["First answer.", "Second answer.", "Third answer."])
    provider.text = lambda _: next(answers)
    provider_api = {"kind": "openai", "model": "m", "base_url": provider.url, "api": "chat"}
    engine = open_engine(language_model=provider_api, profiles=as_asked(settings))
    ask(engine, question="slower", mode="code", stop_after="build_sources")
    last: dict[str, Any] = {}
    seen = []
    for question in ("a beat", "slower", "louder"):
        prior = {"prior_response_id": last["response_id"]} if last else {}
        last = ask(engine, question=question, mode="code", chat_mode="chat", **prior)
        seen.append(state(last))
    assert seen == ["miss", "hit", "miss"]
    said = "Said before:\nuser: a beat\nassistant: First answer.\nuser: slower\nassistant: Second answer.\n"
    assert said in last["package"]["context_block"]
    assert said in json.dumps(provider.requests[-1]).encode().decode("unicode_escape")


def test_the_same_question_twice_is_two_turns(open_engine: Open, provider: Provider, settings: Settings) -> None:
    """The model is asked both times: an answer is never kept, and each has a name of its own to go on from."""
    engine = open_engine(provider, profiles=as_asked(settings))
    job = parse_job(RunPipeline, {"question": HUM, "chat_mode": "chat", "conversation_id": "c1"})
    first, second = (
        engine.pipeline_jobs.answer(job, JobContext(lambda: asker("alice"), task)) for task in ("t1", "t2")
    )
    assert (state(first), state(second)) == ("miss", "hit")
    assert first["response_id"] != second["response_id"]
    for i, turn in enumerate((first, second), 1):
        ask(engine, question="And then?", chat_mode="chat", prior_response_id=turn["response_id"])
        assert provider.requests[-1]["previous_response_id"] == f"resp_{i}"
    assert len(provider.requests) == 4


def test_a_package_of_a_hit_is_gone_on_from(engine: Engine) -> None:
    """Stopped after a hit and resumed, it is the answer that it would have been."""
    whole = ask(engine, question=HUM)
    stopped = ask(engine, question=HUM, stop_after="build_sources")
    answer = ask(engine, resume=stopped["package"]["package_id"])
    assert (state(stopped), answer["answer"]) == ("hit", whole["answer"])
    assert answer["package"]["context_block"] == whole["package"]["context_block"]


# --- what is equal ------------------------------------------------------------------------------


def test_questions_that_differ_in_what_decides_the_sources_have_entries_of_their_own(
    engine: Engine, store: redis.Redis
) -> None:
    """Each field that can change what is found is in the key."""
    pins = [*{chunk["chunk_hash"]: chunk for chunk in chunks_of_alice(engine)}][-2:]
    for key in entries(store):
        store.delete(key)
    documents: dict[str, Any] = {"corpus": "documents", "top_k": 5}
    jobs: list[dict[str, Any]] = [
        {},
        {"question": "another"},
        {"question": HUM.upper()},
        {"k": 7},
        {"profile": "dense"},
        {"profile": "dense_rerank"},
        {"mode": "lyrics"},
        {"context": EDITOR},
        {"context": 'sound("hh")'},
        {"conversation_history": [{"role": "user", "content": "a beat"}]},
        {"pinned_chunks": pins},
        {"pinned_chunks": pins[::-1]},
        {"filters": {"document_ids": []}},
        {"filters": {"document_ids": ["handbook-desk-notes"]}},
        {"filters": {"sections": []}},
        {"filters": {"metadata": {"n": 2**53}}},
        {"filters": {"metadata": {"n": 2**53 + 1}}},
        {"searches": [documents]},
        {"searches": [{**documents, "top_k": 4}]},
        {"searches": [{**documents, "filters": {"sections": ["Faults"]}}]},
        {"searches": [documents, {"corpus": "docs", "top_k": 5}]},
        {"searches": [{"corpus": "docs", "top_k": 5}, documents]},
    ]
    assert states(engine, *jobs) == ["miss"] * len(jobs)
    assert len(entries(store)) == len(jobs)
    assert states(engine, *jobs) == ["hit"] * len(jobs)


def test_what_is_only_made_of_the_sources_is_not_in_the_key(engine: Engine) -> None:
    """A name of a conversation, instructions, where a job stops; a k that is the mode's; a mode that searches alike."""
    ask(engine, question=HUM)
    alike: list[dict[str, Any]] = [
        {"k": 8},
        {"profile": "hybrid"},
        {"chat_mode": "chat"},
        {"conversation_id": "c7"},
        {"starting_prompt": "As a pirate."},
        {"stop_after": "build_sources"},
        {"mode": "lyrics", "k": 8},
        {"profile": "hybrid", "context": "  "},
    ]
    assert states(engine, *alike) == ["hit"] * len(alike)
    ask(engine, question=HUM, profile="dense")
    assert states(engine, {"profile": "dense", "context": EDITOR}) == ["hit"], "this profile has no leg for it"


def test_an_editor_that_moves_on_without_new_words_hits_and_is_shown_as_it_is(engine: Engine) -> None:
    """The words made of a context are in the key; the block has the current context."""
    job = {"question": BEAT, "mode": "code"}
    ask(engine, **job, context=EDITOR)
    moved = ask(engine, **job, context=f"{EDITOR} // moved")
    assert state(moved) == "hit"
    assert "// moved" in moved["package"]["context_block"]
    assert state(ask(engine, **job, context=f"{EDITOR}.slow(3)")) == "miss"


def test_other_settings_have_other_entries(open_engine: Open, settings: Settings, provider: Provider) -> None:
    """The content of profile, mode and model counts, not their names: workers with other settings share nothing."""
    hybrid = settings.profiles["hybrid"].model_dump(mode="json", by_alias=True)
    grounded = settings.modes["grounded"].model_dump(mode="json")
    legs = hybrid["legs"]
    corpora = settings.model_dump(mode="json", exclude_none=True)["corpora"]
    profiles: list[dict[str, Any]] = [
        {"fusion": "rrf"},
        {"fetch": 29},
        {"rerank": "lexical"},
        {"transform": "glossary"},
        {"diversity": None},
        {"diversity": {"lambda": 0.5, "per_document": 4}},
        {"diversity": {"lambda": 0.8, "per_document": 3}},
        {"legs": legs[:2]},
        {"legs": [{**legs[0], "weight": 2.0}, *legs[1:]]},
        {"legs": [legs[1], legs[0], legs[2]]},
    ]
    changes: list[dict[str, Any]] = [
        {},
        *({"profiles": {**PROFILES, "hybrid": {**hybrid, **change}}} for change in profiles),
        {"modes": {"grounded": {**grounded, "k": 7}}},
        {"modes": {"grounded": {**grounded, "profile": "dense"}}},
        {"modes": {"grounded": {**grounded, "corpora": {"documents": 3}}}},
        {"modes": {"grounded": {**grounded, "corpora": {"documents": 0, "docs": 0}}}},
        {"language_model": {"model": "another"}},
        {"language_model": {"kind": "openai", "base_url": provider.url, "model": "m"}},
        {"reranker": {"model": "another"}},
        {"search": {"exact_rows": 1999}},
        {"hybrid": {"searches": {"docs": 4}}},
        {"embedder": {"kind": "openai", "base_url": provider.url, "send_dimensions": False}},
        {"embedder": {"kind": "openai", "base_url": provider.url, "send_dimensions": False, "version": "2"}},
        {"corpora": {**corpora, "documents": {**corpora["documents"], "max_distance": 1.5}}},
    ]
    workers = [open_engine(**change) for change in changes]
    for expected in ("miss", "hit"):
        assert [state(ask(worker, question=HUM)) for worker in workers] == [expected] * len(workers)


def test_another_instruction_of_a_mode_is_followed_at_once(
    open_engine: Open, settings: Settings, provider: Provider
) -> None:
    """It decides nothing of the sources: they are from the cache, and the model gets the current instructions."""
    ask(open_engine(provider), question=HUM)
    changed = {**settings.modes["grounded"].model_dump(), "instructions": "Answer in rhymes.", "budget_tokens": 400}
    answer = ask(open_engine(provider, modes={"grounded": changed}), question=HUM)
    assert state(answer) == "hit"
    assert provider.requests[-1]["instructions"] == "Answer in rhymes."
    assert len(answer["package"]["context_block"].encode()) <= 4 * 400
    assert len(ids(answer)) == 8 > len(answer["package"]["source_labels"])


def test_another_glossary_is_another_question(
    open_engine: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table's content is in the key."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(shutil.copy(config_folder() / "worker.toml", tmp_path)))
    glossary = tmp_path / "glossary.toml"
    for terms in ('hats = ["hi-hat"]', 'hats = ["cymbals"]'):
        glossary.write_text(terms)
        engine = open_engine()
        assert states(engine, *[{"question": "hats", "profile": "glossary"}] * 2) == ["miss", "hit"]


def test_where_recency_counts_nothing_is_kept(engine: Engine, store: redis.Redis) -> None:
    """That ranking is of its moment."""
    assert states(engine, {"profile": "recent"}, {"profile": "recent"}) == [None, None]
    assert entries(store) == []


# --- whose it is --------------------------------------------------------------------------------


def test_no_caller_gets_anothers_entry(engine: Engine, settings: Settings, store: redis.Redis) -> None:
    """The same question of callers who differ in any claim that Postgres gets, and without a caller."""
    callers = [*(as_principal(claims, settings, "principal") for claims in CALLERS), None]
    job = {"question": BEAT, "mode": "code"}
    assert [state(ask(engine, caller, **job)) for caller in callers] == ["miss"] * len(callers)
    assert len(entries(store)) == len(callers)
    assert [state(ask(engine, caller, **job)) for caller in callers] == ["hit"] * len(callers)


def test_each_caller_hits_what_it_may_see(engine: Engine) -> None:
    """Filled for one, asked by another: private chunks stay private."""
    job = {"question": "the last song of the salt letters, and the ferry", "mode": "lyrics", "k": 50}
    for expected in ("miss", "hit"):
        for user, sees in (("alice", True), ("bob", False)):
            answer = ask(engine, user, **job)
            assert state(answer) == expected
            assert ("notebook-alice-tideline" in json.dumps(answer)) == sees


# --- what ends it -------------------------------------------------------------------------------

HIDDEN = {
    "a revoked right": "UPDATE documents SET visibility = 'private', owner_id = 'nobody'",
    "a deleted chunk": "DELETE FROM document_chunks WHERE id = %(first)s",
    "another text": "UPDATE document_chunks SET text_content = text_content || ' ' WHERE id = %(first)s",
}


@pytest.mark.parametrize("statement", HIDDEN.values(), ids=HIDDEN.keys())
def test_what_is_gone_hidden_or_changed_shows_at_once(engine: Engine, unnoticed: Admin, statement: str) -> None:
    """Rows are read again with current permissions, though the corpus's version says that nothing changed."""
    first = ask(engine, question=HUM)
    assert state(ask(engine, question=HUM)) == "hit"
    unnoticed.execute(statement, {"first": ids(first)[0]})
    now = ask(engine, question=HUM)
    assert state(now) == "miss"
    assert repeated(now) != repeated(first)
    assert ids(now) == ids(ask(engine, question=HUM, run=RUN))


def test_a_corpus_that_changed_is_searched_anew(engine: Engine, stack: Stack, database: str) -> None:
    """As soon as Postgres has counted what was written: the new chunk is found."""
    best = ids(ask(engine, question=HUM))[0]
    assert state(ask(engine, question=HUM)) == "hit"
    with psycopg.connect(stack.postgres.dsn(database), autocommit=True) as writer:
        writer.execute(
            "INSERT INTO document_chunks (id, document_id, text_content, embedding)"
            " SELECT 'a-new-one', 'report-2024-desk-budget', 'channel 18 hum: ' || text_content, embedding"
            " FROM document_chunks WHERE id = %s",
            (best,),
        )
    end = time.monotonic() + PATIENCE
    while state(answer := ask(engine, question=HUM)) == "hit":
        assert time.monotonic() < end, "the change was never noticed"
    assert "a-new-one" in ids(answer)


# --- what is not kept ---------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["hyde_hybrid", "multi_query", "llm_rerank"])
def test_what_was_found_without_a_model_that_failed_is_not_kept(
    open_engine: Open, provider: Provider, store: redis.Redis, profile: str
) -> None:
    """The next one to ask should not inherit a failure."""
    engine = open_engine(provider)
    failing: list[str] = []

    def first(asked: dict[str, Any]) -> Fault | None:
        """Fail the first call, each time it is tried: one hypothetical answer of three."""
        failing[:] = failing or [asked["instructions"]]
        return Fault(500) if asked["instructions"] == failing[0] else None

    provider.fault_of = first
    answer = ask(engine, question=HUM, profile=profile)
    assert (state(answer), len(answer["trace"]["warnings"]), entries(store)) == ("miss", 1, [])
    provider.fault_of = lambda _: None
    assert states(engine, {"profile": profile}, {"profile": profile}) == ["miss", "hit"]


def test_other_services_are_asked_each_time(open_engine: Open, settings: Settings, store: redis.Redis) -> None:
    """Their changes are not noticed here, and their texts are not in Redis; a failing one spoils no entry."""
    mode = {**settings.modes["grounded"].model_dump(), "remote": ["web"]}
    item = {"url": "https://example.org/hum", "title": "Mains", "snippet": "The hum comes from the canary at 50 Hz."}
    with serving() as site:
        service = {"url": f"http://127.0.0.1:{site.port}/search?q={{query}}", "allow_private": ["127.0.0.1"]}
        engine = open_engine(modes={"grounded": mode}, remote={"web": service})
        pages = [says([item]), says([{**item, "title": "Changed"}]), says(b"", status=500)]
        answers = []
        for page in pages:
            site.pages["/search"] = page
            answers.append(ask(engine, question=HUM))
        assert len(site.visits) == 3
    assert [state(answer) for answer in answers] == ["miss", "hit", "hit"]
    found = [[one["title"] for one in answer["package"]["remote_sources"]] for answer in answers]
    assert found == [["Mains"], ["Changed"], []]
    assert [len(answer["trace"]["warnings"]) for answer in answers] == [0, 0, 1]
    (key,) = entries(store)
    assert b"canary" not in value_of(store, key)


def test_nothing_that_anybody_wrote_is_in_redis(open_engine: Open, provider: Provider, store: redis.Redis) -> None:
    """No word of a question, a context, a claim, a model or a chunk; the ids of chunks are there."""
    engine = open_engine(provider)
    caller = asker("canary-user", tenant_id="canary-tenant")
    for profile in (*MODELS, "hybrid_rrf"):
        job = {"question": f"canary-question {HUM}", "context": 'sound("canary-sound")', "profile": profile}
        answer = ask(engine, caller, **job)
        assert state(answer) == "miss"
        assert ids(answer)
    there = b"\n".join(itertools.chain.from_iterable((key, value_of(store, key)) for key in entries(store)))
    assert len(entries(store)) == len(MODELS) + 1
    assert ids(answer)[0].encode() in there
    assert b"canary" not in there
    for chunk in answer["package"]["candidates"]:
        words = chunk["text"].split()
        assert not any(" ".join(words[i : i + 2]).encode() in there for i in range(len(words) - 1))


# --- what stands in Redis -----------------------------------------------------------------------


def planted(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    """An entry with something done to it."""

    def plant(value: bytes) -> bytes:
        entry = orjson.loads(value)
        change(entry)
        return orjson.dumps(entry)

    return plant


FIGURES: dict[str, Any] = {
    **dict.fromkeys(["primary_count", "contextual_count", "sparse_count", "merged_count", "duplicate_count"], 1),
    "dedup_rate": 0.5,
    "top_similarity": {"primary": 0.5},
    "mean_similarity": {"primary": 0.5},
    "contextual": "skipped",
}
"""As an entry of `retrieve_hybrid` has them."""

POISON: dict[str, Callable[[bytes], bytes]] = {
    "cut short": lambda value: value[:-20],
    "a leg of another profile": planted(lambda entry: entry["chunks"][0]["scores"]["legs"][0].update(leg="hyde")),
    "a leg of hybrid retrieval": planted(lambda entry: entry["chunks"][0]["scores"]["legs"][0].update(leg="primary")),
    "a text in a chunk": planted(lambda entry: entry["chunks"][0].update(text="planted")),
    "a corpus that was not asked": planted(lambda entry: entry["chunks"][0].update(corpus="examples")),
    "a chunk twice": planted(lambda entry: entry["chunks"].__setitem__(1, entry["chunks"][0])),
    "too many chunks": planted(
        lambda entry: entry["chunks"].extend({**entry["chunks"][-1], "chunk_id": f"more-{i}"} for i in range(9))
    ),
    "figures": planted(lambda entry: entry["metrics"].update(documents=FIGURES)),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
def test_a_value_that_no_worker_wrote_is_a_miss(
    engine: Engine, store: redis.Redis, capfd: pytest.CaptureFixture[str], poison: Callable[[bytes], bytes]
) -> None:
    """Searched again, with a warning that quotes nothing of it, and overwritten."""
    first = ask(engine, question=HUM)
    (key,) = entries(store)
    store.set(key, poison(value_of(store, key)))
    capfd.readouterr()
    second = ask(engine, question=HUM)
    assert state(second) == "miss"
    assert repeated(second) == repeated(first)
    (line,) = [line for line in "".join(capfd.readouterr()).splitlines() if "cache" in line]
    assert "cache entry ignored" in line
    assert "planted" not in line
    assert state(ask(engine, question=HUM)) == "hit"


def test_a_planted_id_shows_nobody_more_than_it_may_see(engine: Engine, store: redis.Redis) -> None:
    """Rows come from Postgres under the caller's rights, whatever Redis says."""
    job = {"question": "the last song of the salt letters, and the ferry", "k": 50}
    assert "notebook-alice-tideline" in json.dumps(ask(engine, "alice", **job))
    (alices,) = entries(store)
    before = ask(engine, "bob", **job)
    (bobs,) = {*entries(store)} - {alices}
    store.set(bobs, value_of(store, alices))
    answer = ask(engine, "bob", **job)
    assert state(answer) == "miss"
    assert repeated(answer) == repeated(before)


def test_a_redis_that_is_away_is_done_without(open_engine: Open) -> None:
    """The same answer, as a miss; then it is left alone for a while."""
    there = ask(open_engine(), question=HUM)
    away = open_engine(cache={**ON, "url": "redis://127.0.0.1:1/0"})
    answers = [ask(away, question=HUM) for _ in range(2)]
    assert [state(answer) for answer in answers] == ["miss", None]
    assert {repeated(answer) for answer in answers} == {repeated(there)}
