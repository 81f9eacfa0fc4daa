"""A worker whose connections to Redis are lost: what it costs, what becomes of its running jobs, what it leaves."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.waiting import wait_for

from chaos.proxy import Proxy, network, proxy
from retrieval_client.errors import TimedOut
from workbench.devstack.workers import celery_worker
from worker.queue.broker import keys
from worker.queue.broker.owners import STOPPING_LIFE_SECONDS

from .held import is_clean
from .jobs import JOB
from .slow_killers import FOLDER

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import redis

    from retrieval_client import Client
    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]
    Start = Callable[..., AbstractContextManager[subprocess.Popen[bytes]]]

JOBS = 40


@pytest.fixture
def link(stack: Stack) -> Iterator[Proxy]:
    """The worker's way to its broker."""
    with network() as loop, proxy(loop, stack.redis.port) as way:
        yield way


@pytest.fixture
def through(stack: Stack, link: Proxy) -> dict[str, str]:
    """The variable that has the worker take it."""
    return {"CELERY_BROKER_URL": stack.redis.url(user="worker", port=link.port)}


def swallow(link: Proxy, seconds: float) -> None:
    """Carry nothing for a while: connections of before stay dead afterwards."""
    link.blackhole(True)
    time.sleep(seconds)  # the length of the silence is the point
    link.blackhole(False)


def cost(client: Client, broker: redis.Redis) -> float:
    """Redis' commands for each job, one after another."""
    commands = broker.info("stats")["total_commands_processed"]
    for _ in range(JOBS):
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
    return float(broker.info("stats")["total_commands_processed"] - commands) / JOBS


def living_owners(broker: redis.Redis) -> int:
    return len(broker.keys("retrieval-worker.owner.*"))


class Held:
    """Jobs that begin, and wait for what this tells them; see `slow_killers`."""

    options = ("--include", "tests.acceptance.slow_killers")

    def __init__(self, folder: Path, client: Client) -> None:
        self._folder = folder
        self._client = client
        self.environment = {FOLDER: str(folder)}

    def begin(self, task_id: str) -> None:
        """Send one, and wait until it has begun."""
        runs = self.runs(task_id)
        self._client.enqueue(JOB, task_id=task_id)
        wait_for(lambda: self.runs(task_id) > runs)

    def runs(self, task_id: str) -> int:
        """How often it has begun."""
        begun = self._folder / "begun"
        return begun.read_text().split().count(task_id) if begun.exists() else 0

    def tell(self, task_id: str, what: str = "go on", run: int = 1) -> None:
        """Have one of its runs go on, or ``die``."""
        made = self._folder / "made"
        made.write_text(what)
        made.rename(self._folder / f"{task_id}.{run}")


@pytest.fixture
def held(tmp_path: Path, client: Client) -> Held:
    return Held(tmp_path, client)


