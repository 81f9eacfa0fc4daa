"""How long messages wait in a queue: measured by Redis' clock, whatever senders say, by regular looks at what is there.

What was taken and what waits make what has arrived; each look notes that number and the time. A message was first
seen at the first look at which as many had arrived, and waits until the look that sees it taken. So a wait is right
within the interval of looks if the queue is first in, first out. With turns (`turns`) callers overtake each other, and
a wait is that of a place in the queue: all messages together waited as long as it says, those of a flood longer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from worker.queue.broker import keys
from worker.queue.lua import Script

if TYPE_CHECKING:
    import redis

_LOOK = Script("look_at_waits")
LEAST_SECONDS = 0.5
"""Looks of several workers that are closer to each other are one."""

_FIRST_MARKS = 8
"""Marks that are read for the age of the oldest message: a look, a second ago at most, removed those before."""


class Wait(NamedTuple):
    """Messages that were taken, and how long they had waited, in seconds."""

    messages: int
    seconds: float


def look(client: redis.Redis, queue: str, least_seconds: float = LEAST_SECONDS) -> list[Wait]:
    """Note what has arrived, and return how long what was taken since the last look had waited.

    Does nothing if another worker has looked within `least_seconds`.
    """
    names = [queue, keys.numbers(queue), keys.marks(queue)]
    reply = _LOOK.run(client.execute_command, names, least_seconds) or []
    return [Wait(count, tenths / 10) for count, tenths in zip(reply[::2], reply[1::2], strict=True)]


def oldest_seconds(client: redis.Redis, queue: str, redis_time: float) -> float:
    """Return how long the first message of a queue has waited; 0 if none waits, or none was seen by a look yet."""
    taken: Any = client.hget(keys.numbers(queue), "taken")
    for place in range(_FIRST_MARKS):
        mark: Any = client.lindex(keys.marks(queue), place)
        if mark is None:
            break
        number, _, at = mark.decode().partition(" ")
        if int(number) > int(taken or 0):
            return max(0.0, redis_time - float(at))
    return 0.0
