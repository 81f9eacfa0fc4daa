"""Texts, vectors, tokens and passwords are planted wherever they may be, and looked for wherever they may not."""

from __future__ import annotations

import base64
import contextlib
import json
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis
from celery import Celery
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Signer, encode_embedding
from workbench.devstack.redis import USERS, Redis, redis_server
from workbench.devstack.workers import celery_worker, flower, stack_environment
from worker.core.text import lexical

from .bad_input_worker import Events, body, database, message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack

VECTOR = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0]
BASE64 = encode_embedding(VECTOR.tolist())
KEY = "canary-key-of-at-least-thirty-two-bytes"
PLANTED = {
    "text of a chunk": "canary-chunk",
    "text of a job": "canary-query",
    "claim": "canary-tenant",
    "what a sender wrote into headers": "canary-header",
    "password of Redis": "canary-redis",
    "password of Postgres": "canary-postgres",
    "key of tokens": "canary-key",
    "vector as base64": BASE64[40:80],
    "vector as numbers": str(max(VECTOR.tolist())),
    "text as base64": base64.b64encode(b"canary-").decode()[:8],
}
TOKEN_PARTS = 3
SECONDS = 180.0


@dataclass
class Seen:
    """Text seen in each place while jobs ended in every possible way.

    Attributes:
        places: place → all that was found there.
        tokens: every token that was sent.
        ends: how the jobs ended, by name.
    """

    places: dict[str, str] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)

    def add(self, place: str, what: Any) -> None:
        self.places[place] = self.places.get(place, "") + (
            what if isinstance(what, str) else json.dumps(what, default=str)
        )


@dataclass
class Site:
    """A running worker and all ways to look at it."""

    queues: redis.Redis
    results: redis.Redis
    admin: psycopg.Connection[Any]
    app: Celery
    flower: str
    seen: Seen

    def send(self, job: dict[str, Any], task: str = "retrieve_top_k", **headers: Any) -> str:
        """Send a signed job, by hand, with all that a careless sender adds to it."""
        task_id = str(uuid.uuid4())
        claims = {"user_id": "alice", "tenant_id": PLANTED["claim"]}
        token = Signer(KEY, "k1").sign(job, claims, task=task, task_id=task_id, now=time.time())
        self.seen.tokens.append(token)
        careless = dict.fromkeys(("argsrepr", "kwargsrepr", "shadow"), PLANTED["what a sender wrote into headers"])
        text = message(task_id, body({**job, "principal_token": token}), {"task": task, **careless, **headers})
        self.queues.lpush("retrieval", text)
        return task_id

    def state(self, task_id: str) -> str | None:
        record = self.results.get(f"celery-task-meta-{task_id}")
        return json.loads(record)["status"] if record else None

    def end(self, name: str, task_id: str) -> None:
        """Wait until a job has ended, and note how."""
        wait_for(lambda: self.state(task_id) in {"SUCCESS", "FAILURE"})
        record = json.loads(self.results.get(f"celery-task-meta-{task_id}") or "{}")
        self.seen.ends[name] = record["result"]["exc_type"] if record["status"] == "FAILURE" else "SUCCESS"

    def look(self) -> None:
        """Everything that anybody can see now, but for messages, unacknowledged ones, and results of success."""
        inspect = self.app.control.inspect(timeout=2)
        for question in ("active", "reserved", "scheduled", "revoked", "stats", "conf", "registered", "active_queues"):
            self.seen.add(f"inspect {question}", getattr(inspect, question)())
        for path in ("/api/workers?refresh=1", "/api/tasks?limit=500"):
            self.seen.add("Flower", fetch(self.flower, path))
        for task in json.loads(fetch(self.flower, "/api/tasks?limit=500")):
            self.seen.add("Flower", fetch(self.flower, f"/api/task/info/{task}"))
        for database_ in (self.queues, self.results):
            for key in database_.scan_iter():
                self.seen.add("names of keys in Redis", key.decode())
                self.seen.add("Redis", content(database_, key.decode()))
        for query, *_ in self.admin.execute("SELECT query FROM pg_stat_activity WHERE usename = 'retrieval_worker'"):
            self.seen.add("queries of Postgres", query)


