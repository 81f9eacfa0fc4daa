"""Results in a real Redis, as a reader finds them, and without a result backend."""

from __future__ import annotations

import json
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any

import kombu.serialization
import pytest
import redis
from celery.app.task import Context
from celery.backends.redis import RedisBackend
from celery.exceptions import Retry, TimeLimitExceeded

from retrieval_client.errors import DeadLettered, InternalError, InvalidJob, NotAuthorised, TimedOut, Unavailable
from worker.app import create_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celery import Celery

    from worker.cli.devstack.stack import Stack
    from worker.settings import Settings

CANARY = "canary-4711"
NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def make_app(make_settings: Callable[..., Settings], broker: redis.Redis) -> Iterator[Callable[..., Celery]]:
    """Makes a worker's app, without a worker."""
    del broker  # emptied
    made: list[Celery] = []

    def make(**changes: Any) -> Celery:
        made.append(create_app(make_settings(**changes)))
        return made[-1]

    yield make
    for app in made:
        app.close()
    kombu.serialization.register_json()


def stored(app: Celery, task_id: str) -> tuple[dict[str, Any], str]:
    text = app.backend.client.get(app.backend.get_key_for_task(task_id)).decode()
    return json.loads(text), text


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (InvalidJob("expected another", "k"), "InvalidJob"),
        (KeyError(CANARY), "InternalError"),
        (TimeLimitExceeded(CANARY), "TimedOut"),
        (Retry(CANARY), "Unavailable"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_callers_result_is_in_the_contracts_terms(
    make_app: Callable[..., Celery], error: Exception, reported: str
) -> None:
    """One of our own errors, whatever was raised; nothing of its words, and no trace."""
    app, task_id = make_app(), str(uuid.uuid4())
    app.backend.mark_as_failure(task_id, error, traceback=f"File {CANARY}, line 1")
    record, text = stored(app, task_id)
    assert (record["status"], record["result"]["exc_type"], record["traceback"]) == ("FAILURE", reported, None)
    assert CANARY not in text


@pytest.mark.parametrize("state", ["SUCCESS", "FAILURE", "REVOKED", "RETRY", "PROGRESS"])
@pytest.mark.parametrize("ids", [{}, {"group": "g", "parent_id": "p"}], ids=["alone", "of a group"])
def test_a_record_is_what_celery_would_store(make_app: Callable[..., Celery], state: str, ids: dict[str, str]) -> None:
    """The same fields in the same order; only a trace is left out."""
    app = make_app()
    request = Context(id="job", children=[app.AsyncResult("child")], **ids)
    ours = app.backend._get_result_meta("value", state, "File, line 1", request)
    theirs = RedisBackend._get_result_meta(app.backend, "value", state, None, request)
    for record in (ours, theirs):
        ended = record["date_done"]
        record["date_done"] = ended and datetime.fromisoformat(ended).utcoffset()
    assert [*ours.items()] == [*theirs.items()]


@pytest.fixture(params=["script", "no scripts"])
def backend_url(request: pytest.FixtureRequest, stack: Stack, broker: redis.Redis) -> Iterator[str]:
    """The results' Redis, for a user who may run scripts, and for one who may not."""
    url = stack.redis.url(0)
    if request.param == "script":
        yield url
        return
    broker.acl_setuser(
        "plain", enabled=True, passwords=["+word"], keys=["*"], channels=["*"], categories=["+@all", "-@scripting"]
    )
    yield f"redis://plain:word@127.0.0.1:{stack.redis.port}/0"
    broker.acl_deluser("plain")


def test_a_late_failure_changes_no_success(make_app: Callable[..., Celery], backend_url: str) -> None:
    """A message redelivered after its answer may be given up; the answer stands. So do those of many."""
    app, answered, waiting = make_app(result_backend=backend_url), str(uuid.uuid4()), str(uuid.uuid4())
    app.backend.store_result(answered, {"status": "ok"}, "SUCCESS")
    error = DeadLettered("delivered too often")
    app.backend.store_failures([(task_id, error) for task_id in (answered, waiting)])
    assert stored(app, answered)[0]["result"] == {"status": "ok"}
    assert stored(app, waiting)[0]["result"]["exc_type"] == "DeadLettered"


def test_outcomes_of_a_bundle_are_stored_as_if_each_were_alone(
    make_app: Callable[..., Celery], backend_url: str
) -> None:
    """Under its own id, and only where none stands; with scripts, and without."""
    app, ids = make_app(result_backend=backend_url), [str(uuid.uuid4()) for _ in range(4)]
    app.backend.store_result(ids[1], {"number": 7}, "SUCCESS")
    app.backend.collect()
    for number, task_id in enumerate(ids[:3]):
        app.backend.store_result(task_id, {"number": number}, "SUCCESS")
    app.backend.mark_as_failure(ids[3], InvalidJob("expected another", "k"))
    assert app.backend.client.exists(*map(app.backend.get_key_for_task, ids)) == 1
    assert app.backend.store_collected() == set()
    records = [stored(app, task_id)[0] for task_id in ids]
    assert [record["task_id"] for record in records] == ids
    assert [record["result"].get("number") for record in records] == [0, 7, 2, None]
    assert records[3]["result"]["exc_type"] == "InvalidJob"
    assert all(app.backend.client.ttl(app.backend.get_key_for_task(task_id)) > 0 for task_id in ids)


def test_outcomes_of_a_bundle_that_can_not_be_stored_are_named(make_app: Callable[..., Celery]) -> None:
    """So that each of its messages stays where it is; those after the first are not tried as often."""
    app = make_app(result_backend=NOWHERE)
    app.conf.result_backend_max_retries = 1
    app.backend.collect()
    for task_id in ("first", "second"):
        app.backend.store_result(task_id, {"status": "ok"}, "SUCCESS")
    assert app.backend.store_collected() == {"first", "second"}


def test_a_success_stands_and_is_told_once(
    make_app: Callable[..., Celery], backend_url: str, broker: redis.Redis
) -> None:
    """A success replaces any earlier state, and nothing replaces it; with scripts, and without."""
    app, task_id = make_app(result_backend=backend_url), str(uuid.uuid4())
    key = app.backend.get_key_for_task(task_id)
    with broker.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(key)
        app.backend.store_result(task_id, Retry("later"), "RETRY")
        app.backend.store_result(task_id, {"metadata": '{"status":"FAILURE"}'}, "SUCCESS")
        app.backend.store_result(task_id, {"second": True}, "SUCCESS")
        app.backend.mark_as_failure(task_id, InvalidJob("too late"))
        record, text = stored(app, task_id)
        broker.publish(key, "that is all")
        reported = list(iter(lambda: told_next(heard), "that is all"))
    assert (record["status"], record["result"]) == ("SUCCESS", {"metadata": '{"status":"FAILURE"}'})
    assert [json.loads(one)["status"] for one in reported] == ["RETRY", "SUCCESS"]
    assert reported[-1] == text
    assert 0 < broker.ttl(key) <= app.conf.result_expires


def test_a_refused_messages_failure_is_replaced_by_the_jobs_own_outcome(
    make_app: Callable[..., Celery], backend_url: str
) -> None:
    """Anybody may write a known id on a malformed message; the job of that id has the last word, once."""
    app, task_id = make_app(result_backend=backend_url), str(uuid.uuid4())
    refusal = InvalidJob("expected a string", "body")
    app.backend.answer([(task_id, refusal)])
    record, _ = stored(app, task_id)
    assert (record["status"], record["result"]["exc_type"]) == ("FAILURE", "InvalidJob")
    assert not app.backend.is_answered(task_id)
    app.backend.mark_as_failure(task_id, InvalidJob("expected an integer", "k"))
    for late in (refusal, DeadLettered("delivered too often")):
        app.backend.answer([(task_id, late)])
    app.backend.store_result(task_id, {"status": "ok"}, "SUCCESS")
    assert "expected an integer" in stored(app, task_id)[1]


@pytest.mark.parametrize("error", [TimedOut("too long"), InternalError("unforeseen")])
def test_a_failure_stands_too(make_app: Callable[..., Celery], backend_url: str, error: Exception) -> None:
    """A job whose time limit is stored late, while it ran again elsewhere, keeps the outcome that a client saw."""
    app, task_id = make_app(result_backend=backend_url), str(uuid.uuid4())
    app.backend.store_failures([(task_id, error)])
    app.backend.store_result(task_id, {"status": "ok"}, "SUCCESS")
    app.backend.store_failures([(task_id, DeadLettered("delivered too often"))])
    assert stored(app, task_id)[0]["result"]["exc_type"] == type(error).__name__


@pytest.mark.parametrize(
    "error", [Unavailable("Postgres is away"), DeadLettered("delivered too often"), NotAuthorised("expired")]
)
def test_what_may_be_sent_again_may_be_answered_later(
    make_app: Callable[..., Celery], backend_url: str, error: Exception
) -> None:
    """An operator sends a dead letter again, or a ledger a job whose token ended in the queue."""
    app, task_id = make_app(result_backend=backend_url), str(uuid.uuid4())
    app.backend.store_failures([(task_id, error)])
    app.backend.store_result(task_id, {"status": "ok"}, "SUCCESS")
    assert stored(app, task_id)[0]["result"] == {"status": "ok"}


def told_next(heard: redis.client.PubSub) -> str:
    """The next message of a subscription, waited for."""
    while (message := heard.get_message(timeout=180)) is None:
        pass
    return str(message["data"].decode())


def test_failures_that_can_not_be_stored_are_told(make_app: Callable[..., Celery]) -> None:
    """So that their messages stay where they are."""
    app = make_app(result_backend=NOWHERE)
    with pytest.raises(redis.ConnectionError):
        app.backend.store_failures([("job", DeadLettered("delivered too often"))])


def test_a_record_that_can_not_be_stored_is_no_success(make_app: Callable[..., Celery]) -> None:
    """After a bounded number of tries it is raised, so that the message stays where it is."""
    app = make_app(result_backend=NOWHERE)
    app.conf.result_backend_max_retries = 1
    with pytest.raises(redis.ConnectionError, match="the results' Redis is away"):
        app.backend.store_result(str(uuid.uuid4()), {"status": "ok"}, "SUCCESS")


def test_a_state_that_can_not_be_stored_is_let_go(make_app: Callable[..., Celery]) -> None:
    """How far a job is, is worth one try and no failure."""
    app = make_app(result_backend=NOWHERE)
    state = {"stage": "search"}
    assert app.backend.store_result(str(uuid.uuid4()), state, "PROGRESS") == state


@pytest.mark.parametrize(
    ("end", "answered"),
    [
        (lambda backend, task_id: backend.mark_as_failure(task_id, InvalidJob("wrong", "k")), True),
        (lambda backend, task_id: backend.mark_as_done(task_id, {"status": "ok"}), True),
        (lambda backend, task_id: backend.store_result(task_id, {"stage": "search"}, "PROGRESS"), False),
        (lambda _backend, _task_id: None, False),
    ],
    ids=["failed", "succeeded", "runs", "unknown"],
)
def test_a_job_is_answered_once_it_has_ended(make_app: Callable[..., Celery], end: Any, answered: bool) -> None:
    app, task_id = make_app(), str(uuid.uuid4())
    end(app.backend, task_id)
    assert app.backend.is_answered(task_id) is answered
