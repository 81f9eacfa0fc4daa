"""Remote control of a real worker by Flower's user: what is allowed works, all else is refused and harms nothing."""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
import redis
from celery import Celery

from retrieval_client import Client
from workbench.devstack.workers import celery_worker

from .jobs import JOB
from .test_nothing_lost import wait_for

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from workbench.devstack.stack import Stack

    Environment = Callable[..., dict[str, str]]

CHANNEL = "/0.celery.pidbox"
REPLIES = "reply.celery.pidbox"


class Operator:
    """A worker, and Flower's user who talks to it."""

    def __init__(self, stack: Stack, worker: subprocess.Popen[bytes], log: Path) -> None:
        self.worker, self.log = worker, log
        self.redis = redis.Redis.from_url(stack.redis.url(0, "flower"))
        self.app = Celery(set_as_current=False)
        url = stack.redis.url(0, "flower")
        transport = "worker.queue.remote_channel:Transport"  # Flower's: kombu's own would run scripts
        self.app.conf.update(broker_read_url=url, broker_write_url=url, broker_transport=transport)
        self.client = Client(*stack.redis.urls("producer"))

    def ask(self, command: str, **arguments: Any) -> Any:
        """The worker's answer."""
        (replies,) = self.app.control.broadcast(command, arguments, reply=True, timeout=180, limit=1)
        (answer,) = replies.values()
        return answer

    def publish(self, body: Any, **changes: Any) -> None:
        """Say something as a client of one's own making would."""
        self.redis.publish(CHANNEL, envelope(body, **changes))

    def assert_well(self) -> None:
        """The worker answers, on the connection that it had; after a change of its pool once a process is ready."""
        wait_for(lambda: self.ask("ping") == {"ok": "pong"})
        assert self.client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
        log = self.log.read_text(errors="replace")
        assert "Traceback (most recent" not in log
        assert "onnection to broker lost" not in log
        assert self.worker.poll() is None


def envelope(said: Any, **changes: Any) -> bytes:
    """A message of remote control as kombu writes it, with changes."""
    properties = {
        "delivery_tag": str(uuid.uuid4()),
        "body_encoding": "base64",
        "delivery_info": {"exchange": "celery.pidbox", "routing_key": ""},
        "delivery_mode": 1,
        "priority": 0,
    }
    whole = {
        "body": base64.b64encode(said if isinstance(said, bytes) else json.dumps(said).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"clock": 1, "expires": 0},
        "properties": properties,
    }
    return json.dumps({**whole, **changes}).encode()


@contextlib.contextmanager
def operated(stack: Stack, environment: dict[str, str], log: Path, *options: str) -> Iterator[Operator]:
    with celery_worker(environment, log, *options) as worker:
        made = Operator(stack, worker, log)
        try:
            yield made
        finally:
            made.client.close()
            made.app.close()
            made.redis.close()


