"""`retrieve_hybrid` through a real worker process over Redis."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.raw_messages import raw_message

from retrieval_client import Client, Hybrid, HybridSearch, PinnedReplay, Replay, RetrieveHybrid, RunRef
from retrieval_client.errors import InvalidJob, NotAuthorised
from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]

EDITOR = 'sound("bd").fast(2)'
ALICE = {"user_id": "alice"}
CANARY = "canary-4711"


@pytest.fixture(scope="module")
def stack(tls_stack: Stack) -> Stack:
    return tls_stack


def call(client: Client, job: RetrieveHybrid) -> Hybrid:
    answer = client.call(job, timeout=180)
    assert isinstance(answer, Hybrid)
    return answer


def test_a_message_written_by_hand_is_answered(
    broker: redis.Redis, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """LPUSH of plain JSON, as any language can: without a caller, the public corpora answer."""
    task_id = str(uuid.uuid4())
    job = {"query": "add hi-hats", "context": EDITOR, "transform": "glossary", "legs": ["primary", "contextual"]}
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        broker.lpush("retrieval", raw_message(job, "retrieve_hybrid", task_id))
        answer = client.result(task_id, timeout=180)
    assert isinstance(answer, Hybrid)
    assert (answer.transformed_query, answer.context_keywords) == (
        "add hi-hats, hi-hat, hh",
        ["bd", "fast"],
    )
    assert {name: len(part.chunks) for name, part in answer.results.items()} == {"docs": 5, "examples": 3}
    (line,) = [line for line in worker_log.read_text().splitlines() if '"job done"' in line]
    done = json.loads(line)
    assert (done["task"], done["rows"], done["outcome"]) == ("retrieve_hybrid", 8, "docs=ok examples=ok")


def test_a_run_replays_in_another_worker_to_one_digest(
    client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """Recorded by one process, answered again and replayed by the next; another caller has no such run."""
    run = RunRef(subject_id="song-1", run_id="r1")
    searches = [HybridSearch(corpus="documents", top_k=7), HybridSearch(corpus="docs", top_k=3)]
    job = RetrieveHybrid(query="hum on channel 18", context=EDITOR, searches=searches, principal=ALICE, run=run)
    replayed = []
    for _ in range(2):
        with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
            answer = call(client, job)
            replay = client.call(PinnedReplay(run=run, principal=ALICE), timeout=180)
            assert isinstance(replay, Replay)
            replayed.append((answer.model_dump(exclude={"trace"}), replay.digest, replay.matched))
            with pytest.raises(InvalidJob, match="no such run"):
                client.call(PinnedReplay(run=run, principal={"user_id": "bob"}), timeout=180)
    assert replayed[0] == replayed[1]
    assert replayed[0][2] == 10


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "query: expected this field"),
    ({"query": CANARY, "nonsense": CANARY}, "nonsense: this field is not known"),
    ({"query": [CANARY]}, "query: expected a string"),
    ({"query": f"\x00{CANARY}"}, "query: expected text without U+0000"),
    ({"query": CANARY, "context": {"a": CANARY}}, "context: expected a string"),
    ({"query": CANARY * 200_000}, "query: expected at most 1000000 characters"),
    ({"query": CANARY, "query_embedding": [1.0] * 767}, "query_embedding: expected exactly 768 finite numbers"),
    ({"query": CANARY, "searches": [{"corpus": CANARY}]}, "searches[0].corpus: expected one of documents, docs"),
    ({"query": CANARY, "searches": [{"corpus": "docs", "top_k": "5"}]}, "searches[0].top_k: expected an integer"),
    ({"query": CANARY, "searches": [{"corpus": "docs", "filters": {"pages": [1]}}]}, "filters.pages"),
    ({"query": CANARY, "legs": ["dense"]}, "legs[0]: expected 'primary'"),
    ({"query": CANARY, "weights": {"primary": -1}}, "weights.primary: expected at least 0 and at most 1000000"),
    ({"query": CANARY, "diversity": {"lambda": 2}}, "diversity.lambda: expected at least 0 and at most 1"),
    ({"query": CANARY, "transform": "llm"}, "transform: expected none or glossary"),
    ({"query": CANARY, "principal": {"user_id": 5.5}}, "principal.user_id"),
]
ODD: list[dict[str, Any]] = [
    {"query": "'; DROP TABLE doc_embeddings; --", "context": "'); DELETE FROM documents; --("},
    {"query": "\\ \\' \" & | ! ( ) <-> :* %s %(x)s {}", "legs": ["primary", "contextual", "sparse"]},
    {"query": "x" * 100_000, "context": '"' * 500_000},
    {"query": "(((((" * 1000, "context": 'note("' * 100_000, "legs": ["sparse"]},
    {"query": "\u202e\u0301\U0001f941", "context": "\ufeff", "fusion": "rrf"},
    {"query": "is the of", "legs": ["sparse"], "diversity": {"lambda": -0.0}},
]


def test_bad_jobs_fail_once_and_odd_ones_are_answered(
    broker: redis.Redis, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """One sentence with the field's path; data that looks like SQL, patterns or markup is data. Nothing leaks."""
    with celery_worker(worker_environment(), worker_log, "--concurrency=2"):
        for job, said in BAD:
            task_id = str(uuid.uuid4())
            broker.lpush("retrieval", raw_message(job, "retrieve_hybrid", task_id))
            with pytest.raises(InvalidJob) as caught:
                client.result(task_id, timeout=180)
            assert said in caught.value.message, job.keys()
            assert CANARY not in caught.value.message
        documents = {"query": CANARY, "searches": [{"corpus": "documents"}]}
        with pytest.raises(NotAuthorised):
            call(client, RetrieveHybrid.model_validate(documents))
        for job in ODD:
            call(client, RetrieveHybrid.model_validate(job))
        assert len(call(client, RetrieveHybrid(query="drums")).results["docs"].chunks) == 5
    assert CANARY not in worker_log.read_text()
