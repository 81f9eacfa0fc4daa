"""Application of the inspector: its routes, and what stands around every page."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.routing import Route

from worker.adapters import logs
from worker.inspector import SESSION_SECONDS
from worker.inspector.evaluations import Evaluations
from worker.inspector.reading import RunViews
from worker.inspector.rendering import make_environment
from worker.inspector.web import pages
from worker.inspector.web.asking import Asking
from worker.inspector.web.site_parts import Site
from worker.inspector.web.visits import Attempts, Sessions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

    from worker.inspector.web.visits import NamedVisitor
    from worker.jobs.engine import Engine
    from worker.queue.overview import Overview
    from worker.settings import Settings

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

log = logs.logger("worker.inspector")

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


ROUTES = (
    Route("/", pages.runs, name="runs"),
    Route("/run", pages.run, name="run"),
    Route("/source", pages.source, name="source"),
    Route("/citations", pages.citations, name="citations"),
    Route("/citations/decide", pages.decide, methods=["POST"], name="decide"),
    Route("/drift", pages.drift, name="drift"),
    Route("/report", pages.report, name="report"),
    Route("/quote", pages.quote, methods=["GET", "POST"], name="quote"),
    Route("/ask", pages.ask, methods=["GET", "POST"], name="ask"),
    Route("/asked", pages.asked, name="asked"),
    Route("/compare", pages.compare, name="compare"),
    Route("/queue", pages.queue, methods=["GET", "POST"], name="queue"),
    Route("/evaluate", pages.evaluate, name="evaluate"),
    Route("/sign-in", pages.sign_in, methods=["GET", "POST"], name="sign-in"),
    Route("/sign-out", pages.sign_out, methods=["POST"], name="sign-out"),
    Route("/static/{name}", pages.static, name="static"),
)


def make_app(
    settings: Settings,
    engine: Engine,
    overview: Overview,
    *,
    visitor: NamedVisitor | None = None,
    root: str = "",
    is_secure: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Asgi:
    """Make the application.

    Args:
        settings: the worker's settings.
        engine: the worker's engine, in this process.
        overview: the queues.
        visitor: the only visitor; only for a server on a loopback address.
        root: prefix of every address behind a proxy: ``/inspector``; the proxy may strip it or not.
        is_secure: True if pages are served by TLS, here or by the proxy.
        clock: for sessions and attempts, monotonic.
    """
    site = Site(
        settings,
        RunViews(engine.reading, engine.paths, engine.accepted),
        engine,
        Asking(engine),
        overview,
        Evaluations(Path(settings.inspector.evaluations) if settings.inspector.evaluations else None),
        Sessions(SESSION_SECONDS, clock),
        Attempts(clock),
        make_environment(),
        root,
        visitor,
        is_secure,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        site.asking.close()

    app = Starlette(
        routes=list(ROUTES), lifespan=lifespan, exception_handlers={404: pages.not_found, 405: pages.not_found}
    )
    app.state.site = site
    return _guarded(app, site)


def _guarded(app: Asgi, site: Site) -> Asgi:
    """Refuse requests of other hosts and with bodies in chunks, strip the prefix, and add the headers."""

    async def guarded(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        sending = _with_headers(send, site)
        refusal = _refusal(headers, scope["method"], site)
        if refusal is not None:
            await _refuse(sending, *refusal)
            return
        path = scope["path"]
        if site.root and (path == site.root or path.startswith(site.root + "/")):
            path = path[len(site.root) :] or "/"
        await app({**scope, "path": path, "raw_path": path.encode(), "root_path": ""}, receive, sending)

    return guarded


def _refusal(headers: dict[bytes, str], method: str, site: Site) -> tuple[int, str] | None:
    """Return status and sentence for a request that no page may see; None for others."""
    if site.visitor is not None and not _is_loopback(headers.get(b"host", "")):
        return 421, "this server answers on a loopback address only"  # a name that was bound to it elsewhere
    if b"transfer-encoding" in headers:
        return 411, "the form has no length, or has it in chunks"
    if method == "POST" and headers.get(b"sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        return 403, "this form was sent by another site"
    return None


def _is_loopback(host: str) -> bool:
    name, _, port = host.rpartition(":")
    return host in _LOOPBACK or (name in _LOOPBACK and port.isdecimal())


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = sentence.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send, site: Site) -> Send:
    added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    if site.is_secure:
        added.append((b"strict-transport-security", b"max-age=31536000"))

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            cache_headers = [] if b"cache-control" in present else [(b"cache-control", b"no-store")]
            message["headers"] = [*message["headers"], *added, *cache_headers]
        await send(message)

    return sending
