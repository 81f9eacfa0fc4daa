"""Whatever crashes at whichever command boundary, no message is lost, answered twice or miscounted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import time, os
import pytest
from functools import partial
from worker.queue import claims, records
from worker.queue.broker import excerpts
from worker.queue.lua import Script
from worker.queue.claims import Tidier

from .crashes import Side, explore

if TYPE_CHECKING:
    import redis


def test_no_event_loses_a_message(url: str, broker: redis.Redis) -> None:
    t = time.time()
    explored = explore(url, broker, int(os.environ.get("EV","1")), every=int(os.environ.get("EVERY","1")))
    print(explored.schedules, explored.boundaries, time.time() - t)
    assert not explored.failed, explored.failed


class _Changed(Script):
    def __init__(self, name: str, old: str, new: str, prelude: str = "") -> None:
        super().__init__(name, prelude)
        assert old in self._text
        self._text = self._text.replace(old, new)
        import hashlib
        self._digest = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()


def acknowledge_first(side: Side, messages: Any) -> None:
    if messages:
        side._claims.acknowledge()
    _ANSWER(side, messages)

_ANSWER = Side._answer

BUGS = {
    "acknowledged before it is stored": (Side, "_answer", acknowledge_first),
    "not counted": (claims, "_SETTLE", _Changed("settle", "redis.call('HINCRBY'", "redis.call('HGET'", "") ) ,
    "bundle not marked": (claims, "ALONE", ""),
    "lost connection counted": (claims, "UNCOUNTED", "counted"),
    "answered requeued": (claims, "ANSWERED", ""),
    "not announced": (Side, "_announce", lambda *_: None),
    "not registered": (claims, "renew", lambda *_: None),
    "not killed": (Tidier, "_end_connection", lambda *_: True),
    "take of the dead": (claims, "_TAKE", _Changed("take", "if redis.call('EXISTS', KEYS[1]) == 0 then return false end", "", excerpts.SHORTEN)),
    "out of order": (claims, "_SETTLE", _Changed("settle", "'RPUSH'", "'LPUSH'")),
    "second outcome": (records, "_STORE_BESIDE_QUEUES", _Changed("store", "if not string.find(head", "if true or not string.find(head")),
    "take acks wrong list": (claims, "_TAKE", _Changed("take", "redis.call('DEL', KEYS[4])", "redis.call('DEL', KEYS[3])", excerpts.SHORTEN)),
}
BUGS["not counted"] = (claims, "_SETTLE", _Changed("settle", "redis.call('HINCRBY', KEYS[3], digest, mark == '1' and 2 or 1)", ""))

@pytest.mark.parametrize("bug", BUGS)
def test_bugs(url: str, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    monkeypatch.setattr(*BUGS[bug])
    t = time.time()
    explored = explore(url, broker, int(os.environ.get("EV","1")), every=int(os.environ.get("EVERY","1")))
    print(bug, explored.schedules, explored.boundaries, time.time() - t)
    assert explored.failed
    import re
    print("FAILED", explored.failed[:600])
