"""Checks of a message before its delivery."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.queue.broker.dead_letters import compose
from worker.queue.broker.inspection import (
    OUTAGE_HEADER,
    DelayedMessage,
    DeliveredJob,
    Refusal,
    Rules,
    arguments,
    inspect,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RULES = Rules(tasks=("retrieve_top_k",))
CANARY = "canary-4711"
BODY = json.dumps([[{"k": 12}], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])


def envelope(headers: Any = None, **changes: Any) -> bytes:
    """A good message with changes; `...` takes a field out."""
    named = {"id": "a-1", "task": "retrieve_top_k", **(headers or {})}
    whole = {
        "body": BODY,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {name: value for name, value in named.items() if value is not ...},
        "properties": {"delivery_tag": "1"},
        **changes,
    }
    return json.dumps({name: value for name, value in whole.items() if value is not ...}).encode()


def encoded(body: bytes) -> bytes:
    return envelope(body=base64.b64encode(body).decode(), properties={"body_encoding": "base64"})


GOOD = {
    "as kombu sends it": encoded(BODY.encode()),
    "plain body": envelope(),
    "no properties": envelope(properties=...),
    "null properties": envelope(properties=None),
    "no priority": envelope(properties={"priority": 0}),
    "null priority": envelope(properties={"priority": None}),
    "no content encoding": envelope(**{"content-encoding": ...}),
    "base64 in lines": envelope(
        body=base64.encodebytes(BODY.encode()).decode(), properties={"body_encoding": "base64"}
    ),
    "time limits of Celery's own": envelope({"timelimit": [None, None]}),
    "expires later": envelope({"expires": (NOW + timedelta(seconds=1)).isoformat()}),
    "due": envelope({"eta": (NOW - timedelta(days=1)).isoformat()}),
    "more than is known": envelope({"traceparent": CANARY, "callbacks": [CANARY]}, other=1),
    "no embed": envelope(body=json.dumps([[{}], {}, None])),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_producers_send_is_delivered(name: str) -> None:
    """Any form that Celery's producers and backends without Celery use."""
    found = inspect(GOOD[name], RULES, NOW)
    assert isinstance(found, DeliveredJob), found
    assert found.id == "a-1"
    assert found.args in ([{"k": 12}], [{}])


