"""Results in a real Redis, as whoever reads them finds them; and where there is none."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import kombu.serialization
import pytest
import redis
from celery.exceptions import Retry, TimeLimitExceeded

from worker.app import create_app
from worker.errors import DeadLettered, InvalidJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from celery import Celery

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
    ("error", "told"),
    [
        (InvalidJob("expected another", "k"), "InvalidJob"),
        (KeyError(CANARY), "InternalError"),
        (TimeLimitExceeded(CANARY), "TimedOut"),
        (Retry(CANARY), "Unavailable"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_callers_result_is_in_the_contracts_terms(
    make_app: Callable[..., Celery], error: Exception, told: str
) -> None:
    """One of our own errors, whatever was raised; nothing of its words, and no trace."""
    app, task_id = make_app(), str(uuid.uuid4())
    app.backend.mark_as_failure(task_id, error, traceback=f"File {CANARY}, line 1")
    record, text = stored(app, task_id)
    assert (record["status"], record["result"]["exc_type"], record["traceback"]) == ("FAILURE", told, None)
    assert CANARY not in text


def test_a_late_failure_changes_no_success(make_app: Callable[..., Celery]) -> None:
    """A message that comes again after its answer may be given up; whoever asked keeps the answer."""
    app, answered, waiting = make_app(), str(uuid.uuid4()), str(uuid.uuid4())
    app.backend.store_result(answered, {"status": "ok"}, "SUCCESS")
    for task_id in (answered, waiting):
        app.backend.store_failure(task_id, DeadLettered("delivered too often"))
    assert stored(app, answered)[0]["result"] == {"status": "ok"}
    assert stored(app, waiting)[0]["result"]["exc_type"] == "DeadLettered"


def test_a_record_that_can_not_be_stored_is_no_success(make_app: Callable[..., Celery]) -> None:
    """After a bounded number of tries it is raised, so that the message stays where it is."""
    app = make_app(result_backend=NOWHERE)
    app.conf.result_backend_max_retries = 1
    with pytest.raises(redis.ConnectionError, match="the results' Redis is away"):
        app.backend.store_result(str(uuid.uuid4()), {"status": "ok"}, "SUCCESS")


def test_a_state_that_can_not_be_stored_is_let_go(make_app: Callable[..., Celery]) -> None:
    """How far a job is, is worth one try and no failure."""
    app = make_app(result_backend=NOWHERE)
    app.backend.store_result(str(uuid.uuid4()), {"stage": "search"}, "PROGRESS")
