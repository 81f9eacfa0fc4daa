"""Questions and traces as a user types them: `ask` and `trace` with a real worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.command_line import command_line

from workbench.devstack.workers import celery_worker
from worker.queue.broker import dead_letters
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

QUESTION = "What causes the 50 Hz hum on channel 18?"


def test_a_question_its_record_and_its_trace(
    broker: Any, worker_environment: Any, worker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer with its sources; gone on from; its trace for its owner, and a sentence for everybody else."""
    broker.flushall()
    environment = worker_environment()
    type_in = command_line(capsys, environment)
    asked = ("ask", QUESTION, "--as", "alice", "--record", "desk", "r1")
    with celery_worker(environment, worker_log, "--concurrency=1"):
        answer = type_in(*asked)
        again = json.loads(type_in(*asked, "--json").stdout)
        first = json.loads(type_in("ask", QUESTION, "--as", "alice", "--chat", "--json").stdout)
        after = ("--as", "alice", "--after", first["response_id"])
        second = type_in("ask", "And what was done against it?", *after, "--json")
        foreign = type_in("ask", "And then?", "--as", "bob", "--after", first["response_id"])
        code = type_in("ask", "add hi-hats", "--mode", "code", "--context", 'sound("bd*4")')
        wrong = type_in("ask", QUESTION, "--as", "alice", "--mode", "no-such-mode")
        query = type_in("query", "hum", "--as", "alice", "--record", "desk", "r2")
        nobody = type_in("query", "rhythm", "--corpus", "docs", "--k", "3")
        unnamed = type_in("query", "hum", "--corpus", "documents")
        refused = [type_in(*words) for words in (("ask", QUESTION), ("search", "hum", "--corpus", "documents"))]
    assert answer.returncode == 0, answer.stderr
    for said in (
        "[S1]",
        "reports/2023/mixing-desk.pdf",
        "p. 3, Faults",
        "copied word",
        "of 8 sources cited",
        "Copied word for word; whether it answers the question is not judged.",
    ):
        assert said in answer.stdout, said
    assert f"--after {again['response_id']}" in answer.stdout
    assert json.loads(second.stdout)["conversation_id"] == first["conversation_id"]
    assert (foreign.returncode, "no such response" in foreign.stderr) == (1, True)
    assert (code.returncode, "go on" in code.stdout) == (0, False), code.stderr
    assert (wrong.returncode, "mode: expected one of grounded" in wrong.stderr) == (1, True)

    traced = type_in("trace", "desk", "r1", "--as", "alice")
    assert traced.returncode == 0, traced.stderr
    for said in (QUESTION, "profile hybrid", "embedder: lexical", "search", "█", "S1", "beyond k (cut)", "--all"):
        assert said in traced.stdout, said
    (reported,) = json.loads(type_in("trace", "desk", "r1", "--as", "alice", "--json").stdout)["traces"]
    assert (reported["question"], reported["profile"], reported["status"]) == (QUESTION, "hybrid", "ok")
    assert reported["source_labels"]["S1"]["chunk_id"] == reported["candidates"][0]["chunk_id"]
    assert "search" in [stage["stage"] for stage in reported["trace"]["stages"]]
    whole = type_in("trace", "desk", "r1", "--as", "alice", "--all")
    assert "not shown" not in whole.stdout
    assert len(whole.stdout) > len(traced.stdout)
    stranger = type_in("trace", "desk", "r1", "--as", "bob")
    assert (stranger.returncode, stranger.stderr) == (1, "retrieval-worker: run: no such run\n")
    assert query.returncode == 0
    assert (nobody.returncode, "k 10 (asked for 3)" in nobody.stdout) == (0, True), nobody.stderr
    assert (unnamed.returncode, "name the caller" in unnamed.stderr) == (2, True)
    for done in refused:
        said = "the corpus documents is not public: name the caller: give one of --as, --claims and --token"
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    other = type_in("trace", "desk", "r2", "--as", "alice")
    assert other.returncode == 1
    assert other.stderr == "retrieval-worker: run: there is no run_pipeline in it, but retrieve_top_k\n"


def test_nobody_answers(broker: Any, worker_environment: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no worker serves the queue, waiting ends with one line that asks for it."""
    broker.flushall()
    done = command_line(capsys, worker_environment())("ask", QUESTION, "--as", "alice", "--timeout", "0.3")
    assert done.returncode == 69
    assert done.stderr.startswith("retrieval-worker: no answer within 0.3 s in the results at ")
    assert "either no worker serves the queue pipeline, or the workers store results elsewhere" in done.stderr
    (task_id,) = [envelope["headers"]["id"] for envelope in map(json.loads, broker.lrange("pipeline", 0, -1))]
    assert done.stderr.endswith(f". A worker may still answer it, under the task id {task_id}\n")


def test_an_outage_that_outlasts_the_wait_is_said(
    broker: Any, worker_environment: Any, worker_log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Postgres is away: no answer came, why not, that none will come, and the task to look for."""
    broker.flushall()
    environment = worker_environment()
    away = {**environment, "DATABASE_CONNECTION_STRING": "postgresql://retrieval_worker@127.0.0.1:1/x"}
    type_in = command_line(capsys, environment)
    asked = (["query", QUESTION], ["search", QUESTION], ["ask", QUESTION], ["cite", "desk", "r1"])
    with celery_worker(away, worker_log, "--concurrency=1"):
        done = [type_in(*words, "--as", "alice", "--timeout", "5") for words in asked]
    said = (
        "retrieval-worker: no answer within 5 s: Postgres, Redis or a provider was away or behind, and the job expired "
        "before its next try: send it again later (task id {})\n"
    )
    letters = [one for queue in QUEUES for one in dead_letters.every(broker, queue)]
    assert {letter.reason for letter in letters} == {"expired"}
    expected = {said.format(letter.task_id) for letter in letters}
    # The last try of one may end just after the wait for it.
    told = [
        one for one in done if not one.stderr.startswith("retrieval-worker: no answer within 5 s in the results at")
    ]
    assert told
    assert {one.stderr for one in told} <= expected
    assert {(one.returncode, one.stdout) for one in told} == {(1, "")}
    assert len(expected) == len(asked)
