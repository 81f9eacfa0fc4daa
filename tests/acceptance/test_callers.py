"""Commands and a real worker that does not trust its queue: their callers are signed, or bring a token."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.command_line import command_line

from retrieval_client import Signer
from retrieval_client.canonical import canonical_sha256
from workbench.devstack.workers import celery_worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis
    from tests.command_line import Command

KEY = "a secret of at least thirty-two bytes"
QUESTION = "What causes the hum on channel 18?"
ALICE = {"user_id": "alice"}
PRIVATE_TO_ALICE = "handbook-desk-notes-006"
NO_KEY = {"RETRIEVAL_WORKER_TOKEN_KEYS": ""}


@pytest.fixture
def typed(
    capsys: pytest.CaptureFixture[str],
    broker: redis.Redis,
    worker_environment: Callable[..., dict[str, str]],
    worker_log: Path,
    tmp_path: Path,
) -> Iterator[Command]:
    """Runs commands with the environment of the worker, which runs."""
    del broker  # emptied
    changes = {"TOKEN_KEYS": json.dumps({"k1": KEY}), "ARTIFACTS__URL": str(tmp_path / "artifacts")}
    environment = worker_environment(**changes) | {"RETRIEVAL_WORKER_TRUST_QUEUE": "false"}
    with celery_worker(environment, worker_log, "--concurrency=1"):
        yield command_line(capsys, environment)


def token(task: str, digest_of: dict[str, Any] | None = None, task_id: str = "one-visit", **bound: str) -> str:
    """A token of alice."""
    signer = Signer(KEY, "k1")
    return signer.sign(digest_of or {}, {**ALICE, **bound}, task=task, task_id=task_id, now=time.time())


def test_commands_sign_for_a_worker_that_does_not_trust_its_queue(typed: Command, tmp_path: Path) -> None:
    """By --as, --claims and a token for a visit, with the key of the settings; without it the worker refuses."""
    visit = {"INSPECTOR_TOKEN": token("inspect")}
    asked = typed("query", QUESTION, "--as", "alice", "--record", "song-1", "r1", "--json", "--timeout", "180")
    assert asked.returncode == 0, asked.stderr
    assert PRIVATE_TO_ALICE in asked.stdout
    for given in (["--claims", json.dumps(ALICE)], ["--token", token("inspect")]):
        found = typed("search", QUESTION, "--corpus", "documents", *given, "--json")
        assert (found.returncode, PRIVATE_TO_ALICE in found.stdout) == (0, True), found.stderr
    answered = typed("ask", QUESTION, "--json", **visit)
    assert (answered.returncode, PRIVATE_TO_ALICE in answered.stdout) == (0, True), answered.stderr
    replayed = typed("replay", "song-1", "r1", **visit)
    assert (replayed.returncode, "as alice" in replayed.stdout) == (0, True), replayed.stderr
    queries = tmp_path / "queries.jsonl"
    queries.write_text(json.dumps({"question": QUESTION, "relevant": [PRIVATE_TO_ALICE]}))
    measured = typed("evaluate", str(queries), "--claims", json.dumps(ALICE), "--json")
    assert measured.returncode == 0, measured.stderr
    refused = typed("query", QUESTION, "--as", "alice", **NO_KEY)
    assert (refused.returncode, "does not trust its queue" in refused.stderr) == (1, True), refused.stderr


def test_records_are_read_by_claims_and_by_a_token(typed: Command, tmp_path: Path) -> None:
    """Of a run's owner; another's token shows nothing of it."""
    assert typed("query", QUESTION, "--as", "alice", "--record", "song-1", "r1", "--timeout", "180").returncode == 0
    ways = [["--as", "alice"], ["--claims", json.dumps(ALICE)], ["--token", token("inspect")]]
    file = tmp_path / "run.json"
    for way in ways:
        assert typed("runs", "list", *way).stdout == "song-1\tr1\n"
        exported = typed("runs", "export", "song-1", "r1", "--out", str(file), *way)
        assert exported.returncode == 0, exported.stderr
        assert typed("verify", "song-1", *way).returncode == 0
        used = typed("runs", "used", "song-1", "r1", PRIVATE_TO_ALICE, "--json", *way)
        assert used.returncode == 0, used.stderr
    bob = ["--token", token("inspect", user_id="bob")]
    assert typed("runs", "list", *bob).stdout == ""
    assert typed("runs", "export", "song-1", "r1", *bob).returncode == 1
    assert typed("runs", "import", str(file), *bob).returncode == 0
    assert typed("runs", "list", *bob).stdout == "song-1\tr1\n"


def test_a_token_for_a_job_is_its_own_permission(typed: Command) -> None:
    """A command without a key says what the job's token must have; a backend signs that; the worker answers once."""
    ask = ("search", QUESTION, "--corpus", "documents", "--json", "--token")
    wrong = typed(*ask, token("retrieve_hybrid"), **NO_KEY)
    assert wrong.returncode == 2
    job = {"query": QUESTION, "context": "", "transform": "none", "searches": [{"corpus": "documents"}]}
    expected = f"expected a jti, task retrieve_hybrid and args_sha256 {canonical_sha256(job)}"
    assert wrong.stderr.rstrip().endswith(expected), wrong.stderr
    done = typed(*ask, token("retrieve_hybrid", job, "one-job"), **NO_KEY)
    assert (done.returncode, PRIVATE_TO_ALICE in done.stdout) == (0, True), done.stderr
    forged = Signer("x" * 40, "k1").sign(job, ALICE, task="retrieve_hybrid", task_id="another", now=time.time())
    refused = typed(*ask, forged, **NO_KEY)
    assert (refused.returncode, "principal_token" in refused.stderr) == (1, True), refused.stderr


def test_feedback_goes_over_the_wire(typed: Command) -> None:
    """Recorded for the run's owner, and counted by `tune`; a hash that the run does not have is named: exit code 1."""
    asked = typed("query", QUESTION, "--as", "alice", "--record", "song-1", "r1", "--json", "--timeout", "180")
    first, second = (chunk["chunk_hash"] for chunk in json.loads(asked.stdout)["chunks"][:2])
    told = ("feedback", "song-1", "r1", "--used", first, "--not-used", second, "--rating", "-1", "--note", "too long")
    done = typed(*told, "--claims", json.dumps(ALICE))
    assert (done.returncode, done.stdout) == (
        0,
        'song-1 / r1, as {"user_id": "alice"}: feedback on 2 chunks recorded\n',
    )
    exported = json.loads(typed("runs", "export", "song-1", "r1", "--as", "alice").stdout)
    assert first in json.dumps(exported)
    unknown = f"sha256:{'0' * 64}"
    partly = typed("feedback", "song-1", "r1", "--used", first, "--used", unknown, "--as", "alice", "--json")
    answer = json.loads(partly.stdout)
    assert (partly.returncode, answer["recorded"], answer["unknown"]) == (1, 1, [unknown]), partly.stderr
    missed = typed("feedback", "song-1", "r1", "--used", unknown, "--as", "alice")
    assert (missed.returncode, f"not a chunk of the run: {unknown}" in missed.stdout) == (1, True), missed.stderr
    foreign = typed("feedback", "song-1", "r1", "--rating", "1", "--as", "bob")
    assert (foreign.returncode, "no such run" in foreign.stderr) == (1, True), foreign.stderr
