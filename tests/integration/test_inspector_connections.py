"""The inspector's connections: bodies are counted as they arrive, and a peer that keeps the server waiting is cut."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from tests.integration.inspecting import SIGN_IN, csrf, named, served, settings_of, visitor
from tests.waiting import wait_for

from worker.inspector.web import connections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from worker.jobs.engine import Engine
    from worker.settings import Settings

SECONDS = 30
"""Longest wait for an answer that must come at once."""

HEAD = b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
GET = b"GET /static/htmx.min.js HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNK = b"10000\r\n" + b"x" * 65536 + b"\r\n"
CLOSED = b""


@pytest.fixture
def url(make_settings: Callable[..., Settings], database: str, tmp_path: Path, engine: Engine) -> Iterator[str]:
    """Address of an inspector that visitors sign in to."""
    with served(engine, settings_of(make_settings, database, tmp_path)) as address:
        yield address


def connected(url: str) -> socket.socket:
    """A connection of a client that says nothing yet."""
    parts = urlsplit(url)
    return socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=SECONDS)


def answered(url: str, sent: bytes) -> bytes:
    """First bytes of the answer to what was sent, which need not be a whole request."""
    with connected(url) as client:
        client.sendall(sent)
        return client.recv(12)


def is_cut(client: socket.socket) -> bool:
    """Return whether the server has ended a connection, without reading from it."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


def is_held(client: socket.socket) -> bool:
    """Return whether the server, which is in this process, has its end of a connection still open."""
    port = client.getsockname()[1]
    return any(end.raddr and end.raddr.port == port for end in psutil.Process().net_connections("tcp"))


@pytest.mark.parametrize(
    "sent",
    [
        HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK,
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n" + CHUNK,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK,
        HEAD.replace(b"POST", b"GET") + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK,
    ],
)
def test_a_body_in_chunks_is_refused_at_its_head(url: str, sent: bytes) -> None:
    """Also beside a length; nothing waits for its end, which may never come."""
    assert answered(url, sent) == b"HTTP/1.1 411"


def test_a_body_before_sign_in_is_refused_once_it_is_too_long(url: str) -> None:
    """At the byte that is too much, before the rest is there."""
    for path in (b"/sign-in", b"/sign-out"):
        head = HEAD.replace(b"/sign-in", path) + b"Content-Length: 3000000\r\n\r\ntoken="
        assert answered(url, head + b"x" * 17_000) == b"HTTP/1.1 413", path
    assert answered(url, HEAD.replace(b"/sign-in", b"/quote") + b"Content-Length: 3000000\r\n\r\nx") == b"HTTP/1.1 303"


def test_a_form_of_a_visitor_is_refused_once_it_is_too_long(url: str) -> None:
    """As one before sign-in, with room for a text."""
    with visitor(url) as alice:
        form = {"csrf": csrf(alice), "quote": "a b", "text": "a b " * 250_000}
        assert alice.post("/quote", data=form).status_code == 200
        cookie = "; ".join(f"{name}={value}" for name, value in alice.cookies.items()).encode()
    head = HEAD.replace(b"/sign-in", b"/quote") + b"Cookie: " + cookie + b"\r\nContent-Length: 9000000\r\n\r\n"
    assert answered(url, head + b"x" * 4_100_000) == b"HTTP/1.1 413"


def test_a_form_of_too_many_fields_is_a_400(url: str) -> None:
    """With and without a session: no page of this server breaks on it."""
    fields = {f"f{i}": "x" for i in range(41)}
    assert httpx.post(f"{url}/sign-in", data=fields).status_code == 400
    with visitor(url) as alice:
        assert alice.post("/quote", data={**fields, "csrf": csrf(alice)}).status_code == 400
        assert alice.post("/sign-out", data=fields).status_code == 400


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTT",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: 1\r\n",
        HEAD + b"Content-Length: 300\r\n\r\ntoken=x",
        HEAD.replace(b"/sign-in", b"/quote") + b"Content-Length: 300\r\n\r\ntext=x",
        GET + HEAD + b"Content-Length: 300\r\n\r\ntoken=x",
        GET + b"GET / HTT",
        b"nonsense\r\n\r\n",
    ],
)
def test_a_request_that_does_not_arrive_in_time_is_cut(url: str, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Head and body together, also behind another request; what was answered before is there."""
    monkeypatch.setattr(connections, "SECONDS_TO_WAIT", 0.5)
    with connected(url) as client:
        client.sendall(sent)
        wait_for(lambda: is_cut(client), seconds=SECONDS)
        with contextlib.suppress(ConnectionResetError):
            while client.recv(65536) != CLOSED:
                pass


def test_a_trickle_does_not_buy_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then is no request."""
    monkeypatch.setattr(connections, "SECONDS_TO_WAIT", 1)
    with connected(url) as client:
        client.sendall(HEAD)

        def trickled() -> bool:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"X-A: b\r\n")
            return is_cut(client)

        wait_for(trickled, seconds=SECONDS)


@pytest.mark.parametrize("last", [b"", GET.replace(b"Host", b"Connection: close\r\nHost")])
def test_an_answer_that_is_not_taken_is_cut(url: str, last: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the last one of a connection that ends."""
    monkeypatch.setattr(connections, "SECONDS_TO_WAIT", 0.5)
    with connected(url) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(GET * 400 + last)
        wait_for(lambda: not is_held(client), seconds=SECONDS)


def test_a_page_that_takes_longer_is_answered(
    engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is the peer's: none of it passes while the server works."""
    monkeypatch.setattr(connections, "SECONDS_TO_WAIT", 0.5)
    look = engine.reading.page
    monkeypatch.setattr(engine.reading, "page", lambda *given: (select.select([], [], [], 1.5), look(*given))[1])
    with served(engine, settings, visitor=named()) as url, httpx.Client(base_url=url) as client:
        assert client.get(SIGN_IN, follow_redirects=True).url.path == "/"


def test_silent_connections_lock_nobody_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the most, the one that kept the server waiting longest is cut; a visitor gets in."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    monkeypatch.setattr(connections, "SECONDS_TO_WAIT", 3600.0)  # so that none is cut for its silence
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(connected(url)) for _ in range(40)]
        with visitor(url) as alice:
            assert alice.get("/").status_code == 200
        wait_for(lambda: sum(map(is_cut, clients)) >= 21, seconds=SECONDS)
        assert all(map(is_cut, clients[:20]))


def test_a_form_that_breaks_off_is_no_error_of_the_server(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Before anybody has signed in: no stack trace in the log."""
    for _ in range(5):
        with connected(url) as client:
            client.sendall(HEAD + b"Content-Length: 100\r\n\r\ntoken=x")
    with visitor(url) as alice:  # after them
        assert alice.get("/").status_code == 200
    assert [record.message for record in caplog.records if record.exc_info] == []
