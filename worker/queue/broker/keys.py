"""Redis keys of the places where a message can be."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

OWNERS = "retrieval-worker.owners"
"""Sorted set of the in-flight lists that may hold messages, by when their owner was last seen (Redis' time)."""

UNACKED = "unacked"
"""Hash of the messages that workers of older versions hold, by delivery tag; kombu's name and form."""

UNACKED_INDEX = "unacked_index"
"""Sorted set of delivery tags by time of delivery (Redis' time); kombu's name and form."""

WAITING = "retrieval-worker.waiting"
"""Set of the tags of those of them that waited for an idle process of their worker."""

PRIORITIES = ("", "\x06\x163", "\x06\x166", "\x06\x169")
"""Ends of the names of a queue's lists, by priority, as kombu has them; the first is the queue that is served."""

_INFLIGHT = ".inflight."


def owner_key(owner: str) -> str:
    """Return the key that exists while an owner is alive."""
    return f"retrieval-worker.owner.{owner}"


def owner_value(name: str, ended: int, began: float | None = None) -> str:
    """Return the value of an owner's key: its worker, when what it runs began, the number of its deliveries that ended.

    Times are Redis'; None if what it runs is recorded elsewhere.
    """
    return f"{name} {ended}" if began is None else f"{name} @{began:.3f} {ended}"


class OwnerValue(NamedTuple):
    """Value of an owner's key; see `owner_value`."""

    name: str
    ended: int
    began: float | None


_OWNER_VALUE = re.compile(r"(?P<name>.*?)(?: @(?P<began>[0-9.]+))?(?: (?P<ended>[0-9]+))?")


def parse_owner_value(value: str) -> OwnerValue:
    """Return the parts of the value of an owner's key; none of a worker that reports nothing.

    >>> parse_owner_value(owner_value("host-1", 7)), parse_owner_value("host-1").ended
    (OwnerValue(name='host-1', ended=7, began=None), 0)
    >>> parse_owner_value(owner_value("w@host", 7, 12.5))
    OwnerValue(name='w@host', ended=7, began=12.5)
    """
    match = _OWNER_VALUE.fullmatch(value)
    if match is None:
        return OwnerValue(value, 0, None)
    return OwnerValue(match["name"], int(match["ended"] or 0), float(match["began"]) if match["began"] else None)


def used_token(token_id: str) -> str:
    """Return the key that exists from a token's first use until it has expired; an id may hold any character."""
    return f"retrieval-worker.used_token.{hashlib.sha256(token_id.encode('utf-8', 'replace')).hexdigest()}"


def inflight(queue: str, owner: str) -> str:
    """Return the key of the list of messages that an owner holds."""
    return f"{queue}{_INFLIGHT}{owner}"


def parse_inflight(key: str) -> tuple[str, str]:
    """Return queue and owner of an in-flight list.

    >>> parse_inflight(inflight("retrieval", "host-1-ab"))
    ('retrieval', 'host-1-ab')
    """
    queue, _, owner = key.rpartition(_INFLIGHT)
    return queue, owner


_CONNECTION = re.compile(r"-[0-9a-f]{8}-\d+[ab]$|-[0-9a-f]+$")


def worker_of(owner: str) -> str:
    """Return the name of an owner's worker, which its key tells as long as it is alive.

    >>> worker_of("host-123-1a2b3c4d-17a"), worker_of("host-123-1a2b3c4d5e6f")
    ('host-123', 'host-123')
    """
    return _CONNECTION.sub("", owner)


def dead(queue: str) -> str:
    """Return the key of the stream of a queue's dead letters."""
    return f"{queue}.dead"


def delayed(queue: str) -> str:
    """Return the key of the sorted set of a queue's delayed messages: delivery tags by due time."""
    return f"{queue}.delayed"


def delayed_messages(queue: str) -> str:
    """Return the key of the hash of these messages, byte for byte, by the same tags."""
    return f"{queue}.delayed.messages"


def deferred(queue: str) -> str:
    """Return the key of the list of a queue's deferred messages: a process died of them."""
    return f"{queue}.delayed.put_off"


def callers(queue: str) -> str:
    """Return the key of the sorted set of a queue's callers, each the list of its messages, by their turns."""
    return f"{queue}.callers"


def caller(queue: str, turn: str) -> str:
    """Return the key of the list of the sorted messages that share a turn (`turns.turn_of`)."""
    return f"{queue}.caller.{turn}"


def numbers(queue: str) -> str:
    """Return the key of the hash of a queue's numbers; lua/take.lua and lua/look_at_waits.lua describe them."""
    return f"{queue}.numbers"


def marks(queue: str) -> str:
    """Return the key of the list of how many messages had arrived in a queue, and when (lua/look_at_waits.lua)."""
    return f"{queue}.marks"


def deliveries(queue: str) -> str:
    """Return the key of the hash of how many processes died of a message, by `digest`."""
    return f"{queue}.deliveries"


def digest(raw: bytes) -> str:
    """Return the digest under which a message's deliveries are counted; two messages may share a task id.

    SHA-1, because Redis scripts have no other hash. Two messages made to collide are counted together, nothing worse.
    """
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()


def tag(owner: str, number: int) -> str:
    """Return a delivery tag: the worker's own, because senders may give all their messages the same one."""
    return f"{owner}:{number}"


def owner_of(tag: str) -> str:
    """Return the owner of a delivery; for a stock worker's tag, no known owner.

    >>> owner_of(tag("host-1-ab", 7))
    'host-1-ab'
    """
    return tag.rpartition(":")[0]
