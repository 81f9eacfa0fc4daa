"""Connections of the pages' server, bounded in number and in the time that a peer keeps the server waiting.

uvicorn bounds neither: its `limit_concurrency` counts a connection once a whole head is there, and its
`timeout_keep_alive` runs only between two requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

MOST_CONNECTIONS = 200
"""Beyond it, the connection that has kept the server waiting longest is ended."""

SECONDS_TO_WAIT = 20.0
"""Longest time that the server waits for a peer: for a whole request, or to take what was answered."""

_ARRIVING = {h11.IDLE, h11.SEND_BODY}


class BoundedConnection(H11Protocol):
    """Connection that is ended if its peer keeps the server waiting too long; the server's own time is not counted."""

    _deadline: asyncio.TimerHandle | None = None

    @property
    def waits_until(self) -> float:
        """When the server stops waiting for the peer, by the loop's clock; infinite while the server works."""
        return self._deadline.when() if self._deadline else math.inf

    def end(self) -> None:
        """End the connection at once."""
        self.connections.discard(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._wait()
        connections: Any = self.connections
        if len(connections) > MOST_CONNECTIONS:
            min(connections, key=lambda connection: connection.waits_until).end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived; a whole request ends the wait."""
        super().handle_events()
        self._wait()

    def on_response_complete(self) -> None:
        """Wait until the peer has taken the answer, or sends another request."""
        super().on_response_complete()
        self._wait()

    def pause_writing(self) -> None:
        """Wait until the peer takes what was answered."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Go on answering."""
        super().resume_writing()
        self._wait()

    def _wait(self) -> None:
        is_answered = self.cycle is None or self.cycle.response_complete
        if not is_answered and not self.flow.write_paused and self.conn.their_state not in _ARRIVING:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(SECONDS_TO_WAIT, self.end)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
