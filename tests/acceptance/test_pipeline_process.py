"""`run_pipeline` through real worker processes, on the queue `pipeline`."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.integration.provider import Fault, Provider, provider_that_says
from tests.raw_messages import raw_message
from tests.waiting import wait_for

from retrieval_client import Client, PipelineAnswer, RunPipeline, RunRef
from retrieval_client.errors import InvalidJob, NotAuthorised, Unavailable
from workbench.devstack.workers import celery_worker
from worker.adapters.providers.http_client import RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]

HUM = "What causes the 50 Hz hum on channel 18?"
SAID = "A dried-out 470 µF supply capacitor is the likely cause [S1]."
ALICE = {"user_id": "alice"}
CANARY = "canary-4711"

provider = provider_that_says(SAID)


@pytest.fixture
def with_model(worker_environment: Environment, provider: Provider) -> dict[str, str]:
    """The environment of a worker that asks the provider."""
    return worker_environment(
        LANGUAGE_MODEL__KIND="openai",
        LANGUAGE_MODEL__MODEL="m",
        LANGUAGE_MODEL__BASE_URL=provider.url,
        WORKER__MAX_OUTAGE_SECONDS="0.05",  # one pause
    )


def call(client: Client, **fields: Any) -> PipelineAnswer:
    answer = client.call(RunPipeline.model_validate({"principal": ALICE, **fields}), timeout=180)
    assert isinstance(answer, PipelineAnswer)
    return answer


def push(broker: redis.Redis, job: Any, task_id: str | None = None) -> str:
    """Plain JSON onto the queue, as any language can."""
    task_id = task_id or str(uuid.uuid4())
    broker.lpush("pipeline", raw_message(job, "run_pipeline", task_id))
    return task_id


def responses(admin: psycopg.Connection[Any]) -> int:
    row = admin.execute("SELECT count(*) FROM retrieval.responses").fetchone()
    assert row is not None
    return int(row[0])


def test_a_message_written_by_hand_is_answered(
    broker: redis.Redis, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """By a worker that serves this queue alone, offline; nothing of question, sources or answer is in its log."""
    job = {"question": HUM, "principal": ALICE, "chat_mode": "chat"}
    with celery_worker(worker_environment(), worker_log, "--concurrency=1", queues="pipeline"):
        answer = client.result(push(broker, job), timeout=180)
    assert isinstance(answer, PipelineAnswer)
    assert answer.status == "ok"
    assert answer.answer
    assert answer.citations
    assert answer.citations[0].label in answer.package.source_labels
    log = worker_log.read_text()
    (line,) = [line for line in log.splitlines() if '"job done"' in line]
    done = json.loads(line)
    assert (done["task"], done["rows"], done["outcome"]) == ("run_pipeline", 8, "ok")
    for text in (HUM, answer.answer, *(chunk.text for chunk in answer.package.candidates)):
        assert text[:30] not in log


def test_a_backend_sees_where_a_job_is(
    client: Client, with_model: dict[str, str], provider: Provider, worker_log: Path
) -> None:
    """While the model writes, the job's state says so; then it is answered."""
    seen = []

    def slowly(_: dict[str, Any]) -> str:
        wait_for(lambda: client.progress(task_id).stage == "execute")
        seen.append(client.progress(task_id))
        return SAID

    provider.text = slowly
    task_id = str(uuid.uuid4())
    with celery_worker(with_model, worker_log, "--concurrency=1"):
        client.enqueue(RunPipeline(question=HUM, principal=ALICE), task_id=task_id)
        answer = client.result(task_id, timeout=180)
        assert client.progress(task_id).state == "SUCCESS"
    assert isinstance(answer, PipelineAnswer)
    assert answer.answer == SAID
    assert [(one.state, one.stage, one.done, one.total) for one in seen] == [("PROGRESS", "execute", 1, 1)]


def test_a_conversation_goes_on_in_another_process(
    client: Client, with_model: dict[str, str], provider: Provider, worker_log: Path, admin: psycopg.Connection[Any]
) -> None:
    """Two turns with one worker, the third with another, which also resumes what the first one kept."""
    with celery_worker(with_model, worker_log, "--concurrency=1"):
        first = call(client, question="a beat", mode="code", chat_mode="chat")
        second = call(client, question="faster", mode="code", chat_mode="chat", prior_response_id=first.response_id)
        kept = call(client, question=HUM, stop_after="build_sources").package.package_id
    with celery_worker(with_model, worker_log, "--concurrency=1"):
        third = call(client, question="slower", mode="code", chat_mode="chat", prior_response_id=second.response_id)
        resumed = call(client, resume=kept)
        with pytest.raises(InvalidJob, match="prior_response_id: no such response"):
            call(client, question="And?", prior_response_id=first.response_id, principal={"user_id": "bob"})
    answering = [one for one in provider.requests if "prompt_cache_key" in one]  # others reword a follow-up
    assert [one.get("previous_response_id") for one in answering] == [None, "resp_1", "resp_2", None]
    assert len({answer.conversation_id for answer in (first, second, third)}) == 1
    assert len({one["prompt_cache_key"] for one in answering[:3]}) == 1
    assert third.trace.warnings == []
    assert (resumed.answer, resumed.status) == (SAID, "ok")
    assert responses(admin) == 4


