"""Several callers in one round trip: each has a transaction, settings, limits and errors of its own."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from celery import Celery
from tests.integration.asking import HUM, asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.database import CallerRead, Database
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.model import Principal
from worker.queue import tasks
from worker.queue.broker.inspection import DeliveredJob
from worker.queue.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from worker.jobs.engine import Engine
    from worker.settings import Settings

QUERY = lexical.embed([HUM])[0].tolist()
WHO = b"SELECT current_setting('app.user_id', true), current_setting('transaction_read_only')"
CALLERS = ("alice", "bob", "nobody")


@pytest.fixture
def one_connection(make_settings: Callable[..., Settings], database: str) -> Iterator[Database]:
    """All callers share it."""
    made = Database(make_settings(database, pool={"max_size": 1}))
    yield made
    made.close()


def who(name: str) -> Principal:
    return Principal(settings=(("app.user_id", name),))


def read(name: str, *queries: bytes) -> CallerRead:
    return CallerRead(who(name), [(query, {}) for query in queries], ())


def test_each_caller_has_its_own_settings(one_connection: Database) -> None:
    reads = [read(f"caller-{n}", WHO, WHO) for n in range(16)]
    assert one_connection.read_each(reads, 5) == [[[(f"caller-{n}", "on")]] * 2 for n in range(16)]


def test_no_caller_s_settings_outlive_its_transaction(one_connection: Database) -> None:
    """Not even for a caller that states none, after one whose transaction failed."""
    states_nothing = CallerRead(Principal(), [(WHO, {})], ())
    one_connection.read_each([read("alice", b"SELECT 1 / 0")], 5)
    answers = one_connection.read_each(
        [read("bob", WHO), states_nothing, read("bob", b"SELECT 1/0"), states_nothing], 5
    )
    assert answers == [[[("bob", "on")]], [[("", "on")]], None, [[("", "on")]]]
    assert one_connection.read(Principal(), [(WHO, {})], corpora=()) == [[("", "on")]]


@pytest.mark.parametrize(
    "broken",
    [
        b"SELECT 1 / 0",
        b"SELECT no_such_column",
        b"SELEC",
        b"SELECT pg_sleep(30)",
        b"CREATE TABLE forbidden (x int)",
        b"SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(30)",
    ],
)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_an_error_of_one_leaves_the_answers_of_the_others(one_connection: Database, broken: bytes, place: int) -> None:
    """Wherever it stands, and whatever stands before and after the failing statement in its own transaction."""
    reads = [read(f"caller-{n}", WHO) for n in range(4)]
    reads.insert(place, read("broken", WHO, broken, WHO))
    answers = one_connection.read_each(reads, 0.3)
    assert answers.pop(place) is None
    assert answers == [[[(f"caller-{n}", "on")]] for n in range(4)]


def test_a_claim_that_can_not_be_sent_leaves_its_caller_without_an_answer(one_connection: Database) -> None:
    """Its statements would be run for nobody: a setting that psycopg refuses never reaches Postgres."""
    answers = one_connection.read_each([read("alice", WHO), read("bob\x00", WHO), read("carol", WHO)], 5)
    assert answers == [[[("alice", "on")]], None, [[("carol", "on")]]]


def test_a_connection_that_ends_leaves_no_answer_but_no_error(one_connection: Database) -> None:
    """The jobs then run alone, each on a new connection."""
    reads = [read("alice", WHO), read("bob", b"SELECT pg_terminate_backend(pg_backend_pid())"), read("carol", WHO)]
    answers = one_connection.read_each(reads, 5)
    assert answers[1:] == [None, None]
    assert answers[0] in (None, [[("alice", "on")]])
    assert one_connection.read(who("dora"), [(WHO, {})], corpora=()) == [[("dora", "on")]]


def test_a_job_whose_min_lsn_is_not_replayed_has_no_answer(one_connection: Database) -> None:
    of_min_lsn = [
        read("alice", WHO)._replace(principal=dataclasses.replace(who("alice"), min_lsn=min_lsn))
        for min_lsn in ("0/1", "FFFFFFFF/0")
    ]
    answers = one_connection.read_each([*of_min_lsn, read("bob", WHO)], 5)
    assert answers == [[[("alice", "on")]], None, [[("bob", "on")]]]


def test_a_job_waits_for_its_min_lsn(engine: Engine, settings: Settings) -> None:
    """Delivered as a backend sends it, alone and in a bundle: it is tried again later."""
    answers = tasks.register(Celery(set_as_current=False), settings, lambda: engine, Metrics(settings.metrics))
    job = {"query_embedding": QUERY, "principal": {"user_id": "alice"}, "min_lsn": "FFFFFFFF/0"}
    delivered = [DeliveredJob("retrieve_top_k", task_id, [job], {}, {}) for task_id in ("job-1", "job-2")]
    assert answers.together.answer(delivered) == {}
    assert answers.outcome(delivered[0], time.perf_counter()).state == "RETRY"


RUN = {"subject_id": "s", "run_id": "r"}


@pytest.mark.parametrize(
    ("task", "fields"),
    [
        ("retrieve_top_k", {"query_embedding": QUERY, "run": RUN}),
        ("pinned_replay", {"run": RUN}),
        ("pinned_replay", {"runs": [RUN]}),
        ("build_citations", {"cite": RUN}),
        ("record_feedback", {"run": RUN, "rating": 1}),
        ("run_pipeline", {"question": "what", "mode": "grounded", "prior_response_id": "resp_1"}),
        ("run_pipeline", {"question": "what", "mode": "grounded", "chat_mode": "chat", "conversation_id": "conv_1"}),
        ("run_pipeline", {"resume": "pkg_1"}),
    ],
)
def test_a_job_waits_for_records_of_its_min_lsn(
    engine: Engine, settings: Settings, admin: psycopg.Connection[Any], task: str, fields: dict[str, Any]
) -> None:
    """The record itself may not be replayed yet: it is neither unknown, nor written to."""
    engine.retrieval.top_k(
        parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": RUN}), JobContext(lambda: asker("a"))
    )
    answers = tasks.register(Celery(set_as_current=False), settings, lambda: engine, Metrics(settings.metrics))
    for user in ("a", "b"):
        job = {**fields, "principal": {"user_id": user}, "min_lsn": "FFFFFFFF/FFFFFFFF"}
        ended = answers.outcome(DeliveredJob(task, "job-1", [job], {}, {}), time.perf_counter())
        assert ended.state == "RETRY"
        assert "min_lsn" in ended.result.message
    counts = "SELECT (SELECT count(*) FROM retrieval.run_events), (SELECT count(*) FROM retrieval.packages)"
    assert admin.execute(counts).fetchone() == (1, 0)


def prepared(engine: Engine, name: str, **fields: Any) -> Any:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, **fields})
    return engine.retrieval.prepare(job, JobContext(lambda: asker(name)))


def without_times(answer: Any) -> Any:
    return {**answer, "trace": {**answer["trace"], "total_ms": 0, "stages": []}}


def test_answers_together_are_those_of_each_alone(engine: Engine) -> None:
    """Every caller sees its own rows; 64 of them, in an order that mixes callers and filters."""
    cases = [
        (name, fields)
        for name in CALLERS
        for fields in ({}, {"k": 15}, {"filters": {"document_ids": ["manual-1"]}}, {"max_distance": 0.2})
    ] * 6
    together = engine.retrieval.answer_each([prepared(engine, name, **fields) for name, fields in cases], 5)
    for (name, fields), answer in zip(cases, together, strict=True):
        job = parse_job(RetrieveTopK, {"query_embedding": QUERY, **fields})
        alone = engine.retrieval.top_k(job, JobContext(lambda name=name: asker(name)))
        assert answer is not None
        assert without_times(answer) == without_times(alone)
    assert len({str([chunk["chunk_id"] for chunk in one["chunks"]]) for one in together if one}) > 1


def test_a_job_is_checked_with_its_bundle_and_not_again(engine: Engine, settings: Settings) -> None:
    """It gets that answer, whatever its message says by then; no later job of the same id does."""
    answers = tasks.register(Celery(set_as_current=False), settings, lambda: engine, Metrics(settings.metrics))
    job = {"query_embedding": QUERY, "principal": {"user_id": "alice"}}
    ids = ["job-1", "job-2"]
    answered = answers.together.answer([DeliveredJob("retrieve_top_k", task_id, [job], {}, {}) for task_id in ids])
    assert {*answered} == {*ids}
    delivered = DeliveredJob("retrieve_top_k", "job-1", [{}], {}, {})
    with structlog.testing.capture_logs() as lines:
        outcome = answers.outcome(delivered, time.perf_counter(), answered=answered["job-1"])
        assert repr(outcome.result) == "<retrieve_top_k ok>"
        assert isinstance(answers.outcome(delivered, time.perf_counter(), lambda *_: None).result, InvalidJob)
    assert [line["event"] for line in lines] == ["job done", "job failed"]
    assert lines[0]["duration_ms"] >= round(answered["job-1"].seconds * 1000, 2)


def test_row_security_that_is_switched_off_answers_nobody(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """Each transaction checks its own rights; the callers' jobs then run alone, and fail with the reason."""
    wanted = [prepared(engine, name) for name in CALLERS]
    assert None not in engine.retrieval.answer_each(wanted, 5)
    admin.execute("ALTER TABLE document_chunks DISABLE ROW LEVEL SECURITY")
    assert engine.retrieval.answer_each(wanted, 5) == [None, None, None]


def test_a_caller_whose_rows_are_slow_is_left_out(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """Its statement is cancelled soon, so that it holds back the others' answers no longer."""
    admin.execute(
        "CREATE FUNCTION slow() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        " IF current_setting('app.user_id', true) = 'bob' THEN PERFORM pg_sleep(60); END IF; RETURN true; END $$;"
        "CREATE POLICY slow ON document_chunks AS RESTRICTIVE FOR SELECT TO PUBLIC USING (slow())"
    )
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY})
    engine.retrieval.top_k(job, JobContext(lambda: asker("alice")))  # checks the new policy, outside of the time limit
    started = time.monotonic()
    answers = engine.retrieval.answer_each([prepared(engine, name) for name in CALLERS], 0.2)
    assert [answer is None for answer in answers] == [False, True, False]
    assert time.monotonic() - started < 30  # it was cancelled, not waited for
