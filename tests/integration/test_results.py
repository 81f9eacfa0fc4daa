"""Records of jobs in a real Redis, as a reader finds them."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
import redis
from celery import Celery
from celery.app.task import Context

from retrieval_client.errors import DeadLettered, InternalError, InvalidJob, NotAuthorised, TimedOut, Unavailable
from worker.queue import codec, records
from worker.queue.broker import keys
from worker.queue.broker.inspection import OUTAGE_HEADER
from worker.queue.outcome import Outcome
from worker.queue.records import RecordStore, compose, record_key

from .claims import QUEUE, Worker, envelope, places

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retrieval_client.errors import RetrievalError
    from workbench.devstack.stack import Stack
    from worker.queue.broker.inspection import DeliveredJob
    from worker.queue.records import Record

ANSWER = {"status": "ok"}
NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def records_of(stack: Stack, broker: redis.Redis) -> Iterator[RecordStore]:
    """The results' Redis."""
    del broker  # emptied
    with redis.Redis.from_url(stack.redis.url(0, "worker")) as client:
        yield RecordStore(client, 60, is_on_broker=True)


def ended(task_id: str, result: Any) -> Record:
    """The record of a job that ended, with its answer or its error."""
    return compose(task_id, "FAILURE" if isinstance(result, Exception) else "SUCCESS", result)


def stored(broker: redis.Redis, task_id: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(broker.get(record_key(task_id)) or b"{}")  # type: ignore[arg-type] # bytes
    return record


@pytest.mark.parametrize("state", ["SUCCESS", "FAILURE", "REVOKED", "RETRY", "PROGRESS"])
@pytest.mark.parametrize("ids", [{}, {"group": "g", "parent_id": "p"}], ids=["alone", "of a group"])
def test_a_record_is_what_celery_would_store(state: str, ids: dict[str, str]) -> None:
    """The same fields in the same order; only a trace is left out."""
    app = Celery(set_as_current=False, backend=NOWHERE)
    meta = app.backend._get_result_meta("value", state, None, Context(id="job", children=[], **ids))
    theirs = json.loads(codec.dumps({**meta, "task_id": "job"}))
    ours = json.loads(compose("job", state, "value", ids).value)
    for record in (ours, theirs):
        date = record["date_done"]
        record["date_done"] = date and datetime.fromisoformat(date).utcoffset()
    assert [*ours.items()] == [*theirs.items()]


def test_a_late_failure_changes_no_success(records_of: RecordStore, broker: redis.Redis) -> None:
    """A message redelivered after its answer may be dead-lettered; the answer stands, and others' are stored."""
    ids = [str(uuid.uuid4()) for _ in range(3)]
    records_of.put([ended(ids[1], ANSWER)])
    refusals = [records.refusal(task_id, DeadLettered("delivered too often")) for task_id in ids]
    assert [records_of.put(refusals) for _ in range(2)] == [{ids[1]}] * 2
    assert [stored(broker, task_id)["status"] for task_id in ids] == ["FAILURE", "SUCCESS", "FAILURE"]
    assert stored(broker, ids[1])["result"] == ANSWER


def test_a_success_stands_and_is_published_once(records_of: RecordStore, broker: redis.Redis) -> None:
    """A success replaces any earlier state, and nothing replaces it."""
    key = record_key("job")
    with broker.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(key)
        records_of.put([compose("job", "RETRY", Unavailable("later"))])
        for result in ({"metadata": '{"status":"FAILURE"}'}, {"second": True}, InvalidJob("too late")):
            records_of.put([ended("job", result)])
        broker.publish(key, "that is all")
        published = list(iter(lambda: next_published(heard), "that is all"))
    assert [json.loads(text)["status"] for text in published] == ["RETRY", "SUCCESS"]
    assert json.loads(published[-1]) == stored(broker, "job")
    assert stored(broker, "job")["result"] == {"metadata": '{"status":"FAILURE"}'}
    assert 0 < broker.ttl(key) <= 60


def next_published(heard: redis.client.PubSub) -> str:
    """The next message of a subscription, waited for."""
    while (message := heard.get_message(timeout=180)) is None:
        pass
    return str(message["data"].decode())


def test_a_refused_messages_failure_is_replaced_by_the_jobs_own_outcome(
    records_of: RecordStore, broker: redis.Redis
) -> None:
    """Anybody may write a known id on a malformed message; the job of that id has the last word, once."""
    refusal = records.refusal("job", InvalidJob("expected a string", "body"))
    assert records_of.put([refusal]) == set()
    record = stored(broker, "job")
    assert (record["status"], record["result"]["exc_type"]) == ("FAILURE", "InvalidJob")
    records_of.put([ended("job", InvalidJob("expected an integer", "k"))])
    for late in (refusal, records.refusal("job", DeadLettered("delivered too often")), ended("job", ANSWER)):
        records_of.put([late])
    assert "expected an integer" in str(stored(broker, "job"))


@pytest.mark.parametrize("error", [TimedOut("too long"), InternalError("unforeseen")])
def test_a_failure_stands_too(records_of: RecordStore, broker: redis.Redis, error: RetrievalError) -> None:
    """A job whose time limit is stored late, while it ran again elsewhere, keeps the outcome that a client saw."""
    for result in (error, ANSWER, DeadLettered("delivered too often")):
        records_of.put([ended("job", result)])
    assert stored(broker, "job")["result"]["exc_type"] == type(error).__name__


def test_a_revocation_stands_too(records_of: RecordStore, broker: redis.Redis) -> None:
    """A worker that was not told may run the job still: an operator and a client saw that it does not count."""
    records_of.put([compose("job", "REVOKED", records.REVOKED)])
    assert records_of.put([ended("job", ANSWER)]) == {"job"}
    assert stored(broker, "job")["status"] == "REVOKED"


@pytest.mark.parametrize(
    "error", [Unavailable("Postgres is away"), DeadLettered("delivered too often"), NotAuthorised("expired")]
)
def test_what_may_be_sent_again_may_be_answered_later(
    records_of: RecordStore, broker: redis.Redis, error: RetrievalError
) -> None:
    """An operator sends a dead letter again, or a ledger a job whose token ended in the queue."""
    for result in (error, ANSWER):
        records_of.put([ended("job", result)])
    assert stored(broker, "job")["result"] == ANSWER


def test_a_record_that_can_not_be_stored_is_no_success() -> None:
    """So that its message stays where it is."""
    with redis.Redis.from_url(NOWHERE) as nowhere, pytest.raises(redis.ConnectionError):
        RecordStore(nowhere, 60, is_on_broker=True).put([ended("job", ANSWER)])


class Reporting(Worker):
    """A process whose jobs report how far they are."""

    def _find(self, job: DeliveredJob, *parts: Any) -> Outcome:
        parts[-1]("search", 1, 9)
        return super()._find(job)


def test_a_state_that_can_not_be_stored_is_let_go(url: str, broker: redis.Redis) -> None:
    """How far a job is, and that it will be retried, is worth one try: it runs once, and is delayed."""
    broker.lpush(QUEUE, envelope("job"))
    with Reporting(url, urls={"records": NOWHERE}) as worker:
        worker.answer = lambda _: Outcome("RETRY", Unavailable("Postgres is away"), 300.0)
        worker.run(lambda: places(broker) == {"delayed": 1})
        assert worker.ids == ["job"]
    (raw,) = broker.hvals(keys.delayed_messages(QUEUE))
    headers = json.loads(raw)["headers"]
    assert (headers["retries"], headers[OUTAGE_HEADER]) == (1, 300.0)
