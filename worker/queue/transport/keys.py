"""Redis keys of the places where a message can be."""

from __future__ import annotations

import hashlib

OWNERS = "retrieval-worker.owners"
"""Sorted set of the in-flight lists that may hold messages, by when their owner was last seen (Redis' time)."""

UNACKED = "unacked"
"""Hash of unacknowledged messages by delivery tag; kombu's name and form, so that a stock worker can requeue them."""

UNACKED_INDEX = "unacked_index"
"""Sorted set of delivery tags by time of delivery (Redis' time); kombu's name and form."""

WAITING = "retrieval-worker.waiting"
"""Set of the tags of deliveries that wait for an idle process of their worker."""

WHEN_FULL = "redis.call('DEL', 'retrieval-worker.nothing')\n"
"""Start of a Lua script that empties Redis in the end, but adds before it removes.

A full Redis refuses what adds, until a script's first write was one that removes, here a key that does not exist.
"""

_INFLIGHT = ".inflight."


def owner_key(owner: str) -> str:
    """Return the key that exists while an owner is alive."""
    return f"retrieval-worker.owner.{owner}"


def owner_value(name: str, ended: int) -> str:
    """Return the value of an owner's key: its process, and the number of its deliveries that were acknowledged."""
    return f"{name} {ended}"


def parse_owner_value(value: str) -> int:
    """Return the number of an owner's acknowledged deliveries; 0 of a worker that does not report it.

    >>> parse_owner_value(owner_value("host-1", 7)), parse_owner_value("host-1")
    (7, 0)
    """
    count = value.rpartition(" ")[2]
    return int(count) if count.isdecimal() else 0


def used_token(token_id: str) -> str:
    """Return the key that exists from a token's first use until it has expired; an id may hold any character."""
    return f"retrieval-worker.used_token.{hashlib.sha256(token_id.encode('utf-8', 'replace')).hexdigest()}"


def inflight(queue: str, owner: str) -> str:
    """Return the key of the list of messages that an owner took and has not recorded as unacknowledged yet."""
    return f"{queue}{_INFLIGHT}{owner}"


def parse_inflight(key: str) -> tuple[str, str]:
    """Return queue and owner of an in-flight list.

    >>> parse_inflight(inflight("retrieval", "host-1-ab"))
    ('retrieval', 'host-1-ab')
    """
    queue, _, owner = key.rpartition(_INFLIGHT)
    return queue, owner


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
    """Return the key of the list of a queue's deferred messages: a process died of them, or they are overdue."""
    return f"{queue}.delayed.put_off"


def deliveries(queue: str) -> str:
    """Return the key of the hash of delivery counts of unacknowledged messages, by `digest`."""
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
