"""The shipped users of Redis and its TLS: a real producer, worker and Flower get along with them, and no further."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import shutil
import socket
import subprocess
import threading
import urllib.request
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
from tests.refusals import refusals
from tests.waiting import wait_for

from retrieval_client import Client, RetrieveHybrid, RetrieveTopK, encode_embedding
from retrieval_client.errors import InvalidJob, NotAuthorised
from workbench.devstack.redis import USERS, Redis, missing_tls, redis_server
from workbench.devstack.workers import celery_worker, flower
from worker.core.text import lexical
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Environment = Callable[..., dict[str, str]]

EXAMPLES = Path(__file__).parents[2] / "examples"
ASKER = {"user_id": "alice"}
JOB = RetrieveTopK(
    query_embedding=encode_embedding(lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()),
    principal=ASKER,
)


@pytest.fixture(params=[False, True], ids=["users", "users and TLS"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Redis]:
    """Redis as config/redis says."""
    if request.param and (missing := missing_tls()):
        pytest.skip(missing)
    with redis_server(tmp_path / "redis", tls=request.param) as running:
        yield running


def connected(server: Redis, user: str, database: int = 0) -> redis.Redis:
    return redis.Redis.from_url(server.url(database, user), decode_responses=True)


def asked(url: str, path: str) -> Any:
    credentials = base64.b64encode(b"watcher:a password").decode()
    request = urllib.request.Request(url + path, headers={"Authorization": f"Basic {credentials}"})
    with urllib.request.urlopen(request, timeout=180) as answer:
        return json.load(answer)


def test_everybody_gets_what_they_need_and_is_refused_nothing(
    server: Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """Jobs are sent, answered, failed, cached, shown and counted and Redis' own log holds no refusal."""
    environment = worker_environment(CACHE__TASKS='["retrieve_hybrid"]')
    client = Client(*server.urls("producer"))
    with (
        celery_worker(environment | server.environment("worker"), worker_log, "--concurrency=1"),
        flower(
            environment | server.environment("flower"),
            worker_log.with_suffix(".flower"),
            user="watcher",
            password="a password",  # noqa: S106 -- of a Flower that this test starts
        ) as url,
    ):
        workers = asked(url, "/api/workers?refresh=1")
        task_id = client.enqueue(JOB)
        assert client.result(task_id, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        assert client.progress(task_id).state == "SUCCESS"
        with pytest.raises(NotAuthorised, match="may not delete results"):
            client.forget(task_id)
        with redis.Redis.from_url(server.url()) as admin:
            admin.acl_log_reset()
        for _ in range(2):
            client.call(RetrieveHybrid(query="hum", principal=ASKER), timeout=180)
        with pytest.raises(InvalidJob):
            client.call(JOB.model_copy(update={"corpus": "nowhere"}), timeout=180)
        wait_for(lambda: client.call(JOB, timeout=180) and asked(url, "/api/tasks"), lambda: "Flower hears no events")
        assert [queue["name"] for queue in asked(url, "/api/queues/length")["active_queues"]] == [
            "pipeline",
            "retrieval",
        ]
        assert len(workers) == 1
    client.close()
    assert refusals(server) == []
    log = worker_log.read_text() + worker_log.with_suffix(".flower").read_text()
    # Set as shipped, there is nothing to warn of.
    assert "server misconfigured" not in log
    assert [password for password in server.passwords.values() if password in log] == []


def test_a_backend_needs_no_celery_under_these_users(
    server: Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """LPUSH and GET are all that a producer needs."""
    task_id = str(uuid.uuid4())
    body = json.dumps([[JOB.model_dump(mode="json", exclude_unset=True)], {}, {}])
    message = {
        "body": body,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "sh", "task": "retrieve_top_k", "id": task_id},
        "properties": {
            "correlation_id": task_id,
            "delivery_tag": "1",
            "delivery_info": {"exchange": "", "routing_key": "retrieval"},
        },
    }
    environment = worker_environment() | server.environment("worker")
    with (
        celery_worker(environment, worker_log, "--concurrency=1"),
        connected(server, "producer") as queues,
        connected(server, "producer", 1) as results,
    ):
        queues.lpush("retrieval", json.dumps(message))
        wait_for(lambda: results.get(f"celery-task-meta-{task_id}"))
        record = results.get(f"celery-task-meta-{task_id}")
    assert json.loads(str(record))["status"] == "SUCCESS"


DANGEROUS = ["FLUSHALL", "FLUSHDB", "CONFIG GET *", "CONFIG SET appendonly no", "KEYS *", "SCAN 0", "SHUTDOWN"]
DANGEROUS += ["ACL LIST", "ACL WHOAMI", "CLIENT LIST", "MONITOR", "SAVE", "REPLICAOF NO ONE"]
DANGEROUS += ["MODULE LIST", "SWAPDB 0 1", "RENAME retrieval elsewhere", "PUBLISH another-channel x", "GET another-key"]
FORBIDDEN = {
    "producer": [
        *("LRANGE retrieval 0 -1", "RPOP retrieval", "DEL retrieval", "GET retrieval", "LPUSH another-queue x"),
        # No list that no worker reads, and no other type where a list belongs: workers would stumble over it.
        *("LPUSH retrieval\x06\x163 x", "SADD retrieval x", "LPUSH _kombu.binding.retrieval x"),
        *("DEL celery-task-meta-x", "EXPIRE celery-task-meta-x 1", "UNLINK celery-task-meta-x"),
        *(
            "SET celery-task-meta-x forged",
            "LPUSH celery-task-meta-x forged",
            "HGETALL unacked",
            "XRANGE retrieval.dead - +",
        ),
        *("PSUBSCRIBE *", "PUBLISH celery-task-meta-x forged", "PUBLISH /0.celery.pidbox x", "EVAL x 0"),
        *("SUBSCRIBE /0.celeryev/task.multi", "SMEMBERS _kombu.binding.celery.pidbox"),
    ],
    "worker": ["SET another-key x", "HSET another-key a b", "PSUBSCRIBE *"],
    "inspector": [
        *("RPOP retrieval", "LRANGE retrieval 0 -1", "DEL retrieval", "HGETALL unacked", "ZADD unacked_index 1 x"),
        *("GET celery-task-meta-x", "SET celery-task-meta-x forged", "SET retrieval-worker.owner.x y", "INFO"),
        *("GET retrieval-worker.used_token.x", "DEL retrieval-worker.used_token.x"),
        *("EVAL x 0", "EVALSHA x 0", "SCRIPT LOAD x", "SUBSCRIBE celery-task-meta-x", "PUBLISH /0.celery.pidbox x"),
        *("LPUSH retrieval.dead x", "XADD retrieval.dead * a b", "DEL retrieval.dead"),
    ],
    "flower": [
        *("LPUSH retrieval x", "BRPOP retrieval 1", "LRANGE retrieval 0 -1", "DEL retrieval", "HGETALL unacked"),
        *("GET celery-task-meta-x", "SET celery-task-meta-x forged", "XRANGE retrieval.dead - +", "INFO"),
        *("SUBSCRIBE celery-task-meta-x", "PUBLISH celery-task-meta-x forged", "PUBLISH /0.celeryev/worker.x forged"),
        *(
            "ZADD _kombu.binding.celery.pidbox 1 x",
            "SADD _kombu.binding.retrieval x",
            "SADD _kombu.binding_deadlines x",
        ),
        *("LPUSH x.reply.celery.pidbox x", "PSUBSCRIBE /0.celery.pidbox", "SUBSCRIBE /0.celeryev/task.multi"),
    ],
}


@pytest.mark.parametrize("user", FORBIDDEN)
@pytest.mark.parametrize("server", [False], indirect=True, ids=[""])
def test_nobody_gets_more_than_they_need(server: Redis, user: str) -> None:
    """Redis refuses each user every command that reads or forges another's jobs or results, or stops or changes it."""
    with connected(server, user) as client:
        for command in [*DANGEROUS, *FORBIDDEN[user]]:
            assert refused(client, command), command


def refused(client: redis.Redis, command: str) -> bool:
    try:
        client.execute_command(*command.split())
    except redis.exceptions.NoPermissionError:
        return True
    except redis.ResponseError:  # of the command itself: it was let through
        return False
    return False


ENDLESS = "while true do end"
RUNNING = [
    *(("SCRIPT", "LOAD", ENDLESS), ("EVALSHA", hashlib.sha1(ENDLESS.encode(), usedforsecurity=False).hexdigest(), "0")),
    *(("EVAL", ENDLESS, "0"), ("EVAL_RO", ENDLESS, "0")),
    ("FUNCTION", "LOAD", f"#!lua name=endless\nredis.register_function('endless', function() {ENDLESS} end)"),
    ("FCALL", "endless", "0"),
    ("CLIENT", "PAUSE", "60000"),
]
"""Commands, in their order, with which a user would stop Redis for all others."""


@pytest.mark.parametrize("user", [user for user in USERS if user not in {"admin", "worker"}])
def test_nobody_stops_redis(tmp_path: Path, user: str) -> None:
    """None but the worker runs a script, or another command that ends late: all others go on being answered."""
    with (
        redis_server(tmp_path, settings={"lua-time-limit": "100"}) as server,
        connected(server, "admin") as admin,
        redis.Redis.from_url(server.url(0, user), socket_timeout=2, retry=None) as attacker,
    ):
        answers = [told(attacker, command) for command in RUNNING]
        with contextlib.suppress(redis.ResponseError):  # none runs
            admin.script_kill()
        assert {*answers} == {"NoPermissionError"}, [*zip(RUNNING, answers, strict=True)]


def told(client: redis.Redis, command: tuple[str, ...]) -> str:
    try:
        return str(client.execute_command(*command))
    except redis.RedisError as error:
        return type(error).__name__


@pytest.mark.parametrize("server", [False], indirect=True, ids=[""])
def test_nobody_may_run_what_can_stop_redis(server: Redis) -> None:
    """Scripts of every kind are the worker's alone, as is ending connections; else nothing that Redis calls dangerous.

    INFO, which it calls so too, stops nothing.
    """
    with connected(server, "admin") as admin:
        dangerous = {*admin.acl_cat("dangerous"), *admin.acl_cat("admin")} - {"info"}
        scripting = {*admin.acl_cat("scripting")}
    for rules in (config_folder() / "redis" / "users.acl").read_text().splitlines()[2:]:
        user, allowed = rules.split()[1], {word[1:].rstrip(")") for word in rules.split() if word.startswith("+")}
        harmful = dangerous - {"client|kill", "client|unblock"} if user == "worker" else dangerous | scripting
        assert not [name for name in allowed if name.startswith("@")], user
        assert not [name for name in harmful if {name, name.partition("|")[0]} & allowed], user


@contextlib.contextmanager
def greedy(server: Redis, sent: bytes) -> Iterator[None]:
    """A producer's connection that sends as long as Redis takes it, again and again, and never reads."""
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.05):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), timeout=2) as link:
                link.sendall(f"AUTH producer {server.passwords['producer']}\r\n".encode() + sent)
                over.wait(2)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