DEEP = b"[" * 100_000
MALFORMED: dict[str, tuple[bytes, str, str | None]] = {
    "empty": (b"", "not JSON", None),
    "text": (CANARY.encode(), "not JSON", None),
    "no UTF-8": (b'{"headers": "\xff\xfe"}', "not JSON", None),
    "cut": (envelope()[:-40], "not JSON", "a-1"),
    "deep": (DEEP, "not JSON", None),
    "deep headers": (b'{"headers": {"id": ' + DEEP, "not JSON", None),
    "a list": (b"[]", "task message", None),
    "a number": (b"47114711", "task message", None),
    "null": (b"null", "task message", None),
    "a string": (json.dumps(CANARY).encode(), "task message", None),
    "no headers": (envelope()[:0] + json.dumps({"body": BODY}).encode(), "task message", None),
    "headers a list": (envelope()[:0] + json.dumps({"headers": [CANARY]}).encode(), "task message", None),
    "no id": (envelope({"id": ...}), "headers.id", None),
    "id a number": (envelope({"id": 5}), "headers.id", None),
    "id empty": (envelope({"id": ""}), "headers.id", None),
    "id too long": (envelope({"id": "x" * 513}), "headers.id", None),
    "id with a surrogate": (envelope({"id": "\ud800"}), "headers.id", None),
    "id with a line": (envelope({"id": "a\nb"}), "headers.id", None),
    "no body": (envelope(body=...), "body", "a-1"),
    "body an object": (envelope(body={CANARY: 1}), "body", "a-1"),
    "properties a list": (envelope(properties=[CANARY]), "properties", "a-1"),
    "bad base64": (envelope(body="a?b", properties={"body_encoding": "base64"}), "base64", "a-1"),
    "cut base64": (envelope(body="abcde", properties={"body_encoding": "base64"}), "base64", "a-1"),
    "base64 with umlauts": (envelope(body="ä", properties={"body_encoding": "base64"}), "base64", "a-1"),
    "unknown encoding": (envelope(properties={"body_encoding": CANARY}), "body_encoding", "a-1"),
    "a priority": (envelope(properties={"priority": 5}), "properties.priority", "a-1"),
    "a priority of text": (envelope(properties={"priority": CANARY}), "properties.priority", "a-1"),
    "encoding a list": (envelope(properties={"body_encoding": [1]}), "body_encoding", "a-1"),
    "pickle": (envelope(**{"content-type": "application/x-python-serialize"}), "content-type", "a-1"),
    "no content type": (envelope(**{"content-type": ...}), "content-type", "a-1"),
    "UTF-16": (envelope(**{"content-encoding": "utf-16"}), "content-encoding", "a-1"),
    "body no JSON": (envelope(body="[" + CANARY), "malformed", "a-1"),
    "body an object in text": (envelope(body='{"a": 1}'), "decoded", "a-1"),
    "body no UTF-8": (encoded(b"[[\xff"), "invalid UTF-8", "a-1"),
    "body deep": (envelope(body=DEEP.decode()), "nested too deeply", "a-1"),
    "body digits": (envelope(body=f"[[{'9' * 900_000}], {{}}, {{}}]"), "too many digits", "a-1"),
    "body a surrogate": (envelope(body="\ud800"), "decoded", "a-1"),
    "two parts": (envelope(body="[[], {}]"), "[[job], {}, {}]", "a-1"),
    "keyword self": (envelope(body='[[], {"self": 1}, {}]'), "positional", "a-1"),
    "time limits": (envelope({"timelimit": [1, 1]}), "timelimit", "a-1"),
    "time limits as text": (envelope({"timelimit": CANARY}), "timelimit", "a-1"),
    "compressed": (envelope({"compression": "application/x-gzip"}), "compression", "a-1"),
    "root id a list": (envelope({"root_id": [CANARY]}), "headers.root_id", "a-1"),
    "group a number": (envelope({"group": 5}), "headers.group", "a-1"),
    "retries as text": (envelope({"retries": CANARY}), "headers.retries", "a-1"),
    "retries below zero": (envelope({"retries": -1}), "headers.retries", "a-1"),
    "retries true": (envelope({"retries": True}), "headers.retries", "a-1"),
    "an outage below zero": (envelope({"outage_seconds": -1}), "headers.outage_seconds", "a-1"),
    "an outage without an end": (envelope({"outage_seconds": float("inf")}), "headers.outage_seconds", "a-1"),
    "an outage that is no number": (envelope({"outage_seconds": float("nan")}), "headers.outage_seconds", "a-1"),
    "an outage as text": (envelope({"outage_seconds": CANARY}), "headers.outage_seconds", "a-1"),
    "retries huge": (envelope({"retries": 10**40}), "headers.retries", "a-1"),
    "ignore result as text": (envelope({"ignore_result": "no"}), "headers.ignore_result", "a-1"),
    "expires as text": (envelope({"expires": CANARY}), "headers.expires", "a-1"),
    "expires a number": (envelope({"expires": 5}), "headers.expires", "a-1"),
    "expires at the end of time": (envelope({"expires": "9999-12-31T23:59:59-12:00"}), "headers.expires", "a-1"),
    "eta a list": (envelope({"eta": [CANARY]}), "headers.eta", "a-1"),
    "a callback": (envelope(body=json.dumps([[{}], {}, {"callbacks": [{"task": CANARY}]}])), "callbacks", "a-1"),
    "an errback": (envelope(body=json.dumps([[{}], {}, {"errbacks": [{"task": CANARY}]}])), "errbacks", "a-1"),
    "a chain": (envelope(body=json.dumps([[{}], {}, {"chain": [{"task": CANARY}]}])), "chain", "a-1"),
    "a chord": (envelope(body=json.dumps([[{}], {}, {"chord": {"task": CANARY}}])), "chord", "a-1"),
    "callbacks as text": (envelope(body=json.dumps([[{}], {}, {"callbacks": CANARY}])), "signatures", "a-1"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_task_message_is_refused_with_its_reason(name: str) -> None:
    """One sentence on what was expected, under the sender's id if one can be read, and nothing of the message."""
    raw, said, task_id = MALFORMED[name]
    found = inspect(raw, RULES, NOW)
    assert isinstance(found, Refusal)
    assert (found.reason, type(found.error).__name__, found.id) == ("malformed", "InvalidJob", task_id)
    assert said in found.error.message
    assert CANARY not in found.error.message


def test_a_long_message_is_not_parsed() -> None:
    """Its sender gets a failure all the same, if its id stands plainly at the start or the end."""
    raw = envelope(body="[" * 100_000)
    found = inspect(raw, Rules(max_bytes=65_536), NOW)
    assert isinstance(found, Refusal)
    assert (found.reason, found.id) == ("malformed", "a-1")
    assert "at most 65536 bytes" in found.error.message


@pytest.mark.parametrize("wrap", [lambda body: envelope(body=body), lambda body: encoded(body.encode())])
def test_a_message_of_many_values_is_not_parsed(wrap: Any) -> None:
    """Small values take far more memory than they are long, wherever they stand."""
    found = inspect(wrap("[[" + "[]," * 6_000 + "[]], {}, {}]"), Rules(max_values=10_000), NOW)
    assert isinstance(found, Refusal)
    assert (found.reason, found.id) == ("malformed", "a-1")
    assert "at most 10000 values" in found.error.message


def test_an_id_inside_a_body_is_not_the_message_s() -> None:
    """A body is JSON in a string: what looks like an id there is quoted twice."""
    raw = json.dumps({"body": json.dumps([[{"id": "other"}]])}).encode()
    found = inspect(raw[:-5], RULES, NOW)
    assert isinstance(found, Refusal)
    assert found.id is None


@pytest.mark.parametrize("task", ["celery.chord_unlock", CANARY, "", 5, None, ...])
def test_only_tasks_on_the_list_are_delivered(task: Any) -> None:
    """An unknown task is answered with a failure, and not dropped."""
    found = inspect(envelope({"task": task}), RULES, NOW)
    assert isinstance(found, Refusal)
    assert (found.reason, type(found.error).__name__, found.id) == ("unknown_task", "DeadLettered", "a-1")
    assert CANARY not in found.error.message


@pytest.mark.parametrize(
    ("task", "shown"),
    [
        ("retrieve_topk", "retrieve_topk"),
        ("a\n\x1b[2J\u202e", r"a\n\x1b[2J\u202e"),
        ("n" * 65, "n" * 64 + "..."),
        ("eyJhbGciOi.eyJzdWIi.sig", "(not shown)"),
        (None, "(no name)"),
    ],
)
def test_the_name_of_an_unknown_task_is_told_to_the_operator(task: Any, shown: str) -> None:
    """A slip in a name is seen in the dead letter; a stranger's bytes are cut and escaped, and a token never shown."""
    found = inspect(envelope({"task": task}), RULES, NOW)
    assert isinstance(found, Refusal)
    assert found.task == shown
    assert compose(b"{}", found, RULES, NOW)["task"] == shown


@pytest.mark.parametrize("expires", ["2026-11-21T12:00:00+00:00", "2026-11-21T11:59:59Z", "2026-11-21T12:59:59+01:00"])
def test_what_expired_is_not_delivered(expires: str) -> None:
    """By the clock that is given, in any time zone."""
    found = inspect(envelope({"expires": expires}), RULES, NOW)
    assert isinstance(found, Refusal)
    assert (found.reason, type(found.error).__name__, found.id) == ("expired", "DeadLettered", "a-1")


@pytest.mark.parametrize("seconds", [1, 10**9])
def test_what_runs_later_is_not_looked_into(seconds: int) -> None:
    """However much later; what becomes of its body is said when its time has come."""
    due = NOW + timedelta(seconds=seconds)
    assert inspect(envelope({"eta": due.isoformat()}, body=5), RULES, NOW) == DelayedMessage(due.timestamp())


@pytest.mark.parametrize("seconds", [5, 10])
def test_what_expires_before_it_may_run_has_expired(seconds: int) -> None:
    """Its sender need not wait for that."""
    headers = {
        "expires": (NOW + timedelta(seconds=5)).isoformat(),
        "eta": (NOW + timedelta(seconds=seconds)).isoformat(),
    }
    found = inspect(envelope(headers), RULES, NOW)
    assert isinstance(found, Refusal)
    assert found.reason == "expired"


def test_what_expires_before_its_next_try_says_that_it_was_tried() -> None:
    """Its sender learns of the outage, not of a job that no worker ran."""
    later = (NOW + timedelta(seconds=5)).isoformat()
    found = inspect(envelope({"expires": later, "eta": later, OUTAGE_HEADER: 4.5}), RULES, NOW)
    assert isinstance(found, Refusal)
    assert "was away or behind, and the job expired before its next try" in found.error.message


def test_headers_that_celery_does_not_need_are_left_out() -> None:
    """A header could otherwise name callbacks, which the body may not."""
    found = inspect(envelope({"callbacks": [{"task": "x"}], "stamped_headers": 5, "shadow": CANARY}), RULES, NOW)
    assert isinstance(found, DeliveredJob)
    assert not {"callbacks", "stamped_headers", "shadow"} & found.headers.keys()
    assert CANARY not in str(found.headers)


def test_further_tasks_may_be_named_where_settings_allow_it() -> None:
    """Links and chains are Celery's own, and a setting's decision."""
    raw = envelope(body=json.dumps([[{}], {}, {"callbacks": [{"task": "retrieve_top_k"}]}]))
    assert isinstance(inspect(raw, Rules(callbacks=True), NOW), DeliveredJob)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
names = st.sampled_from(["body", "content-type", "content-encoding", "properties", "other"])
header_names = st.sampled_from(
    ["id", "task", "expires", "eta", "timelimit", "retries", "root_id", "group", "ignore_result", "compression"]
)


@settings(max_examples=300)
@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_whatever_bytes_there_are_they_are_refused(raw: bytes) -> None:
    """Nothing raises."""
    assert isinstance(inspect(raw, RULES, NOW), Refusal)
    arguments(raw)


@settings(max_examples=300)
@given(st.dictionaries(names, json_values, max_size=2), st.dictionaries(header_names, json_values, max_size=2))
def test_whatever_a_message_holds_it_is_delivered_or_refused(changes: Any, headers: Any) -> None:
    """Nothing raises, and a delivery can be used: its parts have the types that Celery expects."""
    found = inspect(envelope(headers, **changes), RULES, NOW)
    if isinstance(found, DeliveredJob):
        assert (found.retries, found.pauses) >= (0, 0.0)
        assert (type(found.args), type(found.kwargs)) == (list, dict)
        assert found.headers["task"] == found.task == "retrieve_top_k"
