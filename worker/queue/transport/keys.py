"""The places in Redis where a message can be, by name."""

from __future__ import annotations

import hashlib

OWNERS = "retrieval-worker.owners"
"""Sorted set of the in-flight lists that may hold something, by when their owner was last seen (Redis' time)."""

UNACKED = "unacked"
"""Hash of delivered messages by delivery tag; kombu's name and form, so that a stock worker can give them back."""

UNACKED_INDEX = "unacked_index"
"""Sorted set of delivery tags by time of delivery (Redis' time); kombu's."""

WAITING = "retrieval-worker.waiting"
"""Set of the tags of deliveries that no process of their worker could take yet."""

_INFLIGHT = ".inflight."


def owner_key(owner: str) -> str:
    """Exists while the owner is alive."""
    return f"retrieval-worker.owner.{owner}"


def inflight(queue: str, owner: str) -> str:
    """List of what an owner has taken off a queue and not written down yet."""
    return f"{queue}{_INFLIGHT}{owner}"


def parse_inflight(key: str) -> tuple[str, str]:
    """Queue and owner of an in-flight list.

    >>> parse_inflight(inflight("retrieval", "host-1-ab"))
    ('retrieval', 'host-1-ab')
    """
    queue, _, owner = key.rpartition(_INFLIGHT)
    return queue, owner


def dead(queue: str) -> str:
    """Stream of a queue's dead letters."""
    return f"{queue}.dead"


def delayed(queue: str) -> str:
    """Sorted set of a queue's messages that wait for their time, by when they are due; named by a delivery's tag."""
    return f"{queue}.delayed"


def delayed_messages(queue: str) -> str:
    """Hash of these messages, byte for byte, by the same names."""
    return f"{queue}.delayed.messages"


def put_off(queue: str) -> str:
    """List of a queue's messages that a process died of, or that are overdue: they go back in their turn."""
    return f"{queue}.delayed.put_off"


def deliveries(queue: str) -> str:
    """Hash of how often unanswered messages were delivered, by `digest`."""
    return f"{queue}.deliveries"


def digest(raw: bytes) -> str:
    """What a message is counted under: two that were sent under one task id are two messages.

    SHA-1, because Redis' scripts know no other. Whoever makes two messages with one digest has them counted together.
    """
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()


def tag(owner: str, number: int) -> str:
    """A delivery tag: the worker's own, because senders may give all of their messages the same."""
    return f"{owner}:{number}"


def owner_of(tag: str) -> str:
    """Who holds a delivery; of a stock worker's tag nobody that is known.

    >>> owner_of(tag("host-1-ab", 7))
    'host-1-ab'
    """
    return tag.rpartition(":")[0]
