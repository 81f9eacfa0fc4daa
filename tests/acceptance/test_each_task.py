"""Every task of the contract through one real worker, which serves both queues."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from tests.acceptance.bad_input_worker import database
from tests.acceptance.held import is_clean
from tests.raw_messages import raw_message
from tests.waiting import wait_for

from retrieval_client import (
    BuildCitations,
    CitedRun,
    Client,
    Hybrid,
    HybridSearch,
    PinnedReplay,
    RetrieveHybrid,
    RetrieveTopK,
    RunPipeline,
    RunRef,
    TopK,
)
from retrieval_client.contract.feedback import RecordFeedback
from retrieval_client.contract.registry import TASKS
from retrieval_client.errors import InvalidJob, NotAuthorised
from workbench.devstack.workers import celery_worker, stack_environment

from .jobs import HUM, QUERY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack

ALICE, BOB = {"user_id": "alice"}, {"user_id": "bob"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the worker of this module logs."""
    return tmp_path_factory.mktemp("each-task") / "worker.log"


@pytest.fixture(scope="module")
def client(stack: Stack, sample_template: str, log: Path) -> Iterator[Client]:
    """A backend beside one worker on a database of its own."""
    with redis.Redis.from_url(stack.redis.url(0)) as broker:
        broker.flushall()
    with database(stack, sample_template) as name:
        environment = stack_environment(stack, TRUST_QUEUE="true", LOG__FORMAT="json")
        environment["DATABASE_CONNECTION_STRING"] = stack.postgres.dsn(name, "retrieval_worker")
        made = Client(*stack.redis.urls("producer"))
        with celery_worker(environment, log, "--concurrency=2"):
            yield made
        made.close()


@pytest.fixture
def run() -> RunRef:
    """A run of this test alone."""
    return RunRef(subject_id="song-1", run_id=uuid.uuid4().hex)


def recorded(client: Client, run: RunRef) -> list[str]:
    """Record a search of alice's; the hashes that it answers."""
    answer = client.call(RetrieveTopK(query_embedding=QUERY, principal=ALICE, run=run), timeout=180)
    return [chunk.chunk_hash for chunk in answer.chunks]  # type: ignore[union-attr] # one query


def test_a_search_gives_each_caller_what_they_may_see(client: Client) -> None:
    """Ordered, cut at k, and other for another caller."""
    of_alice, of_bob = (
        client.call(RetrieveTopK(query_embedding=QUERY, principal=who, k=12), timeout=180) for who in (ALICE, BOB)
    )
    assert [chunk.rank for chunk in of_alice.chunks] == [*range(1, 13)]  # type: ignore[union-attr] # one query
    assert of_alice.chunks != of_bob.chunks  # type: ignore[union-attr] # one query
    with pytest.raises(NotAuthorised):
        client.call(RetrieveTopK(query_embedding=QUERY), timeout=180)


def test_a_recorded_run_is_replayed_and_cited(client: Client, run: RunRef) -> None:
    """The same chunks, by their hashes; each citation verified."""
    hashes = recorded(client, run)
    replayed = client.call(PinnedReplay(run=run, principal=ALICE), timeout=180)
    assert [pin.verdict for pin in replayed.pins] == ["exact"] * len(hashes)  # type: ignore[union-attr] # one run
    assert [chunk.chunk_hash for chunk in replayed.chunks] == hashes  # type: ignore[union-attr] # one run
    cite = CitedRun(subject_id=run.subject_id, run_id=run.run_id)
    cited = client.call(BuildCitations(cite=cite, principal=ALICE, store=False), timeout=180)
    assert {check.verdict for check in cited.verification} == {"exact"}
    with pytest.raises(InvalidJob, match="no such run"):
        client.call(PinnedReplay(run=run, principal=BOB), timeout=180)


def test_feedback_on_a_run_is_recorded(client: Client, run: RunRef) -> None:
    """Only of its owner, and only of chunks that the run has."""
    first, *_ = recorded(client, run)
    unknown = "sha256:" + "0" * 64
    answer = client.call(RecordFeedback(run=run, used=[first, unknown], rating=1, principal=ALICE), timeout=180)
    assert (answer.recorded, answer.unknown) == (1, [unknown])
    with pytest.raises(InvalidJob, match="no such run"):
        client.call(RecordFeedback(run=run, used=[first], principal=BOB), timeout=180)


