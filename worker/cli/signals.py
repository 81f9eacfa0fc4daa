"""The signals that end a command: Ctrl-C (SIGINT), SIGQUIT and SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

SENTENCES = {128 + signal.SIGINT: "interrupted", 128 + signal.SIGQUIT: "quit", 128 + signal.SIGTERM: "terminated"}
"""Exit code → the word for it."""


def ended_sentence(code: int) -> str:
    """Return what a command says when a signal has ended it.

    Args:
        code: its exit code: 130, 131 or 143.
    """
    return f"{SENTENCES[code]}, nothing left running"


def handle_ending(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Set the handler of these signals."""
    for number in ENDING:
        signal.signal(number, handler)


def end_at_once(number: int, _: FrameType | None) -> None:
    """End this process, as the handler of a signal while nothing is started: without unwinding half an import."""
    handle_ending(ignore)
    os.write(2, f"retrieval-worker: {ended_sentence(128 + number)}\n".encode())
    os._exit(128 + number)


def ignore_all() -> None:
    """Ignore these signals for good: Python would let one kill it while it exits.

    Blocked first: Python complains of one that it has noticed and has not handled when it is ignored.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    handle_ending(signal.SIG_IGN)


def ignore(_: int, __: FrameType | None) -> None:
    """Do nothing, as the handler of a signal. With SIG_IGN, Python reports a signal that arrived just before."""


def unwind(number: int, frame: FrameType | None) -> None:
    """Unwind this process, as the handler of a signal while a command runs; a second signal ends it at once."""
    if _is_lost(frame):
        _handle_soon(number, unwind)
        return
    handle_ending(end_at_once)
    raise _exception(number)


def handle_dropped(dropped: sys.UnraisableHookArgs) -> None:
    """Handle a signal again whose exception was dropped, as `sys.unraisablehook`.

    Python drops, and prints with its stack trace, what is raised in a callback of C code, such as a `__del__`.
    """
    number = _number(dropped.exc_value)
    if number is None:
        sys.__unraisablehook__(dropped)
    else:
        _handle_soon(number, unwind if _current is None else _current.receive)


def _exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _number(error: BaseException | None) -> int | None:
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    if isinstance(error, SystemExit) and error.code in SENTENCES:
        return int(error.code) - 128
    return None


def _is_lost(frame: FrameType | None) -> bool:
    """Return whether an exception that is raised in a frame may be lost.

    Some modules that are being imported turn any into their own, and `handle_dropped` has nobody to raise to.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_filename == "<frozen importlib._bootstrap>" or code is handle_dropped.__code__:
            return True
        frame = frame.f_back
    return False


_SOON_SECONDS = 0.02


def _handle_soon(number: int, handler: Callable[[int, FrameType | None], None]) -> None:
    """Call a handler as if the signal arrived a moment later, by a timer: no thread can be started in one."""
    signal.signal(signal.SIGALRM, lambda _, frame: handler(number, frame))
    signal.setitimer(signal.ITIMER_REAL, _SOON_SECONDS)


class _HeldSignals:
    """The last signal that arrived, until it is delivered; later ones are ignored, until what it unwinds is stopped."""

    def __init__(self) -> None:
        self.is_interruptible = False
        self._handlers = {number: signal.getsignal(number) for number in ENDING}
        self._received: int | None = None
        handle_ending(self.receive)

    def deliver(self) -> None:
        """Raise what unwinds the process, if a signal has arrived."""
        if self._received is not None:
            handle_ending(ignore)
            number, self._received = self._received, None
            raise _exception(number)

    def release(self) -> None:
        """Deliver what has arrived; else go back to the handlers from before."""
        self.deliver()
        if signal.getsignal(signal.SIGINT) == self.receive:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Keep the signal, as its handler, and deliver it where that may be."""
        self._received = number
        if self.is_interruptible and _is_lost(frame):
            _handle_soon(number, self.receive)
        elif self.is_interruptible:
            self.deliver()


_current: _HeldSignals | None = None


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Hold these signals back, except inside `interruptible`, so that each process that starts is also stopped.

    One that arrives while processes start or stop is delivered at the next `interruptible`, or at the end.
    """
    global _current  # noqa: PLW0603 -- handlers of signals belong to the process too
    _current = held = _HeldSignals()
    try:
        yield
    finally:
        _current = None
        held.release()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Deliver a signal that is held, and one that arrives inside; without `held_signals`, change nothing."""
    held = _current
    if held is None:
        yield
        return
    held.is_interruptible = True
    try:
        held.deliver()
        yield
    finally:
        held.is_interruptible = False


def deliver_held_signal() -> None:
    """Deliver a signal that is held: for steps that an exception at any other moment would break."""
    with interruptible():
        pass
