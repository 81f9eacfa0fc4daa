"""Jobs that wait are run in bundles; each is still a job of its own, whatever happens to the others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import redis
from celery import Celery
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Client, RetrieveTopK, TaskId, TopK
from retrieval_client.errors import InternalError, InvalidJob, Unavailable
from workbench.devstack.redis import redis_server
from workbench.devstack.workers import celery_worker
from worker.queue.broker import dead_letters, keys, turns

from .held import count_held, is_clean, jobs_of_lost_processes
from .jobs import JOB, QUERY, pool_process
from .slow_killers import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]

CALLERS = ("alice", "bob", "nobody")


def job_of(caller: str, **fields: Any) -> RetrieveTopK:
    return RetrieveTopK(query_embedding=QUERY, principal={"user_id": caller}, **fields)


def seen(answer: Any) -> tuple[Any, ...]:
    """Return what a caller was shown."""
    return answer.status, tuple((chunk.chunk_id, chunk.chunk_hash, chunk.similarity_score) for chunk in answer.chunks)


def written(stack: Stack) -> dict[str, int]:
    """The pool's count of jobs, and of messages in which it wrote them to processes."""
    with Celery(broker=stack.redis.url(0), set_as_current=False) as app:
        (stats,) = app.control.inspect(timeout=60, limit=1).stats().values()
    jobs: dict[str, int] = stats["pool"]["jobs"]
    return jobs


def marked(broker: redis.Redis) -> bool:
    """Messages are marked to run alone."""
    return any(name.endswith(b":alone") for name in broker.hkeys(keys.deliveries("retrieval")))


