"""The messages of both Python clients, as they stand in a real Redis."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jwt
import pytest

from retrieval_client import RetrieveTopK, Signer
from retrieval_client.canonical import canonical_sha256

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from workbench.devstack.stack import Stack

KEY = "a key of 32 bytes or more for HS256"


Sent = tuple[str, dict[str, Any], Any]


@pytest.fixture
def sent(connect: Callable[..., Any], broker: redis.Redis, stack: Stack) -> Callable[..., Sent]:
    """Send a job by a client that signs; return its id, and the headers and the body of the message in Redis."""
    client = connect(stack.redis.url(0), stack.redis.url(1), Signer(KEY, "k1"))

    def send(job: RetrieveTopK, **options: Any) -> Sent:
        task_id = client.enqueue(job, **options)
        message = json.loads(broker.rpop("retrieval"))
        return task_id, message["headers"], json.loads(message["body"])

    return send


def test_a_job_is_sent_as_the_contract_s_json(sent: Callable[..., Sent]) -> None:
    """One positional argument: the fields that were set, to the queue of its task."""
    job = RetrieveTopK(query_embedding=[0.5], k=10**40, filters={"pages": [3]})  # type: ignore[arg-type] # as JSON is
    task_id, headers, (args, kwargs, _) = sent(job)
    assert (headers["task"], headers["id"]) == ("retrieve_top_k", task_id)
    assert (args, kwargs) == ([{"query_embedding": [0.5], "k": 10**40, "filters": {"pages": [3]}}], {})


def test_a_message_shows_nothing_of_its_job(sent: Callable[..., Sent]) -> None:
    """Headers that Celery fills for display are replaced, and no time limit is asked for."""
    job = RetrieveTopK(query_embedding=[0.5], corpus="canary")
    _, headers, _ = sent(job)
    assert (headers["argsrepr"], headers["kwargsrepr"]) == ("(job)", "{}")
    assert "canary" not in json.dumps(headers)
    assert "timelimit" not in headers


def test_claims_are_signed_into_the_job(sent: Callable[..., Sent]) -> None:
    """The token's digest is over the job as sent, without the token."""
    _, headers, (args, _, _) = sent(RetrieveTopK(query_embedding=[0.5], k=12), claims={"user_id": "u1"})
    claims = jwt.decode(args[0].pop("principal_token"), KEY, ["HS256"], audience="retrieval-worker")
    assert (claims["jti"], claims["user_id"]) == (headers["id"], "u1")
    assert claims["args_sha256"] == canonical_sha256(args[0])


def test_an_id_of_one_s_own_is_kept(sent: Callable[..., Sent]) -> None:
    """A job that is sent again under its id is the same delivery to the worker."""
    task_id, headers, _ = sent(RetrieveTopK(query_embedding=[0.5]), task_id="id-1", expires=60)
    assert (task_id, headers["id"]) == ("id-1", "id-1")
    assert headers["expires"]
