"""Reads results as a backend does, compares each with the oracle, and lists the messages left in Redis."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Self

import redis

from chaos.jobs import ID, QUEUE
from chaos.ledger import REVOKED, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from chaos.jobs import Question
    from chaos.ledger import Ledger
    from chaos.oracle import Oracle
    from chaos.servers import RedisServer

POLL_SECONDS = 0.05
KEPT_SECONDS = 60.0
"""Seconds that a result is kept, to be compared with a second one of a job delivered twice."""
_UNSURE_EVERY = 20
_ENDS = {"SUCCESS", "FAILURE", REVOKED}
_SAID_SO = {"Unavailable", "TimedOut"}
_RESULT = "celery-task-meta-"
_DELAYED = b".delayed"
"""Part of the keys of delayed messages, which bear the name of their last owner and are held by none."""


class Watcher:
    """A thread that reads the results of open jobs.

    Args:
        server: the results' Redis, past the proxy.
        ledger: records each result.
        oracle: knows what is right.
        pause: seconds between two looks.
    """

    def __init__(self, server: RedisServer, ledger: Ledger, oracle: Oracle, pause: float = POLL_SECONDS) -> None:
        self._pause = pause
        self._client = server.client(1)
        self._ledger = ledger
        self._oracle = oracle
        self._kept: deque[tuple[float, str]] = deque()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.close()

    def _watch(self) -> None:
        rounds = 0
        try:
            while not self._stopped.is_set():
                rounds += 1
                try:
                    self._read_open(with_unsure=rounds % _UNSURE_EVERY == 0)
                    self._compare_kept(time.monotonic() - KEPT_SECONDS)
                except (redis.RedisError, OSError):
                    pass  # Redis is being hurt: that is what this is for
                self._stopped.wait(self._pause)
        except BaseException as error:  # noqa: BLE001 -- raised again in the thread that waits for this one
            self.error = error

    def finish(self) -> None:
        """Stop, and read what is there at the end: results of unsure jobs, and second results of all."""
        self._stopped.set()
        self._thread.join()
        self._read_open(with_unsure=True)
        self._compare_kept(time.monotonic())
        remaining_ids = [
            key.decode().removeprefix(_RESULT) for key in self._client.scan_iter(_RESULT + "*", count=1000)
        ]
        for task_id, raw in self._read(remaining_ids):
            self._compare(task_id, raw)

    def _read_open(self, *, with_unsure: bool) -> None:
        ids = self._ledger.open
        if with_unsure:
            entries = self._ledger.entries()
            ids += [e.question.task_id for e in entries if e.submitted is None and e.verdict is Verdict.OPEN]
        for task_id, raw in self._read(ids):
            entry = self._ledger.entry(task_id)
            record = json.loads(raw)
            if entry is not None and record["status"] in _ENDS:
                verdict, reasons = judge(self._oracle, entry.question, record)
                current_time = time.monotonic()
                self._ledger.answered(task_id, current_time, verdict, reasons, digest(record))
                self._kept.append((current_time, task_id))

    def _compare_kept(self, until: float) -> None:
        """Read results of some time ago once more, and delete them: Redis must not fill up."""
        due = []
        while self._kept and self._kept[0][0] < until:
            due.append(self._kept.popleft()[1])
        for task_id, raw in self._read(due):
            self._compare(task_id, raw)
        if due:
            self._client.delete(*(_RESULT + task_id for task_id in due))

    def _compare(self, task_id: str, raw: bytes) -> None:
        entry = self._ledger.entry(task_id)
        if entry is not None and entry.verdict is not Verdict.OPEN:
            second = digest(json.loads(raw))
            if second != entry.digest:
                self._ledger.differs(task_id, second)

    def _read(self, ids: list[str]) -> Iterable[tuple[str, bytes]]:
        for start in range(0, len(ids), 200):
            batch = ids[start : start + 200]
            records: list[Any] = self._client.mget([_RESULT + task_id for task_id in batch])
            yield from ((task_id, raw) for task_id, raw in zip(batch, records, strict=True) if raw is not None)


def judge(oracle: Oracle, question: Question, record: dict[str, Any]) -> tuple[Verdict, list[str]]:
    """Judge a result: right, wrong with a reason, or a failure with its error."""
    if record["status"] == "FAILURE":
        failure = str(record["result"]["exc_type"])
        if question.expected is None and failure == "InvalidJob":
            return Verdict.RIGHT, []
        if failure == "DeadLettered":
            return Verdict.DEAD, [failure]
        return (Verdict.FAILED if failure in _SAID_SO else Verdict.WRONG), [failure]
    if record["status"] == REVOKED:
        return Verdict.WRONG, [REVOKED]
    if question.expected is None:
        return Verdict.WRONG, ["a wrong job was answered"]
    wrong = oracle.faults_of(question.expected, record["result"])
    return (Verdict.WRONG if wrong else Verdict.RIGHT), wrong


def digest(record: dict[str, Any]) -> bytes:
    """Hash what must be equal in every result of one job: all but traces and times; of a failure its class."""
    result = record["result"]
    if record["status"] == "FAILURE":
        return str(result["exc_type"]).encode()
    if record["status"] != "SUCCESS":
        return str(record["status"]).encode()
    compared = {name: value for name, value in result.items() if name not in {"trace", "costs"}}
    return hashlib.sha256(json.dumps(compared, sort_keys=True).encode()).digest()


def holdings(server: RedisServer) -> tuple[set[str], set[str]]:
    """Ids of the jobs whose messages Redis holds: (in the queue, anywhere else), dead letters aside.

    Raises:
        redis.RedisError: Redis is away.
    """
    waiting: set[str] = set()
    held: set[str] = set()
    with server.client(timeout=10) as client:
        for key in client.scan_iter(count=1000):
            place = waiting if key == QUEUE.encode() else held
            for value in _values(client, key):
                if b"body" in value:
                    place.update(task_id.decode() for task_id in ID.findall(value))
    return waiting, held


def dead_letters(server: RedisServer) -> set[str]:
    """Ids of the jobs of which Redis keeps a dead letter.

    Raises:
        redis.RedisError: Redis is away.
    """
    task_ids: set[str] = set()
    with server.client(timeout=10) as client:
        for key in client.scan_iter(count=1000, _type="stream"):
            for _, fields in client.xrange(key):
                task_ids.update(task_id.decode() for value in fields.values() for task_id in ID.findall(value))
    return task_ids


def held_by(server: RedisServer, pid: int) -> set[str]:
    """Ids of the jobs that a worker holds, by the number of its main process in the names of what holds them.

    Stock Celery names nothing after workers: of its workers none are known.

    Raises:
        redis.RedisError: Redis is away.
    """
    mark = f"-{pid}-".encode()
    held: set[str] = set()
    with server.client(timeout=10) as client:
        for key in client.scan_iter(count=1000):
            if _DELAYED in key:
                continue
            for field, value in _fields(client, key):
                if (mark in key or mark in field) and b"body" in value:
                    held.update(task_id.decode() for task_id in ID.findall(value))
    return held


_READ: dict[bytes, tuple[str, ...]] = {
    b"list": ("LRANGE", "{}", "0", "-1"),
    b"zset": ("ZRANGE", "{}", "0", "-1"),
    b"set": ("SMEMBERS", "{}"),
}
"""Type of a key → command that reads its values; streams are dead letters, and strings hold no jobs."""


def _values(client: redis.Redis, key: bytes) -> list[bytes]:
    return [value for _, value in _fields(client, key)]


def _fields(client: redis.Redis, key: Any) -> list[tuple[bytes, bytes]]:
    """Return the content of a key, with the names of a hash's fields."""
    kind: Any = client.type(key)
    if kind == b"hash":
        entries: Any = client.hgetall(key)
        return [*entries.items()]
    execute: Any = client.execute_command
    command = _READ.get(kind)
    values = execute(*(word.format(key.decode()) for word in command)) if command else []
    return [(b"", value) for value in values]


def executions(logs: Iterable[Path]) -> Counter[str]:
    """Return the number of completed runs of each job, from the workers' logs."""
    ended: Counter[str] = Counter()
    for log in logs:
        with log.open("rb") as lines:
            for line in lines:
                if b'"event":"job done"' in line or b'"event":"job failed"' in line:
                    ended.update(task_id.decode() for task_id in ID.findall(line)[:1])
    return ended
