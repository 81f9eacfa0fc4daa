"""Messages that were sent with a priority: stock kombu keeps them in lists of their own, which nobody here consumes.

They are refused where they are, some at a time, and their senders told. However many there are, jobs do not wait for
them, and they take at most half of the places for dead letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kombu.transport.redis import Channel

from worker.queue.transport import excerpts

if TYPE_CHECKING:
    import redis

A_TURN = 100
A_TURN_BYTES = 1_048_576
"""Most that are looked at in one turn; one message more than so many bytes."""

_STEPS = (3, 6, 9)

# The last that came: so none need be searched for in a long list when they are removed.
_LOOK = (
    excerpts.SHORTEN
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


class Prioritised(NamedTuple):
    """A message with a priority, and the list that it is in."""

    place: str
    raw: bytes


def look(client: redis.Redis, queue: str, longest: int) -> list[Prioritised]:
    """Some of a queue's messages with a priority.

    Args:
        client: of the broker.
        queue: its name.
        longest: bytes of a message; a longer one is made an excerpt.
    """
    lists = [f"{queue}{Channel.sep}{step}" for step in _STEPS]
    found: Any = client.eval(_LOOK, len(lists), *lists, A_TURN, A_TURN_BYTES, longest)
    return [Prioritised(place.decode(), raw) for place, raw in found]
