"""Redis as config/redis sets it up."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import redis
from tests.command_line import command_line
from tests.refusals import refusals

from retrieval_client.errors import SettingsError
from workbench.devstack.redis import redis_server
from worker.adapters.durability import check_redis, redis_findings, warnings
from worker.queue.broker import keys
from worker.queue.overview import Overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.command_line import Command

    from workbench.devstack.stack import Stack
    from worker.settings import Settings


def test_a_restart_keeps_what_was_written_in_one_step(tmp_path: Path) -> None:
    """Redis replays transactions with the rights of the default user: without any, it drops them silently."""
    with redis_server(tmp_path, durable=True) as server, redis.Redis.from_url(server.url()) as client:
        client.eval("redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 1)", 2, "one", "other")
    with redis_server(tmp_path, durable=True) as server, redis.Redis.from_url(server.url()) as client:
        assert client.exists("one", "other") == 2


def test_the_default_user_is_off(tmp_path: Path) -> None:
    """No client connects without a name and a password, whatever rights that user has."""
    with redis_server(tmp_path) as server:
        for name in (None, "default"):
            for password in (None, ""):
                with (
                    redis.Redis(port=server.port, username=name, password=password, retry=None) as client,
                    pytest.raises((redis.AuthenticationError, redis.ResponseError)),
                ):
                    client.ping()


def test_the_inspector_counts_and_retries_as_a_user_of_its_own(stack: Stack, broker: redis.Redis) -> None:
    """Waiting, running and delayed jobs, workers and dead letters; Redis refuses nothing and lets it read no result."""
    queue = "retrieval"
    owner = "host-1-ab"
    broker.lpush(queue, b"waiting")
    broker.zadd(keys.delayed(queue), {"tag": 1})
    broker.zadd(keys.OWNERS, {keys.inflight(queue, owner): 1})
    broker.set(keys.owner_key(owner), keys.owner_value("host", 3))
    broker.zadd(keys.UNACKED_INDEX, {keys.tag(owner, 1): 1})
    letter = {"reason": "malformed", "kept": "whole", "original": b"sent", "at": "2026-01-01T00:00:00Z"}
    retried, purged = (broker.xadd(keys.dead(queue), letter).decode() for _ in range(2))
    broker.acl_log_reset()
    overview = Overview(stack.redis.url(0, "inspector"), [queue])
    state = overview.look(10)
    assert (state.queues[0].waiting, state.queues[0].delayed, state.queues[0].dead) == (1, 1, 2)
    assert (state.alive, state.running, len(state.letters)) == (1, 1, 2)
    assert [overview.retry(queue, retried) for _ in range(2)] == [True, False]
    assert [overview.purge(queue, purged) for _ in range(2)] == [True, False]
    assert broker.lrange(queue, 0, -1) == [b"sent", b"waiting"]
    assert refusals(stack.redis) == []
    with (
        redis.Redis.from_url(stack.redis.url(1, "inspector")) as client,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        client.get("celery-task-meta-x")


# --- a user without a worker's rights -----------------------------------------------------------

WORKER = ["-m", "celery", "-A", "worker.app", "worker", "--concurrency=1", "--without-mingle", "--without-gossip"]


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command, changed = [sys.executable, *arguments], {**os.environ, **environment}
    return subprocess.run(command, env=changed, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.parametrize(("variable", "database"), [("CELERY_BROKER_URL", 0), ("CELERY_RESULT_BACKEND", 1)])
def test_a_worker_with_a_producers_rights_does_not_start(
    stack: Stack, worker_environment: Callable[..., dict[str, str]], variable: str, database: int
) -> None:
    """Exit code 78 and one sentence: the variable, the user, what it may not do, and whose rights are needed."""
    environment = worker_environment() | {variable: stack.redis.url(database, "producer")}
    done = run(environment, *WORKER)
    assert done.returncode == 78, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if "producer" in line]
    assert said.startswith(f"retrieval-worker: {variable}: the Redis user producer may not run EVALSHA with the key")
    assert "worker in config/redis/users.acl" in said
    assert stack.redis.passwords["producer"] not in done.stdout + done.stderr


@pytest.mark.parametrize(("variable", "database"), [("CELERY_BROKER_URL", 0), ("CELERY_RESULT_BACKEND", 1)])
@pytest.mark.parametrize("user", ["worker", "nobody"])
def test_a_worker_whom_redis_does_not_let_in_does_not_start(
    stack: Stack, worker_environment: Callable[..., dict[str, str]], variable: str, database: int, user: str
) -> None:
    """A wrong password does not become right by trying again: exit code 78, and a sentence without the password."""
    url = f"redis://{user}:wrong-secret@127.0.0.1:{stack.redis.port}/{database}"
    done = run(worker_environment() | {variable: url}, *WORKER)
    assert done.returncode == 78, done.stderr
    assert f"retrieval-worker: {variable}: Redis refuses this user or password." in done.stderr
    assert "wrong-secret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("setting", "variable", "database"),
    [("broker_url", "CELERY_BROKER_URL", 0), ("result_backend", "CELERY_RESULT_BACKEND", 1)],
)
@pytest.mark.parametrize("user", ["worker", "nobody"])
def test_whom_redis_does_not_let_in_is_refused(
    stack: Stack, make_settings: Callable[..., Settings], setting: str, variable: str, database: int, user: str
) -> None:
    """Checks of a start; the tests above start workers, and `make test` leaves them to `make test-rest`."""
    url = f"redis://{user}:wrong-secret@127.0.0.1:{stack.redis.port}/{database}"
    with pytest.raises(SettingsError, match=f"^{variable}: Redis refuses this user or password"):
        check_redis(make_settings(**{setting: url}))


@pytest.fixture
def as_producer(
    stack: Stack, worker_environment: Callable[..., dict[str, str]], capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs commands with a worker's environment, but as Redis' user of producers."""
    return command_line(capsys, worker_environment() | stack.redis.environment("producer"))