UNREAD = b"GET celery-task-meta-long\r\n" * 110
UNFINISHED = b"*6\r\n$5\r\nLPUSH\r\n$9\r\nretrieval\r\n" + (b"$30000000\r\n" + bytes(30_000_000) + b"\r\n") * 3


def test_greedy_clients_take_no_memory_from_others(
    tmp_path: Path, worker_environment: Environment, worker_log: Path
) -> None:
    """Unread replies and unfinished commands of four producers: another's jobs are taken and answered meanwhile."""
    with (
        redis_server(tmp_path / "redis", settings={"maxmemory": "64mb"}) as server,
        celery_worker(worker_environment() | server.environment("worker"), worker_log, "--concurrency=1"),
        connected(server, "admin") as admin,
        contextlib.ExitStack() as clients,
    ):
        admin.set("celery-task-meta-long", "x" * 1_000_000)
        client = clients.enter_context(contextlib.closing(Client(*server.urls("producer"))))
        for sent in (UNREAD, UNREAD, UNFINISHED, UNFINISHED):
            clients.enter_context(greedy(server, sent))
        wait_for(lambda: admin.info("stats")["evicted_clients"] > 4)
        for _ in range(50):
            assert client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
            assert admin.info("memory")["used_memory"] < 2 * admin.info("memory")["maxmemory"]


