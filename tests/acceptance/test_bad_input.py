"""Hundreds of wrong jobs through one real worker: each is one clear refusal, or a right answer."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest

from .bad_input_cases import PLANTED, QUERY, SQL, TEXT, Answered, Batch, Case, Refused, cases, job
from .bad_input_worker import Events, Worker, body, connected, database, message
from .held import count_held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.devstack.stack import Stack

CASES = cases()
IDS = {case.name: str(uuid.uuid4()) for case in CASES}
MANY = 100


@dataclass(frozen=True)
class Row:
    """A stored chunk, as a superuser reads it."""

    id: str
    document_id: str
    section: str | None
    page: int | None
    metadata: dict[str, Any]
    path: str
    readers: frozenset[str]
    public: bool
    distance: float


@pytest.fixture(scope="module")
def worker(stack: Stack, sample_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One worker for the whole table."""
    log = tmp_path_factory.mktemp("bad-input") / "worker.log"
    with database(stack, sample_template) as name, connected(stack, name, log) as started:
        yield started


@pytest.fixture(scope="module")
def truth(worker: Worker) -> list[Row]:
    """Every chunk with its distance in float64, in the contract's order."""
    query = np.array(QUERY, dtype=np.float64)
    with psycopg.connect(worker.dsn) as connection:
        rows = connection.execute("""
            SELECT c.id, c.document_id, c.section, c.page, c.metadata, d.path, d.visibility = 'public',
                   array_append(ARRAY(SELECT grantee FROM document_grants g WHERE g.document_id = d.id), d.owner_id),
                   c.embedding::text
              FROM document_chunks c JOIN documents d ON d.id = c.document_id
        """).fetchall()
    found = []
    for *fields, public, readers, text in rows:
        stored = np.array(json.loads(text), dtype=np.float64)
        distance = 1 - float(query @ stored / np.linalg.norm(query) / np.linalg.norm(stored))
        found.append(Row(*fields, readers=frozenset(readers), public=public, distance=distance))
    return sorted(found, key=lambda row: (row.distance, row.id))


@dataclass(frozen=True)
class Outcome:
    """Return the results of the whole table."""

    states: dict[str, list[dict[str, Any]]]
    events: list[dict[str, Any]]


@pytest.fixture(scope="module")
def outcome(worker: Worker) -> Outcome:
    """Every case sent at once, and every state and event that was published."""
    texts = {IDS[case.name]: message(IDS[case.name], case.raw, case.headers) for case in CASES}
    with Events(worker.app) as events:
        states = worker.answers(texts)
        events.wait_for(lambda: events.ended() >= set(texts))
        return Outcome(states, events.seen)


def test_the_table_is_whole() -> None:
    """At least 200 cases, each under a name of its own, and in them all that must not show."""
    assert len(CASES) >= 200
    assert len(IDS) == len(CASES)
    sent = b"\n".join(case.raw + json.dumps(case.headers).encode() for case in CASES).decode(errors="replace")
    assert [planted for planted in PLANTED if planted not in sent] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.name))
def test_each_case_ends_once_and_as_it_should(outcome: Outcome, truth: list[Row], case: Case) -> None:
    """One state, never a retry: a refusal in one sentence that names the path, or the right answer."""
    states = outcome.states[IDS[case.name]]
    assert [state["status"] for state in states] == ["FAILURE" if isinstance(case.expected, Refused) else "SUCCESS"], (
        states and states[-1]["result"]
    )
    (state,) = states
    if isinstance(case.expected, Refused):
        check_refusal(state, case.expected)
    elif isinstance(case.expected, Batch):
        check_batch(state["result"], case.expected, truth)
    else:
        check_answer(state["result"], case.expected, truth)


def check_refusal(state: dict[str, Any], expected: Refused) -> None:
    failure = state["result"]
    assert (failure["exc_type"], failure["exc_module"]) == (expected.kind, "worker.errors"), failure
    (sentence,) = failure["exc_message"]
    prefix = f"{expected.path}: " if expected.path else ""
    # A deep place is shortened, and a place inside a field may be named more closely.
    assert sentence.startswith((prefix, f"{expected.path}[0]", f"{expected.path}.a")) or not prefix, sentence
    assert expected.words in sentence
    assert "\n" not in sentence
    assert len(sentence) < 250
    assert state["traceback"] is None
    assert not [planted for planted in PLANTED if planted in json.dumps(state["result"])]


