"""A server on loopback that answers GETs and POSTs as a test says, well or badly."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from email.message import Message

    Page = Callable[["Visit"], None]

ServerT = TypeVar("ServerT", bound=ThreadingHTTPServer)


class Site(ThreadingHTTPServer):
    """Has pages by path.

    Attributes:
        pages: path → what answers there.
        visits: path with query, and headers, of every request.
        sent: bytes of bodies that went out.
        over: set when the server is to end; pages that wait, wait for it.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Visit)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.pages: dict[str, Page] = {}
        self.visits: list[tuple[str, Message]] = []
        self.sent = 0
        self.over = threading.Event()

    @property
    def port(self) -> int:
        return self.server_address[1]

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is what many tests are about."""


class Visit(BaseHTTPRequestHandler):
    """One request, and the ways to answer it."""

    server: Site

    def do_GET(self) -> None:
        self.server.visits.append((self.path, self.headers))
        with contextlib.suppress(OSError):
            self.server.pages[self.path.split("?")[0]](self)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def head(self, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def body(self, content: bytes) -> None:
        self.wfile.write(content)
        self.server.sent += len(content)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def says(content: bytes | Any, status: int = 200, **headers: str) -> Page:
    """A page with this body; what is not bytes goes out as JSON."""

    def page(visit: Visit) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        visit.head(status, **{"Content_Type": "application/json", "Content_Length": str(len(body)), **headers})
        visit.body(body)

    return page


def leads(to: str, status: int = 302) -> Page:
    """A redirect."""
    return lambda visit: visit.head(status, Location=to, Content_Length="0")


def stalls(visit: Visit) -> None:
    """Takes the request, and says nothing."""
    visit.server.over.wait(180)


def drips(visit: Visit) -> None:
    """A byte of the body now and then, for ever."""
    visit.head()
    while not visit.server.over.wait(0.02):
        visit.body(b" ")


def drips_headers(visit: Visit) -> None:
    """A header now and then, for ever."""
    visit.send_response(200)
    while not visit.server.over.wait(0.02):
        visit.send_header("X-More", "1")
        visit.flush_headers()


@contextlib.contextmanager
def answering(server: ServerT, over: threading.Event) -> Iterator[ServerT]:
    """Have a server answer until the end of the block; `over` ends what waits in it then."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def serving(tls: ssl.SSLContext | None = None) -> AbstractContextManager[Site]:
    """A site until the end of the block."""
    site = Site(tls)
    return answering(site, site.over)
