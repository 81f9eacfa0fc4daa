"""A link that can die silently: bytes are lost, and neither end is notified."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Link:
    """A TCP relay on a free loopback port.

    Args:
        connect: opens a connection to the server behind it.

    Attributes:
        port: where it listens.
    """

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._open: list[tuple[socket.socket, threading.Event]] = []
        self._refusing = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def go_silent(self) -> None:
        """Silence all open connections for ever; new connections are carried."""
        for _, silent in self._open:
            silent.set()

    def refuse(self, refusing: bool) -> None:
        """End what is open, and every new connection at once; or be a link again."""
        self._refusing = refusing
        if refusing:
            for end, _ in self._open:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End everything: a socket that is left is collected in the middle of another test, which fails then."""
        self.refuse(True)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone does not wake who waits in `accept`
        for thread in self._threads:
            thread.join(10)
        self._listener.close()
        for end, _ in self._open:
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                near, _ = self._listener.accept()
                if self._refusing:
                    near.close()
                    continue
                far, silent = self._connect(), threading.Event()
                self._open += [(near, silent), (far, silent)]
                for source, sink in ((near, far), (far, near)):
                    self._threads.append(threading.Thread(target=_carry, args=(source, sink, silent), daemon=True))
                    self._threads[-1].start()


def _carry(source: socket.socket, sink: socket.socket, silent: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            if not silent.is_set():
                sink.sendall(data)
    if not silent.is_set():
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def tcp_link(port: int) -> Iterator[Link]:
    """A link to a server on a loopback port."""
    with contextlib.closing(Link(lambda: socket.create_connection(("127.0.0.1", port)))) as link:
        yield link


@contextlib.contextmanager
def socket_link(path: str) -> Iterator[Link]:
    """A link to a server on a Unix socket."""

    def connect() -> socket.socket:
        end = socket.socket(socket.AF_UNIX)
        end.connect(path)
        return end

    with contextlib.closing(Link(connect)) as link:
        yield link
