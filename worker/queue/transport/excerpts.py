"""Messages that are too long: Redis looks at the length, and only an excerpt of one ever reaches a worker.

An excerpt stands in the message's place, wherever that is, and is refused like any other malformed message. So the
message is dead-lettered once, its sender is told, and its bytes are not sent from one place to the next.
"""

from __future__ import annotations

import re

PART_BYTES = 16_384
"""So much of the beginning and of the end: a message's id stands in one of them."""

SHORTEN = f"""
local function shorten(message, longest)
    if #message <= longest then return message end
    return 'too long: ' .. #message .. ' bytes\\n' .. string.sub(message, 1, {PART_BYTES})
        .. string.sub(message, -{PART_BYTES})
end
"""
"""Lua: a message as it is, or an excerpt if it is longer than it may be."""

_HEAD = re.compile(rb"too long: (\d{1,15}) bytes\n")

SHORTEN_LIST = (
    SHORTEN
    + """
for place = 0, redis.call('LLEN', KEYS[1]) - 1 do
    local message = redis.call('LINDEX', KEYS[1], place)
    if #message > tonumber(ARGV[1]) then
        redis.call('LSET', KEYS[1], place, shorten(message, tonumber(ARGV[1])))
    end
end
"""
)
"""Lua: puts excerpts into a list, in place of messages that are longer than they may be."""


def is_excerpt(raw: bytes) -> bool:
    """Whether this stands in a longer message's place."""
    return _HEAD.match(raw) is not None


def sent_bytes(raw: bytes) -> int:
    r"""How long a message was when it was sent.

    >>> sent_bytes(b"{}"), sent_bytes(b'too long: 314572800 bytes\n{"body": "')
    (2, 314572800)
    """
    head = _HEAD.match(raw)
    return int(head[1]) if head else len(raw)
