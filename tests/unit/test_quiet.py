from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from billiard.einfo import ExceptionInfo
from billiard.pool import MaybeEncodingError
from celery import Celery
from celery.backends.base import DisabledBackend
from celery.exceptions import BackendError, TaskRevokedError, Terminated, TimeLimitExceeded, WorkerLostError
from celery.utils.functional import noop
from celery.worker import state
from hypothesis import given, settings
from hypothesis import strategies as st
from kombu.asynchronous import set_event_loop
from kombu.message import Message

from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import DeadLettered
from worker.queue.request import QuietConsumer, QuietRequest
from worker.queue.summaries import summarise

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
    """A summary of any arguments holds none of the job's values."""
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


def delivered(app: Celery, on_ack: Any = noop, on_reject: Any = noop, **headers: Any) -> QuietRequest:
    body = json.dumps([[{"query_embedding": CANARY, "k": 12, CANARY: CANARY}], {}, {}])
    message = Message(
        body=body,
        content_type="application/json",
        content_encoding="utf-8",
        headers={"id": TASK_ID, "task": "retrieve_top_k", "argsrepr": CANARY, "kwargsrepr": CANARY, **headers},
        properties={"delivery_info": {}},
    )
    return QuietRequest(
        message, app=app, task=app.tasks["retrieve_top_k"], hostname="here", on_ack=on_ack, on_reject=on_reject
    )


def test_a_request_makes_its_own_argsrepr(app: Celery) -> None:
    """The worker shows field names, and not what a producer sent for display."""
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


# --- outcomes that the main process tells ------------------------------------------------------------


def failed(error: BaseException) -> ExceptionInfo:
    """As a pool process hands it over."""

    def fail() -> None:
        raise error

    try:
        fail()
    except BaseException:  # noqa: BLE001 -- to look at it
        return ExceptionInfo()


ENDS: dict[str, tuple[Callable[[QuietRequest], Any], type[Exception]]] = {
    "hard time limit": (lambda request: request.on_timeout(soft=False, timeout=9.0), TimeLimitExceeded),
    "revoked": (lambda request: request._announce_revoked("revoked", False, None, False), TaskRevokedError),
    "expired": (lambda request: request._announce_revoked("expired", False, None, True), DeadLettered),
    "out of memory": (lambda request: request.on_failure(failed(MemoryError())), MemoryError),
    "not to be encoded": (lambda request: request.on_failure(failed(MaybeEncodingError("a", "b"))), MaybeEncodingError),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_fails_outside_the_job_is_told_before_it_is_acknowledged(app: Celery, end: str) -> None:
    """Failures that only the main process can report are stored first, then acknowledged, once."""
    done: list[str] = []
    request = delivered(app, on_ack=lambda *_: done.append("acknowledged"))
    request.message.channel = SimpleNamespace(qos=None)
    set_event_loop(None)
    act, kind = ENDS[end]
    act(request)
    assert done == []
    assert [(reported, type(error)) for reported, error in app.backend.store()] == [(TASK_ID, kind)]
    assert done == ["acknowledged"]


@pytest.mark.parametrize(
    "end", [WorkerLostError("lost"), SystemExit(1), Terminated(9), BackendError("away"), TimeLimitExceeded(9)], ids=repr
)
def test_what_did_not_end_is_not_acknowledged(app: Celery, end: BaseException) -> None:
    """Its process is gone, or could store nothing: the message is requeued, or waits for the next step."""
    done: list[str] = []
    request = delivered(
        app, on_ack=lambda *_: done.append("acknowledged"), on_reject=lambda *more: done.append(f"requeued: {more[-1]}")
    )
    request.message.channel = SimpleNamespace(qos=None)
    request.on_failure(failed(end))
    assert done == ([] if isinstance(end, TimeLimitExceeded) else ["requeued: True"])
    assert app.backend.store() == []


@pytest.mark.parametrize(
    ("end", "should_stop", "blamed"),
    [
        (WorkerLostError("lost"), None, [("blame", "tag")]),
        (SystemExit(1), None, [("blame", "tag")]),
        (WorkerLostError("lost"), 0, []),
        (Terminated(9), None, []),
        (BackendError("away"), None, []),
    ],
    ids=["died", "exits", "died as the worker ends", "ended for another job", "no result stored"],
)
def test_only_who_killed_its_process_unasked_is_blamed(
    app: Celery, monkeypatch: pytest.MonkeyPatch, end: BaseException, should_stop: int | None, blamed: list[Any]
) -> None:
    """The transport counts a delivery that is blamed, and no other."""
    said: list[Any] = []
    request = delivered(app)
    request.message.channel = SimpleNamespace(qos=SimpleNamespace(blame=lambda tag: said.append(("blame", tag))))
    request.message.delivery_tag = "tag"
    monkeypatch.setattr(state, "should_stop", should_stop)
    request.on_failure(failed(end))
    assert said == blamed


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
    """Stands at the results' seam: what is owed is stored when the test says so."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.owed: list[tuple[str, Exception, Callable[[], object]]] = []

    def store_later(self, task_id: str, error: Exception, stored: Callable[[], object]) -> None:
        self.owed.append((task_id, error, stored))

    def store(self) -> list[tuple[str, Exception]]:
        """Store all that is owed; of whom, and what."""
        owed, self.owed = self.owed, []
        for _, _, stored in owed:
            stored()
        return [(task_id, error) for task_id, error, _ in owed]


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
    is_told = bool(task_id) and reason in {"unknown task", "invalid envelope"}
    assert message.done == ([] if is_told else ["reject"])
    assert [reported for reported, _ in consumer.app.backend.store()] == ([task_id] if is_told else [])
    assert message.done == ["reject"]


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refused_message_without_a_body_is_counted_as_empty(
    consumer: QuietConsumer, caplog: pytest.LogCaptureFixture, reason: str
) -> None:
    """No body at all is nothing to fail over."""
    with caplog.at_level(logging.INFO):
        REFUSALS[reason](consumer, Delivery(None, {}))
    assert [record.bytes for record in caplog.records] == [0]  # type: ignore[attr-defined] # from `extra`
