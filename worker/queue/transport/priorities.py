"""Messages with a priority: stock kombu puts them into separate lists, which no worker here consumes.

They are refused in place, some at a time, and their senders get an error. However many there are, they do not delay
jobs, and they take at most half of the dead-letter entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kombu.transport.redis import Channel

from worker.queue.transport import excerpts, keys

if TYPE_CHECKING:
    import redis

A_TURN = 100
A_TURN_BYTES = 1_048_576
"""Limits of one check; the message that exceeds the bytes is still included."""

_STEPS = (3, 6, 9)

# The latest ones, so that removing them needs no search through a long list.
_LOOK = (
    keys.WHEN_FULL
    + excerpts.SHORTEN
    + """
local found, bytes, longest = {}, 0, tonumber(ARGV[3])
for list = 1, #KEYS do
    local place = 0
    while #found < tonumber(ARGV[1]) and bytes <= tonumber(ARGV[2]) do
        local raw = redis.call('LINDEX', KEYS[list], place)
        if not raw then break end
        if #raw > longest then
            raw = shorten(raw, longest)
            redis.call('LSET', KEYS[list], place, raw)
        end
        found[#found + 1] = {KEYS[list], raw}
        bytes = bytes + #raw
        place = place + 1
    end
end
return found
"""
)


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
    lists = [f"{queue}{Channel.sep}{step}" for step in _STEPS]
    found: Any = client.eval(_LOOK, len(lists), *lists, A_TURN, A_TURN_BYTES, longest)
    return [PriorityMessage(place.decode(), raw) for place, raw in found]
