"""Requests that end: each is awaited for so many seconds, whatever its server does in the meantime.

Time limits of HTTP clients are for one read, and a server that sends a byte now and then never meets them.
"""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


def within(seconds: float, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What a request brings; it is cancelled when its time is over, or when the caller is interrupted.

    Raises:
        TimeoutError: it did not end in time.
    """

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await request()

    future = asyncio.run_coroutine_threadsafe(bounded(), _loop(os.getpid()))
    try:
        return future.result()
    finally:
        future.cancel()  # no more than a word where it is over; a job that ran out of time leaves no request behind


@functools.cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """The loop that a process's requests run on, in a thread of its own: connections are kept from one to the next."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests", daemon=True).start()
    return loop
