"""The fuzz run's balance: a harness that can't see loss proves nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import redis

from chaos import fuzz
from chaos.jobs import QUEUE, envelope
from retrieval_client.errors import InvalidJob
from worker.queue.broker import keys
from worker.queue.broker.dead_letters import compose, dead_letter
from worker.queue.broker.inspection import Refusal, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.devstack.stack import Stack

PLACE = keys.inflight(QUEUE, "me")


@pytest.fixture
def results(stack: Stack, broker: redis.Redis) -> Iterator[redis.Redis]:
    del broker  # emptied
    with redis.Redis.from_url(stack.redis.url(1)) as client:
        yield client


def make_dead_letter(broker: redis.Redis, message: bytes) -> None:
    """Dead-letter a message."""
    broker.lpush(PLACE, message)
    letter = compose(message, Refusal("malformed", InvalidJob("expected another")), Rules(), datetime.now(UTC))
    dead_letter(broker, QUEUE, PLACE, message, letter, Rules())


def test_each_message_is_counted_once(broker: redis.Redis, results: redis.Redis) -> None:
    """A letter stands for one of two equal messages, and a batch's letters for none of the next."""
    found = fuzz.FuzzReport()
    answered, lost = (envelope(name, "retrieve_top_k", "[[{}], {}, {}]") for name in ("answered", "lost"))
    make_dead_letter(broker, b"null")
    results.set("celery-task-meta-answered", "{}")
    letter = fuzz.account([b"null", b"null", answered, lost], broker, results, found, "0-0")
    assert (found.messages, found.answered, found.dead) == (4, 1, {"malformed": 1})
    assert found.unaccounted == [b"null", lost]
    assert not found.clean
    assert fuzz.account([b"null", answered], broker, results, found, letter) == letter
    assert found.unaccounted == [b"null", lost, b"null", answered]


@pytest.mark.parametrize("place", [QUEUE, PLACE, keys.UNACKED])
def test_a_batch_is_done_when_its_messages_are_nowhere(
    broker: redis.Redis, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Neither waiting, nor claimed, nor delivered; what nothing happens to is not waited for without end."""
    if place == keys.UNACKED:
        broker.hset(place, "me:1", "null")
    else:
        broker.lpush(place, "null")

    def finish() -> None:
        broker.delete(place)

    monkeypatch.setattr(fuzz, "SETTLE_SECONDS", 0.1)
    assert not fuzz.drained(broker, lambda: None)
    monkeypatch.setattr(fuzz, "SETTLE_SECONDS", 60.0)
    assert fuzz.drained(broker, finish)