def test_the_doctor_refuses_a_producers_rights(as_producer: Command) -> None:
    """It says what the start says."""
    done = as_producer("doctor")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "problem Redis: CELERY_BROKER_URL: the Redis user producer may not run EVAL" in done.stdout
    assert "a backend's user, such as producer, only sends jobs" in done.stdout
    assert "it answers" not in done.stdout


@pytest.mark.parametrize("arguments", [["list"], ["show", "1-0"], ["retry", "1-0"], ["purge", "--all"]])
def test_dead_letters_are_not_for_a_producer(as_producer: Command, arguments: list[str]) -> None:
    """Redis answers, so that trying again later is no advice: the sentence names the user that may."""
    done = as_producer("dead", *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Redis refused its user producer this command: connect as the user admin of config/redis" in done.stderr
    assert "does not answer" not in done.stderr


@pytest.mark.parametrize("user", ["worker", "admin"])
def test_the_check_of_a_workers_rights_changes_nothing(
    stack: Stack, make_settings: Callable[..., Settings], broker: redis.Redis, user: str
) -> None:
    """The check of permissions leaves no key, and no refusal in Redis' log where all permissions are there."""
    broker.acl_log_reset()
    check_redis(make_settings(broker_url=stack.redis.url(0, user), result_backend=stack.redis.url(1, user)))
    check_redis(make_settings(broker_url=stack.redis.url(0, user), result_backend=None))
    assert broker.keys() == []
    assert refusals(stack.redis) == []


@pytest.fixture
def limited(stack: Stack, broker: redis.Redis) -> Iterator[Callable[..., str]]:
    """Makes a user of all rights but some; returns the URL of the broker as that user."""

    def make(rights: str) -> str:
        everything = ("reset", "on", ">p", "~*", "&*", "+@all")
        broker.execute_command("ACL", "SETUSER", "lacking", *everything, *rights.split())
        return f"redis://lacking:p@127.0.0.1:{stack.redis.port}/0"

    yield make
    broker.acl_deluser("lacking")


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("-script|load", "SCRIPT LOAD"),
        ("-zrange", f"ZRANGE {keys.OWNERS}"),
        ("-publish", "PUBLISH celery-task-meta-"),
        ("-psubscribe", "PSUBSCRIBE /0.celery.pidbox"),
        ("resetchannels &celery-task-meta-* &/0.celery.pidbox", "PUBLISH /0.celeryev/"),
        ("-info", "INFO server"),
        ("-client|id", "CLIENT ID"),
        ("-client|unblock", "CLIENT UNBLOCK"),
        ("-blmove", "BLMOVE from retrieval"),
        ("-lmove", "LMOVE from retrieval"),
        ("resetkeys ~retrieval-worker.* ~unacked* ~celery-task-meta-* ~retrieval", "BLMOVE from retrieval"),
    ],
)
def test_each_right_that_is_asked_for_is_named(
    make_settings: Callable[..., Settings], limited: Callable[..., str], missing: str, named: str
) -> None:
    """A missing permission is named, though all others are there."""
    settings = make_settings(broker_url=limited(missing), result_backend=None)
    with pytest.raises(SettingsError, match=f"lacking may not run {named}") as refused:
        check_redis(settings)
    (problem,) = [finding.text for finding in redis_findings(settings) if finding.level == "problem"]
    assert problem == refused.value.message


def test_queues_in_a_database_whose_channels_the_user_may_not_use_are_refused(
    stack: Stack, make_settings: Callable[..., Settings], broker: redis.Redis
) -> None:
    """Celery takes that refusal for a lost connection, and connects again without end; the command is the cure."""
    settings = make_settings(broker_url=stack.redis.url(2, "worker"), result_backend=stack.redis.url(3, "worker"))
    with pytest.raises(SettingsError, match=r"the Redis user worker may not run PUBLISH /2\.celeryev/") as refused:
        check_redis(settings)
    (problem,) = [finding.text for finding in redis_findings(settings) if finding.level == "problem"]
    assert problem == refused.value.message
    rights = broker.acl_getuser("worker")["channels"]
    try:
        broker.execute_command("ACL", "SETUSER", *problem.partition("ACL SETUSER ")[2].partition(",")[0].split())
        check_redis(settings)
    finally:
        channels = rights.split() if isinstance(rights, str) else [f"&{name.lstrip('&')}" for name in rights]
        broker.execute_command("ACL", "SETUSER", "worker", "resetchannels", *channels)


def test_who_may_end_no_connection_is_advised(
    stack: Stack, make_settings: Callable[..., Settings], limited: Callable[..., str]
) -> None:
    """A worker starts without this right; the command that gives it does what it says."""
    settings = make_settings(broker_url=limited("-client|kill"), result_backend=stack.redis.url(1))
    check_redis(settings)
    (said,) = [finding.text for finding in redis_findings(settings) if "CLIENT KILL" in finding.text]
    assert said in [finding.text for finding in warnings(settings)]
    limited(said[said.index("+client") :].partition(",")[0])
    assert "CLIENT KILL" not in str([*redis_findings(settings)])


@pytest.mark.parametrize("away", ["broker_url", "result_backend"])
def test_a_redis_that_is_away_is_waited_for(make_settings: Callable[..., Settings], away: str) -> None:
    """Neither of the two stops the start, or holds it up."""
    check_redis(make_settings(**{away: "redis://127.0.0.1:1/0"}))
