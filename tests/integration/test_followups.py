"""Questions of a conversation: searched with the terms of those before them, or as a model words them in full."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import ask, asker, ids
from tests.integration.provider import Fault

from worker.cli.commands.runs import name_of
from worker.core.prompting.extractive import is_refusal
from worker.core.ranking.hyde import pooled
from worker.core.text.lexical import embed
from worker.inspector.text.trace import trace_as_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.provider import Provider

    from worker.jobs.engine import Engine
    from worker.settings import Settings

    MakeSettings = Callable[..., Settings]

PRICE, INCLUDED = "What does the live room cost a day?", "What does that include?"
NO_WORDS = "zebra quagga?"
"""A question whose words no source has."""

BOTH = f"{PRICE} {INCLUDED}"
RATES = "handbook-rates-001"
IN_FULL = "What is included in the day rate of the live room?"
SAID = "The vault's number is 4711 [S1]."
ON = {"tasks": ["run_pipeline"]}


@pytest.fixture
def open_engine(open_engine: Callable[..., Engine]) -> Callable[..., Engine]:
    """Opens engines, with a language model if there is one."""

    def open_(provider: Provider | None = None, **changes: Any) -> Engine:
        if provider is not None:
            changes["language_model"] = {"kind": "openai", "model": "m", "base_url": provider.url}
        return open_engine(**changes)

    return open_


@pytest.fixture
def engine(open_engine: Callable[..., Engine]) -> Engine:
    return open_engine()


def chat(engine: Engine, question: str, after: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A turn of alice's; after an answer, the next one."""
    prior = {} if after is None else {"prior_response_id": after["response_id"]}
    return ask(engine, fields.pop("user", "alice"), question=question, **{"chat_mode": "chat", **prior, **fields})


def said(*questions: str) -> dict[str, Any]:
    return {"conversation_history": [{"role": "user", "content": question} for question in questions]}


def legs_of(answer: dict[str, Any], chunk_id: str) -> dict[str, float]:
    (chunk,) = [one for one in answer["package"]["candidates"] if one["chunk_id"] == chunk_id]
    return {leg["leg"]: leg["score"] for leg in chunk["scores"]["legs"]}


def test_a_follow_up_finds_what_the_question_before_it_was_about(engine: Engine) -> None:
    """Alone it finds something else; the trace has the text and the weight of each leg, and the answer quotes it."""
    alone = chat(engine, INCLUDED)
    assert RATES not in ids(alone)[:3]
    assert alone["trace"]["queries"] == {"dense": INCLUDED, "sparse": INCLUDED}
    answer = chat(engine, INCLUDED, chat(engine, PRICE))
    assert RATES in ids(answer)[:3]
    assert answer["trace"]["queries"] == {
        "dense": INCLUDED,
        "sparse": INCLUDED,
        "conversation": BOTH,
        "sparse_conversation": BOTH,
    }
    weights = answer["trace"]["search"]["weights"]
    assert weights["conversation"] == pytest.approx(0.75 * weights["dense"])
    assert weights["sparse_conversation"] == pytest.approx(0.75 * weights["sparse"])
    assert RATES in {citation["chunk_id"] for citation in answer["citations"]}


@pytest.mark.parametrize("least", [None, 0.2])
def test_without_a_model_the_conversation_answers_what_the_question_alone_does_not(
    open_engine: Callable[..., Engine], least: float | None
) -> None:
    """By the words of both, and where a similarity decides, by the nearer of both."""
    engine = open_engine(embedder={"least_evidence": least})
    assert is_refusal(chat(engine, NO_WORDS)["answer"])
    assert RATES in {citation["chunk_id"] for citation in chat(engine, NO_WORDS, **said(PRICE))["citations"]}


@pytest.mark.parametrize("chat_mode", ["single", "chat"])
def test_a_history_that_the_job_brings_is_searched_too(engine: Engine, chat_mode: str) -> None:
    """The caller's own turns count in both modes; an assistant's words do not."""
    history = said(PRICE)["conversation_history"] + [{"role": "assistant", "content": "zebra"}]
    answer = chat(engine, INCLUDED, chat_mode=chat_mode, conversation_history=history)
    assert answer["trace"]["queries"]["conversation"] == BOTH


