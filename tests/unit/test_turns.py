"""Whose turn a message takes, whatever it says: digests of names that nobody has verified."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from retrieval_client import RetrieveTopK, Signer
from retrieval_client.contract.message import compose
from retrieval_client.contract.registry import task_of
from retrieval_client.jobs import signed
from worker.queue.broker.turns import NOBODY, turn_of

OWNER = ["tenant_id", "user_id"]
DAVE = {"tenant_id": "A", "user_id": "dave"}
NESTED: Any = json.loads("[" * 300 + "]" * 300)
"""What can be read, and not written."""


def message(headers: dict[str, Any] | None = None, encoding: str = "base64", **fields: Any) -> bytes:
    body = json.dumps([[{"query": "?", **fields}], {}, {}])
    encoded = base64.b64encode(body.encode()).decode() if encoding == "base64" else body
    envelope = {"body": encoded, "headers": headers or {}, "properties": {"body_encoding": encoding}}
    return json.dumps(envelope).encode()


def token(claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{payload}.c2ln"


def test_claims_count_alike_in_every_form() -> None:
    """Plain or in a token, in any order, with whatever other claims, in either encoding of the body."""
    turn = turn_of(message(principal=DAVE), OWNER)
    assert len(turn) == 16
    others: list[bytes] = [
        message(principal={"roles": ["admin"], "user_id": "dave", "tenant_id": "A"}),
        message(principal=DAVE, encoding="utf-8"),
        message(principal_token=token(DAVE | {"exp": 7})),
        message(principal=DAVE, headers={"group": None}),
    ]
    assert {turn_of(raw, OWNER) for raw in others} == {turn}


def test_a_signed_job_of_the_client_has_its_caller_s_turn() -> None:
    """Its token is read without the key."""
    body = signed(RetrieveTopK(query_embedding=[1.0]), DAVE, Signer("s" * 32, "k1"), "id-1")
    raw = compose(task_of(RetrieveTopK), "id-1", body, None).encode()
    assert turn_of(raw, OWNER) == turn_of(message(principal=DAVE), OWNER)


@pytest.mark.parametrize(
    "raw",
    [
        message(principal={"tenant_id": "A", "user_id": "eve"}),
        message(principal={"user_id": "dave"}),
        message(principal={"tenant_id": "dave", "user_id": "A"}),
        message(principal=DAVE, headers={"group": "dave"}),
    ],
)
def test_others_have_turns_of_their_own(raw: bytes) -> None:
    """Another user, another tenant, a group."""
    assert turn_of(raw, OWNER) not in {turn_of(message(principal=DAVE), OWNER), NOBODY}


@pytest.mark.parametrize(
    "raw",
    [
        message(),
        message(principal={"roles": ["admin"]}),
        message(principal=[]),
        message(principal="dave"),
        message(principal_token="e30"),  # noqa: S106 -- nobody's
        message(principal_token="e30.%%%.c"),  # noqa: S106 -- nobody's
        message(principal_token=7),
        message(principal_token=token([1])),
        b"",
        b"[]",
        b"\xff" * 9,
        b'{"headers": []}',
        b'{"headers": {}, "body": "[]"}',
        b'{"headers": {}, "body": "[[]]"}',
        b"[" * 200_000,
        b'{"headers": {}, "body": "' + b"[" * 200_000 + b'"}',
        message(principal=DAVE, query="x" * 300_000),
        message(principal={"user_id": NESTED}),
        message(principal_token=token({"user_id": NESTED})),
        message(headers={"group": NESTED}),
    ],
    ids=range(20),
)
def test_all_that_name_nobody_share_a_turn(raw: bytes) -> None:
    """Also what can't be read, and what is too long to be read for this."""
    assert turn_of(raw, OWNER) == NOBODY