def content(client: redis.Redis, key: str) -> Any:
    """A key's value, if it is none of those that have to hold a job or an answer."""
    holds_messages = key.endswith(".dead") or any(part in key for part in (".inflight.", ".caller.", ".delayed."))
    if key in {"retrieval", "pipeline", "unacked"} or holds_messages:
        return ""
    kind = client.type(key).decode()
    if kind != "string":
        read = {"hash": client.hgetall, "set": client.smembers, "zset": lambda k: client.zrange(k, 0, -1)}.get(kind)
        return str(read(key)) if read else str(client.lrange(key, 0, -1))
    value = (client.get(key) or b"").decode(errors="replace")
    return "" if key.startswith("celery-task-meta-") and json.loads(value)["status"] == "SUCCESS" else value


def fetch(url: str, path: str) -> str:
    credentials = base64.b64encode(b"watcher:a password").decode()
    request = urllib.request.Request(url + path, headers={"Authorization": f"Basic {credentials}"})
    with urllib.request.urlopen(request, timeout=180) as answer:
        return str(answer.read().decode())


def plant_password(server: Redis, admin: redis.Redis) -> None:
    """Give every user of a Redis a password to look for."""
    rights = [] if server.passwords else ["on", "allkeys", "allchannels", "allcommands"]
    for user in USERS:
        admin.execute_command("ACL", "SETUSER", user, "resetpass", ">canary-redis-password", *rights)
    server.passwords = dict.fromkeys(USERS, "canary-redis-password")


@contextlib.contextmanager
def site(stack: Stack, template: str, folder: Path, seen: Seen) -> Iterator[Site]:
    """A worker at its most talkative with passwords everywhere, Flower, and a corpus whose texts are canaries."""
    with contextlib.ExitStack() as exits:
        server = exits.enter_context(redis_server(folder / "redis"))
        name = exits.enter_context(database(stack, template))
        admin = exits.enter_context(psycopg.connect(stack.postgres.dsn(name), autocommit=True))
        admin.execute("UPDATE document_chunks SET text_content = 'canary-chunk ' || text_content")
        admin.execute("UPDATE doc_embeddings SET content = 'canary-chunk ' || content")
        queues = exits.enter_context(redis.Redis.from_url(server.url(0)))
        plant_password(server, queues)
        results = exits.enter_context(redis.Redis.from_url(server.url(1)))
        environment = stack_environment(
            stack,
            TOKEN_KEYS=json.dumps({"k1": KEY}),
            LOG__FORMAT="json",
            LOG__LEVEL="DEBUG",
            CACHE__TASKS='["retrieve_hybrid"]',
            SEARCH__STATEMENT_TIMEOUT_SECONDS="4",
            WORKER__MAX_OUTAGE_SECONDS="5",
            ARTIFACTS__URL=str(folder / "artifacts"),
        )
        dsn = stack.postgres.dsn(name, "retrieval_worker").replace(
            "retrieval_worker@", "retrieval_worker:canary-postgres@"
        )
        environment |= {"DATABASE_CONNECTION_STRING": dsn, **server.environment("worker")}
        exits.enter_context(celery_worker(environment, folder / "worker.log", "--concurrency=1"))
        url = exits.enter_context(
            flower(
                environment | server.environment("flower"),
                folder / "flower.log",
                user="watcher",
                password="a password",  # noqa: S106 -- of this test
            )
        )
        app = exits.enter_context(contextlib.closing(Celery(broker=server.url(), set_as_current=False)))
        app.conf.update(broker_read_url=server.url(), broker_write_url=server.url())
        yield Site(queues, results, admin, app, url, seen)


