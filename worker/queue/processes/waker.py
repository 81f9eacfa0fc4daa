"""Waker: ends a wait when a signal arrives, or when the main process is gone."""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket


class Waker:
    """Waits by `select`, which a signal's handler alone would not end: the signal is also written to a socket.

    `parent` is a file that can be read once the main process is gone.
    """

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._signals, self._writer = socket.socketpair()
        for end in (self._signals, self._writer):
            end.setblocking(False)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._selector.register(parent, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Return the number of a file that can be read when a wait must end."""
        return int(self._selector.fileno())

    def wait(self, seconds: float) -> None:
        """Wait for so long at most."""
        self._selector.select(seconds)

    def has_lost_parent(self) -> bool:
        """Forget the signals that arrived, and return whether the main process is gone."""
        with contextlib.suppress(BlockingIOError):
            self._signals.recv(4096)
        return any(key.fd == self._parent for key, _ in self._selector.select(0))

    def close(self) -> None:
        """Let signals end no wait any more."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        self._signals.close()
        self._writer.close()
