"""The signals that end a command: Ctrl-C (SIGINT), SIGQUIT and SIGTERM."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
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


def ignore(_: int, __: FrameType | None) -> None:
    """Do nothing, as the handler of a signal. With SIG_IGN, Python reports a signal that arrived just before."""


def unwind(number: int, frame: FrameType | None) -> None:
    """Unwind this process, as the handler of a signal while a command runs; a second signal ends it at once."""
    if _comes_too_early(number, frame):
        return
    handle_ending(end_at_once)
    raise _exception(number)


def send_dropped_again(dropped: sys.UnraisableHookArgs) -> None:
    """Send a signal again whose exception was dropped, as `sys.unraisablehook`.

    Python drops, and prints with its stack trace, what is raised in a callback of C code, such as a `__del__`.
    """
    number = _number(dropped.exc_value)
    if number is None:
        sys.__unraisablehook__(dropped)
        return
    handle_ending(unwind if _current is None else _current.receive)
    _send_again(number)


def _exception(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)


def _number(error: BaseException | None) -> int | None:
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    if isinstance(error, SystemExit) and error.code in SENTENCES:
        return int(error.code) - 128
    return None


_AGAIN_SECONDS = 0.02


def _comes_too_early(number: int, frame: FrameType | None) -> bool:
    """Return whether a module is being imported, of which some turn any exception into their own, and send it again."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    if frame is None:
        return False
    _send_again(number)
    return True


def _send_again(number: int) -> None:
    again = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, (threading.main_thread().ident, number))
    again.daemon = True
    again.start()


class _HeldSignals:
    """The last signal that arrived, until it is delivered; later ones are ignored, until what it unwinds is stopped."""

    def __init__(self) -> None:
        self.is_interruptible = False
        self._handlers = {number: signal.getsignal(number) for number in ENDING}
        self.received: int | None = None
        handle_ending(self.receive)

    def deliver(self) -> None:
        """Raise what unwinds the process, if a signal has arrived."""
        if self.received is not None:
            handle_ending(ignore)
            number, self.received = self.received, None
            raise _exception(number)

    def release(self) -> None:
        """Deliver what has arrived; else go back to the handlers from before."""
        self.deliver()
        if signal.getsignal(signal.SIGINT) == self.receive:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Keep the signal, as its handler, and deliver it where that may be."""
        self.received = number
        if self.is_interruptible and not _comes_too_early(number, frame):
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