@pytest.fixture(scope="module")
def seen(stack: Stack, sample_template: str, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """All that was to be seen while jobs ended in every way there is."""
    folder, found = tmp_path_factory.mktemp("canaries"), Seen()
    good = {"query_embedding": BASE64}
    with site(stack, sample_template, folder, found) as here, Events(here.app) as events:
        succeed(here, good)
        fail(here, good)
        refuse(here)
        time_out(here, good)
        be_delayed(here, good)
        here.look()
        events.wait_for(lambda: len(events.ended()) >= len(found.ends) - 1)
        found.add("events", events.seen)
    for log in ("worker.log", "flower.log"):
        found.add(log, (folder / log).read_text())
    found.add("Postgres' log", (stack.root / "postgres" / "postgres.log").read_text())
    return found


def succeed(here: Site, good: dict[str, Any]) -> None:
    run = {"subject_id": "song-1", "run_id": "r1"}
    hybrid = {"query": "canary-query hum", "context": "canary-query note", "searches": [{"corpus": "docs", "top_k": 3}]}
    here.end("answered", here.send(good | {"run": run}))
    here.end("a list of numbers", here.send({"query_embedding": VECTOR.tolist()}))
    here.end("hybrid", here.send(hybrid, "retrieve_hybrid"))
    here.end("hybrid from the cache", here.send(hybrid, "retrieve_hybrid"))
    here.end("replayed", here.send({"run": run}, "pinned_replay"))
    records = [{"source_id": "canary-query", "text": "canary-query", "weight": 1.0, "section": None}]
    here.end("cited", here.send({"records": records, "answer": "canary-query [S1]", "store": False}, "build_citations"))


def fail(here: Site, good: dict[str, Any]) -> None:
    here.end("unknown field", here.send(good | {"unexpected": "canary-query"}))
    here.end("wrong filter", here.send(good | {"filters": {"document_ids": [{"unexpected": "canary-query"}]}}))
    here.end("wrong vector", here.send({"query_embedding": BASE64 + "canary-query"}))
    here.end("compressed", here.send(good, compression="canary-header"))
    here.end("own time limit", here.send(good, timelimit=[5, "canary-header"]))
    here.end("expired", here.send(good, expires="2020-01-01T00:00:00+00:00"))
    changed = here.send(good)
    here.end("signed", changed)
    token = here.seen.tokens[-1]
    task_id = str(uuid.uuid4())
    here.queues.lpush("retrieval", message(task_id, body({**good, "principal_token": token})))
    here.end("another's token", task_id)


def refuse(here: Site) -> None:
    """Messages that are no job: there is no record to wait for, but the queue goes on."""
    here.send({"query_embedding": BASE64}, "canary-header")
    for text in (b"canary-query", b'{"canary-query": '):
        here.queues.lpush("retrieval", message(str(uuid.uuid4()), text))
    here.end("after what was refused", here.send({"query_embedding": BASE64}))


def time_out(here: Site, good: dict[str, Any]) -> None:
    with here.admin.transaction():
        here.admin.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
        task_id = here.send(good)
        second = here.send(good)
        wait_for(lambda: waiting_sessions(here.admin) == 1)
        here.look()
        here.end("timed out", task_id)
        here.end("timed out, too", second)


def be_delayed(here: Site, good: dict[str, Any]) -> None:
    name = here.admin.info.dbname
    here.admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT 0")
    here.admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
    task_id = here.send(good)
    wait_for(lambda: here.state(task_id) == "RETRY")
    here.look()
    here.end("Postgres stayed away", task_id)
    here.admin.execute(f"ALTER DATABASE {name} CONNECTION LIMIT -1")


def test_jobs_ended_in_every_way(seen: Seen) -> None:
    """The search below means something: each way to end was gone."""
    assert seen.ends == {
        "answered": "SUCCESS",
        "a list of numbers": "SUCCESS",
        "hybrid": "SUCCESS",
        "hybrid from the cache": "SUCCESS",
        "replayed": "SUCCESS",
        "cited": "SUCCESS",
        "unknown field": "InvalidJob",
        "wrong filter": "InvalidJob",
        "wrong vector": "InvalidJob",
        "compressed": "InvalidJob",
        "own time limit": "InvalidJob",
        "expired": "DeadLettered",
        "signed": "SUCCESS",
        "another's token": "NotAuthorised",
        "after what was refused": "SUCCESS",
        "timed out": "TimedOut",
        "timed out, too": "TimedOut",
        "Postgres stayed away": "Unavailable",
    }


def test_every_place_was_looked_at(seen: Seen) -> None:
    """Each held something, and what a job may show was there."""
    assert [place for place, text in seen.places.items() if not text] == ["Postgres' log"] or all(seen.places.values())
    assert "query_embedding" in seen.places["events"]
    assert "query_embedding" in seen.places["Flower"]
    assert "retrieve_top_k" in seen.places["inspect active"]
    assert "NotAuthorised" in seen.places["Redis"]
    assert "job delayed" in seen.places["worker.log"]


@pytest.mark.parametrize("what", PLANTED)
def test_nothing_planted_is_seen(seen: Seen, what: str) -> None:
    """Neither in a log, an event, Flower, `inspect`, Redis nor in what Postgres shows of its queries."""
    assert [place for place, text in seen.places.items() if PLANTED[what] in text] == []


def test_no_token_is_seen(seen: Seen) -> None:
    """Not even a part of one."""
    parts = {part for token in seen.tokens for part in token.split(".")[1:]}
    assert len(parts) >= len(seen.tokens)
    assert [place for place, text in seen.places.items() for part in parts if part in text] == []
