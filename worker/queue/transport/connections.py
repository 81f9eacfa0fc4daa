"""Broker connections that notify the poller before they close, and that forked processes close.

A poller identifies a socket by its number and the open socket behind it. If a pool process still holds a copy when the
main process closes its own, the poller reports the dead socket forever, under a number that the next socket gets.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any

from worker.queue.liveness import probed

if TYPE_CHECKING:
    from collections.abc import Callable

_open: weakref.WeakSet[Any] = weakref.WeakSet()


def announced(connection_class: Any, before_close: Callable[[Any], object]) -> type[Any]:
    """Return a connection class that calls back before it closes, and that a forked process closes at once.

    Args:
        connection_class: redis-py's.
        before_close: called with the connection while its socket is still open.
    """
    base: Any = probed(connection_class)

    class Connection(base):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            _open.add(self)

        def disconnect(self, *args: Any, **options: Any) -> None:
            if self._sock is not None and self.pid == os.getpid():
                before_close(self)
            super().disconnect(*args, **options)

    return Connection


def _close_inherited() -> None:
    for connection in list(_open):
        connection.disconnect()


os.register_at_fork(after_in_child=_close_inherited)
