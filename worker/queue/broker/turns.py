"""Turns of callers in a queue: whose a message takes, by what it says before anything of it is verified.

No right depends on it: whoever may send to the queue may name any caller, and gains no more than a place in the order.
Workers sort what waits into a list for each caller (lua/take.lua).
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

import orjson

from worker.queue.broker import keys
from worker.queue.broker.inspection import body_of
from worker.queue.lua import Script

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

_PURGE, _PURGED_AT_ONCE = Script("purge"), 1000

_LONGEST = 262_144
"""Most bytes of a message that is read for this: longer ones share a turn."""

NOBODY = "nobody"
"""The turn that all messages share that name nobody, or can't be read."""


def turn_of(raw: bytes, owner_claims: Sequence[str]) -> str:
    r"""Return the name of whose turn a message takes: its header `group`, or else the owner claims of its caller.

    Args:
        raw: the message.
        owner_claims: claims that identify the owner of a run.

    Returns:
        A digest of 16 characters, or `NOBODY`.

    >>> turn_of(b'{"headers": {"group": "bulk"}}', ["user_id"]), turn_of(b"[", ["user_id"])
    ('400e113652c73892', 'nobody')
    """
    if len(raw) > _LONGEST:
        return NOBODY
    try:
        envelope = orjson.loads(raw)
        group = envelope["headers"].get("group")
        names: Any = [group] if group else _owner(orjson.loads(body_of(envelope))[0][0], owner_claims)
        return hashlib.blake2b(orjson.dumps(names), digest_size=8).hexdigest() if names else NOBODY
    except (ValueError, TypeError, AttributeError, LookupError):
        return NOBODY


def _owner(job: dict[str, Any], owner_claims: Sequence[str]) -> dict[str, Any]:
    """Return the owner claims that a job states, in `principal` or in a token, whose signature nobody checks here."""
    token = job.get("principal_token")
    claims = job.get("principal") if token is None else orjson.loads(urlsafe_b64decode(token.split(".", 2)[1] + "=="))
    return {name: claims[name] for name in owner_claims if claims.get(name)} if claims else {}


def waiting(client: redis.Redis, queue: str, ends: Sequence[str] = ("",)) -> int:
    """Return the number of a queue's messages that no worker took, sorted or not; of its lists with these ends."""
    # In one write, which Redis runs without others between: else what is sorted meanwhile would count twice.
    # A full Redis refuses transactions.
    with client.pipeline(transaction=False) as commands:
        for end in ends:
            commands.llen(queue + end)
        commands.hget(keys.numbers(queue), "sorted")
        *lengths, sorted_messages = commands.execute()
    return int(sum(lengths)) + int(sorted_messages or 0)


def purge(client: redis.Redis, queue: str) -> int:
    """Delete a queue's messages that were sorted by caller; return their number."""
    names, total = [keys.callers(queue), keys.numbers(queue)], 0
    while (count := _PURGE.run(client.execute_command, names, _PURGED_AT_ONCE)) is not None:
        total += count
    return total
