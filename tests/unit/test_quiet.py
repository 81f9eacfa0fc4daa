from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from celery import Celery
from celery.backends.base import DisabledBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from kombu.message import Message

from worker.contract import RetrieveTopK
from worker.quiet import QuietConsumer, QuietRequest, summarise

if TYPE_CHECKING:
    from collections.abc import Callable

CANARY = "canary-4711"
TASK_ID = "6f1c0a52-0000-4000-8000-000000000001"


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ([{"k": 12, "query_embedding": [0.1]}], "(k, query_embedding)"),
        (({"query_embedding": [0.1], "k": 12},), "(k, query_embedding)"),
        ([{"k": 12, CANARY: 1, "x": 2}], "(k, +2)"),
        ([{CANARY: 1}], "(+1)"),
        ([{}], "()"),
        ([], "(no job)"),
        ([CANARY], "(no job)"),
        ([[CANARY]], "(no job)"),
        (None, "(no job)"),
        (CANARY, "(no job)"),
        ({CANARY: 1}, "(no job)"),
        (5, "(no job)"),
    ],
    ids=repr,
)
def test_arguments_are_shown_as_the_names_of_known_fields(args: Any, shown: str) -> None:
    """Names that the contract knows, sorted; of all others only how many there are."""
    assert summarise(args) == shown


texts = st.text(st.characters(), max_size=5).map(lambda text: CANARY + text)
values = st.recursive(
    texts | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8
)


@settings(max_examples=30)
@given(st.lists(st.dictionaries(texts | st.sampled_from([*RetrieveTopK.model_fields]), values) | values, max_size=3))
def test_a_summary_never_shows_a_value(args: list[Any]) -> None:
    """Whatever the arguments are, nothing a job says is in their summary."""
    assert CANARY not in summarise(args)
    assert len(summarise(args)) < 200


# --- requests ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app() -> Celery:
    """An app with one task, and no broker."""
    app = Celery(broker="memory://", set_as_current=False)
    app.loader.override_backends = {"told": f"{__name__}:Told"}
    app.conf.result_backend = "told"

    def retrieve_top_k(job: Any) -> Any:
        return job

    app.task(retrieve_top_k, name="retrieve_top_k", shared=False)
    return app


def delivered(app: Celery, **headers: Any) -> QuietRequest:
    body = json.dumps([[{"query_embedding": CANARY, "k": 12, CANARY: CANARY}], {}, {}])
    message = Message(
        body=body,
        content_type="application/json",
        content_encoding="utf-8",
        headers={"id": TASK_ID, "task": "retrieve_top_k", "argsrepr": CANARY, "kwargsrepr": CANARY, **headers},
        properties={"delivery_info": {}},
    )
    return QuietRequest(message, app=app, task=app.tasks["retrieve_top_k"], hostname="here")


def test_a_request_makes_its_own_argsrepr(app: Celery) -> None:
    """Whatever a producer sent for display, the worker shows field names."""
    request = delivered(app)
    assert (request.argsrepr, request.kwargsrepr) == ("(k, query_embedding, +1)", "{}")
    assert request.request_dict["argsrepr"] == "(k, query_embedding, +1)"
    assert request.request_dict["kwargsrepr"] == "{}"


@pytest.mark.parametrize("safe", [True, False])
def test_inspect_shows_no_argument(app: Celery, safe: bool) -> None:
    """`inspect active` and its like get field names even where they ask for arguments."""
    request = delivered(app)
    assert CANARY not in json.dumps(request.info(safe=safe))
    assert request.info(safe=safe)["args"] == "(k, query_embedding, +1)"


def test_a_request_is_logged_under_its_task_s_own_name(app: Celery) -> None:
    """A shadow name is a producer's free text, and is not shown."""
    request = delivered(app, shadow=CANARY)
    assert request.name == "retrieve_top_k"
    assert CANARY not in f"{request} {request!r}"
    assert request.request_dict["shadow"] is None


def test_a_sender_s_time_limits_do_not_act(app: Celery) -> None:
    """They are refused by the task; until then no process is ended by them."""
    assert delivered(app, timelimit=[1, 1]).time_limits == (None, None)


def test_the_job_itself_is_untouched(app: Celery) -> None:
    """Only what is shown changes; the task gets what was sent."""
    (job,) = delivered(app).args
    assert job == {"query_embedding": CANARY, "k": 12, CANARY: CANARY}


# --- refused messages -------------------------------------------------------------------------------


@dataclass
class Delivery:
    """A message at the transport's seam: what the consumer is handed, and what it did with it."""

    body: Any
    headers: Any
    done: list[str] = field(default_factory=list)

    def reject_log_error(self, logger: Any, errors: Any) -> None:
        del logger, errors
        self.done.append("reject")


class Told(DisabledBackend):
    """Stands at the results' seam: whatever is owed is stored at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.owed: list[str] = []

    def owe(self, task_id: str, error: Exception, stored: Callable[[], object]) -> None:
        del error
        self.owed.append(task_id)
        stored()


@pytest.fixture
def consumer(app: Celery) -> QuietConsumer:
    """A consumer without a connection, and without a loop."""
    consumer = QuietConsumer.__new__(QuietConsumer)
    consumer.app = app
    consumer.hub = None
    consumer.connection_errors = ()
    return consumer


ERROR = ValueError(f"can't decode {CANARY}")
REFUSALS = {
    "undecodable": lambda consumer, message: consumer.on_decode_error(message, ERROR),
    "not a task message": lambda consumer, message: consumer.on_unknown_message(message.body, message),
    "unknown task": lambda consumer, message: consumer.on_unknown_task(message.body, message, ERROR),
    "invalid envelope": lambda consumer, message: consumer.on_invalid_task(message.body, message, ERROR),
}


@pytest.mark.parametrize("reason", REFUSALS)
@pytest.mark.parametrize(
    ("headers", "task_id"),
    [
        ({"id": TASK_ID, "task": CANARY, "argsrepr": CANARY}, TASK_ID),
        ({"id": f"{CANARY} and a sentence"}, ""),
        ({"id": CANARY * 10}, ""),
        ({"id": [CANARY]}, ""),
        ({}, ""),
        (CANARY, ""),
        (None, ""),
    ],
    ids=["good id", "text as id", "long id", "list as id", "no id", "no headers", "null"],
)
def test_a_refused_message_is_named_and_not_shown(
    consumer: QuietConsumer, caplog: pytest.LogCaptureFixture, reason: str, headers: Any, task_id: str
) -> None:
    """The log says which message and what is wrong with it, and nothing of what it holds."""
    message = Delivery(CANARY, headers)
    with caplog.at_level(logging.INFO):
        REFUSALS[reason](consumer, message)
    (record,) = caplog.records
    assert record.getMessage() == f"message refused: {reason}"
    assert (record.task_id, record.bytes) == (task_id, len(CANARY))  # type: ignore[attr-defined] # from `extra`
    assert CANARY not in str(record.__dict__)
    assert len(message.done) == 1
    told, consumer.app.backend.owed = consumer.app.backend.owed, []
    assert told == ([task_id] if task_id and reason in {"unknown task", "invalid envelope"} else [])


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_message_without_a_body_is_counted_as_empty(
    consumer: QuietConsumer, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    """No body at all is nothing to fail over."""
    with caplog.at_level(logging.INFO):
        REFUSALS[reason](consumer, Delivery(None, {}))
    assert [record.bytes for record in caplog.records] == [0]  # type: ignore[attr-defined] # from `extra`
