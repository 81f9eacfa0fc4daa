"""Bytes between a side and Postgres: a relay in front of the server's socket counts what passes."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOCKET = ".s.PGSQL.5432"
"""The name that libpq looks for in a folder given as the host."""

_BUFFER = 1 << 16


class Carried(NamedTuple):
    """Bytes that passed so far.

    Attributes:
        to_server: to the server.
        from_server: from the server.
    """

    to_server: int
    from_server: int


class _Relay:
    """Carries every connection to the server, each direction in a thread of its own."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._passed = [0, 0]

    def serve(self, listening: socket.socket) -> None:
        """Take connections until the listening socket is shut."""
        with contextlib.suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._server)
                self._ends += (near, far)
                for way, ends in enumerate(((near, far), (far, near))):
                    threading.Thread(target=self._carry, args=(way, *ends), daemon=True).start()

    def _carry(self, way: int, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BUFFER):
                with self._lock:
                    self._passed[way] += len(data)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def read(self) -> Carried:
        """Bytes that passed so far, in both directions."""
        with self._lock:
            return Carried(*self._passed)

    def close(self) -> None:
        """End all connections."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextlib.contextmanager
def relay(server: str, folder: Path) -> Iterator[_Relay]:
    """Listen in ``folder`` as Postgres would, and carry everything to the socket in the folder ``server``."""
    carrying = _Relay(f"{server}/{SOCKET}")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / SOCKET))
        listening.listen(64)
        thread = threading.Thread(target=carrying.serve, args=(listening,))
        thread.start()
        try:
            yield carrying
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            carrying.close()
