"""Shared by the bad-input tests: a real worker on a database of its own, and messages written by hand."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import redis
from celery import Celery
from tests.prebuilt import copied_database
from tests.waiting import PATIENCE

from workbench.devstack.workers import celery_worker, stack_environment

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from workbench.devstack.stack import Stack

EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
SILENCE_SECONDS = 60.0
ANSWERED = {"SUCCESS", "FAILURE", "REVOKED", "REJECTED", "IGNORED"}


def body(*args: Any, kwargs: Any = None) -> bytes:
    """A task's body in protocol 2: its arguments, keywords and embedded signatures."""
    return json.dumps([list(args), kwargs or {}, EMBED]).encode()


def message(task_id: str, raw: bytes, headers: dict[str, Any] | None = None) -> str:
    """A message as a backend without Celery pushes it; a body that is no UTF-8 travels as base64."""
    try:
        text, encoding = raw.decode(), None
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(raw).decode(), "base64"
    identity = {"lang": "any", "task": "retrieve_top_k", "id": task_id, "root_id": task_id, "parent_id": None}
    properties = {
        "correlation_id": task_id,
        "delivery_mode": 2,
        "delivery_tag": str(uuid.uuid4()),
        "delivery_info": {"exchange": "", "routing_key": "retrieval"},
        "body_encoding": encoding,
    }
    return json.dumps(
        {
            "body": text,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": identity | (headers or {}),
            "properties": properties,
        }
    )


@dataclass
class Worker:
    """A running worker, its queue and its results.

    Attributes:
        process: the worker's main process.
        log: what it wrote.
        dsn: a superuser's way into its database.
        broker: the Redis of its queue.
        results: the Redis of its results.
        app: to inspect it with.
    """

    process: subprocess.Popen[bytes]
    log: Path
    dsn: str
    broker: redis.Redis
    results: redis.Redis
    app: Celery

    @property
    def inspect(self) -> Any:
        """Celery's inspection of this worker."""
        command = list(self.process.args)  # type: ignore[arg-type] # a list of strings
        return self.app.control.inspect([command[command.index("-n") + 1]], timeout=5)

    @property
    def alive(self) -> bool:
        """Whether the main process still runs."""
        return self.process.poll() is None

    def send(self, messages: list[str]) -> None:
        """LPUSH, as a backend does."""
        for text in messages:
            self.broker.lpush("retrieval", text)

    def answers(self, texts: dict[str, str], silence: float = SILENCE_SECONDS) -> dict[str, list[dict[str, Any]]]:
        """Send messages by task id; every state that was published for each, until all ended or none comes."""
        seen: dict[str, list[dict[str, Any]]] = {task_id: [] for task_id in texts}
        with self.results.pubsub(ignore_subscribe_messages=True) as channel:
            channel.psubscribe("celery-task-meta-*")
            self.send(list(texts.values()))
            open_ids, deadline = set(texts), time.monotonic() + silence
            while open_ids and time.monotonic() < deadline and self.alive:
                published = channel.get_message(timeout=0.5)
                if published is None:
                    continue
                record = json.loads(published["data"])
                if record["task_id"] not in seen:
                    continue
                seen[record["task_id"]].append(record)
                deadline = time.monotonic() + silence
                if record["status"] in ANSWERED:
                    open_ids.discard(record["task_id"])
        return seen


def database(stack: Stack, template: str) -> AbstractContextManager[str]:
    """Name of a fresh copy of the sample corpus."""
    return copied_database(stack.postgres, template, f"bad_input_{uuid.uuid4().hex[:8]}")


@contextlib.contextmanager
def connected(stack: Stack, name: str, log: Path) -> Iterator[Worker]:
    """A worker of two processes on a database, with emptied queues, at its most talkative."""
    environment = stack_environment(stack, TRUST_QUEUE="true", LOG__FORMAT="json", LOG__LEVEL="DEBUG")
    environment["DATABASE_CONNECTION_STRING"] = stack.postgres.dsn(name, "retrieval_worker")
    app = Celery(broker=stack.redis.url(0), set_as_current=False)
    with (
        redis.Redis.from_url(stack.redis.url(0)) as broker,
        redis.Redis.from_url(stack.redis.url(1)) as results,
        contextlib.closing(app),
    ):
        broker.flushall()
        with celery_worker(environment, log, "-E", "--concurrency=2") as process:
            yield Worker(process, log, stack.postgres.dsn(name), broker, results, app)


class Events:
    """Everything that the worker tells the event bus (and so Flower), from the first heartbeat on."""

    def __init__(self, app: Celery) -> None:
        self.seen: list[dict[str, Any]] = []
        self._arrived = threading.Condition()
        self._connection = app.connection_for_read()
        self._receiver = app.events.Receiver(self._connection, handlers={"*": self._note})
        self._thread = threading.Thread(target=self._receiver.capture, kwargs={"limit": None, "wakeup": False})

    def __enter__(self) -> Self:
        self._thread.start()
        assert self.wait_for(lambda: bool(self.seen)), "no heartbeat of the worker"
        return self

    def __exit__(self, *_: object) -> None:
        self._receiver.should_stop = True
        self._thread.join()
        self._connection.release()

    def wait_for(self, condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Until what was seen fulfils a condition."""
        with self._arrived:
            return self._arrived.wait_for(condition, seconds)

    def ended(self) -> set[str]:
        """Ids of the tasks whose end was published."""
        last = {"task-succeeded", "task-failed", "task-rejected", "task-revoked"}
        return {event["uuid"] for event in self.seen if event["type"] in last}

    def _note(self, event: dict[str, Any]) -> None:
        with self._arrived:
            self.seen.append(event)
            self._arrived.notify_all()
