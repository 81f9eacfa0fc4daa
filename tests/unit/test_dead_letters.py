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
REFUSAL = Refusal("malformed", InvalidJob("expected a string", "body"), "a-1", "retrieve_top_k")


def message(job: Any, *, encoded: bool = False, **headers: Any) -> bytes:
    body = json.dumps([[job], {}, {}])
    whole = {"body": body, "headers": {"id": "a-1", **headers}, "properties": {"body_encoding": None}}
    if encoded:
        whole["body"] = base64.b64encode(body.encode()).decode()
        whole["properties"] = {"body_encoding": "base64"}
    return json.dumps(whole).encode()


def fields(raw: bytes, **rules: Any) -> dict[str, Any]:
    return compose(raw, REFUSAL, Rules(**rules), NOW)


EMBEDDING = {"query_embedding": "AAeyJ0123456789abcdef+/" * 40, "k": 12}
WITHOUT = [message({"text": "ü"}), message(EMBEDDING), message(EMBEDDING, encoded=True), b"\xff no JSON", b""]


@pytest.mark.parametrize("raw", WITHOUT)
def test_a_message_without_a_token_is_kept_byte_for_byte(raw: bytes) -> None:
    """So it can be sent again; its digest is of these bytes."""
    kept = fields(raw)
    assert kept["original"] == raw
    assert kept["kept"] == "whole"
    assert kept["digest"] == "sha256:" + hashlib.sha256(raw).hexdigest()
    assert (kept["at"], kept["reason"], kept["error"]) == ("2026-11-21T12:00:00.000+00:00", "malformed", "InvalidJob")
    assert (kept["task_id"], kept["task"], kept["bytes"]) == ("a-1", "retrieve_top_k", len(raw))


OPAQUE = "0123456789abcdefghij"


def escaped(token: str) -> bytes:
    """A message that spells the name of its token in escapes."""
    return message({"k": token}).replace(b'\\"k\\"', b'\\"principal\\\\u005ftoken\\"')


def in_lines(raw: bytes) -> bytes:
    """A message whose base64 has line ends."""
    whole = json.loads(raw)
    return json.dumps({**whole, "body": base64.encodebytes(base64.b64decode(whole["body"])).decode()}).encode()


WITH_TOKEN = {
    "plain": message({"principal_token": TOKEN, "k": 12}),
    "base64": message({"principal_token": TOKEN, "k": 12}, encoded=True),
    "in argsrepr": message({"k": 12}, argsrepr=f"({{'principal_token': '{TOKEN}'}},)"),
    "in both": message({"principal_token": TOKEN}, encoded=True, argsrepr=TOKEN),
    "deep inside": message({"a": [{"principal_token": TOKEN}]}),
    "its name escaped": escaped(TOKEN),
    "its name escaped, no JSON Web Token": escaped(OPAQUE),
    "no JSON Web Token": message({"principal_token": OPAQUE}),
    "no JSON Web Token, base64": message({"principal_token": OPAQUE}, encoded=True),
    "cut plain": message({"principal_token": TOKEN, "k": 12})[:-60],
    "cut base64": message({"principal_token": TOKEN, "k": 12}, encoded=True)[:-60],
    "cut inside the token": message({"principal_token": TOKEN})[:80],
    "only the token": TOKEN.encode(),
    "base64 in lines": in_lines(message({"principal_token": TOKEN, "k": 12}, encoded=True)),
    "base64 that lost a character": message({"principal_token": TOKEN, "k": 12}, encoded=True).replace(b"W", b"", 1),
    "opaque in argsrepr": message({"k": 12}, argsrepr=f"({{'principal_token': '{OPAQUE}'}},)"),
    "its name escaped in a cut message": escaped(OPAQUE)[:-20],
    "its name escaped in base64": message({"k": OPAQUE}, encoded=True).replace(
        base64.b64encode(json.dumps([[{"k": OPAQUE}], {}, {}]).encode()),
        base64.b64encode(json.dumps([[{"k": OPAQUE}], {}, {}]).replace('"k"', r'"principal\u005ftoken"').encode()),
    ),
    "JSON in JSON in JSON": message({"text": json.dumps({"text": json.dumps({"principal_token": OPAQUE})})}),
    "among many": b'[{"principal_token": "%b"}]' % OPAQUE.encode() + b'{"principal_token": "x"},' * 2000,
}


@pytest.mark.parametrize("name", WITH_TOKEN)
def test_a_token_is_cut_out(name: str) -> None:
    """A reader of dead letters must not be able to ask as another caller."""
    raw = WITH_TOKEN[name]
    kept = fields(raw)
    runs = kept["original"].decode(errors="replace")
    for run in runs.replace('"', " ").split():
        if len(run) > 40:
            runs += base64.b64decode(run + "=" * (-len(run) % 4), validate=False).decode(errors="replace")
    assert kept["kept"] == ("start" if name == "among many" else "cut")
    for secret in (TOKEN, TOKEN.split(".")[1], TOKEN.split(".")[2], OPAQUE):
        assert secret not in runs
    assert kept["digest"] == "sha256:" + hashlib.sha256(raw).hexdigest()


def test_the_rest_of_a_job_with_a_token_is_kept() -> None:
    """The job is there, the token is not."""
    for encoded in (False, True):
        kept = json.loads(fields(message({"principal_token": TOKEN, "k": 12}, encoded=encoded))["original"])
        body = base64.b64decode(kept["body"]) if encoded else kept["body"]
        assert json.loads(body)[0] == [{"principal_token": "cut", "k": 12}]


def test_a_long_message_is_kept_in_part() -> None:
    """As much as settings allow, without a token that begins there."""
    raw = message({"text": "x" * 5000, "principal_token": TOKEN})
    kept = fields(raw, dead_bytes=2000)
    assert len(kept["original"]) == 2000
    assert (kept["kept"], kept["bytes"]) == ("start", len(raw))
    assert TOKEN[:20].encode() not in fields(raw, dead_bytes=5100)["original"]


@given(st.binary(max_size=300), st.integers(1, 400))
def test_whatever_a_message_is_it_can_be_kept(raw: bytes, limit: int) -> None:
    """Nothing raises, and no more is kept than may be."""
    assert len(fields(raw, dead_bytes=limit)["original"]) <= limit


@given(st.integers(0, 200), st.integers(0, 200), st.booleans(), st.integers(0, 255))
def test_a_token_is_cut_out_of_a_bent_message(place: int, lost: int, encoded: bool, byte: int) -> None:
    """Wherever a message lost a byte, or has another one, outside of its token."""
    raw = bytearray(message({"principal_token": TOKEN, "k": 12}, encoded=encoded))
    del raw[min(lost, 40)]
    raw[len(raw) - 1 - min(place, 30)] = byte
    kept = fields(bytes(raw))["original"]
    for secret in TOKEN.encode().split(b".")[1:]:
        spelled = [base64.b64encode(bytes(before) + secret)[4:-4] for before in range(3)]
        assert not any(one in kept for one in (secret, *spelled))
