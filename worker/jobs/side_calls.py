"""Calls beside a job's own thread: one that fails or is late takes nothing else with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from typing import TYPE_CHECKING, Generic, TypeVar

from worker.errors import InternalError, RetrievalError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from worker.core.prompting.costs import Paid, Tokens

T = TypeVar("T")

AT_ONCE = 8


class SideCall(Generic[T]):
    """A call that was started.

    Args:
        future: what comes of it.
        charges: what was paid for it so far.
    """

    def __init__(self, future: Future[T], charges: list[tuple[str, str, Tokens]]) -> None:
        self._future = future
        self._charges = charges

    def outcome(self, paid: Paid, seconds: float | None = None) -> T | RetrievalError:
        """What came of it within so many seconds: its result, or why there is none; never raises.

        ``paid`` is told here, in the caller's thread, so that the order of calls on a bill is that of the callers.
        """
        try:
            error = self._future.exception(seconds)
        except LateError:
            self._future.cancel()
            error = TimedOut("a call did not end before the deadline")
        for charge in [*self._charges]:
            paid(*charge)
        if error is None:
            return self._future.result()
        # Of an unexpected error only the class is told: its text may quote what was sent.
        return error if isinstance(error, RetrievalError) else InternalError(f"a call failed ({type(error).__name__})")


class SideCalls:
    """Starts calls, each in a thread of its own."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="side")

    def start(self, call: Callable[[Paid], T]) -> SideCall[T]:
        """Start a call; it is given what to tell of its charges."""
        charges: list[tuple[str, str, Tokens]] = []
        return SideCall(self._threads.submit(call, lambda *charge: charges.append(charge)), charges)

    def close(self) -> None:
        """Let threads end once they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)
