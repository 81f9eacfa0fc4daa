"""A link to Redis that loses the next reply or command, or holds commands back: nothing here takes time."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Fault = Literal["reply", "command"]


class FaultyLink:
    """Stands between processes and Redis.

    Attributes:
        port: where it listens.
    """

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._fault: Fault | None = None
        self._passed_on = 0
        self._pairs: list[_Pair] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, fault: Fault, number: int = 0) -> None:
        """Lose a command before Redis reads it, or a reply; both ends of its connection are closed.

        Args:
            fault: which of the two.
            number: how many are passed on before.
        """
        self._fault, self._passed_on = fault, number

    def hold(self, first: int = 0, *, cut: bool = False) -> None:
        """Keep what is said to Redis on the connections that are open, also that they are closed.

        Args:
            first: number of the first such connection, in the order in which they were made.
            cut: True: close its end at the process as soon as the process has said something.
        """
        for pair in self._pairs[first:]:
            pair.held, pair.is_cut = b"", cut

    def resume(self) -> None:
        """Pass on what was held, and what comes."""
        for pair in self._pairs:
            with pair.lock:
                pair.server.sendall(pair.held or b"")
                pair.held = None

    def release(self) -> None:
        """Pass on what was held, and wait until Redis has run it and closed the connections."""
        for pair in self._pairs:
            if pair.held is not None:
                with contextlib.suppress(OSError):  # Redis has closed it
                    pair.server.sendall(pair.held)
                    pair.server.shutdown(socket.SHUT_WR)
                pair.replying.join()

    def close(self) -> None:
        """Close all."""
        self._listener.close()
        for pair in self._pairs:
            pair.close()

    def lost(self, fault: Fault) -> bool:
        """Return whether this is to be lost; only one is."""
        self._passed_on -= self._fault == fault
        is_hit = self._fault == fault and self._passed_on < 0
        self._fault = None if is_hit else self._fault
        return is_hit

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                pair = _Pair(self, client, socket.create_connection(self._to))
                self._pairs.append(pair)  # known before it passes anything on
                pair.start()


class _Pair:
    """A connection to the link, and the one from it to Redis."""

    def __init__(self, link: FaultyLink, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.held: bytes | None = None
        self.is_cut = False
        self.lock = threading.Lock()
        self._link = link
        self.replying = threading.Thread(target=self._reply, daemon=True)

    def start(self) -> None:
        """Pass on what both ends say."""
        self.replying.start()
        threading.Thread(target=self._command, daemon=True).start()

    def _command(self) -> None:
        with contextlib.suppress(OSError):
            while (data := self.client.recv(65536)) and not self._link.lost("command"):
                with self.lock:
                    if self.held is None:
                        self.server.sendall(data)
                    else:
                        self.held += data
                        if self.is_cut:
                            _end(self.client)
        if self.held is None:
            self.close()

    def _reply(self) -> None:
        with contextlib.suppress(OSError):
            while (data := self.server.recv(65536)) and not self._link.lost("reply"):
                with contextlib.suppress(OSError):
                    self.client.sendall(data)
        self.close()

    def close(self) -> None:
        """Close both ends, which ends its threads."""
        _end(self.client)
        _end(self.server)


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextlib.contextmanager
def faulty_link(port: int) -> Iterator[FaultyLink]:
    """A link until the end of the block."""
    link = FaultyLink(port)
    try:
        yield link
    finally:
        link.close()
