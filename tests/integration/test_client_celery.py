"""Jobs as signatures of a backend's own Celery app, as they are sent to a real Redis by the user `producer`."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from celery import Celery, group
from kombu import Connection
from kombu.exceptions import OperationalError

from retrieval_client import RetrieveTopK, Signer
from retrieval_client.celery import signature
from retrieval_client.errors import InvalidJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

    from workbench.devstack.stack import Stack

JOB = RetrieveTopK(query_embedding=[0.5])
KEY = "a key of 32 bytes or more for HS256"


@pytest.fixture
def app(stack: Stack, broker: redis.Redis) -> Iterator[Celery]:
    """A backend's own Celery app, as a producer."""
    del broker  # emptied
    broker_url, result_backend = stack.redis.urls("producer")
    with Celery("backend", broker=broker_url, backend=result_backend, set_as_current=False) as made:
        yield made
        # An app keeps the connections of its results until its process ends.
        made.backend.result_consumer.stop()
        made.backend.client.connection_pool.disconnect()


def messages(broker: redis.Redis) -> list[dict[str, Any]]:
    return [json.loads(text) for text in broker.lrange("retrieval", 0, -1)]


def ids(broker: redis.Redis) -> list[str]:
    return [message["headers"]["id"] for message in messages(broker)]


def signed(app: Celery) -> Any:
    return signature(JOB, claims={"user_id": "u1"}, signer=Signer(KEY, "k1"), app=app)


def test_each_sending_of_a_signature_has_an_id_of_its_own(app: Celery, broker: redis.Redis) -> None:
    """Alone, again, and three times in a group: no sending gets the outcome of another one."""
    one = signature(JOB, app=app)
    sent = [one.apply_async().id, one.delay().id, *(result.id for result in group([one, one, one], app=app)().results)]
    assert sorted(ids(broker)) == sorted(sent)
    assert len({*sent}) == 5


def test_a_signed_signature_is_sent_once(app: Celery, broker: redis.Redis) -> None:
    """Its token is bound to its id: a second sending, also of a copy, is an error that says so."""
    one = signed(app)
    sent = one.clone().apply_async()
    for again in (one.apply_async, one.delay, one.clone().apply_async, group([one], app=app).apply_async):
        with pytest.raises(ValueError, match=f"holds for one message, which was sent under the task id {sent.id}"):
            again()
    other = signed(app)
    with pytest.raises(ValueError, match="make a signature for each sending"):
        group([other, other], app=app).apply_async()
    (first, *_) = reversed(messages(broker))
    token = json.loads(base64.b64decode(first["body"]))[0][0]["principal_token"]
    assert jwt.decode(token, KEY, ["HS256"], audience="retrieval-worker")["jti"] == sent.id == first["headers"]["id"]
    group([signed(app), signed(app)], app=app).apply_async()
    assert len({*ids(broker)}) == len(ids(broker)) == 4


def test_a_signature_that_was_not_sent_may_be_sent_again(app: Celery, broker: redis.Redis) -> None:
    """The broker was away."""
    one = signed(app)
    with Connection("redis://127.0.0.1:1/0") as away, pytest.raises(OperationalError):
        one.apply_async(connection=away, retry=False)
    assert [one.apply_async().id] == ids(broker)


def test_a_priority_is_refused_before_redis_refuses_it(app: Celery, broker: redis.Redis) -> None:
    """A producer may not fill the lists that kombu has for priorities."""
    for send in (
        lambda: signature(JOB, app=app).apply_async(priority=3),
        signature(JOB, app=app).set(priority=3).delay,
    ):
        with pytest.raises(InvalidJob, match="priority: expected no priority"):
            send()
    signature(JOB, app=app).apply_async(priority=0)
    assert len(ids(broker)) == 1
