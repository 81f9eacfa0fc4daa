"""A real worker process, driven from outside over Redis."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from celery import Celery
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Client, RetrieveTopK, Signer
from retrieval_client.errors import DeadLettered, NotAuthorised, TimedOut, Unavailable
from workbench.devstack.workers import celery_worker, flower
from worker.queue.broker import keys

from .held import count_held
from .jobs import JOB, QUERY, pool_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg
    import redis

    from workbench.devstack.stack import Stack

    from .jobs import Start

    Environment = Callable[..., dict[str, str]]

USER, PASSWORD = "watcher", "a password for this test"


def log_events(log: Path, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line.get("event") == event]


@contextlib.contextmanager
def listening(stack: Stack) -> Iterator[tuple[Celery, list[dict[str, Any]]]]:
    """A Celery app, and the events that it has heard."""
    heard: list[dict[str, Any]] = []
    app = Celery(set_as_current=False)
    app.conf.update(broker_read_url=stack.redis.url(0), broker_write_url=stack.redis.url(0))
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": heard.append})
        thread = threading.Thread(target=receiver.capture, kwargs={"limit": None, "timeout": 120, "wakeup": False})
        thread.start()
        try:
            yield app, heard
        finally:
            receiver.should_stop = True
            thread.join()
    app.close()


def uuids(heard: list[dict[str, Any]], kind: str) -> list[str]:
    return sorted(event["uuid"] for event in heard if event["type"] == kind)


def heartbeats(heard: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """How many jobs ran, and had ended, at each."""
    return [(event["active"], event["processed"]) for event in heard if event["type"] == "worker-heartbeat"]


def test_every_event_is_sent_before_a_process_ends(
    stack: Stack, client: Client, broker: redis.Redis, start: Start
) -> None:
    """Events of a burst wait for each other, and for nothing once their process leaves; each is sent once."""
    with listening(stack) as (_, heard):
        with start("--concurrency=1", "--max-tasks-per-child=100"):
            wait_for(lambda: heartbeats(heard))
            sent = [client.enqueue(JOB) for _ in range(300)]
            for task_id in sent:
                client.result(task_id, timeout=180)
            wait_for(lambda: count_held(broker) == 0)
        wait_for(lambda: any(event["type"] == "worker-offline" for event in heard))
    kinds: dict[str, list[str]] = {task_id: [] for task_id in sent}
    for event in heard:
        if "uuid" in event:
            kinds[event["uuid"]].append(event["type"])
    assert [*kinds.values()] == [["task-received", "task-started", "task-succeeded"]] * len(sent)


def test_a_job_is_heard_of_and_counted_while_it_runs(
    stack: Stack, client: Client, locked: psycopg.Connection[Any], start: Start
) -> None:
    """Flower shows what may be stuck: its events do not wait for its end, and heartbeats count it."""
    with listening(stack) as (_, heard), start("--concurrency=2", SEARCH__STATEMENT_TIMEOUT_SECONDS="50"):
        wait_for(lambda: (0, 0) in heartbeats(heard))
        task_id = client.enqueue(JOB)
        wait_for(lambda: waiting_sessions(locked) == 1)
        wait_for(lambda: uuids(heard, "task-received") == uuids(heard, "task-started") == [task_id])
        wait_for(lambda: (1, 0) in heartbeats(heard))
        locked.rollback()
        client.result(task_id, timeout=180)
        wait_for(lambda: (0, 1) in heartbeats(heard))


@pytest.mark.provokes_refusals
def test_events_that_redis_refuses_cost_no_job(
    stack: Stack, client: Client, broker: redis.Redis, start: Start, worker_log: Path
) -> None:
    """They are sent later, once each; the log says so once."""
    others = ("&celery-task-meta-*", "&/0.celery.pidbox", "&/0.celeryev/worker.*")
    with listening(stack) as (_, heard), start("--concurrency=1"):
        wait_for(lambda: heartbeats(heard))
        broker.acl_log_reset()
        broker.execute_command("ACL SETUSER", "worker", "resetchannels", *others)
        try:
            sent = [client.enqueue(JOB) for _ in range(300)]
            assert {client.result(task_id, timeout=180).status for task_id in sent} == {"ok"}
            wait_for(lambda: broker.acl_log()[0]["count"] > 1)
            assert not uuids(heard, "task-received")
        finally:
            broker.execute_command("ACL SETUSER", "worker", "&/0.celeryev/*")
        wait_for(lambda: len(uuids(heard, "task-succeeded")) >= len(sent))
        for kind in ("task-received", "task-started", "task-succeeded"):
            assert uuids(heard, kind) == sorted(sent)
    assert len(log_events(worker_log, "events not sent")) == 1


def test_events_of_jobs_are_sent_while_they_are_wanted(stack: Stack, client: Client, start: Start) -> None:
    """Remote control disables and enables them; a worker without them sends those of workers."""

    def answered() -> str:
        task_id = client.enqueue(JOB)
        client.result(task_id, timeout=180)
        return task_id

    def is_wanted(task_id: str) -> bool:
        """Whether events have been heard of a job that ended since they were enabled."""
        enabled.add(task_id)
        return not enabled.isdisjoint(uuids(heard, "task-succeeded"))

    enabled: set[str] = set()
    with listening(stack) as (app, heard):
        with start("--concurrency=1"):
            wait_for(lambda: heartbeats(heard))
            app.control.disable_events(reply=True, timeout=60, limit=1)
            last = len(heartbeats(heard))
            wait_for(lambda: len(heartbeats(heard)) > last + 1)  # processes are told between two
            unwanted = answered()
            app.control.enable_events(reply=True, timeout=60, limit=1)
            wait_for(lambda: is_wanted(answered()))
        wait_for(lambda: any(event["type"] == "worker-offline" for event in heard))
    assert unwanted not in uuids(heard, "task-received")


def test_the_pool_grows_under_a_burst_and_shrinks_when_idle(
    stack: Stack, client: Client, locked: psycopg.Connection[Any], worker_environment: Environment, worker_log: Path
) -> None:
    """Autoscale 4,1: four processes while jobs wait, one when there are none; no job fails; Flower shows both."""
    environment = {**worker_environment(SEARCH__STATEMENT_TIMEOUT_SECONDS="50"), "AUTOSCALE_KEEPALIVE": "1"}
    with (
        celery_worker(environment, worker_log, "--autoscale=4,1"),
        flower(
            environment | stack.redis.environment("flower"),
            worker_log.with_suffix(".flower"),
            user=USER,
            password=PASSWORD,
        ) as url,
    ):
        wait_for(lambda: flower_pool(url) == 1)
        sent = [client.enqueue(JOB) for _ in range(60)]
        wait_for(lambda: waiting_sessions(locked) == 4)
        wait_for(lambda: flower_pool(url) == 4)
        locked.rollback()
        answers = [client.result(task_id, timeout=180) for task_id in sent]
        assert {answer.status for answer in answers} == {"ok"}  # type: ignore[union-attr] # one query each
        wait_for(lambda: flower_pool(url) == 1)
        # A job that was received before Flower heard the worker's events has no name there.
        shown = {task_id: task for task_id, task in ask_flower(url, "/api/tasks?limit=100").items() if task["name"]}
        assert shown.keys() <= set(sent)
        assert len(shown) > len(sent) / 2
        assert {task["name"] for task in shown.values()} == {"retrieve_top_k"}
        assert {task["args"] for task in shown.values()} == {"(principal, query_embedding)"}
        assert {task["state"] for task in shown.values()} == {"SUCCESS"}
        assert "hum" not in json.dumps(shown)


def ask_flower(url: str, path: str) -> dict[str, Any]:
    """Flower's API, which answers only with basic auth."""
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url + path, timeout=180)
    credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    asked = urllib.request.Request(url + path, headers={"Authorization": f"Basic {credentials}"})
    with urllib.request.urlopen(asked, timeout=180) as answer:
        return json.load(answer)


