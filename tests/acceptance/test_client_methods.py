"""The client beyond one call: many jobs, progress, cancelling, a ledger, a Celery app of the backend."""

from __future__ import annotations

import base64
import gc
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from celery import Celery, chord, group
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Client, PinnedReplay, RetrieveTopK, RunPipeline, Signer, TopK
from retrieval_client.celery import read, signature
from retrieval_client.errors import DeadLettered, InvalidJob, NotAuthorised, TimedOut, Unavailable
from retrieval_client.ledger import Ledger
from workbench.devstack.workers import celery_worker

from .held import is_clean
from .jobs import JOB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from workbench.devstack.stack import Stack

    from .jobs import Start

    Environment = Callable[..., dict[str, str]]

WRONG = RetrieveTopK(query_embedding=[0.5], principal={"user_id": "alice"})
ALICE = {"user_id": "alice"}
QUESTION = RunPipeline(question="What hums?", principal=ALICE, stop_after="synthesize_context", mode="grounded")
CELERY_PAGE = Path(__file__).parents[2] / "docs" / "celery.md"
KEY = "a secret that is long enough for HS256"


@pytest.fixture
def worker(worker_environment: Environment, worker_log: Path) -> Iterator[None]:
    """A worker with two processes."""
    with celery_worker(worker_environment(), worker_log, "--concurrency=2"):
        yield


@pytest.mark.usefixtures("client", "worker")
def test_many_jobs_are_answered_in_their_order_and_told_as_they_end(connect: Callable[..., Any], stack: Stack) -> None:
    """Of one that fails the others are told all the same; one that nobody was asked has not ended."""
    client = connect(*stack.redis.urls("producer"))
    answers = client.call_many([JOB] * 30, timeout=180)
    assert [type(answer) for answer in answers] == [TopK] * 30
    with pytest.raises(InvalidJob, match="query_embedding"):
        client.call_many([JOB, WRONG], timeout=180)
    ids = [client.enqueue(JOB), client.enqueue(WRONG)]
    outcomes = {outcome.task_id: outcome for outcome in client.results(ids, timeout=180)}
    assert outcomes[ids[0]].get().chunks
    assert isinstance(outcomes[ids[1]].error, InvalidJob)
    assert [progress.state for progress in client.watch(ids[0])] == ["SUCCESS"]
    (late,) = client.results(["nobody-asked"], timeout=0.1)
    assert (late.ended, type(late.error)) == (False, TimedOut)
    assert [*client.results([])] == []


@pytest.mark.usefixtures("worker")
def test_the_progress_of_a_pipeline_is_watched(client: Client, locked: psycopg.Connection[Any]) -> None:
    """Its stages come as they happen, here while its search waits, and the end at last; none twice."""
    seen = []
    for progress in client.watch(client.enqueue(QUESTION), timeout=180):
        seen.append(progress)
        if progress.stage is not None and not progress.ended:
            locked.rollback()
    assert any(progress.stage for progress in seen), seen
    assert [progress.ended for progress in seen] == [False] * (len(seen) - 1) + [True]
    assert seen[-1].state == "SUCCESS"
    assert len(seen) == len({*seen})
    assert [*client.watch("nobody-asked", timeout=0.1)][-1].state == "PENDING"


def test_a_waiting_job_is_cancelled(
    stack: Stack, client: Client, broker: redis.Redis, locked: psycopg.Connection[Any], start: Start, worker_log: Path
) -> None:
    """By who may: the one that runs goes on, the one that waits does not begin."""
    with Client(*operator_urls(stack)) as operator, pytest.raises(Unavailable, match="no worker listens"):
        operator.cancel("nobody-listens")
    with (
        start("--concurrency=1", SEARCH__STATEMENT_TIMEOUT_SECONDS="50", WORKER__REMOTE_CONTROL='["revoke"]'),
        Client(*operator_urls(stack)) as operator,
    ):
        first = client.enqueue(JOB)
        wait_for(lambda: waiting_sessions(locked) == 1)
        waiting = client.enqueue(JOB)
        operator.cancel(waiting)
        wait_for(lambda: "revoked" in worker_log.read_text(errors="replace"))
        locked.rollback()
        assert client.result(first, timeout=180).chunks
        with pytest.raises(DeadLettered, match="revoked"):
            client.result(waiting, timeout=180)
        wait_for(lambda: broker.llen("retrieval") == 0)


def operator_urls(stack: Stack) -> tuple[str, str]:
    return stack.redis.url(0), stack.redis.url(1)


@pytest.mark.provokes_refusals
def test_a_producer_may_not_cancel(client: Client) -> None:
    with pytest.raises(NotAuthorised, match="may not cancel jobs"):
        client.cancel("any")


