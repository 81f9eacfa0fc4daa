"""What is checked of a message that kombu's own transport delivers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kombu.message import Message

from worker.queue.admission import _problem

GOOD = [[{"k": 12}], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
CALLED = [[{}], {}, {"callbacks": [{"task": "x"}]}]
LIMITED, PACKED = {"timelimit": [1, 1]}, {"compression": "application/x-gzip"}


def delivered(body: str, **headers: Any) -> Message:
    return Message(
        body=body,
        content_type="application/json",
        content_encoding="utf-8",
        headers={"id": "a-1", "task": "retrieve_top_k", **headers},
    )


def test_a_job_passes() -> None:
    """What stock producers send is let through."""
    assert _problem(delivered(json.dumps(GOOD))) is None
    assert _problem(delivered(json.dumps(GOOD), timelimit=[None, None])) is None


@pytest.mark.parametrize(
    ("body", "headers", "said"),
    [
        (json.dumps(GOOD), LIMITED, "timelimit: expected no such header"),
        (json.dumps(GOOD), PACKED, "compression: expected no such header"),
        ("[", {}, "the body could not be decoded"),
        ("{}", {}, "the body could not be decoded"),
        (json.dumps([[], {}]), {}, "the body could not be decoded"),
        (json.dumps([[], {"self": 1}, {}]), {}, "only positional argument"),
        (json.dumps(CALLED), {}, "callbacks: expected no further tasks"),
    ],
    ids=["time limits", "compressed", "no JSON", "an object", "two parts", "keyword self", "a callback"],
)
def test_what_the_stock_transport_delivers_is_looked_at(body: str, headers: dict[str, Any], said: str) -> None:
    """Whatever would end the worker, or steer it, is an `InvalidJob`."""
    assert said in str(_problem(delivered(body, **headers)))
