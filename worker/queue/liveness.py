"""Liveness probes for Redis connections.

A connection that a firewall has dropped, or that was opened while the network lost all packets, reports no error: its
user waits for the whole reply timeout. If one is silent, all of the same age are, and each would cost the same time. So
a connection is probed with a ``PING`` before a command if it was idle, or if another one to the same server has timed
out since it was opened. If the probe fails, it reconnects.
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
"""Time limit for the reply to a probe."""

_silences: dict[Server, int] = {}
"""Number of reply timeouts in this process, by server."""


@functools.cache
def probed(connection_class: Any) -> Any:
    """Return a connection class that probes before a command if it was idle or a peer timed out.

    Args:
        connection_class: redis-py's. Its ``health_check_interval`` is the number of idle seconds before a probe.

    Returns:
        Its subclass. A command is sent only after the probe was answered, so reconnecting is safe, except in the middle
        of a ``WATCH``, which this project does not use.
    """

    class Connection(connection_class):  # type: ignore[misc] # which class, Celery and kombu decide
        _known_silences = 0

        def connect_check_health(self, *args: Any, **options: Any) -> None:
            """Connect if necessary; timeouts before the connection was opened do not count."""
            known = _silences.get(_server(self), 0)
            if self._sock is None:
                self._known_silences = known
            super().connect_check_health(*args, **options)

        def check_health(self) -> None:
            """Probe before a command if necessary."""
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
            """Read a reply; count a timeout for the other connections."""
            try:
                return super().read_response(*args, **options)
            except redis.TimeoutError:
                server = _server(self)
                _silences[server] = _silences.get(server, 0) + 1
                raise

    return Connection


def _server(connection: Any) -> Server:
    """Return a connection's server: host and port, or the path of a socket."""
    path: str | None = getattr(connection, "path", None)
    return path if path is not None else (connection.host, connection.port)
