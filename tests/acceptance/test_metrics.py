"""`/metrics` of a real worker process, and of Flower beside it."""

from __future__ import annotations

import dataclasses
import re
import shutil
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Client, HybridSearch, RetrieveHybrid, RetrieveTopK, RunName
from retrieval_client.contract.message import compose
from retrieval_client.contract.registry import task_of
from retrieval_client.errors import InvalidJob, Unavailable
from workbench.devstack.processes import free_port
from workbench.devstack.workers import celery_worker, flower
from worker.queue.metrics import CAUSES, DEFINITIONS, GAUGES

from .held import is_clean
from .jobs import PATIENT, QUERY, wait_for_locks

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

    from workbench.devstack.stack import Stack

    from .jobs import Start

    Environment = Callable[..., dict[str, str]]
    Sums = dict[tuple[str, frozenset[tuple[str, str]]], float]

LEAST_WAIT = 3.0
USER, PASSWORD = "watcher", "a password for this test"
ASKER = {"user_id": "canary-user"}
TOP_K = RetrieveTopK(query_embedding=QUERY, principal=ASKER)
HYBRID = RetrieveHybrid(
    query="add canary-query hi-hats",
    context='sound("canary-sound").fast(2)',
    searches=[HybridSearch(corpus="docs", top_k=4), HybridSearch(corpus="examples", top_k=3)],
    principal=ASKER,
)


@pytest.fixture
def port() -> int:
    return free_port()


def exposition(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=180) as answer:
        return answer.read().decode()