@pytest.mark.parametrize("user", ["producer", None])
def test_silent_connections_end(tmp_path: Path, user: str | None) -> None:
    """Connections that say nothing, with a password or without, lock others out no longer than `timeout`."""
    limit = 32  # Redis keeps as many descriptors to itself
    with redis_server(tmp_path, settings={"maxclients": str(limit), "timeout": "2"}) as server:
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(limit)]
        for link in silent if user else ():
            with contextlib.suppress(OSError):
                link.sendall(f"AUTH {user} {server.passwords[user]}\r\n".encode())
        try:
            with connected(server, "worker") as worker:
                wait_for(lambda: told(worker, ("PING",)) == "True")
        finally:
            for link in silent:
                link.close()
    shipped = (config_folder() / "redis" / "redis.conf").read_text()
    assert int(re.findall(r"(?m)^timeout (\d+)$", shipped)[0]) > 0


@pytest.mark.parametrize("server", [False], indirect=True, ids=[""])
def test_nobody_comes_in_without_a_password(server: Redis) -> None:
    """The default user is off, and a password of one's own making opens nothing."""
    anonymous = server.url(0, "worker").replace("worker:" + server.passwords["worker"] + "@", "")
    for url in (anonymous, server.url(0, "worker").replace(server.passwords["worker"], "guessed")):
        with redis.Redis.from_url(url) as client, pytest.raises(redis.exceptions.AuthenticationError):
            client.ping()


