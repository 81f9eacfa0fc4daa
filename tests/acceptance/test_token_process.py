"""Signed jobs and a real worker that does not trust its queue: a token is worth one job under one id, each time."""

from __future__ import annotations

import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import redis
from tests.waiting import wait_for, waiting_sessions

from retrieval_client import Signer, encode_embedding
from workbench.devstack.workers import celery_worker
from worker.core.text import lexical
from worker.queue.broker import dead_letters

from .bad_input_worker import body, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from workbench.devstack.stack import Stack
    from worker.queue.broker.dead_letters import DeadLetter

    Environment = Callable[..., dict[str, str]]

EMBEDDING = encode_embedding(lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist())
JOB = {"query_embedding": EMBEDDING, "k": 12}
KEYS = {"2025": "the key of last year, of thirty-two bytes", "2026": "the key of this year, of thirty-two bytes"}
PRIVATE_TO_ALICE = "handbook-desk-notes-006"


class Backend:
    """A backend that signs by hand and reads what Redis holds."""

    def __init__(self, queues: redis.Redis, results: redis.Redis) -> None:
        self._queues, self._results = queues, results

    def token(self, task_id: str, kid: str = "2026", **bound: Any) -> str:
        """A token for `JOB` by alice under this id, unless something else is said."""
        what = {"job": JOB, "task": "retrieve_top_k", "now": time.time(), **bound}
        signer = Signer(what.pop("key", KEYS[kid]), kid)
        return signer.sign(what.pop("job"), what.pop("claims", {"user_id": "alice"}), task_id=task_id, **what)

    def send(self, task_id: str, token: str, job: dict[str, Any] | None = None, task: str = "retrieve_top_k") -> None:
        job = {**(job or JOB), "principal_token": token}
        self._queues.lpush("retrieval", message(task_id, body(job), {"task": task}))

    def answer(self, task_id: str, seconds: float = 60.0) -> dict[str, Any]:
        """A job's record once it has ended; it is taken away, so that the next one is another."""
        key, deadline = f"celery-task-meta-{task_id}", time.monotonic() + seconds
        while True:
            record = json.loads(self._results.get(key) or "{}")
            if record.get("status") in {"SUCCESS", "FAILURE"}:
                self._results.delete(key)
                return dict(record)
            assert time.monotonic() < deadline, "no answer"
            time.sleep(0.02)

    def dead(self, count: int, seconds: float = 30.0) -> list[DeadLetter]:
        """The dead letters, once there are ``count``: a failure is stored before its message goes there."""
        deadline = time.monotonic() + seconds
        while len(letters := [*dead_letters.every(self._queues, "retrieval")]) < count:
            assert time.monotonic() < deadline, f"{len(letters)} dead letters"
            time.sleep(0.02)
        return letters

    def ask(self, token: str, task_id: str, **sent: Any) -> str:
        """Send and wait: what it came to, in a word or the sentence of the refusal."""
        self.send(task_id, token, **sent)
        record = self.answer(task_id)
        if record["status"] == "SUCCESS":
            return "alice" if PRIVATE_TO_ALICE in json.dumps(record["result"]) else "somebody"
        failure = record["result"]
        assert failure["exc_type"] == "NotAuthorised", failure
        (sentence,) = failure["exc_message"]
        return str(sentence)


@pytest.fixture
def backend(stack: Stack, broker: redis.Redis) -> Iterator[Backend]:
    with redis.Redis.from_url(stack.redis.url(1)) as results:
        yield Backend(broker, results)


@pytest.fixture
def environment(worker_environment: Environment) -> Environment:
    """Of a worker that believes signatures only."""

    def make(keys: dict[str, str]) -> dict[str, str]:
        return worker_environment(TOKEN_KEYS=json.dumps(keys)) | {"RETRIEVAL_WORKER_TRUST_QUEUE": "false"}

    return make


