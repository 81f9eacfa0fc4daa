"""Messages with a priority: stock kombu puts them into separate lists, which no worker here consumes.

They are refused in place, some at a time, and their senders get an error. However many there are, they do not delay
jobs, and they take at most half of the dead-letter entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worker.adapters import logs
from worker.queue import records
from worker.queue.broker import dead_letters, excerpts, inspection, keys
from worker.queue.broker.inspection import Refusal
from worker.queue.lua import Script

if TYPE_CHECKING:
    from datetime import datetime

    import redis

    from worker.queue.broker.inspection import Rules
    from worker.queue.records import RecordStore

log = logs.logger("worker.broker")

A_TURN = 100
A_TURN_BYTES = 1_048_576
"""Limits of one check; the message that exceeds the bytes is still included."""

_LOOK, _REQUEUE = Script("look_at_priorities", excerpts.SHORTEN), Script("requeue")


def refuse(client: redis.Redis, queue: str, rules: Rules, redis_time: datetime, store: RecordStore) -> None:
    """Refuse some messages with a priority, after storing the failures of their jobs; requeue those without one.

    Raises:
        redis.RedisError: some failures could not be stored; all messages stay.
    """
    lists = [queue + end for end in keys.PRIORITIES[1:]]
    refused: list[tuple[str, bytes, Refusal]] = []
    for name, raw in _LOOK.run(client.execute_command, lists, A_TURN, A_TURN_BYTES, rules.max_bytes):
        place, inspected = name.decode(), inspection.inspect(raw, rules, redis_time)
        if isinstance(inspected, Refusal):
            refused.append((place, raw, inspected))
        else:
            _REQUEUE.run(client.execute_command, [place, queue, keys.numbers(queue)], raw)
    if not refused:
        return
    store.put([records.refusal(refusal.id, refusal.error) for *_, refusal in refused if refusal.id])
    length: Any = client.xlen(keys.dead(queue))
    room = max(0, rules.dead_entries // 2 - length)
    for place, raw, refusal in refused[:room]:
        dead_letters.dead_letter(
            client, queue, place, raw, dead_letters.compose(raw, refusal, rules, redis_time), rules
        )
    for place, raw, _ in refused[room:]:
        client.lrem(place, 1, raw)  # type: ignore[arg-type] # bytes will do
    log.error("messages with a priority", queue=queue, messages=len(refused), dead_letters=min(room, len(refused)))
