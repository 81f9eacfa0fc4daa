"""Server of the pages: uvicorn, without an access log, because addresses name runs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import uvicorn

from retrieval_client.errors import SettingsError
from worker.inspector.web.app import make_app
from worker.inspector.web.connections import BoundedConnection
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.inspector.web.app import Asgi
    from worker.inspector.web.visits import NamedVisitor
    from worker.jobs.engine import Engine
    from worker.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SECONDS_TO_STOP = 5


def serve(
    settings: Settings,
    engine: Engine,
    host: str,
    port: int,
    visitor: NamedVisitor | None,
    certificate: Path | None,
    key: Path | None,
    *,
    root: str,
    is_secure: bool,
    says_key: bool,
    say: Callable[[str], None],
) -> None:
    """Serve the pages until the process is asked to stop.

    Args:
        settings: the worker's settings.
        engine: the worker's engine.
        host: address to listen on.
        port: port to listen on; 0: a free one.
        visitor: the only visitor; None: visitors sign in with tokens.
        certificate: for TLS, with its ``key``; None: plain HTTP.
        key: the certificate's key.
        root: prefix of every address.
        is_secure: True if pages are served by TLS, here or by a proxy.
        says_key: True if the printed address has the visitor's key.
        say: prints the address to open.

    Raises:
        SettingsError: the address can't be used, or the certificate can't be read.
    """
    overview = Overview(settings.broker_url.get_secret_value(), QUEUES)
    app = make_app(settings, engine, overview, visitor=visitor, root=root, is_secure=is_secure)
    listening = _listen(host, port)
    server = make_server(app, certificate, key)
    name = f"[{host}]" if ":" in host else host
    scheme = "https" if certificate else "http"
    try:
        server.config.load()
    except OSError as error:  # with the certificate
        raise SettingsError(f"--certificate {certificate}: {error.strerror or type(error).__name__}") from None
    page = f"sign-in?key={visitor.key}" if visitor and says_key else ""
    say(f"{scheme}://{name}:{listening.getsockname()[1]}{root}/{page}")
    server.run(sockets=[listening])


def make_server(app: Asgi, certificate: Path | None = None, key: Path | None = None) -> uvicorn.Server:
    """Make the server of the pages."""
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_STOP,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    return uvicorn.Server(config)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(f"--host {host} --port {port}: {error.strerror or type(error).__name__}") from None
    # Inherited by each connection; asyncio sets it only where the socket names its protocol. Without it head and body
    # of a page go out 40 ms apart.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