def test_a_token_is_worth_one_job_under_one_id(backend: Backend, environment: Environment, worker_log: Path) -> None:
    """Changed, expired, swapped or of another key: refused, each with its reason. The same again: answered again.

    The forged ones are dead letters of which nothing is kept; the expired one was good once.
    """
    with celery_worker(environment(KEYS), worker_log, "--concurrency=1"):
        mine, other = str(uuid.uuid4()), str(uuid.uuid4())
        token = backend.token(mine)
        assert backend.ask(token, mine) == "alice"
        assert backend.ask(token, mine) == "alice"  # a backend that had no answer in time sends it again
        assert backend.ask(backend.token(mine, now=time.time() + 1), mine) == "alice"  # signed again, the same id
        refusals = {
            "swapped to another id": backend.ask(token, other),
            "swapped to another job": backend.ask(token, mine, job={**JOB, "k": 15}),
            "swapped to another task": backend.ask(
                token, mine, task="pinned_replay", job={"required_chunk_hashes": []}
            ),
            "expired": backend.ask(backend.token(mine, now=time.time() - 610), mine),
            "of another key": backend.ask(backend.token(mine, key="x" * 40), mine),
            "changed claims": backend.ask(_with_claims_of(token, backend.token(mine, claims={"user_id": "bob"})), mine),
        }
        letters = backend.dead(len(refusals) - 1)
    assert {(letter.reason, letter.error, letter.kept) for letter in letters} == {
        ("bad_signature", "NotAuthorised", "nothing")
    }
    assert sorted(letter.message for letter in letters) == sorted(
        said for name, said in refusals.items() if name != "expired"
    )
    assert [name for name, said in refusals.items() if not said.startswith("principal_token: ")] == []
    assert "another task id" in refusals["swapped to another id"]
    assert "another job" in refusals["swapped to another job"]
    assert "another task" in refusals["swapped to another task"]
    assert "expired" in refusals["expired"]
    log = worker_log.read_text()
    assert [part for part in [*KEYS.values(), *token.split(".")[1:]] if part in log] == []


def test_a_forged_token_is_refused_where_none_is_needed(
    backend: Backend, environment: Environment, worker_log: Path
) -> None:
    """A public corpus answers an expired token like none; a forged one is a dead letter there, too."""
    public = {**JOB, "corpus": "docs"}
    with celery_worker(environment(KEYS), worker_log, "--concurrency=1"):
        good, late, bad = (str(uuid.uuid4()) for _ in range(3))
        assert backend.ask(backend.token(good, job=public), good, job=public) == "somebody"
        assert backend.ask(backend.token(late, job=public, now=time.time() - 610), late, job=public) == "somebody"
        said = backend.ask(backend.token(bad, job=public, key="x" * 40), bad, job=public)
        (letter,) = backend.dead(1)
    assert said.startswith("principal_token: ")
    assert (letter.reason, letter.error, letter.message) == ("bad_signature", "NotAuthorised", said)


def _with_claims_of(token: str, other: str) -> str:
    header, _, signature = token.split(".")
    return ".".join([header, other.split(".")[1], signature])


def test_a_redelivered_job_needs_no_new_token(
    backend: Backend,
    environment: Environment,
    worker_log: Path,
    admin: psycopg.Connection[Any],
) -> None:
    """A job whose process was killed comes back with the token it had, and is answered."""
    with celery_worker(environment(KEYS), worker_log, "--concurrency=1") as worker:
        task_id = str(uuid.uuid4())
        with admin.transaction():
            admin.execute("LOCK TABLE document_chunks IN ACCESS EXCLUSIVE MODE")
            backend.send(task_id, backend.token(task_id))
            wait_for(lambda: waiting_sessions(admin) == 1, worker_log.read_text)
            psutil.Process(worker.pid).children()[0].kill()
        record = backend.answer(task_id)
    assert record["status"] == "SUCCESS"
    assert PRIVATE_TO_ALICE in json.dumps(record["result"])


def test_keys_are_changed_without_a_stop(backend: Backend, environment: Environment, worker_log: Path) -> None:
    """While both keys are known, tokens of both are believed; then only those of the new one."""
    mine = str(uuid.uuid4())
    with celery_worker(environment(KEYS), worker_log, "--concurrency=1"):
        assert backend.ask(backend.token(mine, "2025"), mine) == "alice"
        assert backend.ask(backend.token(mine, "2026"), mine) == "alice"
        misnamed = backend.token(mine, "2026", key=KEYS["2025"])
        assert "can verify" in backend.ask(misnamed, mine)
    with celery_worker(environment({"2026": KEYS["2026"]}), worker_log, "--concurrency=1"):
        assert "names no key" in backend.ask(backend.token(mine, "2025"), mine)
        assert backend.ask(backend.token(mine, "2026"), mine) == "alice"
