"""A signal that interrupts a test, as a worker's soft time limit interrupts a job."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class TimeIsUp(Exception):
    """Raise in a signal handler, as a worker's soft time limit does."""


@contextlib.contextmanager
def alarm(error: type[BaseException] = TimeIsUp) -> Iterator[None]:
    """A signal half a second from now, whose handler raises."""

    def interrupt(*_: Any) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