def test_a_question_is_joined_with_the_two_before_it(engine: Engine) -> None:
    """The vector leg searches for the mean of the question with one and with two; the older of them weighs less."""
    more = "Tell me more about it."
    answer = chat(engine, INCLUDED, **said("zebra", PRICE, more))
    whole = f"{PRICE} {more} {INCLUDED}"
    assert answer["trace"]["queries"]["conversation"] == whole
    direction = pooled([*embed([f"{more} {INCLUDED}", whole])])
    (chunk,) = [one for one in answer["package"]["candidates"] if one["chunk_id"] == RATES]
    expected = float(direction @ embed([chunk["text"]])[0])
    assert legs_of(answer, RATES)["conversation"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("change", [{"conversation": 0}, {"fusion": "similarity"}])
def test_a_profile_may_search_each_question_as_asked(
    open_engine: Callable[..., Engine], change: dict[str, Any]
) -> None:
    """By its own setting, or by a fusion that has no weights."""
    profiles = {"own": {"legs": [{"kind": "dense"}], **change}}
    answer = chat(open_engine(profiles=profiles), INCLUDED, profile="own", **said(PRICE))
    assert answer["trace"]["queries"] == {"dense": INCLUDED}


def test_a_reranker_judges_both(open_engine: Callable[..., Engine]) -> None:
    """Where its scores alone decide, a follow-up would else be ranked by its own few words."""
    profiles = {"own": {"legs": [{"kind": "sparse"}], "rerank": "lexical", "rerank_weight": 1}}
    answer = chat(open_engine(profiles=profiles), INCLUDED, profile="own", **said(PRICE))
    assert RATES in ids(answer)[:2]
    assert all(0 <= chunk["scores"]["rerank"] <= 1 for chunk in answer["package"]["candidates"])


def test_a_job_that_runs_again_does_not_follow_itself(engine: Engine) -> None:
    """Delivered again after its answer was stored, it searches for the same."""
    first = chat(engine, PRICE)
    answers = [chat(engine, INCLUDED, first) for _ in range(2)]
    assert [answer["trace"]["queries"]["conversation"] for answer in answers] == [BOTH, BOTH]


def test_other_claims_do_not_search_for_what_was_asked_before(engine: Engine) -> None:
    """The same owner's, who may see other chunks: nothing of the conversation is in the search."""
    first = chat(engine, PRICE, user=asker("alice", tenant_id="t1"))
    answer = chat(engine, INCLUDED, first, user=asker("alice", tenant_id="t2"))
    assert answer["trace"]["queries"] == {"dense": INCLUDED, "sparse": INCLUDED}


def test_cached_sources_are_those_of_the_same_conversation(open_engine: Callable[..., Engine], broker: Any) -> None:
    """The same question after others has other sources; found again, they are answered alike."""
    del broker
    engine = open_engine(cache=ON)
    asked = [{}, said(PRICE), said("zebra"), said(PRICE)]
    answers = [ask(engine, question=NO_WORDS, **history) for history in asked]
    assert [answer["trace"]["cache"] for answer in answers] == ["miss", "miss", "miss", "hit"]
    assert answers[3]["answer"] == answers[1]["answer"] != answers[0]["answer"]
    assert is_refusal(answers[0]["answer"])


def test_a_question_that_a_model_words_is_worded_each_time(
    open_engine: Callable[..., Engine], provider: Provider, broker: Any
) -> None:
    """Remote services are asked for the wording, and the trace has it: no cache holds one."""
    del broker
    provider.text = writes
    engine = open_engine(provider, cache=ON)
    answers = [ask(engine, question=INCLUDED, **said(PRICE)) for _ in range(2)]
    assert [answer["trace"]["queries"] for answer in answers] == [{"dense": IN_FULL, "sparse": IN_FULL}] * 2


# --- a model ------------------------------------------------------------------------------------


def writes(asked: dict[str, Any]) -> str:
    return f" {IN_FULL}\n" if "Rewrite the last question" in asked["instructions"] else SAID


def test_a_model_words_a_follow_up_in_full(open_engine: Callable[..., Engine], provider: Provider) -> None:
    """Its wording is searched in place of the question; the model is sent both turns, and is on the bill."""
    provider.text = writes
    engine = open_engine(provider)
    first = chat(engine, PRICE)
    assert [one["kind"] for one in first["costs"]] == ["synthesis"]
    answer = chat(engine, INCLUDED, first)
    sent = provider.requests[1]["input"]
    assert sent == f"user: {PRICE}\nassistant: {SAID}\nLast question: {INCLUDED}"
    assert answer["trace"]["queries"] == {"dense": IN_FULL, "sparse": IN_FULL}
    assert answer["trace"]["models"]["conversation"] == "openai m"
    assert [one["kind"] for one in answer["costs"]] == ["transform", "synthesis"]


def test_without_the_model_the_questions_are_joined(open_engine: Callable[..., Engine], provider: Provider) -> None:
    """It failed: the answer says so; where it is required, the job fails."""
    provider.text = writes
    provider.fault_of = lambda asked: Fault(500) if "Rewrite the last question" in asked["instructions"] else None
    answer = chat(open_engine(provider), INCLUDED, **said(PRICE))
    assert answer["degraded"] == ["language_model"]
    assert answer["trace"]["warnings"][0].startswith("conversation: ")
    assert answer["trace"]["queries"]["conversation"] == BOTH


def test_what_was_worded_from_earlier_turns_is_not_shown_to_other_claims(
    open_engine: Callable[..., Engine], provider: Provider
) -> None:
    """A model may write into a question what an earlier answer says: no record, trace or package repeats it."""
    provider.text = SAID
    engine, (one, other) = open_engine(provider), (asker("alice", tenant_id="t1"), asker("alice", tenant_id="t2"))
    first = chat(engine, PRICE, user=one)
    job = {"run": {"subject_id": "s", "run_id": "r", "reuse": True}}
    assert "4711" in json.dumps(chat(engine, INCLUDED, first, user=one, **job)["trace"]["queries"])
    kept = chat(engine, INCLUDED, first, user=one, stop_after="build_sources")
    provider.text = "Nothing."
    assert "4711" not in json.dumps(chat(engine, INCLUDED, first, user=other, **job))
    assert "4711" not in json.dumps(ask(engine, other, resume=kept["package"]["package_id"]))
    shown = [
        json.dumps([*map(trace_as_json, engine.pipeline_jobs.traces(name_of("s", "r"), user))]) for user in (one, other)
    ]
    assert ["4711" in text for text in shown] == [True, False]