def flower_pool(url: str) -> int:
    """How many pool processes Flower sees now."""
    workers = ask_flower(url, "/api/workers?refresh=1")
    return sum(len(worker["stats"]["pool"]["processes"]) for worker in workers.values() if worker.get("stats"))


def test_a_job_waits_for_a_database_that_is_away(
    client: Client, admin: psycopg.Connection[Any], start: Start, worker_log: Path
) -> None:
    """Postgres gives no connections: the job is tried again with pauses, and answered once it is back."""
    name = admin.info.dbname
    with start("--concurrency=1"):
        client.call(JOB, timeout=180)
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
        task_id = client.enqueue(JOB)
        wait_for(lambda: len(log_events(worker_log, "job delayed")) >= 2)
        assert client.progress(task_id).state == "RETRY"
        admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")
        assert client.result(task_id, timeout=180).status == "ok"  # type: ignore[union-attr] # one query


def test_sessions_that_are_terminated_under_load_time_no_job_out(
    client: Client, admin: psycopg.Connection[Any], start: Start
) -> None:
    """Only what a time limit interrupted is `TimedOut`: a job whose session or query is ended runs again."""
    with start("--concurrency=2"):
        client.call(JOB, timeout=180)
        ids = []

        def strikes(function: str) -> bool:
            """Whether a session was at work."""
            ids.extend(client.enqueue(JOB) for _ in range(10))
            return admin.execute(AT_WORK.format(f"{function}(pid)")).fetchone() is not None

        for number in range(20):
            function = ("pg_terminate_backend", "pg_cancel_backend")[number % 2]
            wait_for(lambda function=function: strikes(function))
        assert {client.result(task_id, timeout=180).status for task_id in ids} == {"ok"}