def hold_a_bundle(client: Client, admin: psycopg.Connection[Any], broker: redis.Redis) -> list[TaskId[TopK]]:
    """Lock the chunks while a bundle is searched, not a single job: that would end by its own time limit.

    Returns:
        Ids of the jobs that were sent meanwhile: behind the lock, so that they can't be done before it is taken.
    """
    ids: list[TaskId[TopK]] = []
    while True:
        admin.execute("BEGIN; LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        ids += [client.enqueue(JOB) for _ in range(50)]
        wait_for(lambda: waiting_sessions(admin) == 1)
        if count_held(broker) > 1:
            return ids
        admin.execute("ROLLBACK")


def test_each_caller_gets_its_own_rows(
    stack: Stack, client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """Ninety jobs of three callers wait for one process: the answers are those that each gets alone."""
    jobs = [job_of(CALLERS[n % 3], k=10 + n % 6) for n in range(90)]
    ids = [client.enqueue(job) for job in jobs]
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        together = [seen(client.result(task_id, timeout=180)) for task_id in ids]
        counts = written(stack)
        alone = [seen(client.call(job, timeout=180)) for job in jobs[:18]]
        wait_for(lambda: is_clean(broker))
    assert together == alone * 5
    assert len(set(together)) > len(CALLERS)
    assert counts["written"] == len(jobs)
    assert counts["writes"] < len(jobs) / 2
    done = [json.loads(line) for line in worker_log.read_text().splitlines() if '"job done"' in line]
    assert sorted(line["task_id"] for line in done if line["task_id"] in {*ids}) == sorted(ids)


def test_without_bundles_each_job_is_written_alone(
    stack: Stack, client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    ids = [client.enqueue(JOB) for _ in range(20)]
    with celery_worker(worker_environment(WORKER__BUNDLE="1"), worker_log, "--concurrency=1"):
        assert {client.result(task_id, timeout=180).status for task_id in ids} == {"ok"}  # type: ignore[union-attr] # one
        counts = written(stack)
    assert (counts["written"], counts["writes"]) == (20, 20)
    assert counts["largest bundle"] == 1


def test_wrong_jobs_fail_and_the_others_do_not(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """Each wrong one has its own error, as without a bundle."""
    short = RetrieveTopK.model_construct(query_embedding=[0.5, 0.5], principal={"user_id": "alice"})
    unknown = job_of("alice", corpus="no-such-corpus")
    ids = [(n % 4, client.enqueue([JOB, short, JOB, unknown][n % 4])) for n in range(40)]
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        for kind, task_id in ids:
            if kind % 2 == 0:
                assert client.result(task_id, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
                continue
            with pytest.raises(InvalidJob) as failed:
                client.result(task_id, timeout=180)
            assert failed.value.message.startswith({1: "query_embedding: ", 3: "corpus: "}[kind])
        wait_for(lambda: is_clean(broker))
    assert not broker.exists(keys.dead("retrieval"))


def test_a_job_that_is_slow_alone_holds_no_other_back(
    client: Client, admin: psycopg.Connection[Any], worker_environment: Environment, worker_log: Path
) -> None:
    """Its search is cancelled in the bundle, and runs alone after the others were answered."""
    admin.execute(
        "CREATE FUNCTION waits() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        " IF current_setting('app.user_id', true) = 'bob' THEN PERFORM pg_advisory_lock_shared(7); END IF;"
        " RETURN true; END $$;"
        "CREATE POLICY waits ON document_chunks AS RESTRICTIVE FOR SELECT TO PUBLIC USING (waits())"
    )
    environment = worker_environment(SEARCH__STATEMENT_TIMEOUT_SECONDS="60", WORKER__FAIR="false")
    with celery_worker(environment, worker_log, "--concurrency=1"):
        admin.execute("SELECT pg_advisory_lock(7)")
        first = [client.enqueue(job_of("alice")) for _ in range(12)]
        slow = client.enqueue(job_of("bob"))
        assert {client.result(task_id, timeout=180).status for task_id in first} == {"ok"}  # type: ignore[union-attr] # one
        admin.execute("SELECT pg_advisory_unlock(7)")
        assert client.result(slow, timeout=180).status == "ok"  # type: ignore[union-attr] # one query


def test_neighbours_of_a_killer_lose_nothing_and_are_not_counted(
    client: Client,
    broker: redis.Redis,
    admin: psycopg.Connection[Any],
    worker_environment: Environment,
    worker_log: Path,
) -> None:
    """With one delivery for each job: a death within a bundle is not counted for any of them, and they run alone."""
    environment = worker_environment(WORKER__MAX_DELIVERIES="1")
    ids = [client.enqueue(JOB)]
    with celery_worker(environment, worker_log, "--concurrency=1") as worker:
        client.result(ids[0], timeout=180)
        for _ in range(3):
            ids += hold_a_bundle(client, admin, broker)
            pool_process(worker).kill()
            wait_for(lambda: marked(broker))
            admin.execute("ROLLBACK")
            wait_for(lambda: not marked(broker))
        assert {client.result(task_id, timeout=180).status for task_id in ids} == {"ok"}  # type: ignore[union-attr] # one
        wait_for(lambda: is_clean(broker))
    assert not broker.exists(keys.dead("retrieval"))
    assert jobs_of_lost_processes(worker_log) > 3


def test_a_killer_among_others_runs_five_times(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path, tmp_path: Path
) -> None:
    """The first time in a bundle, then alone; the others are answered."""
    killer = "held-killer"
    for run in range(1, 9):
        (tmp_path / f"{killer}.{run}").write_text("die")
    ids = [client.enqueue(JOB) for _ in range(12)]
    client.enqueue(JOB, task_id=killer)
    ids += [client.enqueue(JOB) for _ in range(12)]
    environment = {**worker_environment(), FOLDER: str(tmp_path)}
    options = ("--concurrency=1", "--include", "tests.acceptance.slow_killers")
    with celery_worker(environment, worker_log, *options):
        assert {client.result(task_id, timeout=180).status for task_id in ids} == {"ok"}  # type: ignore[union-attr] # one
        wait_for(lambda: broker.xlen(keys.dead("retrieval")) == 1)
        wait_for(lambda: is_clean(broker))
    (letter,) = dead_letters.every(broker, "retrieval")
    assert (letter.reason, letter.task_id) == ("max_deliveries", killer)
    assert (tmp_path / "begun").read_text().split() == [killer] * 5


def test_results_that_can_not_be_stored_requeue_the_bundle(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """A full Redis of results: no job is acknowledged before its result is there."""
    with redis_server(worker_log.parent / "results") as kept, redis.Redis.from_url(kept.url()) as full:
        environment = {**worker_environment(), "CELERY_RESULT_BACKEND": kept.url(0, "worker")}
        sender = Client(stack.redis.url(0, "producer"), kept.url(0, "producer"))
        full.config_set("maxmemory", "1")
        ids = [sender.enqueue(JOB) for _ in range(12)]
        with celery_worker(environment, worker_log, "--concurrency=1"):
            wait_for(lambda: worker_log.read_text().count("outcomes not stored yet") > 0)
            assert not any(full.exists(f"celery-task-meta-{task_id}") for task_id in ids)
            wait_for(lambda: turns.waiting(broker, "retrieval") + count_held(broker) == len(ids))  # they go to and fro
            full.config_set("maxmemory", "0")
            assert {sender.result(task_id, timeout=180).status for task_id in ids} == {"ok"}  # type: ignore[union-attr] # one
            wait_for(lambda: is_clean(broker))
        sender.close()


def test_jobs_with_the_same_id_share_no_answer(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """Senders choose ids: two callers with the same one get what each may see, not what the other does."""
    pairs = [(job_of("alice"), job_of("nobody")), (job_of("nobody"), job_of("alice"))]
    for number in range(12):
        for job in pairs[number % 2]:
            client.enqueue(job, task_id=f"same-{number}")
    with celery_worker(worker_environment(WORKER__FAIR="false"), worker_log, "--concurrency=1"):
        wait_for(lambda: is_clean(broker))
        # The first of each two that ended is kept, as without bundles.
        answers = [seen(client.result(f"same-{number}", timeout=180)) for number in range(12)]
        assert answers == [seen(client.call(first, timeout=180)) for first, _ in pairs] * 6


def test_a_row_that_can_not_be_read_ends_no_process(
    client: Client, admin: psycopg.Connection[Any], worker_environment: Environment, worker_log: Path
) -> None:
    """The bundle is given up; each of its jobs has its own error."""
    admin.execute("""UPDATE document_chunks SET metadata = '{"level": 1e400}'""")
    ids = [client.enqueue(JOB) for _ in range(20)]
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        for task_id in ids:
            with pytest.raises(InternalError):
                client.result(task_id, timeout=180)
    log = worker_log.read_text()
    assert "bundle not answered together" in log
    assert "process lost" not in log


def test_bundles_while_postgres_is_away_end_no_process(
    client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """Since the start of the worker: its processes have no engine yet."""
    away = "postgresql://retrieval_worker@127.0.0.1:1/none"
    environment = worker_environment(WORKER__MAX_OUTAGE_SECONDS="3")
    ids = [client.enqueue(JOB) for _ in range(20)]
    with celery_worker({**environment, "DATABASE_CONNECTION_STRING": away}, worker_log, "--concurrency=1"):
        for task_id in ids:
            with pytest.raises(Unavailable):
                client.result(task_id, timeout=180)
    assert "process lost" not in worker_log.read_text()


def test_processes_are_replaced_between_bundles(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """After ten jobs each, whatever the size of their bundles: none is lost, run again or counted."""
    ids = [client.enqueue(JOB) for _ in range(90)]
    options = ("--concurrency=2", "--max-tasks-per-child=10")
    with celery_worker(worker_environment(WORKER__MAX_DELIVERIES="1"), worker_log, *options):
        assert {client.result(task_id, timeout=180).status for task_id in ids} == {"ok"}  # type: ignore[union-attr] # one
        wait_for(lambda: is_clean(broker))
    lines = [json.loads(line) for line in worker_log.read_text().splitlines() if '"job done"' in line]
    assert len(lines) == len(ids)
    assert "process lost" not in worker_log.read_text()


def test_an_empty_message_after_bundles_is_a_dead_letter(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """It is taken like any other, and not left where it was taken to."""
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        ids = [client.enqueue(JOB) for _ in range(20)]
        assert {client.result(task_id, timeout=180).status for task_id in ids} == {"ok"}  # type: ignore[union-attr] # one
        broker.lpush("retrieval", b"")
        wait_for(lambda: broker.xlen(keys.dead("retrieval")) == 1)
        wait_for(lambda: is_clean(broker))
    (letter,) = dead_letters.every(broker, "retrieval")
    assert (letter.reason, letter.bytes) == ("malformed", 0)