def sums(text: str) -> Sums:
    """Each series of ours in an exposition, with its value."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("retrieval_")
    }


def value(text: str, name: str, **labels: str) -> float:
    return sums(text).get((name, frozenset(labels.items())), 0.0)


def one_job_in_each_process(client: Client, admin: psycopg.Connection[Any], stack: Stack) -> None:
    """Two jobs of a pool of two: a lock keeps the first from ending before the other process has the second."""
    with admin.transaction():
        admin.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        sent = [client.enqueue(TOP_K) for _ in range(2)]
        wait_for(lambda: waiting_sessions(admin) == 2)
    for task_id in sent:
        client.result(task_id, timeout=180)
    # A process that is killed before it has acknowledged its job leaves it to be run, and counted, again.
    with redis.Redis.from_url(stack.redis.url(0)) as broker:
        wait_for(lambda: is_clean(broker))


def pool(worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(worker.pid).children()


def test_the_sums_are_those_of_all_processes(
    stack: Stack, client: Client, admin: psycopg.Connection[Any], port: int, start: Start, tmp_path: Path
) -> None:
    """Both pool processes count; what was answered and refused is in one scrape, on loopback, with no word of it."""
    with start("--concurrency=2", METRICS__PORT=str(port), METRICS__FOLDER=str(tmp_path / "metrics")) as worker:
        one_job_in_each_process(client, admin, stack)
        recorded = HYBRID.model_copy(update={"run": RunName(subject_id="canary-subject", run_id="canary-run")})
        answers = [client.call(job) for job in (HYBRID, HYBRID, recorded, recorded)]
        alone = client.call(HYBRID.model_copy(update={"context": ""}))
        for corpus in ("canary-corpus", "canary-table"):
            with pytest.raises(InvalidJob):
                client.call(TOP_K.model_copy(update={"corpus": corpus}))
        text = exposition(port)
        listening = [
            (process.pid, connection.laddr)
            for process in [psutil.Process(worker.pid), *pool(worker)]
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        ]
    assert {"counter_0-0.db", "counter_0-1.db"} <= {*pool_files(tmp_path / "metrics")}
    assert value(text, "retrieval_jobs_total", task="retrieve_top_k", outcome="ok") == 2
    assert value(text, "retrieval_jobs_total", task="retrieve_top_k", outcome="InvalidJob") == 2
    assert value(text, "retrieval_jobs_total", task="retrieve_hybrid", outcome="ok") == 5
    assert value(text, "retrieval_job_duration_seconds_count", task="retrieve_hybrid", outcome="ok") == 5
    # The answer from a record searched nothing, so there were four searches, one of them without a context.
    assert value(text, "retrieval_contextual_searches_total", state="used") == 3
    assert value(text, "retrieval_contextual_searches_total", state="skipped") == 1
    assert value(text, "retrieval_leg_duration_seconds_count", leg="primary") == 4
    assert value(text, "retrieval_leg_duration_seconds_count", leg="contextual") == 3
    for corpus, figures in answers[0].metrics.items():  # type: ignore[union-attr] # a hybrid answer
        found = value(text, "retrieval_leg_results_total", corpus=corpus, leg="contextual")
        assert found == 3 * figures.contextual_count > 0
        duplicates = 3 * figures.duplicate_count + alone.metrics[corpus].duplicate_count  # type: ignore[union-attr] # as above
        assert value(text, "retrieval_duplicate_results_total", corpus=corpus) == duplicates
        top = value(text, "retrieval_leg_top_similarity_sum", corpus=corpus, leg="contextual")
        assert top == pytest.approx(3 * (figures.top_similarity["contextual"] or 0))
        mean = value(text, "retrieval_leg_mean_similarity_sum", corpus=corpus, leg="contextual")
        assert mean == pytest.approx(3 * (figures.mean_similarity["contextual"] or 0))
    assert listening == [(worker.pid, ("127.0.0.1", port))]
    assert_nothing_of_jobs(text)


def assert_nothing_of_jobs(text: str) -> None:
    """Every label's value is a word of this project or of the settings, or a bucket's bound."""
    allowed = {
        "task": {"retrieve_top_k", "retrieve_hybrid"},
        "outcome": {"ok", "InvalidJob"},
        "stage": {"search", "cut", "transform", "embed", "fuse", "record"},
        "leg": {"primary", "contextual", "sparse"},
        "corpus": {"docs", "examples"},
        "state": {"used", "skipped", "idle", "busy", "starting"},
        "missing": {"contextual"},
        "cause": {*CAUSES},
        "queue": {"retrieval", "pipeline"},
        "process": {"main"},
    }
    labels = {label for _, labels in sums(text) for label in labels}
    strange = {(name, said) for name, said in labels if said not in allowed.get(name, ())}
    assert {name for name, _ in strange} == {"le"}
    assert all(re.fullmatch(r"[0-9.]+|\+Inf", said) for _, said in strange)
    assert "canary" not in text
    assert {family.name for family in text_string_to_metric_families(text)} <= {
        *(definition.name.removesuffix("_total") for definition in DEFINITIONS),
        *(gauge.name for gauge in GAUGES),
    }


def pool_files(folder: Path) -> list[str]:
    """Files of metrics of pool processes; the main process has some of its own."""
    return sorted(file.name for file in folder.iterdir() if "main" not in file.name)


def test_what_was_counted_outlives_its_process_and_its_worker(
    stack: Stack, client: Client, admin: psycopg.Connection[Any], port: int, start: Start, tmp_path: Path
) -> None:
    """Who takes the place of a killed process carries its numbers on; so does a new worker on the same folder."""
    counting = {"METRICS__PORT": str(port), "METRICS__FOLDER": str(tmp_path / "metrics")}

    def answered() -> float:
        return value(exposition(port), "retrieval_jobs_total", task="retrieve_top_k", outcome="ok")

    with start("--concurrency=2", **counting) as worker:
        one_job_in_each_process(client, admin, stack)
        victim = pool(worker)[0]
        victim.kill()
        wait_for(lambda: victim.pid not in {process.pid for process in pool(worker)} and len(pool(worker)) == 2)
        assert answered() == 2
        one_job_in_each_process(client, admin, stack)
        assert answered() == 4
        files = pool_files(tmp_path / "metrics")
    with start("--concurrency=2", **counting):
        one_job_in_each_process(client, admin, stack)
        assert answered() == 6
    assert pool_files(tmp_path / "metrics") == files


def test_flower_shows_the_sum_of_the_workers_that_share_its_folder(
    stack: Stack, client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path, tmp_path: Path
) -> None:
    """One scrape: Flower's own metrics, of their own kind, and ours of two workers, of which neither listens."""
    environment = worker_environment(METRICS__FOLDER=str(tmp_path / "metrics"))
    other = tmp_path / "other.log"
    with (
        flower(
            environment | stack.redis.environment("flower"), tmp_path / "flower.log", user=USER, password=PASSWORD
        ) as url,
        celery_worker(environment, worker_log, "--concurrency=1", queues="retrieval"),
        celery_worker(environment, other, "--concurrency=1", queues="pipeline"),
    ):
        client.call(TOP_K)
        client.call(HYBRID)
        on_the_other_queue(client, broker)
        with urllib.request.urlopen(url + "/metrics", timeout=180) as answer:
            text = answer.read().decode()
    assert value(text, "retrieval_jobs_total", task="retrieve_top_k", outcome="ok") == 2
    assert value(text, "retrieval_jobs_total", task="retrieve_hybrid", outcome="ok") == 1
    assert "# TYPE flower_events_total counter" in text
    assert "process_cpu_seconds_total" in text
    assert {"counter_0-0.db", "counter_1-0.db"} <= {*pool_files(tmp_path / "metrics")}


def on_the_other_queue(client: Client, broker: redis.Redis) -> None:
    """The same job for a worker of the queue `pipeline`."""
    pipeline = dataclasses.replace(task_of(RetrieveTopK), queue="pipeline")
    broker.lpush("pipeline", compose(pipeline, "another-queue", TOP_K.model_dump(exclude_none=True), None))
    client.result("another-queue", timeout=180)