AT_WORK = "SELECT {} FROM pg_stat_activity WHERE usename = 'retrieval_worker' AND state = 'active'"


def test_a_database_that_stays_away_ends_in_unavailable(
    client: Client, admin: psycopg.Connection[Any], start: Start, worker_log: Path
) -> None:
    """After `max_outage_seconds` a job fails as `Unavailable`, and the worker lives."""
    with start("--concurrency=1", WORKER__MAX_OUTAGE_SECONDS="2"):
        admin.execute(f"ALTER DATABASE {admin.info.dbname} CONNECTION LIMIT 0")
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
        with pytest.raises(Unavailable, match="Postgres"):
            client.call(JOB, timeout=180)
        assert len(log_events(worker_log, "job delayed")) > 2
        admin.execute(f"ALTER DATABASE {admin.info.dbname} CONNECTION LIMIT -1")
        # The pool tries to connect again with growing pauses, longer than this test lets a job wait.
        wait_for(lambda: answered(client))


def answered(client: Client) -> bool:
    """Whether a job is answered now."""
    with contextlib.suppress(Unavailable):
        return client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
    return False


def test_a_job_that_kills_its_process_each_time_is_dead_lettered(
    client: Client, admin: psycopg.Connection[Any], locked: psycopg.Connection[Any], start: Start
) -> None:
    """Redeliveries are bounded: the job fails as `DeadLettered`, and the worker answers others."""
    killed = set()
    with start("--concurrency=1", WORKER__MAX_DELIVERIES="3") as worker:
        task_id = client.enqueue(JOB)
        for _ in range(3):
            wait_for(lambda: waiting_sessions(admin) == 1 and pool_process(worker).pid not in killed)
            process = pool_process(worker)
            killed.add(process.pid)
            process.kill()
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            wait_for(lambda: waiting_sessions(admin) == 0)
        with pytest.raises(DeadLettered, match="delivered 3 times"):
            client.result(task_id, timeout=180)
        locked.rollback()
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query


@pytest.mark.parametrize(
    ("limits", "who"),
    [
        ({"SEARCH__STATEMENT_TIMEOUT_SECONDS": "0.3"}, "did not answer within"),
        (
            {"WORKER__SOFT_TIME_LIMIT_SECONDS": "1", "WORKER__TIME_LIMIT_SECONDS": "10"},
            "longer than its time limit",
        ),
    ],
)
def test_a_job_that_takes_too_long_is_timed_out(
    client: Client, locked: psycopg.Connection[Any], start: Start, limits: dict[str, str], who: str
) -> None:
    """Both time limits, Postgres' and Celery's, end in `TimedOut`, and the next job is answered."""
    with start("--concurrency=1", **limits):
        with pytest.raises(TimedOut, match=who):
            client.call(JOB, timeout=180)
        locked.rollback()
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query