@pytest.fixture
def start(held: Held, worker_environment: Environment, through: dict[str, str], worker_log: Path) -> Start:
    """Start a worker behind the link, whose jobs are held."""

    def started(*options: str, **changes: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
        environment = worker_environment(**changes) | through | held.environment
        return celery_worker(environment, worker_log, *held.options, *options)

    return started


def is_back(broker: redis.Redis, since: int) -> bool:
    """Whether the worker listens again, over connections that were made after a moment."""
    return any(int(one["id"]) > since and int(one["psub"]) + int(one["sub"]) for one in broker.client_list())


def latest(broker: redis.Redis) -> int:
    return max(int(one["id"]) for one in broker.client_list())


def replace_the_processes(pid: int) -> list[psutil.Process]:
    """Kill a worker's pool processes, so that the next are forked while it is connected; the next ones."""
    pool = psutil.Process(pid)
    killed = pool.children()
    for process in killed:
        process.kill()
    wait_for(lambda: len({*pool.children()} - {*killed}) == len(killed))
    return [process for process in pool.children() if process not in killed]


def test_a_pool_process_shares_no_connection_with_the_main_one(
    client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """A copy would keep a connection alive that the main process has closed, and its poller would report it."""

    def addresses(process: psutil.Process) -> set[Any]:
        return {connection.laddr for connection in process.net_connections("tcp") if connection.raddr}

    with celery_worker(worker_environment(), worker_log, "--concurrency=2") as worker:
        forked = replace_the_processes(worker.pid)
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        own = addresses(psutil.Process(worker.pid))
        assert own
        for process in forked:
            wait_for(lambda process=process: addresses(process).isdisjoint(own))


def test_a_process_that_was_forked_before_a_silence_costs_nothing(
    link: Proxy,
    client: Client,
    broker: redis.Redis,
    worker_environment: Environment,
    through: dict[str, str],
    worker_log: Path,
) -> None:
    """After it a job takes as many commands as before, and no owner but its own is alive."""
    with celery_worker(worker_environment() | through, worker_log, "--concurrency=2") as worker:
        replace_the_processes(worker.pid)
        cost(client, broker)  # warm
        before, owners = cost(client, broker), living_owners(broker)
        swallow(link, 2)
        assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        after = cost(client, broker)
        wait_for(lambda: living_owners(broker) <= owners)
    assert after <= 2 * before


def status(client: Client, task_id: str, seconds: float = 60.0) -> str:
    return str(client.result(task_id, timeout=seconds).status)  # type: ignore[union-attr] # one query


def lose(link: Proxy, broker: redis.Redis) -> None:
    """Reset the worker's connections to its broker, and wait until it consumes again."""
    since = latest(broker)
    link.reset()
    wait_for(lambda: is_back(broker, since))


def test_a_running_job_survives_a_lost_connection(
    link: Proxy, client: Client, broker: redis.Redis, held: Held, start: Start, worker_log: Path
) -> None:
    """It runs once, holds its place meanwhile, and is acknowledged over the next connection."""
    with start("--concurrency=2"):
        held.begin("held-1")
        lose(link, broker)
        held.begin("held-2")
        client.enqueue(JOB, task_id="held-3")
        assert broker.llen("retrieval") == 1, "both places are taken"
        for number in (1, 2, 3):
            held.tell(f"held-{number}")
        assert [status(client, f"held-{number}") for number in (1, 2, 3)] == ["ok"] * 3
        wait_for(lambda: is_clean(broker))
    assert [held.runs(f"held-{number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert "PendingDeprecation" not in worker_log.read_text(errors="replace")


def test_time_limits_survive_a_lost_connection(
    link: Proxy, client: Client, broker: redis.Redis, held: Held, start: Start
) -> None:
    """A job that began before is ended when its time is over."""
    with start("--concurrency=1", WORKER__SOFT_TIME_LIMIT_SECONDS="10", WORKER__TIME_LIMIT_SECONDS="15"):
        held.begin("held-1")
        lose(link, broker)
        with pytest.raises(TimedOut):
            client.result("held-1", timeout=180)
    assert held.runs("held-1") == 1


def test_a_killing_job_whose_connection_is_lost_too_is_given_up(
    link: Proxy, client: Client, broker: redis.Redis, held: Held, start: Start
) -> None:
    """A lost connection forgives no run: it begins as often as it may be delivered, and is a dead letter then."""
    with start("--concurrency=1", WORKER__MAX_DELIVERIES="3"):
        client.enqueue(JOB, task_id="held-poison")
        for run in (1, 2, 3):
            wait_for(lambda run=run: held.runs("held-poison") == run)
            lose(link, broker)
            held.tell("held-poison", "die", run)
        wait_for(lambda: broker.xlen(keys.dead("retrieval")) == 1)
    assert held.runs("held-poison") == 3


def test_the_next_job_of_a_process_is_not_revoked(
    link: Proxy, client: Client, broker: redis.Redis, held: Held, start: Start
) -> None:
    """A job ran through a lost connection, and ignored SIGTERM; its process dies in the next one, which runs again."""
    with start("--concurrency=1"):
        held.begin("held-stubborn-1")
        lose(link, broker)
        held.tell("held-stubborn-1")
        assert status(client, "held-stubborn-1") == "ok"
        held.begin("held-2")
        held.tell("held-2", "die")
        wait_for(lambda: held.runs("held-2") == 2)
        held.tell("held-2", run=2)
        assert status(client, "held-2") == "ok"
    assert (held.runs("held-stubborn-1"), held.runs("held-2")) == (1, 2)


def test_a_worker_that_is_stopped_and_killed_leaves_its_jobs_to_others(
    client: Client, broker: redis.Redis, held: Held, worker_environment: Environment, tmp_path: Path
) -> None:
    """SIGTERM, and SIGKILL while a job runs: it comes back sooner than any dead worker's: its owners live for less."""
    environment = worker_environment() | held.environment
    with celery_worker(environment, tmp_path / "first.log", *held.options, "--concurrency=1") as worker:
        held.begin("held-1")
        worker.terminate()
        wait_for(
            lambda: not any(one["cmd"] == "blmove" for one in broker.client_list()),
            lambda: f"{broker.client_list()} {(tmp_path / 'first.log').read_text()[-4000:]}",
        )
        owners = broker.keys("retrieval-worker.owner.*")
        wait_for(lambda: all(int(str(broker.ttl(owner))) <= STOPPING_LIFE_SECONDS for owner in owners))
        assert any(int(str(broker.ttl(owner))) > 0 for owner in owners)
        worker.kill()
        worker.wait(180)
    with celery_worker(environment, tmp_path / "second.log", *held.options, "--concurrency=1"):
        wait_for(lambda: held.runs("held-1") == 2)
        held.tell("held-1", run=2)
        assert status(client, "held-1") == "ok"
    assert broker.keys("retrieval-worker.owner.*") == []


def test_a_job_that_never_ends_ends_at_its_limit_after_its_worker(
    held: Held, worker_environment: Environment, worker_log: Path
) -> None:
    """The main process, which keeps the limit, was killed."""
    limits = worker_environment(WORKER__SOFT_TIME_LIMIT_SECONDS="9", WORKER__TIME_LIMIT_SECONDS="10")
    with celery_worker(limits | held.environment, worker_log, *held.options, "--concurrency=1") as worker:
        held.begin("held-1")
        (process,) = psutil.Process(worker.pid).children()
        worker.kill()
        worker.wait(180)
        wait_for(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