def test_a_ledger_outlives_its_process_and_a_lost_queue(
    stack: Stack, client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path, tmp_path: Path
) -> None:
    """Every job is answered once, under its id, with a token of its own."""
    signed = Client(*stack.redis.urls("producer"), Signer(KEY, "k1"))
    with Ledger(tmp_path / "ledger.sqlite", signed, seconds=2) as ledger:
        ids = [ledger.add(RetrieveTopK(query_embedding=JOB.query_embedding), claims={"user_id": "alice"})]
        ids += [
            ledger.add(PinnedReplay(required_chunk_hashes=["a" * 64]), claims={"user_id": "alice"}),
            ledger.add(JOB),
        ]
        assert ledger.add(JOB, task_id=ids[0]) == ids[0]
        assert ledger.open() == ids
        for row in ledger._open():
            ledger._send_if_due(row)
    assert broker.llen("retrieval") == 3
    broker.delete("retrieval")  # lost
    tokens = {"RETRIEVAL_WORKER_TRUST_QUEUE": "false", "RETRIEVAL_WORKER_TOKEN_KEYS": json.dumps({"k1": KEY})}
    environment = worker_environment() | tokens
    with (
        celery_worker(environment, worker_log, "--concurrency=2"),
        Ledger(tmp_path / "ledger.sqlite", signed, seconds=2) as ledger,
    ):
        ended = {outcome.task_id: outcome for outcome in ledger.run()}
        assert ended.keys() == {*ids}
        assert ended[ids[0]].get().chunks
        assert isinstance(ended[ids[2]].error, NotAuthorised)
        assert [*ledger.run()] == ledger.open() == []
    signed.close()
    with Ledger(tmp_path / "ledger.sqlite", client) as ledger:
        kept = ledger.outcome(ids[0])
        assert kept is not None
        assert kept.get() == ended[ids[0]].get()
        assert isinstance(ledger.outcome(ids[2]).error, NotAuthorised)  # type: ignore[union-attr] # it has ended
        assert ledger.outcome("not-known") is None


def test_a_ledger_gives_a_job_up(stack: Stack, broker: redis.Redis, tmp_path: Path) -> None:
    """After so many messages that nobody answered."""
    with Client(*stack.redis.urls("producer")) as client:
        with Ledger(tmp_path / "ledger.sqlite", client, seconds=0.2, sends=2) as ledger:
            with pytest.raises(ValueError, match="Signer"):
                ledger.add(JOB, claims={"user_id": "alice"})
            task_id = ledger.add(JOB)
            (given_up,) = ledger.run()
        assert (given_up.task_id, type(given_up.error)) == (task_id, TimedOut)
    assert broker.llen("retrieval") == 2


@pytest.fixture
def app(stack: Stack, broker: redis.Redis) -> Iterator[Celery]:
    """A backend's own Celery app, with a task that takes answers."""
    del broker  # emptied
    broker_url, result_backend = operator_urls(stack)
    with Celery("backend", broker=broker_url, backend=result_backend, set_as_current=False) as made:
        yield made
        # An app keeps the connections of its results, and results that nobody waits for, until its process ends.
        made.backend._pending_results.concrete.clear()
        gc.collect()
        made.backend.result_consumer.stop()
        made.backend.client.connection_pool.disconnect()


@pytest.mark.usefixtures("worker")
def test_an_app_sends_signatures(app: Celery, client: Client) -> None:
    """Alone and in groups; a wrong job raises the contract's error."""
    alone = signature(JOB, app=app).apply_async()
    answer = read(RetrieveTopK, alone.get(timeout=180, disable_sync_subtasks=False))
    assert isinstance(answer, TopK)
    assert answer.chunks == client.result(alone.id, timeout=180).chunks
    asked = group([signature(JOB, app=app), signature(JOB, app=app)], app=app).apply_async()
    assert [read(RetrieveTopK, one).chunks for one in asked.get(timeout=180)] == [answer.chunks] * 2
    with pytest.raises(InvalidJob, match="query_embedding"):
        signature(WRONG, app=app).apply_async().get(timeout=180)


def test_a_chain_s_next_job_is_answered(
    app: Celery, worker_environment: Environment, worker_log: Path, stack: Stack
) -> None:
    """The worker sends it, without time limits of its own, which it would refuse."""
    urls = dict(zip(("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND"), operator_urls(stack), strict=True))
    with celery_worker(worker_environment(WORKER__ALLOW_CALLBACKS="true") | urls, worker_log, "--concurrency=1"):
        first = signature(JOB, app=app)
        for steps in (
            first | first,
            first | app.signature("retrieve_top_k", first["args"], immutable=True),
        ):
            result = steps.apply_async()
            assert len(read(RetrieveTopK, result.get(timeout=180)).chunks) == 15
            assert result.id != result.parent.id


@pytest.fixture
def results(stack: Stack) -> Iterator[redis.Redis]:
    """The results' Redis."""
    with redis.Redis.from_url(stack.redis.url(1)) as made:
        yield made


