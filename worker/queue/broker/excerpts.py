"""Excerpts of messages that are too long: Redis checks the length, and only an excerpt ever reaches a worker.

An excerpt replaces the message in place and is refused like any other malformed message. So the message is
dead-lettered once, its sender gets an error, and its bytes are never transferred.
"""

from __future__ import annotations

import re

PART_BYTES = 16_384
"""Bytes kept of the beginning and of the end: a message's id is in one of them."""

SHORTEN = f"""
local function shorten(message, longest)
    if #message <= longest then return message end
    return 'too long: ' .. #message .. ' bytes\\n' .. string.sub(message, 1, {PART_BYTES})
        .. string.sub(message, -{PART_BYTES})
end
"""
"""Lua function: returns a message, or an excerpt of one that is longer than allowed."""

_HEAD = re.compile(rb"too long: (\d{1,15}) bytes\n")


def is_excerpt(raw: bytes) -> bool:
    """Return whether this is an excerpt of a longer message."""
    return _HEAD.match(raw) is not None


def sent_bytes(raw: bytes) -> int:
    r"""Return the length of a message as sent, in bytes.

    >>> sent_bytes(b"{}"), sent_bytes(b'too long: 314572800 bytes\n{"body": "')
    (2, 314572800)
    """
    head = _HEAD.match(raw)
    return int(head[1]) if head else len(raw)
