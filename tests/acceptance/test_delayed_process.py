"""Real workers: jobs that run later wait in Redis, and workers whose clocks differ leave each other's jobs alone."""

from __future__ import annotations

import json
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from celery import Celery

from workbench.devstack.workers import celery_worker
from worker.queue.broker import keys

from .bad_input_worker import message
from .held import count_held, has_begun, holders
from .jobs import JOB, searches_held
from .test_nothing_lost import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from retrieval_client import Client
    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]

LIBRARIES = [*Path("/usr/lib").glob("**/faketime/libfaketime.so.1")] if shutil.which("faketime") else []


@pytest.fixture
def app(stack: Stack, broker: redis.Redis) -> Iterator[Celery]:
    """A stock sender."""
    del broker  # emptied
    with Celery(broker=stack.redis.url(0), backend=stack.redis.url(1), set_as_current=False) as made:
        yield made


def send(app: Celery, seconds: float) -> Any:
    job = JOB.model_dump(mode="json", exclude_unset=True)
    return app.send_task("retrieve_top_k", [job], queue="retrieval", countdown=seconds)


def waiting(broker: redis.Redis) -> tuple[int, int]:
    """How many messages are delayed, and how many a worker holds."""
    count: Any = broker.zcard(keys.delayed("retrieval"))
    return count, count_held(broker)


def test_a_job_waits_for_its_time_in_redis_and_survives_its_worker(
    app: Celery, client: Client, broker: redis.Redis, worker_environment: Environment, tmp_path: Path
) -> None:
    """Its worker is killed meanwhile; another one runs it, not before its time."""
    environment = worker_environment()
    due = datetime.now(UTC) + timedelta(seconds=15)
    with celery_worker(environment, tmp_path / "first.log", "--concurrency=1") as worker:
        later = send(app, 15)
        wait_for(lambda: waiting(broker) == (1, 0))
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        worker.send_signal(signal.SIGKILL)
        worker.wait(180)
    with celery_worker(environment, tmp_path / "second.log", "--concurrency=1"):
        assert later.get(timeout=180)["status"] == "ok"
        assert later.date_done.replace(tzinfo=UTC) >= due
        wait_for(lambda: waiting(broker) == (0, 0))


def test_a_retry_waits_in_redis_and_survives_its_worker(
    client: Client, broker: redis.Redis, worker_environment: Environment, tmp_path: Path
) -> None:
    """Postgres is away; the job is with no worker until it is tried again."""
    environment = worker_environment()
    away = {**environment, "DATABASE_CONNECTION_STRING": "postgresql://retrieval_worker@127.0.0.1:1/none"}
    with celery_worker(away, tmp_path / "away.log", "--concurrency=1") as worker:
        task_id = client.enqueue(JOB)
        # The fifth pause takes seconds.
        wait_for(lambda: (tmp_path / "away.log").read_text().count('"job delayed"') >= 5)
        wait_for(lambda: waiting(broker) == (1, 0))
        worker.send_signal(signal.SIGKILL)
        worker.wait(180)
    with celery_worker(environment, tmp_path / "back.log", "--concurrency=1"):
        assert client.result(task_id, timeout=180).status == "ok"  # type: ignore[union-attr] # one query


def test_large_jobs_that_wait_take_no_memory_of_a_worker(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """300 of 900 kB: the main process stays as small as it was, and an ordinary job is answered beside them."""
    eta = (datetime.now(UTC) + timedelta(seconds=3600)).isoformat()
    large = json.loads(message("large", b"[[{}], {}, {}]"))
    large["body"] = "x" * 900_000
    with celery_worker(worker_environment(), worker_log, "--concurrency=1") as worker:
        client.call(JOB, timeout=180)
        main = psutil.Process(worker.pid)
        before = main.memory_info().rss
        for number in range(300):
            large["headers"] |= {"id": f"large-{number}", "eta": eta}
            broker.lpush("retrieval", json.dumps(large))
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        wait_for(lambda: waiting(broker) == (300, 0))
        assert main.memory_info().rss - before < 50_000_000


@pytest.mark.skipif(not LIBRARIES, reason="faketime is not here")
@pytest.mark.parametrize("skew", ["+1200", "-1200"])
def test_workers_whose_clocks_differ_leave_each_other_s_jobs_alone(
    client: Client, broker: redis.Redis, worker_environment: Environment, tmp_path: Path, skew: str
) -> None:
    """Running jobs are delivered once, and answered."""
    environment = worker_environment()
    wrong = {**environment, "LD_PRELOAD": str(LIBRARIES[0]), "FAKETIME": f"{skew}s"}
    with (
        celery_worker(environment, tmp_path / "right.log", "--concurrency=2") as right,
        celery_worker(wrong, tmp_path / "wrong.log", "--concurrency=2"),
    ):
        main = psutil.Process(right.pid)
        with searches_held(environment):
            ids = [client.enqueue(JOB, expires=600) for _ in range(4)]
            wait_for(lambda: has_begun(broker, 4))
            places = holders(broker)
            of_right = [f"-{process.pid}-" for process in (main, *main.children())]
            assert {any(name in place for name in of_right) for place in places} == {True, False}, "both have some"
            heard = commands(broker)
            wait_for(lambda: commands(broker) > heard + 200)
            assert holders(broker) == places
        assert [client.result(task_id, timeout=180).status for task_id in ids] == ["ok"] * 4  # type: ignore[union-attr] # of one query each


def commands(broker: redis.Redis) -> int:
    """How many Redis has heard: some with each look at what is overdue, every second."""
    found: Any = broker.info("stats")
    return int(found["total_commands_processed"])


@pytest.mark.skipif(not LIBRARIES, reason="faketime is not here")
@pytest.mark.parametrize("skew", ["+1200", "-1200"])
def test_a_retry_of_a_worker_whose_clock_is_wrong_waits_as_long_as_any(
    client: Client, broker: redis.Redis, worker_environment: Environment, tmp_path: Path, skew: str
) -> None:
    """Not for twenty minutes more or less: by Redis' clock it is due in the pause that was chosen."""
    delayed: list[Any] = []

    def is_delayed() -> bool:
        delayed[:] = broker.zrange(keys.delayed("retrieval"), 0, 0, withscores=True)
        return bool(delayed)

    away = {
        **worker_environment(),
        "DATABASE_CONNECTION_STRING": "postgresql://retrieval_worker@127.0.0.1:1/none",
        "LD_PRELOAD": str(LIBRARIES[0]),
        "FAKETIME": f"{skew}s",
    }
    with celery_worker(away, tmp_path / "wrong.log", "--concurrency=1"):
        client.enqueue(JOB)
        wait_for(is_delayed)
    ((_, due),) = delayed
    assert abs(due - broker.time()[0]) < 60