@pytest.fixture
def with_callbacks(worker_environment: Environment, stack: Stack) -> dict[str, str]:
    """A worker that sends them, as a user of Redis that may write to the app's queue."""
    urls = dict(zip(("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND"), operator_urls(stack), strict=True))
    return worker_environment(WORKER__ALLOW_CALLBACKS="true") | urls


def test_a_chord_hands_the_answers_to_a_task_of_the_app(
    app: Celery, broker: redis.Redis, results: redis.Redis, with_callbacks: dict[str, str], worker_log: Path
) -> None:
    """Also if a process died that had stored another answer, and one that had claimed to end the chord."""
    parts = [signature(JOB, app=app), signature(JOB, app=app)]
    made = chord(parts, app=app)(app.signature("collect").set(queue="mine"))
    group_id = made.parent.id
    app.backend.store_result(made.parent.results[0].id, {"status": "empty"}, "SUCCESS")
    results.set(f"celery-taskset-meta-{group_id}.c", "claim of a dead process")  # Celery 5.7 has such claims
    with celery_worker(with_callbacks, worker_log, "--concurrency=1"):
        wait_for(lambda: results.scard(f"celery-taskset-meta-{group_id}.d") == 2 or broker.llen("mine"))
        results.delete(f"celery-taskset-meta-{group_id}.c")
        wait_for(lambda: broker.llen("mine") == 1)
        wait_for(lambda: is_clean(broker))
    ((answers,), *_) = json.loads(base64.b64decode(json.loads(broker.rpop("mine"))["body"]))
    assert answers[0] == {"status": "empty"}
    assert [len(read(RetrieveTopK, answer).chunks) for answer in answers[1:]] == [15]


def test_a_chord_ends_with_the_rights_that_the_page_names(
    app: Celery, broker: redis.Redis, start: Start, worker_log: Path
) -> None:
    """docs/celery.md: added to those of the shipped user."""
    words = " ".join(CELERY_PAGE.read_text().partition("Chains and chords need")[2].split())
    key, commands = re.findall(r"`(celery-[^`]+|\+[^`]+)`", words)
    broker.execute_command("ACL SETUSER", "worker", f"~{key}", *commands.split())
    try:
        with start("--concurrency=1", WORKER__ALLOW_CALLBACKS="true"):
            job = signature(JOB, app=app).set(immutable=True)
            result = chord([job, job], app=app)(job)
            wait_for(lambda: result.ready() or "further tasks not sent" in worker_log.read_text(errors="replace"))
            assert read(RetrieveTopK, result.get(timeout=1)).chunks
    finally:
        broker.acl_load()


def test_an_error_callback_of_the_worker_s_own_is_a_job(
    app: Celery, with_callbacks: dict[str, str], worker_log: Path
) -> None:
    """Of a job, and of a chord's body that will not run; not called by the process, which sends them."""
    told = [signature(JOB, app=app).set(immutable=True, task_id=name) for name in ("told", "told-of-body")]
    with celery_worker(with_callbacks, worker_log, "--concurrency=1"):
        signature(WRONG, app=app).on_error(told[0]).apply_async()
        chord([signature(WRONG, app=app)], app=app)(app.signature("collect").set(queue="mine").on_error(told[1]))
        for each in told:
            assert read(RetrieveTopK, app.AsyncResult(each.options["task_id"]).get(timeout=60)).chunks


def test_an_error_callback_is_sent_and_a_chain_s_rest_fails(
    app: Celery, broker: redis.Redis, worker_environment: Environment, worker_log: Path, stack: Stack
) -> None:
    """To the app's own queue, also of an expired job; one that Redis refuses is logged, and its job has ended."""
    urls = dict(zip(("CELERY_BROKER_URL", "CELERY_RESULT_BACKEND"), operator_urls(stack), strict=True))
    with celery_worker(worker_environment(WORKER__ALLOW_CALLBACKS="true") | urls, worker_log, "--concurrency=1"):
        broker.set("no-list", "")
        told, refused = (app.signature("told", ("x",)).set(queue=queue) for queue in ("mine", "no-list"))
        chained = signature(WRONG, app=app) | app.signature("retrieve_top_k", (), immutable=True)
        result = chained.on_error(told).apply_async()
        with pytest.raises(InvalidJob, match="query_embedding"):
            result.get(timeout=180)
        wait_for(lambda: broker.llen("mine") == 1)
        expired = signature(JOB, app=app).on_error(told).apply_async(expires=datetime.now(UTC) - timedelta(minutes=1))
        with pytest.raises(DeadLettered, match="expired"):
            expired.get(timeout=180)
        wait_for(lambda: broker.llen("mine") == 2)
        alone = signature(WRONG, app=app).on_error(refused).apply_async()
        with pytest.raises(InvalidJob, match="query_embedding"):
            alone.get(timeout=180)
        wait_for(lambda: "further tasks not sent" in worker_log.read_text(errors="replace"))
        wait_for(lambda: is_clean(broker))