def test_the_server_must_show_a_certificate_of_the_authority(tmp_path: Path) -> None:
    """A server with another certificate, or the right one without TLS, is not talked to."""
    if missing := missing_tls():
        pytest.skip(missing)
    with (
        redis_server(tmp_path / "one", tls=True) as server,
        redis_server(tmp_path / "two", tls=True) as other,
    ):
        foreign = server.url(0, "worker").replace(f":{server.port}/", f":{other.port}/")
        plain = server.url(0, "worker").partition("?")[0].replace("rediss", "redis")
        for url in (foreign, plain):
            with redis.Redis.from_url(url, socket_timeout=5) as client, pytest.raises(redis.ConnectionError):
                client.ping()


LENGTH = """
import { Redis } from "./redis.mjs";
const redis = new Redis(process.argv[1]);
const said = await redis.command("LLEN", "retrieval").catch((error) => `refused: ${error.message}`);
console.log(said);
redis.close();
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_node_example_talks_tls_to_the_right_server_only(tmp_path: Path) -> None:
    """As the Python client does, with the same URL."""
    if missing := missing_tls():
        pytest.skip(missing)

    def length(url: str) -> str:
        command = ["node", "--input-type=module", "-e", LENGTH, url]
        done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=180, check=True)
        return done.stdout.strip()

    with (
        redis_server(tmp_path / "one", tls=True) as server,
        redis_server(tmp_path / "two", tls=True) as other,
    ):
        with connected(server, "producer") as queues:
            queues.lpush("retrieval", "a", "b")
        assert length(server.url(0, "producer")) == "2"
        assert length(server.url(0, "producer").replace(f":{server.port}/", f":{other.port}/")).startswith("refused")
