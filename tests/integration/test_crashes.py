"""Whichever worker crashes or loses its connection at whichever command: nothing is lost, miscounted or forgotten."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from worker.queue import claims, records
from worker.queue.broker import keys
from worker.queue.claims import Claims, Tidier

from .crashes import FIRST, Event, Worker, explore

if TYPE_CHECKING:
    import redis

    from worker.queue.lua import Script


@pytest.mark.parametrize("is_fair", [False, True], ids=["in order", "in turns"])
@pytest.mark.parametrize("events", [1, 2])
def test_after_any_events_every_message_has_one_outcome(
    url: str, broker: redis.Redis, events: int, *, is_fair: bool
) -> None:
    """At every boundary a message is somewhere or has an outcome; in the end each has one, and no key is left over."""
    assert explore(url, broker, events, is_fair=is_fair)[2] == ""


def changed(script: Script, old: str, new: str) -> Script:
    """A script with a bug."""
    assert old in script._text
    script = copy.copy(script)
    script._text = script._text.replace(old, new)
    script._digest = keys.digest(script._text.encode())
    return script


def acknowledge_first(worker: Worker, number: int, messages: Any, answer: Any = Worker.answer) -> None:
    worker._claims.acknowledge()
    answer(worker, number, messages)


def forget_first(tidier: Tidier, place: str, mode: Any = "", tidy: Any = Tidier.tidy) -> int:
    tidier._client.zrem(keys.OWNERS, place)
    return tidy(tidier, place, mode)


def ask_first(tidier: Tidier, place: str, mode: Any = "", tidy: Any = Tidier.tidy) -> int:
    length: Any = tidier._client.llen(place)
    return tidy(tidier, place, ("alone" if length > 1 else "counted") if mode == claims.DIED else mode)


COUNT = "redis.call('HINCRBY', KEYS[3], digest, mark == '1' and 2 or 1)"
NOT_COUNTED, BACKWARDS = changed(claims._SETTLE, COUNT, ""), changed(claims._SETTLE, "'RPUSH'", "'LPUSH'")
UNGUARDED = changed(claims._TAKE, "if redis.call('EXISTS', KEYS[1]) == 0 then return false end", "")
OVERWRITE = changed(records._STORE_BESIDE_QUEUES, "if not has_ended", "if true or not has_ended")
BUGS: dict[str, tuple[Any, str, Any, str]] = {
    "acknowledged before it is stored": (Worker, "answer", acknowledge_first, "a message is lost"),
    "a bundle's death is counted": (claims, "ALONE", claims.COUNTED, "counted wrongly"),
    "a death is not counted": (claims, "_SETTLE", NOT_COUNTED, "counted wrongly"),
    "a lost connection is counted": (claims, "UNCOUNTED", claims.COUNTED, "counted wrongly"),
    "requeued in another order": (claims, "_SETTLE", BACKWARDS, "out of order"),
    "what is answered is requeued": (claims, "ANSWERED", "", "a worker requeues what it has answered"),
    "outcomes are overwritten": (records, "_STORE_BESIDE_QUEUES", OVERWRITE, "there is a second outcome"),
    "owners are not announced": (Worker, "announce", lambda *_: None, "counted wrongly"),
    "owners are not registered": (claims, "renew", lambda *_: None, "left over"),
    "an owner is forgotten first": (Tidier, "tidy", forget_first, "an owner is forgotten"),
}
LATE_BUGS: dict[str, tuple[Any, str, Any, str, Event]] = {
    "the list is looked at too early": (Tidier, "tidy", ask_first, "counted wrongly", Event.CRASH_LATE),
    "the connection is not ended": (
        Tidier,
        "_end_connection",
        lambda *_: True,
        "an owner is forgotten",
        Event.TIME_OUT,
    ),
    "a dead owner may take": (claims, "_TAKE", UNGUARDED, "a dead owner takes", Event.CRASH_LATE),
}
"""Bugs that only a late command shows, and how it becomes late."""


def acknowledge_gathered(self: Claims, line: Any, *reply: Any, take: Any = Claims._take_sorted) -> Any:
    self._answered.add(line.places[0])
    reply = take(self, line, *reply)
    self._answered.discard(line.places[0])
    return reply


FORGETFUL = changed(claims._TAKE, "redis.call('ZADD', KEYS[6], math.floor(turn) + 1, caller)", "")
TURN_BUGS: dict[str, tuple[Any, str, Any, str]] = {
    "gathered messages are acknowledged": (Claims, "_take_sorted", acknowledge_gathered, "a message is lost"),
    "a caller is forgotten": (claims, "_TAKE", FORGETFUL, "left over"),
}
"""Bugs of turns."""


@pytest.mark.parametrize("bug", [*BUGS, *LATE_BUGS, *TURN_BUGS])
def test_a_bug_is_found(url: str, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    """Each bug of code or scripts fails a schedule."""
    place, name, change, violation, *first = (BUGS | LATE_BUGS | TURN_BUGS)[bug]
    monkeypatch.setattr(place, name, change)
    schedules, _, failure = explore(url, broker, 2 if first else 1, first or FIRST, is_fair=bug in TURN_BUGS)
    assert violation in failure, schedules
