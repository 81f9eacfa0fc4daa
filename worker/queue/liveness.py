"""Connections to Redis that are asked whether they still live, where that is in doubt.

A connection that a firewall has forgotten, or that was made while the network swallowed everything, never says so:
whoever uses it waits for the whole answer time. Where one is silent, all that are as old are silent too, and each of
them would cost as much. So a connection has to answer a short question first, if it was idle, or if another one to the
same server was silent since it was made. If it does not, it is made anew.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import redis

if TYPE_CHECKING:
    Server: TypeAlias = "tuple[str, int] | str"

PATIENCE_SECONDS = 0.5
"""So long a connection in doubt may take to answer."""

_silences: dict[Server, int] = {}
"""How often a connection of this process was silent, by server."""


@functools.cache
def probed(connection_class: Any) -> Any:
    """A class of connections that are asked where they are in doubt.

    Args:
        connection_class: redis-py's. Its ``health_check_interval`` says after how many idle seconds one is in doubt.

    Returns:
        Its subclass. A command that comes before the question was answered has not been sent: it is safe to wait for
        the new connection, but for one that is in the middle of a ``WATCH``, which this project does not use.
    """

    class Connection(connection_class):  # type: ignore[misc] # which class, Celery and kombu decide
        _known_silences = 0

        def connect_check_health(self, *args: Any, **options: Any) -> None:
            """Connect, if it is not; what was silent before is none of its matter."""
            known = _silences.get(_server(self), 0)
            if self._sock is None:
                self._known_silences = known
            super().connect_check_health(*args, **options)

        def check_health(self) -> None:
            """Before a command: ask, if there is doubt."""
            is_idle = self.health_check_interval and time.monotonic() > self.next_health_check
            if is_idle or self._known_silences != _silences.get(_server(self), 0):
                self._ask()

        def _ask(self) -> None:
            self._known_silences = _silences.get(_server(self), 0)
            with contextlib.suppress(redis.RedisError):
                self.send_command("PING", check_health=False)
                if self.can_read(timeout=PATIENCE_SECONDS):
                    self.read_response()
                    return
            self.disconnect()
            self.connect()

        def read_response(self, *args: Any, **options: Any) -> Any:
            """An answer; that there is none is noted for the others."""
            try:
                return super().read_response(*args, **options)
            except redis.TimeoutError:
                server = _server(self)
                _silences[server] = _silences.get(server, 0) + 1
                raise

    return Connection


def _server(connection: Any) -> Server:
    """Where a connection leads: host and port, or the path of a socket."""
    path: str | None = getattr(connection, "path", None)
    return path if path is not None else (connection.host, connection.port)
