"""Messages with a priority: stock kombu puts them into separate lists, which no worker here consumes.

They are refused in place, some at a time, and their senders get an error. However many there are, they do not delay
jobs, and they take at most half of the dead-letter entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from worker.adapters import logs
from worker.queue.broker import dead_letters, excerpts, inspection, keys
from worker.queue.broker.inspection import Refusal
from worker.queue.lua import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    import redis

    from worker.queue.broker.inspection import Rules

log = logs.logger("worker.broker")

A_TURN = 100
A_TURN_BYTES = 1_048_576
"""Limits of one check; the message that exceeds the bytes is still included."""

_LOOK, _REQUEUE = Script("look_at_priorities", excerpts.SHORTEN), Script("requeue")


class PriorityMessage(NamedTuple):
    """Message with a priority, and the list that contains it."""

    place: str
    raw: bytes


def look(client: redis.Redis, queue: str, longest: int) -> list[PriorityMessage]:
    """Return some of a queue's messages with a priority.

    Args:
        client: client of the broker.
        queue: name of the queue.
        longest: most bytes of a message; a longer one is replaced with an excerpt.
    """
    lists = [queue + end for end in keys.PRIORITIES[1:]]
    found = _LOOK.run(client.execute_command, lists, A_TURN, A_TURN_BYTES, longest)
    return [PriorityMessage(place.decode(), raw) for place, raw in found]


def refuse(
    client: redis.Redis,
    queue: str,
    rules: Rules,
    now: datetime,
    answer: Callable[[Sequence[Refusal]], bool],
) -> None:
    """Refuse messages with a priority and report it to their senders; requeue those without one after all.

    Args:
        client: client of the broker.
        queue: name of the queue.
        rules: limits of messages.
        now: Redis' time, with its zone.
        answer: stores the failures of refused messages; returns whether it could.
    """
    refused: list[tuple[PriorityMessage, Refusal]] = []
    for message in look(client, queue, rules.max_bytes):
        inspected = inspection.inspect(message.raw, rules, now)
        if isinstance(inspected, Refusal):
            refused.append((message, inspected))
        else:
            _REQUEUE.run(client.execute_command, [message.place, queue, keys.numbers(queue)], message.raw)
    if not refused or not answer([refusal for _, refusal in refused]):
        return
    length: Any = client.xlen(keys.dead(queue))
    room = rules.dead_entries // 2 - length
    for number, (message, refusal) in enumerate(refused):
        if number < room:
            letter = dead_letters.compose(message.raw, refusal, rules, now)
            dead_letters.dead_letter(client, queue, message.place, message.raw, letter, rules)
        else:
            client.lrem(message.place, 1, message.raw)  # type: ignore[arg-type] # bytes will do
    log.error(
        "messages with a priority", queue=queue, messages=len(refused), dead_letters=max(0, min(room, len(refused)))
    )