@pytest.fixture
def operator(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> Iterator[Operator]:
    del broker  # emptied
    with operated(stack, worker_environment(), worker_log, "--concurrency=1") as made:
        yield made


REFUSED: dict[str, dict[str, Any]] = {
    "add_consumer": {"queue": "somewhere"},
    "cancel_consumer": {"queue": "retrieval"},
    "revoke": {"task_id": "x", "terminate": True, "signal": "KILL"},
    "revoke_by_stamped_headers": {"headers": {"a": ["b"]}, "terminate": True},
    "terminate": {"task_id": "x", "signal": "KILL"},
    "rate_limit": {"task_name": "retrieve_top_k", "rate_limit": "1/h"},
    "time_limit": {"task_name": "retrieve_top_k", "hard": 1},
    "shutdown": {},
    "pool_restart": {"modules": ["os"], "reload": True},
    "hello": {"from_node": "x", "revoked": {"x": 1}},
    "election": {"id": "x", "topic": "task", "action": {}},
    "memdump": {},
    "objgraph": {},
    "no_such_command": {},
}


def test_what_is_not_allowed_is_refused_in_one_sentence(operator: Operator) -> None:
    """A typo in Flower or a hostile client changes nothing; the reply says what to do, the log that it happened."""
    for command, arguments in REFUSED.items():
        answer = operator.ask(command, **arguments)
        assert list(answer) == ["error"], command
        assert "not allowed" in answer["error"], command
    operator.assert_well()
    assert operator.log.read_text().count("control command refused") == len(REFUSED)


def test_inspection_and_the_pool_s_size_work_as_ever(operator: Operator) -> None:
    """Celery's own `inspect` and `control`, with the arguments that they send."""
    inspect = operator.app.control.inspect(timeout=15, limit=1)
    for question in ("active", "active_queues", "conf", "registered", "report", "reserved", "revoked", "scheduled"):
        assert len(getattr(inspect, question)() or {}) == 1, question
    assert inspect.query_task("x") is not None
    assert inspect.clock() is not None
    assert operator.ask("pool_grow", n=1) == {"ok": "pool will grow"}
    wait_for(lambda: len(next(iter(inspect.stats().values()))["pool"]["processes"]) == 2)
    assert operator.ask("pool_shrink", n=1) == {"ok": "pool will shrink"}
    assert list(operator.ask("autoscale", max=2, min=1)) == ["error"]  # it was not started with autoscale
    for wrong in ({"n": 10**6}, {"n": -1}, {"n": "1"}, {"n": True}, {"n": 1, "more": 1}):
        assert list(operator.ask("pool_grow", **wrong)) == ["error"], wrong
    assert list(operator.ask("pool_shrink", n=5)) == ["error"]
    operator.assert_well()


def test_settings_may_allow_more_but_no_foreign_queue(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """`worker.remote_control` names further commands; no command gives a process another queue."""
    del broker  # emptied
    environment = worker_environment(WORKER__REMOTE_CONTROL='["add_consumer", "cancel_consumer", "revoke"]')
    with operated(stack, environment, worker_log, "--concurrency=1") as operator:
        answer = "error"  # processes have their queues from their start
        assert list(operator.ask("cancel_consumer", queue="pipeline")) == [answer]
        assert list(operator.ask("add_consumer", queue="pipeline")) == [answer]
        assert list(operator.ask("add_consumer", queue="somewhere")) == [answer]
        assert list(operator.ask("revoke", task_id="x")) == ["ok"]
        assert "not allowed" in operator.ask("shutdown")["error"]
        operator.assert_well()


def hostile() -> Iterator[bytes]:
    """Messages on the workers' channel that no client of Celery sends."""
    yield from (b"", b"x", b"\xff\xfe", b"null", b"5", b'"x"', b"[]", b"{}", b"[" * 100_000, b'{"a":' * 50_000)
    good = {"method": "ping", "arguments": {}, "destination": None, "pattern": None, "matcher": None}
    for odd in (None, 5, -1, 1e308, "x", [], [1], {}, {"x": 1}, True):
        for field in ("properties", "headers", "body", "content-type", "content-encoding"):
            yield envelope(good, **{field: odd})
        for field in good:
            yield envelope({**good, field: odd})
        yield envelope({**good, "reply_to": odd, "ticket": odd})
        yield envelope(good, headers={"clock": odd, "expires": odd})
        yield envelope(good, properties={"delivery_tag": odd, "body_encoding": odd})
        yield envelope(odd)
    for raw in (b"", b"\xff", b"{", b"[" * 100_000, b"1" * 10_000):
        yield envelope(raw)
    yield envelope(good, headers={"clock": 10**400, "compression": "zlib"})
    # Not one of these may answer, forge a result, or keep the main process busy.
    yield envelope(b"{", headers={"id": "forged", "task": "retrieve_top_k"})
    yield envelope({**good, "pattern": "(([a-z0-9@-])+)+$", "matcher": "pcre"})
    yield envelope({**good, "pattern": "*a" * 5_000, "matcher": "glob"})
    yield envelope({**good, "method": "x" * 1_000_000})
    yield envelope({**good, "arguments": {"x" * 1_000: 1}})
    yield envelope({**good, "unexpected": 1})
    for place in ("retrieval", "unacked", "celery-task-meta-x", REPLIES):
        yield envelope({**good, "ticket": "t", "reply_to": {"exchange": "", "routing_key": place}})
        yield envelope({**good, "ticket": "t", "reply_to": {"exchange": place, "routing_key": place}})
        yield envelope({**good, "ticket": "t", "reply_to": {"exchange": REPLIES, "routing_key": place}})
        yield envelope({**good, "reply_to": {"exchange": REPLIES}})


@pytest.mark.provokes_refusals
def test_no_message_of_remote_control_harms_a_worker(operator: Operator, stack: Stack) -> None:
    """Wrong types, deep, huge, compressed, addressed to a queue: ignored or refused, on the same connection."""
    for message in hostile():
        operator.redis.publish(CHANNEL, message)
    # A member of the replies' exchange that Flower's user may write, and no worker can read.
    operator.redis.sadd(f"_kombu.binding.{REPLIES}", "broken", "a\x06\x16\x06\x16retrieval")
    operator.publish(
        {"method": "ping", "arguments": {}, "ticket": "t", "reply_to": {"exchange": REPLIES, "routing_key": "a"}}
    )
    operator.assert_well()
    with redis.Redis.from_url(stack.redis.url()) as admin, redis.Redis.from_url(stack.redis.url(1)) as results:
        assert admin.llen("retrieval") == 0
        assert admin.xlen("retrieval.dead") == 0
        assert [key for key in admin.keys("*") if REPLIES.encode() in key and not key.startswith(b"_kombu")] == []
        assert results.get("celery-task-meta-forged") is None


def test_jobs_have_their_turn_while_remote_control_is_flooded(operator: Operator) -> None:
    """Each of these takes milliseconds; all of them together would be many seconds without a job."""
    questions = [envelope({"method": "conf", "arguments": {}}) for _ in range(4000)]
    with operator.redis.pipeline(transaction=False) as pipe:
        for question in questions:
            pipe.publish(CHANNEL, question)
        pipe.execute()
    assert operator.client.call(JOB, timeout=180).status == "ok"  # type: ignore[union-attr] # one query
    assert operator.ask("ping") == {"ok": "pong"}, "it comes after them"


def test_a_pool_can_t_be_told_to_have_more_than_its_most(
    stack: Stack, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    del broker  # emptied
    with operated(stack, worker_environment(), worker_log, "--autoscale=2,1") as operator:
        assert operator.ask("autoscale", max=2, min=3) == {"error": "autoscale: min is greater than max"}
        assert operator.ask("autoscale", min=3) == {"error": "autoscale: min is greater than max"}
        assert operator.ask("autoscale", max=3, min=2)["ok"] == "autoscale now max=3 min=2"
