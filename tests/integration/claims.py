"""Shared by the tests of claims: a pool process with its keeper, messages, and where they are in Redis."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import redis
from celery import Celery
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.waiting import wait_for

from retrieval_client.jobs import as_error
from worker.queue.broker import keys, owners
from worker.queue.broker.inspection import Rules
from worker.queue.claims import Claims
from worker.queue.codec import JobResult
from worker.queue.further_tasks import FurtherTasks
from worker.queue.metrics import Metrics
from worker.queue.outcome import Outcome
from worker.queue.processes.events import Events
from worker.queue.processes.keeper import DeadProcess, Keeper
from worker.queue.processes.process import Limits, Process, revocation_key
from worker.queue.processes.table import Table
from worker.queue.records import RecordStore, record_key
from worker.queue.together import AnsweredTogether
from worker.settings.serving import MetricsSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from retrieval_client.errors import RetrievalError
    from worker.queue.broker.inspection import DeliveredJob
    from worker.queue.processes.keeper import Cause

QUEUE, OTHER = "retrieval", "pipeline"
RULES = Rules(tasks=("retrieve_top_k",), max_deliveries=3)
DONE = Outcome("SUCCESS", JobResult({"status": "empty", "chunks": []}, "<empty>"))
_KEPT_SECONDS = 60


def envelope(task_id: str, **headers: Any) -> bytes:
    """A message as a backend without Celery writes it; all have the same delivery tag."""
    return json.dumps(
        {
            "body": "[[{}], {}, {}]",
            "content-type": "application/json",
            "content-encoding": "utf-8",
            "headers": {"id": task_id, "task": "retrieve_top_k", **headers},
            "properties": {"delivery_tag": "1"},
        }
    ).encode()


def ids(client: redis.Redis, queue: str = QUEUE) -> list[str]:
    """Task ids of a queue, the next one first."""
    messages: Any = client.lrange(queue, 0, -1)
    return [json.loads(raw)["headers"]["id"] for raw in messages][::-1]


class Worker:
    """A pool process and the keeper of its main process; both run in this thread, while a test has them run.

    Args:
        url: URL of the broker.
        queues: names of the queues.
        rules: limits of messages.
        urls: other URLs than that of the broker, for the process's ``claims``, ``records`` and ``other`` commands, and
            for those of the ``keeper``.
        bundle: most jobs of a claim; none are answered together here.

    Attributes:
        jobs: the jobs that it ran, in their order.
        answer: answers a job, which the process holds meanwhile; a test may put another one in its place.
        keeper: the keeper.
        slot: what the process does.
    """

    def __init__(
        self, url: str, *queues: str, rules: Rules = RULES, urls: dict[str, str] | None = None, bundle: int = 1
    ) -> None:
        self._urls = dict.fromkeys(("claims", "records", "other", "keeper"), url) | (urls or {})
        self._queues = queues or (QUEUE,)
        self._rules = rules
        self._table = Table(1)
        self._app = Celery(broker=url, backend=url, set_as_current=False)
        self._app.conf.task_default_queue = QUEUE
        self._clients = contextlib.ExitStack()
        self._alive, self._parent = os.pipe()
        self._bundle = bundle
        self.slot = self._table.slots[0]
        self._claims = Claims(self._connect("claims"), self._queues, "host-1", self.slot.announce, rules.max_bytes)
        self._store = RecordStore(self._connect("records"), _KEPT_SECONDS, is_on_broker=True)
        self._other = self._connect("other")
        client = self._connect("keeper")
        store = RecordStore(client, _KEPT_SECONDS, is_on_broker=True)
        further = self._further(store)
        slots = {0: self.slot}
        self.keeper = Keeper(client, store, further, "host-1", self._queues, lambda: slots, rules)
        self.jobs: list[DeliveredJob] = []
        self.answer: Callable[[DeliveredJob], Outcome] = lambda _: DONE

    def _connect(self, use: str) -> redis.Redis:
        client = redis.Redis.from_url(self._urls[use], retry=Retry(NoBackoff(), 0), socket_timeout=5)
        return self._clients.enter_context(client)

    def _further(self, store: RecordStore) -> FurtherTasks:
        return FurtherTasks(self._app, store)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()
        self._app.close()
        for end in (self._alive, self._parent):
            os.close(end)

    @property
    def ids(self) -> list[str]:
        """Ids of the jobs that it ran."""
        return [job.id for job in self.jobs]

    def run(self, until: Callable[[], object], most_jobs: int = 0) -> None:
        """Run the process until something holds, which another thread asks; or until it has run so many jobs."""
        self.slot.clear()
        process = self._process(most_jobs)
        has_ended = threading.Event()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
        # As in the main process, until the process has its own handler.
        signal.signal(signal.SIGTERM, lambda *_: setattr(self.slot, "is_leaving", True))

        def end() -> None:
            try:
                wait_for(lambda: has_ended.is_set() or until())
            finally:
                if not has_ended.is_set():
                    os.kill(os.getpid(), signal.SIGTERM)

        try:
            with ThreadPoolExecutor(1) as executor:
                ending = executor.submit(end)
                try:
                    process.run()
                except BaseException:
                    process._wake.close()
                    raise
                finally:
                    has_ended.set()
                ending.result()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def take(self, count: int) -> list[str]:
        """Run so many jobs, and no more; return the ids of all that it ran so far."""
        self.run(lambda: False, count)
        return self.ids

    def maintain(self) -> None:
        """Do all that the keeper does every few seconds."""
        self.keeper._next_beat = self.keeper._next_look = self.keeper._next_dead = float("-inf")
        self.keeper._turn(time.monotonic())

    def settle(self, cause: Cause = "") -> None:
        """Requeue what the process held, as if it were gone, and why."""
        self.keeper._settle(DeadProcess(self.slot, cause))

    def revoke(self, task_id: str) -> None:
        """Revoke a job."""
        self._table.head.revoke(revocation_key(task_id))

    def _process(self, most_jobs: int) -> Process:
        unused: Any = None
        return Process(
            self._claims,
            self._queues,
            self._store,
            self._other,
            SimpleNamespace(  # type: ignore[arg-type] # all that is used
                outcome=self._find, together=AnsweredTogether(unused, unused), metrics=Metrics(MetricsSettings())
            ),
            self._further(self._store),
            self._rules,
            Limits(0.0, most_jobs, 0, self._bundle),
            self._table.head,
            self.slot,
            Events(self._app, "w@host", self._table.head),
            self._alive,
        )

    def _find(self, job: DeliveredJob, *_: Any) -> Outcome:
        self.jobs.append(job)
        return self.answer(job)


def places(client: redis.Redis) -> dict[str, int]:
    """Where messages are, and how many."""
    counts: dict[str, Any] = {
        "queue": client.llen(QUEUE),
        "unacked": client.hlen(keys.UNACKED),
        "dead": client.xlen(keys.dead(QUEUE)),
        "delayed": client.zcard(keys.delayed(QUEUE)),
        "deferred": client.llen(keys.deferred(QUEUE)),
        "inflight": sum(client.llen(place) for place in client.keys(f"{QUEUE}.inflight.*")),
    }
    return {name: count for name, count in counts.items() if count}


def stored_failures(client: redis.Redis) -> dict[str, RetrievalError]:
    """Failures that are stored, by the ids of the jobs."""
    stored: Any = [client.get(name) for name in client.keys(record_key("*"))]  # type: ignore[union-attr] # a list
    records = [json.loads(value) for value in stored]
    return {record["task_id"]: as_error(record["result"]) for record in records if record["status"] == "FAILURE"}


def declare_dead(client: redis.Redis) -> None:
    """Have all owners been silent for long enough to count as dead."""
    silent_since: Any = client.time()[0] - owners.LIFE_SECONDS
    places: Any = client.zrange(keys.OWNERS, 0, -1)
    for place in places:
        client.delete(keys.owner_key(keys.parse_inflight(place.decode())[1]))
        client.zadd(keys.OWNERS, {place: silent_since})


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, which may import this module as `claims`."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
