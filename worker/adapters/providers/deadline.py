"""Requests with a deadline, whatever the server does in the meantime.

Time limits of HTTP clients are for one read; a server that sends a byte now and then never reaches them.
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
    """Run a request and return its result; cancel it at the deadline, or when the calling thread is interrupted.

    Raises:
        TimeoutError: no result in time.
    """

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await request()

    future = asyncio.run_coroutine_threadsafe(bounded(), _loop(os.getpid()))
    try:
        return future.result()
    finally:
        future.cancel()  # no effect on a finished request; a job that timed out leaves no request behind


@functools.cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of a process's requests, in its own thread, so that connections are reused."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests", daemon=True).start()
    return loop
