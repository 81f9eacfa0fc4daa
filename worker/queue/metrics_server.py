"""HTTP server of a worker's main process: `/metrics`, `/healthz` and `/readyz`; any other path is 404."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_IDLE_SECONDS = 10.0
"""Time that a client has to send its request."""
_TEXT = "text/plain; charset=utf-8"


class Probed(Protocol):
    """State of a worker, to be asked for: each method returns the problems, none if it is well."""

    def health(self) -> tuple[str, ...]:
        """Return why the worker should be started anew."""

    def readiness(self) -> tuple[str, ...]:
        """Return why the worker can't answer jobs now."""


class MetricsServer:
    """The server, from its creation until `close`, in threads of its own.

    Raises:
        OSError: the address and port can't be bound.
    """

    def __init__(self, address: str, port: int, registry: CollectorRegistry, probes: Probed) -> None:
        class Handler(_Handler):
            pass

        Handler.registry, Handler.probes = registry, probes
        self._server = ThreadingHTTPServer((address, port), Handler)
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    probes: Probed
    timeout = _IDLE_SECONDS
    server_version = sys_version = ""

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/metrics":
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            self._send(200, content_type, encode(self.registry))
        elif path == "/healthz":
            self._send_state(self.probes.health())
        elif path == "/readyz":
            self._send_state(self.probes.readiness())
        else:
            self._send(404, _TEXT, b"expected /metrics, /healthz or /readyz\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send_state(self, problems: tuple[str, ...]) -> None:
        text = "\n".join(problems or ("ok",)) + "\n"
        self._send(503 if problems else 200, _TEXT, text.encode())

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing: a line for each scrape would hide the others."""
