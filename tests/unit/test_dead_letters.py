"""Stored form of a message that can't be run."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.errors import InvalidJob
from worker.queue.broker.dead_letters import compose
from worker.queue.broker.inspection import Refusal, Rules

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJ1c2VyX2lkIjoiYWxpY2UifQ.c2lnbmF0dXJl"  # noqa: S105 -- what must not be kept
OPAQUE = "0123456789abcdefghij"
REFUSAL = Refusal("unknown_task", InvalidJob("expected a string", "body"), "a-1", "retrieve_top_k")


def message(body: str, *, encoded: bool = False, headers: Any = None, **changes: Any) -> bytes:
    """A message with a body, as it is or in base64."""
    whole = {
        "body": base64.b64encode(body.encode()).decode() if encoded else body,
        "content-type": "application/json",
        "headers": {"id": "a-1", "task": "retrieve_top_k", **(headers or {})},
        "properties": {"body_encoding": "base64" if encoded else None},
    }
    return json.dumps({**whole, **changes}).encode()


def body(**job: Any) -> str:
    return json.dumps([[job], {}, {}])


def fields(raw: bytes, refusal: Refusal = REFUSAL, **rules: Any) -> dict[str, Any]:
    return compose(raw, refusal, Rules(**rules), NOW)


EMBEDDING = {"query_embedding": "AAeyJ0123456789abcdef+/" * 40, "weight": 0.5}
WITHOUT = {
    "text": message(body(query="ü \t \\ 'eyJ' J. principal token.")),
    "embedding": message(body(**EMBEDDING)),
    "base64": message(body(**EMBEDDING), encoded=True),
    "argsrepr": message(body(**EMBEDDING), encoded=True, headers={"argsrepr": repr((EMBEDDING,))}),
    "further tasks": message(json.dumps([[{}], {}, {"chain": [{"task": "other"}]}])),
    "another task": message(body(), headers={"task": "no_such_task", "expires": "2020-01-01T00:00:00Z"}),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_message_without_a_token_is_kept_byte_for_byte(name: str) -> None:
    """So it can be sent again; its digest is of these bytes."""
    raw = WITHOUT[name]
    kept = fields(raw)
    assert kept["original"] == raw
    assert kept["kept"] == "whole"
    assert kept["digest"] == "sha256:" + hashlib.sha256(raw).hexdigest()
    assert kept["at"] == "2026-11-21T12:00:00.000+00:00"
    assert (kept["reason"], kept["error"]) == ("unknown_task", "InvalidJob")
    assert (kept["task_id"], kept["task"], kept["bytes"]) == ("a-1", "retrieve_top_k", len(raw))


NAMED = body(principal_token=OPAQUE)
TWICE = f'[[{{"query": "{TOKEN}", "query": ""}}], {{}}, {{}}]'
SPELLED = body(k=OPAQUE).replace('"k"', r'"principal\u005ftoken"')
WITH_TOKEN = {
    "field": message(NAMED),
    "field in base64": message(NAMED, encoded=True),
    "escaped field name": message(SPELLED),
    "escaped field name in base64": message(SPELLED, encoded=True),
    "JSON in JSON in a text": message(body(text=json.dumps({"text": NAMED}))),
    "escaped field name in JSON in a text": message(body(text=json.dumps({"text": SPELLED}))),
    "text": message(body(query=f"is {TOKEN} mine?")),
    "text in lines": message(body(query=TOKEN.replace("J", "J\n"))),
    "name of a field": message(body(**{TOKEN: 1})),
    "keyword arguments": message(json.dumps([[], {"job": TOKEN}, {}])),
    "further task": message(json.dumps([[], {}, {"chain": [{"args": [TOKEN]}]}])),
    "header": message(body(), headers={"argsrepr": f"({{'query': '{TOKEN}'}},)"}),
    "name in a header": message(body(), headers={"argsrepr": f"({{'principal_token': '{OPAQUE}'}},)"}),
    "property": message(body(), properties={"reply_to": TOKEN}),
    "unknown part of the message": message(body(), note=TOKEN),
    "field twice": message(TWICE),
    "field twice, in base64": message(TWICE, encoded=True),
    "headers twice": b'{"headers": {"note": "%b"}, ' % TOKEN.encode() + message(body())[1:],
    "body twice": b'{"body": "%b", ' % base64.b64encode(NAMED.encode()) + message(body())[1:],
    "wrong content type": message(NAMED, encoded=True, **{"content-type": "application/x-yaml"}),
    "wrong encoding": message(NAMED.encode().hex(), properties={"body_encoding": "hex"}),
    "broken JSON": message(SPELLED)[:-1],
    "broken JSON in the body": message(SPELLED[:-1], encoded=True),
    "base64 that lost a character": message(NAMED, encoded=True).replace(b"W", b"", 1),
    "body no job": message(json.dumps(base64.b64encode(NAMED.encode()).decode())),
    "body too deep": message("[" * 100_000 + base64.b64encode(NAMED.encode()).decode()),
    "no message": base64.b64encode(NAMED.encode()),
    "a surrogate beside it": message(SPELLED.replace("[[", r'[["\ud800",')),
}


@pytest.mark.parametrize("name", WITH_TOKEN)
def test_no_byte_of_a_message_with_a_token_is_kept(name: str) -> None:
    """A reader of dead letters must not be able to ask as another caller."""
    raw = WITH_TOKEN[name]
    kept = fields(raw)
    assert (kept["kept"], kept["original"]) == ("nothing", b"")
    assert [value for value in kept.values() if OPAQUE in str(value) or "eyJ" in str(value)] == []
    assert (kept["digest"], kept["bytes"]) == ("sha256:" + hashlib.sha256(raw).hexdigest(), len(raw))


def test_an_id_that_is_a_token_is_not_kept() -> None:
    """A message that can't be read may have one where its id is expected."""
    kept = fields(b'{"id": "%b"' % TOKEN.encode(), Refusal("malformed", InvalidJob("not JSON"), TOKEN))
    assert (kept["task_id"], kept["original"]) == ("", b"")


@pytest.mark.parametrize("name", WITHOUT)
def test_wherever_a_token_is_put_it_is_not_kept(name: str) -> None:
    """In any part of a message, or so that it is none any more."""
    raw = WITHOUT[name]
    assert {fields(raw[:place] + TOKEN.encode() + raw[place:])["kept"] for place in range(len(raw) + 1)} == {"nothing"}


def test_a_message_that_is_longer_or_may_kill_is_not_kept() -> None:
    """The longest is what settings say; one that nobody could read is not read."""
    raw = message(body(query="x" * 5000))
    assert fields(raw, dead_bytes=len(raw))["kept"] == "whole"
    assert fields(raw, dead_bytes=len(raw) - 1)["original"] == b""
    assert fields(raw, max_values=10)["original"] == b""
    deadly = Refusal("max_deliveries", InvalidJob("delivered too often"), "a-1", may_kill=True)
    assert fields(raw, deadly)["original"] == b""


@given(st.binary(max_size=300))
def test_whatever_a_message_is_it_is_kept_or_not(raw: bytes) -> None:
    """Nothing raises, also in a body."""
    whole = message(raw.decode("latin-1"))
    assert fields(raw)["original"] in {b"", raw}
    assert fields(whole)["original"] in {b"", whole}