def test_a_job_that_expired_is_dead_lettered(client: Client, start: Start, worker_log: Path) -> None:
    """An expired job is not run, and its record says so."""
    task_id = client.enqueue(JOB, expires=0.01)
    with start("--concurrency=1"):
        with pytest.raises(DeadLettered, match="expired"):
            client.result(task_id, timeout=180)
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
    assert len(log_events(worker_log, "job done")) == 1


def test_signed_jobs_are_answered_where_the_queue_is_not_trusted(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """A token stands for its claims; a plain principal, a foreign key and no principal do not."""
    key = "a secret of at least thirty-two bytes"
    environment = worker_environment(TOKEN_KEYS=json.dumps({"2026": key})) | {"RETRIEVAL_WORKER_TRUST_QUEUE": "false"}
    broker.flushall()
    plain = RetrieveTopK(query_embedding=QUERY)
    urls = stack.redis.urls("producer")
    signing, forging = Client(*urls, Signer(key, "2026")), Client(*urls, Signer("x" * 40, "2026"))
    with celery_worker(environment, worker_log, "--concurrency=1"):
        answer = signing.call(plain, claims={"user_id": "alice"}, timeout=180)
        assert "handbook-desk-notes-006" in {chunk.chunk_id for chunk in answer.chunks}  # type: ignore[union-attr] # one
        for client, claims, job in (
            (forging, {"user_id": "alice"}, plain),
            (signing, None, plain),
            (signing, None, JOB),
        ):
            with pytest.raises(NotAuthorised):
                client.call(job, claims=claims, timeout=180)
    assert key not in worker_log.read_text()
    signing.close()
    forging.close()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"DATABASE_CONNECTION_STRING": ""}, "DATABASE_CONNECTION_STRING"),
        ({"RETRIEVAL_WORKER_CONFIG": "/no/such/worker.toml"}, "/no/such/worker.toml"),
        ({"user": "postgres"}, "superuser"),
    ],
)
def test_a_wrong_set_up_stops_the_start_with_one_sentence(
    stack: Stack, admin: psycopg.Connection[Any], worker_environment: Environment, changes: dict[str, str], said: str
) -> None:
    """Exit code 78, the setting's name, and no stack trace."""
    environment = worker_environment()
    if changes.get("user"):
        environment["DATABASE_CONNECTION_STRING"] = stack.postgres.dsn(admin.info.dbname, changes["user"])
    else:
        environment |= changes
        environment = {name: value for name, value in environment.items() if value}
    assert said in refused_start(environment)


def refused_start(environment: dict[str, str], *options: str) -> str:
    """Return the output of a worker that does not start, with exit code 78."""
    command = [sys.executable, "-m", "celery", "-A", "worker.app", "worker", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 78
    assert "Traceback" not in done.stderr + done.stdout
    return done.stderr


@pytest.mark.provokes_refusals
def test_a_queue_that_redis_refuses_stops_the_start(
    stack: Stack, broker: redis.Redis, worker_environment: Environment
) -> None:
    """Exit code 78, and a sentence that names it; nothing is left that other workers would look at."""
    environment = worker_environment() | {"CELERY_BROKER_URL": stack.redis.url(user="worker")}
    assert "may not run BLMOVE from nope" in refused_start(environment, "-Q", "nope")
    assert not broker.exists(keys.OWNERS)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--pool=solo", "this worker has processes only: leave it out; --concurrency=1 for one"),
        ("--pool=threads", "this worker has processes only"),
        ("--queues=", "-Q: expected names of queues"),
        ("--queues=retrieval,", "-Q: expected names of queues"),
        ("--autoscale=0,0", "--autoscale: expected at least 1"),
        ("--time-limit=-1", "--time-limit: expected a positive number"),
        ("--soft-time-limit=-1", "--soft-time-limit: expected a positive number"),
    ],
)
def test_an_option_with_which_no_job_would_be_answered_is_refused(
    worker_environment: Environment, option: str, said: str
) -> None:
    """Exit code 78, and a sentence that says what to use."""
    (line,) = refused_start(worker_environment(), option).splitlines()
    assert said in line


def test_nothing_of_this_session_is_left(stack: Stack) -> None:
    """Every worker of this module is gone: what was started was stopped by its own pid."""
    commands = []
    for process in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):  # it has ended meanwhile
            commands.append(" ".join(process.cmdline()))
    assert not [command for command in commands if "celery" in command]
    assert stack.postgres.process.poll() is None