@pytest.mark.parametrize(
    "options",
    [
        "--max-tasks-per-child=1",
    ],
)
def test_every_kind_of_pool_counts_in_a_folder_of_its_own(
    client: Client, port: int, worker_environment: Environment, worker_log: Path, tmp_path: Path, options: str
) -> None:
    """Without a folder in the settings the worker makes one, which pool processes leave alone and it removes."""
    environment = worker_environment(METRICS__PORT=str(port)) | {"TMPDIR": str(tmp_path)}
    with celery_worker(environment, worker_log, "--concurrency=2", options):
        for _ in range(5):
            client.call(TOP_K)
        assert value(exposition(port), "retrieval_jobs_total", task="retrieve_top_k", outcome="ok") == 5
        assert list(tmp_path.glob("retrieval-metrics-*"))
    assert not list(tmp_path.glob("retrieval-metrics-*"))


def test_every_try_of_a_job_counts(client: Client, admin: psycopg.Connection[Any], port: int, start: Start) -> None:
    """Postgres stays away: two tries are put off, the third is the job's failure."""
    # An outage may last for longer than the first pause, and not as long as two.
    with start("--concurrency=1", METRICS__PORT=str(port), WORKER__MAX_OUTAGE_SECONDS="0.6"):
        admin.execute(f"ALTER DATABASE {admin.info.dbname} CONNECTION LIMIT 0")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
        with pytest.raises(Unavailable):
            client.call(TOP_K, timeout=180)
        text = exposition(port)
        admin.execute(f"ALTER DATABASE {admin.info.dbname} CONNECTION LIMIT -1")
    assert value(text, "retrieval_jobs_total", task="retrieve_top_k", outcome="delayed") == 2
    assert value(text, "retrieval_jobs_total", task="retrieve_top_k", outcome="Unavailable") == 1


def test_waiting_jobs_and_their_waits_are_those_of_this_test(
    client: Client, admin: psycopg.Connection[Any], port: int, start: Start
) -> None:
    """Of one process that a lock holds up: what waits, runs, since when; and afterwards how long each had waited."""

    def shown(name: str, **labels: str) -> float:
        return value(exposition(port), f"retrieval_{name}", **labels)

    wait_for_locks(admin)
    with start("--concurrency=1", METRICS__PORT=str(port), **PATIENT):
        with admin.transaction():
            admin.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
            first = client.enqueue(TOP_K)
            wait_for(lambda: shown("processes", state="busy") == 1)
            sent_at = time.monotonic()
            waiting = [client.enqueue(TOP_K) for _ in range(20)]
            wait_for(lambda: shown("oldest_waiting_seconds", queue="retrieval") >= LEAST_WAIT)
            assert shown("waiting_jobs", queue="retrieval") == len(waiting)
            assert shown("running_jobs", queue="retrieval") == 1
            assert shown("waiting_jobs", queue="pipeline") == shown("running_jobs", queue="pipeline") == 0
            assert shown("oldest_waiting_seconds", queue="retrieval") <= time.monotonic() - sent_at
            released_at = time.monotonic()
        for task_id in (first, *waiting):
            client.result(task_id, timeout=180)
        ended_at = time.monotonic()
        wait_for(lambda: shown("queue_wait_seconds_count", queue="retrieval") >= len(waiting) + 1)
        waited = shown("queue_wait_seconds_sum", queue="retrieval")
        assert shown("queue_wait_seconds_count", queue="retrieval") == len(waiting) + 1
        wait_for(lambda: shown("processes", state="idle") == 1)
        assert shown("oldest_waiting_seconds", queue="retrieval") == 0
    # A message is seen first, and seen gone, at the next look: at most two seconds later, as looks are a second apart.
    assert len(waiting) * (released_at - sent_at - 2.5) <= waited <= len(waiting) * (ended_at - sent_at + 2.5)


def test_ends_of_processes_are_counted_by_their_cause(port: int, start: Start) -> None:
    """One that was killed is lost; the worker replaces it."""
    with start("--concurrency=1", METRICS__PORT=str(port)) as worker:
        victim = pool(worker)[0]
        victim.kill()
        wait_for(lambda: value(exposition(port), "retrieval_processes_ended_total", cause="lost") == 1)


def test_a_job_is_answered_though_nothing_can_be_counted(
    client: Client, start: Start, worker_log: Path, tmp_path: Path
) -> None:
    """The folder is gone before the first number is written: the log says so, the caller gets the answer."""
    with start("--concurrency=1", METRICS__FOLDER=str(tmp_path / "metrics")):
        shutil.rmtree(tmp_path / "metrics")
        assert client.call(TOP_K).status == "ok"  # type: ignore[union-attr] # one query
    assert "metrics not written" in worker_log.read_text()