def check_answer(answer: dict[str, Any], expected: Answered, truth: list[Row]) -> None:
    visible = [row for row in truth if row.public or expected.who in row.readers]
    kept = [row for row in visible if expected.keep(row)][: expected.k]
    near = [row for row in kept if row.distance <= expected.max_distance]
    assert [chunk["chunk_id"] for chunk in answer["chunks"]] == [row.id for row in near]
    assert [chunk["distance"] for chunk in answer["chunks"]] == pytest.approx([row.distance for row in near], abs=1e-6)
    status = "ok" if len(near) == expected.k else "short" if near else "empty"
    assert (answer["status"], answer["short_reason"]) == (status, None if status == "ok" else expected.reason)
    assert answer["k"] == expected.k
    assert answer["k_requested"] == (12 if expected.k_requested is None else expected.k_requested)


def check_batch(answer: dict[str, Any], expected: Batch, truth: list[Row]) -> None:
    assert len(answer["results"]) == len(expected.entries)
    for index, (entry, error) in enumerate(zip(answer["results"], expected.entries, strict=True)):
        if error is None:
            check_answer(entry, Answered(), truth)
            continue
        path, words = f"query_embeddings[{index}]{error[0]}", error[1]
        assert (entry["error"]["type"], entry["error"]["path"]) == ("InvalidJob", path)
        assert words in entry["error"]["message"]
        assert not [planted for planted in PLANTED if planted in json.dumps(entry)]


# --- afterwards -------------------------------------------------------------------------------------


def test_the_worker_lives_and_its_queue_is_empty(outcome: Outcome, worker: Worker) -> None:
    """The same process as at the start, nothing left to deliver again, nothing scheduled."""
    assert len(outcome.states) == len(CASES)
    assert worker.alive
    assert worker.broker.llen("retrieval") == 0
    assert count_held(worker.broker) == 0
    assert not any((worker.inspect.scheduled() or {"no reply": [1]}).values())


def test_no_job_was_retried(outcome: Outcome) -> None:
    """Bad input fails once: no event tells of a second try, and nothing was received twice."""
    received = [event["uuid"] for event in outcome.events if event["type"] == "task-received"]
    assert len(received) == len(set(received)) >= MANY
    assert {event["type"] for event in outcome.events} & {"task-retried", "task-rejected", "task-revoked"} == set()


def test_the_log_says_nothing_of_any_body(outcome: Outcome, worker: Worker, stack: Stack) -> None:
    """Neither the worker's log, at its most talkative, nor Postgres' holds a text, a number or SQL of a job."""
    assert outcome.events
    for log in (worker.log, stack.root / "postgres" / "postgres.log"):
        text = log.read_text(errors="replace")
        assert [planted for planted in PLANTED if planted in text] == []
    assert worker.log.read_text().count('"event":"job failed"') >= MANY


def test_events_say_nothing_of_any_body(outcome: Outcome) -> None:
    """Flower gets a task's name, its id and the names of its fields."""
    assert len([event for event in outcome.events if event["type"] == "task-received"]) >= MANY
    text = json.dumps(outcome.events, default=str)
    assert [planted for planted in PLANTED if planted in text] == []


def test_the_table_is_still_there(outcome: Outcome, worker: Worker, truth: list[Row]) -> None:
    """SQL in a job is data: every row is where it was."""
    assert outcome.events
    with psycopg.connect(worker.dsn) as connection:
        counted = connection.execute("SELECT count(*) FROM public.document_chunks").fetchone()
    assert counted == (len(truth),)


def test_a_running_job_is_shown_without_its_values(worker: Worker) -> None:
    """`inspect` while a job waits in Postgres, and Postgres' own list of queries: no value in either."""
    task_id = str(uuid.uuid4())
    filters = {"sections": [SQL], "metadata": {TEXT: TEXT}}
    text = message(task_id, body(job(query_embedding=QUERY, filters=filters)), {"argsrepr": TEXT})
    with psycopg.connect(worker.dsn) as holder, psycopg.connect(worker.dsn, autocommit=True) as watcher:
        holder.execute("LOCK TABLE public.document_grants IN ACCESS EXCLUSIVE MODE")  # the policies read it
        worker.send([text])
        queries = wait_for_waiting_query(watcher)
        inspect = worker.inspect
        shown = json.dumps([inspect.active(), inspect.reserved(), inspect.query_task(task_id)])
        holder.rollback()
    assert task_id in shown
    assert [planted for planted in PLANTED if planted in shown + queries] == []
    assert queries.startswith("SELECT CASE WHEN")  # the check before the read: it locks what is read


def wait_for_waiting_query(watcher: psycopg.Connection[Any]) -> str:
    """The text of the worker's query, once it waits for the lock."""
    watcher.execute("SET statement_timeout = '20s'")
    waiting = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while watcher.execute(waiting).fetchone() is None:
        pass
    # Asked again: Postgres reads what a session runs a moment before it reads what the session waits for.
    row = watcher.execute(waiting).fetchone()
    assert row is not None
    return str(row[0])
