"""Replays by a real worker process over Redis: one digest across restarts of everything, and what the log tells."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest

from retrieval_client import Client, PinnedReplay, Replay, RetrieveTopK, RunRef, TopK
from retrieval_client.hashing import hash_chunk
from workbench.devstack.stack import Stack, local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load, migrate

from .jobs import QUERY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Environment = Callable[..., dict[str, str]]

RUN = RunRef(subject_id="song-1", run_id="r1")
ALICE, BOB = {"user_id": "alice"}, {"user_id": "bob"}
REPLAY = PinnedReplay(run=RUN, principal=ALICE)
TIMES = 200


def replays(client: Client, times: int) -> list[Replay]:
    """Replays of the run, sent at once."""
    sent = [client.enqueue(REPLAY) for _ in range(times)]
    answers = [client.result(task_id, timeout=180) for task_id in sent]
    assert all(isinstance(answer, Replay) for answer in answers)
    return answers  # type: ignore[return-value] # asserted in the line above


# --- one digest ---------------------------------------------------------------------------------


@pytest.fixture
def root() -> Iterator[Path]:
    """Where data stays between starts (pytest's folders are closed to the account that Postgres runs as)."""
    with tempfile.TemporaryDirectory(prefix="rw-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def test_a_run_has_one_digest_across_a_restart_of_everything(root: Path, worker_log: Path) -> None:
    """Postgres, Redis and the worker stopped and started on their data: the same answer; a new job for it too.

    A result that Redis held before is still there after, so it was these servers' data that came back.
    """
    digests, started = set(), []
    task_id = ""
    for start in (1, 2):
        with local_stack(root, durable=True) as stack:
            started.append((stack.postgres.process.pid, stack.redis.process.pid))
            client = Client(*stack.redis.urls("producer"))
            if start == 1:
                _load(stack)
            else:
                kept = client.result(task_id, timeout=180)
                assert isinstance(kept, Replay)
                digests.add(kept.digest)
            environment = stack_environment(stack, TRUST_QUEUE="true")
            with celery_worker(environment, worker_log, "--concurrency=2"):
                if start == 1:
                    first = client.call(RetrieveTopK(query_embedding=QUERY, k=10, run=RUN, principal=ALICE))
                    assert isinstance(first, TopK)
                answers = replays(client, TIMES)
                task_id = client.enqueue(REPLAY)
                client.result(task_id, timeout=180)
            client.close()
        digests |= {answer.digest for answer in answers}
        assert [chunk.chunk_id for chunk in answers[-1].chunks] == [chunk.chunk_id for chunk in first.chunks]
    assert len(digests) == 1
    assert not set(started[0]) & set(started[1])


def _load(stack: Stack) -> None:
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
        migrate(admin)
        load(admin, read(SAMPLES["documents"]), LexicalEmbedder())


# --- what the log tells -------------------------------------------------------------------------

A, B, C = "chunk A", "chunk B", "chunk C"
NOTHING = hash_chunk("no such text anywhere")
SOURCE = {"id": "s1", "weight": 0.8, "chunks": [A, B, C]}
USUAL = {
    "matched": 1,
    "missing": 0,
    "filled": 0,
    "truncated": 0,
    "skipped": 0,
    "asked": 1,
    "duplicates": 0,
    "top_k": 1,
    "chunks": 3,
    "sources": 1,
    "unnamed": 0,
    "unweighted": 0,
    "without_chunks": 0,
}
EDGE_CASES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "usual": ({}, {}),
    "unknown hash": (
        {"required_chunk_hashes": [NOTHING], "top_k": 2},
        {"matched": 0, "missing": 1, "filled": 2, "top_k": 2},
    ),
    "no sources": ({"sources": []}, {"matched": 0, "missing": 1, "sources": 0, "chunks": 0}),
    "top_k over what exists": ({"top_k": 9}, {"filled": 2, "top_k": 9}),
    "duplicate hashes": ({"required_chunk_hashes": [hash_chunk(A)] * 3}, {"asked": 3, "duplicates": 2}),
    "top_k 0": ({"top_k": 0}, {"matched": 0, "truncated": 1, "top_k": 0}),
    "no text": ({"sources": [{**SOURCE, "chunks": [A, None, B, 1, C]}]}, {"skipped": 2}),
    "no weight": ({"sources": [{"id": "s1", "chunks": [A, B, C]}]}, {"unweighted": 1}),
    "no id": ({"sources": [{"weight": 0.8, "chunks": [A, B, C]}]}, {"unnamed": 1}),
    "more pins than top_k": (
        {"required_chunk_hashes": [hash_chunk(text) for text in (A, B, C)], "top_k": 1},
        {"asked": 3, "truncated": 2},
    ),
}


def done(log: Path) -> list[dict[str, Any]]:
    """The lines `job done`, in order."""
    lines = [orjson.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "job done"]


def counted(line: dict[str, Any]) -> dict[str, int]:
    pairs = (pair.split("=") for pair in line["outcome"].split())
    return {name: int(count) for name, count in pairs}


def test_every_edge_case_shows_in_its_own_line_of_the_log(
    stack: Stack, broker: Any, worker_environment: Environment, worker_log: Path
) -> None:
    """Each of the seeds' cases has a count that tells it from the usual; no text and no hash is logged."""
    del broker  # emptied
    client = Client(*stack.redis.urls("producer"))
    usual = {"required_chunk_hashes": [hash_chunk(A)], "sources": [SOURCE]}
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        for fields, _ in EDGE_CASES.values():
            client.call(PinnedReplay.model_validate({**usual, **fields}), timeout=180)
    client.close()
    lines = [counted(line) for line in done(worker_log)]
    assert dict(zip(EDGE_CASES, lines, strict=True)) == {
        name: USUAL | changes for name, (_, changes) in EDGE_CASES.items()
    }
    log = worker_log.read_text()
    assert not any(text in log for text in (A, B, C))
    assert "sha256" not in log
    assert NOTHING[7:23] not in log


def test_a_foreign_pin_is_logged_as_a_hash_of_nothing(
    stack: Stack,
    broker: Any,
    admin: psycopg.Connection[Any],
    worker_environment: Environment,
    worker_log: Path,
) -> None:
    """Alice gets it; bob's two lines are the same but for the task's id and the time."""
    del broker  # emptied
    row = admin.execute("SELECT text_content FROM document_chunks WHERE id = 'handbook-desk-notes-006'").fetchone()
    assert row is not None
    private = hash_chunk(row[0])
    client = Client(*stack.redis.urls("producer"))

    def ask(pinned: str, who: dict[str, str]) -> dict[str, Any]:
        job = PinnedReplay(required_chunk_hashes=[pinned], principal=who)
        (pin,) = client.call(job, timeout=180).pins  # type: ignore[union-attr] # a replay
        return pin.model_dump(exclude={"chunk_hash"})

    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        assert ask(private, ALICE)["verdict"] == "matched"
        assert ask(private, BOB) == ask(NOTHING, BOB)
    client.close()
    alice, foreign, nothing = (
        {name: value for name, value in line.items() if name not in ("task_id", "duration_ms", "timestamp")}
        for line in done(worker_log)
    )
    assert foreign == nothing
    assert alice != foreign
    assert "missing=1" in foreign["outcome"]
