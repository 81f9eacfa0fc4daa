"""Answers of a real worker while an embeddings server or a language model fails, over real HTTP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.provider import Fault, Provider

from retrieval_client import Client, Hybrid, PipelineAnswer, RetrieveHybrid, RunPipeline, RunRef
from retrieval_client.errors import Unavailable
from workbench.devstack.workers import celery_worker
from worker.adapters.providers.http_client import RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Environment = Callable[..., dict[str, str]]

ALICE = {"user_id": "alice"}
HUM = "What causes the 50 Hz hum on channel 18?"
EDITOR = 'sound("bd").fast(2)'
KEYWORDS = "bd fast"
QUERY = "add hi-hats"
DEADLINE = 4.0

FAILURES: dict[str, Fault] = {
    "400": Fault(400),
    "401": Fault(401),
    "500": Fault(500),
    "429": Fault(429, retry_after="100"),
    "too late": Fault(stalls=True),
    "byte by byte": Fault(drips=True),
    "cut": Fault(cut=True),
    "no JSON": Fault(body="<html>"),
    "no vectors": Fault(body={"data": []}),
    "a vector without a direction": Fault(body={"data": [{"index": 0, "embedding": [0.0] * 768}]}),
    "too many dimensions": Fault(body={"data": [{"index": 0, "embedding": [1.0] * 4096}]}),
    "a redirect": Fault(302),
}


@pytest.fixture
def environment(worker_environment: Environment, provider: Provider) -> dict[str, str]:
    """That of a worker whose embedder and language model are the provider's, with little patience."""
    return worker_environment(
        HYBRID__DEADLINE_SECONDS=str(DEADLINE),
        EMBEDDER__KIND="openai",
        EMBEDDER__MODEL="lexical",  # as recorded for the corpora: nothing but jobs' texts is sent
        EMBEDDER__BASE_URL=provider.url,
        LANGUAGE_MODEL__KIND="openai",
        LANGUAGE_MODEL__MODEL="m",
        LANGUAGE_MODEL__BASE_URL=provider.url,
        LANGUAGE_MODEL__TIMEOUT_SECONDS="2",
    )


def hybrid(client: Client, **fields: Any) -> Hybrid:
    job = RetrieveHybrid.model_validate({"principal": ALICE, "query": QUERY, **fields})
    answer = client.call(job, timeout=180)
    assert isinstance(answer, Hybrid)
    return answer


def pipeline(client: Client, **fields: Any) -> PipelineAnswer:
    answer = client.call(RunPipeline.model_validate({"principal": ALICE, "question": HUM, **fields}), timeout=180)
    assert isinstance(answer, PipelineAnswer)
    return answer


def fails(provider: Provider, fault: Fault, words: str) -> None:
    """Let every embedding of a text with these words fail."""
    provider.fault_of = lambda asked: fault if any(words in text for text in asked.get("input", [])) else None


def reported(answer: Hybrid | PipelineAnswer) -> dict[str, Any]:
    """Return the part of an answer that a repeat repeats."""
    return answer.model_dump(exclude={"trace", "costs"})


def test_a_contextual_variant_that_fails_leaves_the_primarys_answer(
    client: Client, environment: dict[str, str], provider: Provider, worker_log: Path
) -> None:
    """However its embedding fails, and within the deadline; in `retrieve_hybrid` and in the mode `code` alike."""
    with celery_worker(environment, worker_log, "--concurrency=1"):
        alone, code_alone = hybrid(client), pipeline(client, mode="code", stop_after="build_sources")
        whole = hybrid(client, context=EDITOR)
        for name, fault in FAILURES.items():
            fails(provider, fault, KEYWORDS)
            began = time.monotonic()
            answer = hybrid(client, context=EDITOR)
            assert time.monotonic() - began < DEADLINE, name
            code = pipeline(client, mode="code", context=EDITOR, stop_after="build_sources")
            assert answer.degraded == code.degraded == ["contextual"], name
            for corpus, metrics in answer.metrics.items():
                assert metrics.contextual == "failed", name
                assert metrics.contextual_error, name
                ours, theirs = answer.results[corpus].chunks, alone.results[corpus].chunks
                assert [chunk.chunk_id for chunk in ours] == [chunk.chunk_id for chunk in theirs], name
            assert [one.chunk_id for one in code.package.candidates] == [
                one.chunk_id for one in code_alone.package.candidates
            ], name
        provider.fault_of = lambda _: None
        assert reported(hybrid(client, context=EDITOR)) == reported(whole)
    assert (whole.degraded, alone.degraded, whole.metrics["docs"].contextual) == ([], [], "used")
    assert "the secret" not in worker_log.read_text()