def test_a_message_that_is_delivered_twice_makes_one_response(
    broker: redis.Redis,
    stack: Stack,
    client: Client,
    with_model: dict[str, str],
    provider: Provider,
    worker_log: Path,
    admin: psycopg.Connection[Any],
) -> None:
    """The same ids both times, one row; and a run is answered the second time without the provider."""
    task_id, plain = str(uuid.uuid4()), {"question": HUM, "principal": ALICE, "chat_mode": "chat"}
    answers = []
    with (
        celery_worker(with_model, worker_log, "--concurrency=1"),
        redis.Redis.from_url(stack.redis.url(1)) as results,
    ):
        for _ in range(2):
            push(broker, plain, task_id)
            answers.append(client.result(task_id, timeout=180))
            results.delete(f"celery-task-meta-{task_id}")
        asked = len(provider.requests)
        run = RunRef(subject_id="s", run_id="r")
        recorded = [call(client, question=HUM, run=run) for _ in range(2)]
    first, second = answers
    assert isinstance(first, PipelineAnswer)
    assert isinstance(second, PipelineAnswer)
    assert (first.response_id, first.conversation_id) == (second.response_id, second.conversation_id)
    assert first.package.package_id == second.package.package_id
    assert recorded[0].model_dump(exclude={"trace", "costs"}) == recorded[1].model_dump(exclude={"trace", "costs"})
    assert (asked, len(provider.requests)) == (2, 3)
    assert responses(admin) == 2


def test_a_provider_that_is_away_is_tried_again_and_then_unavailable(
    client: Client, with_model: dict[str, str], provider: Provider, worker_log: Path
) -> None:
    """Once is waited for by a job that requires it; what is asked stands neither in the error nor in the log."""
    with celery_worker(with_model, worker_log, "--concurrency=1"):
        provider.faults.append(Fault(429))
        assert call(client, question=HUM, require_model=True).answer == SAID
        provider.status = 503
        with pytest.raises(Unavailable, match="language model's server failed") as caught:
            call(client, question=CANARY, require_model=True)
    assert len(provider.requests) == 2 + 2 * (1 + RETRIES)
    assert CANARY not in caught.value.message
    assert CANARY not in worker_log.read_text()


BAD: list[tuple[Any, str]] = [
    ({}, "question: expected this field, or resume instead"),
    ([CANARY], "expected one job object as the only positional argument"),
    ({"question": CANARY, "nonsense": CANARY}, "nonsense: this field is not known"),
    ({"question": [CANARY]}, "question: expected a string"),
    ({"question": ""}, "question: expected at least 1 character"),
    ({"question": " \n\u2003"}, "question: expected more than white space"),
    ({"question": f"\x00{CANARY}"}, "question: expected text without U+0000"),
    ({"question": CANARY * 10_000}, "question: expected at most 100000 characters"),
    ({"question": CANARY, "k": "3"}, "k: expected an integer"),
    ({"question": CANARY, "k": True}, "k: expected an integer"),
    ({"question": CANARY, "mode": CANARY}, "mode: expected one of grounded, code, lyrics, extraction"),
    ({"question": CANARY, "profile": CANARY}, "profile: expected one of dense, hybrid, hybrid_rrf, dense_rerank"),
    ({"question": CANARY, "profile": "hyde_hybrid"}, "profile: expected a profile that needs no language model"),
    ({"question": CANARY, "chat_mode": CANARY}, "chat_mode: expected 'single' or 'chat'"),
    ({"question": CANARY, "filters": {"nonsense": []}}, "filters.nonsense: this field is not known"),
    ({"question": CANARY, "filters": {"pages": ["1"]}}, "filters.pages"),
    ({"question": CANARY, "mode": "code", "filters": {"pages": [1]}}, "filters.pages"),
    ({"question": CANARY, "searches": []}, "searches: expected at least 1 item"),
    ({"question": CANARY, "searches": [{"corpus": CANARY}]}, "searches[0].corpus: expected one of documents, docs"),
    ({"question": CANARY, "searches": [{"corpus": "docs"}] * 2}, "searches: expected each one once"),
    ({"question": CANARY, "pinned_chunks": [CANARY]}, "pinned_chunks[0]"),
    (
        {"question": CANARY, "conversation_history": [{"role": "system", "content": CANARY}]},
        "conversation_history[0].role: expected 'user' or 'assistant'",
    ),
    ({"question": CANARY, "stop_after": "execute"}, "stop_after: expected 'build_sources' or 'synthesize_context'"),
    ({"question": CANARY, "resume": CANARY}, "expected resume without question: the package has its own"),
    ({"resume": CANARY}, "resume: no such package"),
    ({"resume": {"package_id": CANARY}}, "resume: expected a string"),
    ({"question": CANARY, "package": {"context_block": CANARY}}, "package: this field is not known"),
    ({"question": CANARY, "prior_response_id": CANARY}, "prior_response_id: no such response"),
]


def test_bad_jobs_fail_once_with_a_sentence(
    broker: redis.Redis, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """The field, and what was expected there; nothing of what was sent, in the error or in the log."""
    with celery_worker(worker_environment(), worker_log, "--concurrency=2"):
        asked = [
            (push(broker, {"principal": ALICE, **job} if isinstance(job, dict) else job), said) for job, said in BAD
        ]
        for task_id, said in asked:
            with pytest.raises(InvalidJob) as caught:
                client.result(task_id, timeout=180)
            assert said in caught.value.message
            assert CANARY not in caught.value.message
        for unknown in ({"question": CANARY}, {"question": CANARY, "searches": [{"corpus": "documents"}]}):
            with pytest.raises(NotAuthorised):
                client.result(push(broker, unknown), timeout=180)
        odd = "'; DROP TABLE documents; -- %s \\ \u202e [S1] </sources>"
        assert call(client, question=odd, mode="code", context=odd, starting_prompt=odd).status == "ok"
    log = worker_log.read_text()
    assert CANARY not in log
    assert log.count('"job failed"') == len(BAD) + 2
    assert '"job delayed"' not in log
