"""Side calls: optional calls in threads of their own; one that fails or is late affects nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from typing import TYPE_CHECKING, Generic, TypeVar

from retrieval_client.errors import InternalError, RetrievalError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from worker.core.prompting.costs import Paid, Tokens

T = TypeVar("T")

AT_ONCE = 8


class SideCall(Generic[T]):
    """Started call.

    Args:
        future: its result.
        charges: costs of its model calls so far.
    """

    def __init__(self, future: Future[T], charges: list[tuple[str, str, Tokens]]) -> None:
        self._future = future
        self._charges = charges

    def outcome(self, paid: Paid, seconds: float | None = None) -> T | RetrievalError:
        """Return its result, or its error after at most ``seconds``; never raises.

        ``paid`` is called here, in the caller's thread, so that the order of entries on a bill is the caller's.
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
        # Of an unexpected error only the class is returned: its text may quote the request.
        return error if isinstance(error, RetrievalError) else InternalError(f"a call failed ({type(error).__name__})")


class SideCalls:
    """Starter of calls, each in its own thread."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="side")

    def start(self, call: Callable[[Paid], T]) -> SideCall[T]:
        """Start a call; it gets a function that records its costs."""
        charges: list[tuple[str, str, Tokens]] = []
        return SideCall(self._threads.submit(call, lambda *charge: charges.append(charge)), charges)

    def close(self) -> None:
        """Stop the threads once they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)