def test_a_hybrid_search_answers_for_each_corpus(client: Client) -> None:
    """With the keywords of the editor's state."""
    searches = [HybridSearch(corpus="docs", top_k=5), HybridSearch(corpus="examples", top_k=3)]
    job = RetrieveHybrid(query="add hi-hats", context='sound("bd").fast(2)', searches=searches, principal=ALICE)
    answer = client.call(job, timeout=180)
    assert isinstance(answer, Hybrid)
    assert {name: len(part.chunks) for name, part in answer.results.items()} == {"docs": 5, "examples": 3}
    assert answer.context_keywords


def test_a_question_is_answered_with_its_sources(client: Client) -> None:
    """By the queue `pipeline`; a package is gone on with under its id."""
    answer = client.call(RunPipeline(question=HUM, principal=ALICE), timeout=180)
    assert answer.status == "ok"
    assert answer.citations[0].label in answer.package.source_labels
    kept = client.call(RunPipeline(question=HUM, principal=ALICE, stop_after="build_sources"), timeout=180)
    resumed = client.call(RunPipeline(resume=kept.package.package_id, principal=ALICE), timeout=180)
    assert resumed.answer == answer.answer


@pytest.mark.usefixtures("client")
def test_a_message_written_by_hand_is_answered(stack: Stack) -> None:
    """No Celery on the sending side: LPUSH of protocol-2 JSON, the result read with GET."""
    task_id = str(uuid.uuid4())
    body = json.dumps([[{"query_embedding": QUERY, "principal": BOB, "k": 12}], {}, {}])
    message = (
        '{"body": ' + json.dumps(body) + ', "content-encoding": "utf-8", "content-type": "application/json",'
        ' "headers": {"lang": "sh", "task": "retrieve_top_k", "id": "' + task_id + '"},'
        ' "properties": {"correlation_id": "' + task_id + '", "delivery_mode": 2, "delivery_tag": "1",'
        ' "delivery_info": {"exchange": "", "routing_key": "retrieval"}}}'
    )
    with redis.Redis.from_url(stack.redis.url(0)) as broker, redis.Redis.from_url(stack.redis.url(1)) as results:
        broker.lpush("retrieval", message)
        wait_for(lambda: results.get(f"celery-task-meta-{task_id}") is not None)
        record = json.loads(results.get(f"celery-task-meta-{task_id}") or b"")
    assert record["status"] == "SUCCESS"
    assert record["result"]["k"] == 12
    assert TopK.model_validate(record["result"]).chunks[1].chunk_id == "report-2023-mixing-desk-005"


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_message_without_celery_is_answered_with_one_sentence(stack: Stack, task: Any) -> None:
    """Plain JSON by `LPUSH`; the record of its failure by `GET`."""
    task_id = str(uuid.uuid4())
    with redis.Redis.from_url(stack.redis.url(0)) as broker, redis.Redis.from_url(stack.redis.url(1)) as results:
        broker.lpush(task.queue, raw_message({"principal": ALICE, "no_such_field": 1}, task.name, task_id))
        wait_for(lambda: results.get(f"celery-task-meta-{task_id}") is not None)
        record = json.loads(results.get(f"celery-task-meta-{task_id}") or b"")
    assert record["status"] == "FAILURE"
    assert record["result"]["exc_type"] == "InvalidJob"
    assert record["result"]["exc_message"][0].split(":")[0] in {"no_such_field", *task.job.model_fields}


def test_each_job_is_one_line_of_the_log(client: Client, log: Path) -> None:
    """With its task and its outcome, and nothing of what it asked or was answered."""
    answer = client.call(RunPipeline(question=HUM, principal=ALICE), timeout=180)
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    done = [line for line in lines if line.get("event") == "job done"]
    assert {line["task"] for line in done} <= {task.name for task in TASKS}
    assert all(line["outcome"] for line in done)
    assert HUM not in log.read_text()
    assert str(answer.answer)[:40] not in log.read_text()


def test_nothing_is_left_of_a_job(client: Client, stack: Stack) -> None:
    """No message, no delivery, no session that waits."""
    client.call(RetrieveTopK(query_embedding=QUERY, principal=ALICE), timeout=180)
    with redis.Redis.from_url(stack.redis.url(0)) as broker:
        wait_for(lambda: is_clean(broker, "pipeline"))
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
        wait_for(lambda: _open_transactions(admin) == 0)


def _open_transactions(admin: psycopg.Connection[Any]) -> int:
    row = admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = 'retrieval_worker' AND state LIKE 'idle in%'"
    ).fetchone()
    assert row is not None
    return int(row[0])