def test_query_and_context_never_share_a_call(
    client: Client, environment: dict[str, str], provider: Provider, worker_log: Path
) -> None:
    """Each is the only text of its request."""
    with celery_worker(environment, worker_log, "--concurrency=1"):
        hybrid(client, context=EDITOR)
        pipeline(client, mode="code", context=EDITOR, stop_after="build_sources")
    sent = sorted(text for asked in provider.requests for text in asked["input"])
    assert sent == sorted([QUERY, f"{QUERY} {KEYWORDS}", HUM, f"{HUM} {KEYWORDS}"])
    assert len(provider.requests) == 4


def test_a_degraded_answer_is_recorded_as_one_and_never_cached(
    client: Client, environment: dict[str, str], provider: Provider, worker_log: Path
) -> None:
    """Its record replays it as it was; the next job finds nothing of it in the cache."""
    environment["RETRIEVAL_WORKER_CACHE__TASKS"] = '["retrieve_hybrid", "run_pipeline"]'
    run = RunRef(subject_id="song-1", run_id="r1")
    code: dict[str, Any] = {"mode": "code", "context": EDITOR, "stop_after": "build_sources"}
    with celery_worker(environment, worker_log, "--concurrency=1"):
        fails(provider, Fault(500), KEYWORDS)
        recorded, failed, sources = hybrid(client, context=EDITOR, run=run), hybrid(client, context=EDITOR), []
        sources.append(pipeline(client, **code))
        provider.fault_of = lambda _: None
        again = hybrid(client, context=EDITOR, run=run)
        reused = hybrid(client, query="other words", run=RunRef(subject_id="song-1", run_id="r1", reuse=True))
        after = [hybrid(client, context=EDITOR) for _ in range(2)]
        sources += [pipeline(client, **code) for _ in range(2)]
    assert reported(again) == reported(recorded) == reported(reused)
    assert (recorded.degraded, failed.degraded) == (["contextual"], ["contextual"])
    assert [answer.degraded for answer in after] == [[], []]
    assert [answer.trace.cache for answer in (failed, *after)] == ["miss", "miss", "hit"]
    assert [(answer.degraded, answer.trace.cache) for answer in sources] == [
        (["contextual"], "miss"),
        ([], "miss"),
        ([], "hit"),
    ]


def test_hypothetical_answers_that_came_are_pooled(
    client: Client, environment: dict[str, str], provider: Provider, worker_log: Path
) -> None:
    """One of three fails: the two others; all fail: the question itself, and it is said."""
    provider.text = lambda asked: f"Said to: {asked['instructions'][-60:]}"

    def first(asked: dict[str, Any]) -> Fault | None:
        return Fault(500) if "Passage 1 of 3" in asked.get("instructions", "") else None

    def every(asked: dict[str, Any]) -> Fault | None:
        return Fault(500) if "Passage" in asked.get("instructions", "") else None

    with celery_worker(environment, worker_log, "--concurrency=1"):
        answers = []
        for fault_of in (first, every):
            provider.fault_of = fault_of
            answers.append(pipeline(client, profile="hyde_hybrid"))
        some, none = answers
        plain = pipeline(client, profile="hybrid_rrf")
    assert (some.degraded, len(some.trace.hyde)) == ([], 2)
    assert "hyde" in some.trace.queries
    assert [warning.split(":")[0] for warning in some.trace.warnings] == ["hyde"]
    assert (none.degraded, none.trace.hyde, none.status) == (["hyde"], [], "ok")
    assert none.trace.queries == plain.trace.queries
    scored = {leg.leg for candidate in none.package.candidates for leg in candidate.scores.legs}
    assert scored == {"dense", "sparse"}


def test_without_its_language_model_the_sources_answer(
    client: Client, environment: dict[str, str], provider: Provider, worker_log: Path
) -> None:
    """With their own sentences, however it fails; a job that requires the model is `Unavailable`."""
    environment["RETRIEVAL_WORKER_WORKER__MAX_OUTAGE_SECONDS"] = "0.05"  # one pause
    with celery_worker(environment, worker_log, "--concurrency=1"):
        whole = pipeline(client, require_model=True)
        for name in ("500", "400", "401", "429", "too late", "no JSON"):
            run = RunRef(subject_id="desk", run_id=name)
            provider.fault_of = lambda asked, fault=FAILURES[name]: fault if "instructions" in asked else None
            answer = pipeline(client, run=run)
            asked, tries = len(provider.requests), 1 + RETRIES if FAILURES[name].is_retried else 1
            with pytest.raises(Unavailable, match="the language model's server"):
                pipeline(client, require_model=True)
            assert sum("instructions" in one for one in provider.requests[asked:]) == 2 * tries, name
            provider.fault_of = lambda _: None
            assert reported(pipeline(client, run=run)) == reported(answer), name
            assert (answer.status, answer.degraded) == ("ok", ["language_model"]), name
            assert answer.answer != provider.text, name
            assert {one.quote for one in answer.citations} == {"verbatim"}, name
            assert answer.package.candidates == whole.package.candidates, name
    assert (whole.degraded, whole.answer) == ([], provider.text)
    assert "the secret" not in worker_log.read_text()
