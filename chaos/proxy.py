"""The network between: a TCP proxy on loopback that can swallow, delay and reset what it carries."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Upstream: TypeAlias = "int | str"
"""A server's loopback port, or the path of its Unix socket."""

FORGOTTEN_SECONDS = 30.0
"""Seconds that a server keeps the end of a connection whose other end is cut off: TCP's keepalive ends it too."""


class Mode(Enum):
    """Treatment of arriving bytes."""

    PASS = auto()
    SWALLOW = auto()


class Proxy:
    """One link: listens on a loopback port, and carries every connection to a server.

    A swallowed connection is dead for good: whatever either side sends is gone, and neither end is notified, as where a
    firewall has forgotten it. Connections made while everything is swallowed are taken, and dead from their start.

    Attributes:
        port: where it listens.
        upstream: the server; may be changed, for new connections.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, upstream: Upstream) -> None:
        self.upstream = upstream
        self.port = 0
        self._loop = loop
        self._mode = Mode.PASS
        self._delay = 0.0
        self._pairs: set[_Pair] = set()
        self._server: asyncio.Server | None = None

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(lambda: _ProxyEnd(self, None), "127.0.0.1", 0, backlog=512)
        self.port = self._server.sockets[0].getsockname()[1]

    def start(self) -> None:
        """Listen; from any thread."""
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def blackhole(self, on: bool) -> None:
        """Swallow everything from now on, on old and new connections; or carry new connections again."""
        self._call(self._swallow if on else self._carry)

    def half_open(self) -> None:
        """Kill open connections silently: neither end is notified. New connections are carried."""
        self._call(self._kill_silently)

    def deafen(self) -> None:
        """Drop the servers' replies on open connections from now on, but pass all requests on."""
        self._call(self._deafen)

    def latency(self, seconds: float) -> None:
        """Delay all bytes by this many seconds in each direction."""
        self._call(lambda: setattr(self, "_delay", seconds))

    def reset(self) -> None:
        """Reset all connections, on both sides."""
        self._call(self._reset)

    def stop(self) -> None:
        """Close the port and all connections."""
        self._call(self._close)

    def _call(self, act: Callable[[], object]) -> None:
        has_acted = threading.Event()

        def acting() -> None:
            act()
            self._loop.call_soon(has_acted.set)  # after the closing of what `act` aborted: that is the loop's next step

        self._loop.call_soon_threadsafe(acting)
        has_acted.wait()

    def _swallow(self) -> None:
        self._mode = Mode.SWALLOW
        self._kill_silently()

    def _carry(self) -> None:
        self._mode = Mode.PASS

    def _kill_silently(self) -> None:
        for pair in [*self._pairs]:
            pair.cut()

    def _deafen(self) -> None:
        for pair in self._pairs:
            pair.is_deaf = True

    def _reset(self) -> None:
        for pair in [*self._pairs]:
            pair.reset()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._reset()


class _Pair:
    """A connection: its end at the worker, and its end at the server."""

    def __init__(self, proxy: Proxy, near: _ProxyEnd, far: _ProxyEnd) -> None:
        self.ends = (near, far)
        self.is_cut = False
        self.is_deaf = False
        self.proxy = proxy
        proxy._pairs.add(self)  # noqa: SLF001 -- one module, one thread

    def cut(self) -> None:
        """Carry nothing any more; the server keeps its end for a while, because it is not notified."""
        if not self.is_cut:
            self.is_cut = True
            self.proxy._loop.call_later(FORGOTTEN_SECONDS, self.ends[1].close)  # noqa: SLF001 -- one module, one thread

    def reset(self) -> None:
        """Reset both ends."""
        for end in self.ends:
            end.reset()
        self.proxy._pairs.discard(self)  # noqa: SLF001 -- one module, one thread

    def ended(self, ended_end: _ProxyEnd) -> None:
        """Close the other end as well, unless the pair is cut."""
        if not self.is_cut:
            for end in self.ends:
                if end is not ended_end:
                    end.close()
        if all(end.is_closed for end in self.ends):
            self.proxy._pairs.discard(self)  # noqa: SLF001 -- one module, one thread


class _ProxyEnd(asyncio.Protocol):
    """One end of a pair. The near one makes the far one when it is connected."""

    def __init__(self, proxy: Proxy, peer: _ProxyEnd | None) -> None:
        self.proxy = proxy
        self.peer = peer
        self.pair: _Pair | None = None
        self.transport: asyncio.Transport | None = None
        self.is_closed = False
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 -- for the type checker: a TCP or Unix stream
        self.transport = transport
        if self.peer is None:
            self.peer = _ProxyEnd(self.proxy, self)
            self.pair = self.peer.pair = _Pair(self.proxy, self, self.peer)
            if self.proxy._mode is Mode.SWALLOW:  # noqa: SLF001 -- one module, one thread
                self.pair.cut()
                self.peer.is_closed = True  # it never reaches the server
            else:
                self.task = asyncio.ensure_future(self._reach())
        else:
            for data in self._early:
                transport.write(data)
            self._early.clear()

    async def _reach(self) -> None:
        loop, upstream, far = self.proxy._loop, self.proxy.upstream, self.peer  # noqa: SLF001 -- one module, one thread
        assert far is not None  # noqa: S101 -- for the type checker: set by the caller
        try:
            if isinstance(upstream, int):
                await loop.create_connection(lambda: far, "127.0.0.1", upstream)
            else:
                await loop.create_unix_connection(lambda: far, upstream)
        except OSError:
            far.is_closed = True
            self.reset()
        if self.is_closed:
            far.close()

    def data_received(self, data: bytes) -> None:
        delay = self.proxy._delay  # noqa: SLF001 -- one module, one thread
        if delay:
            self.proxy._loop.call_later(delay, self._hand_over, data)  # noqa: SLF001 -- one module, one thread
        else:
            self._hand_over(data)

    def _hand_over(self, data: bytes) -> None:
        if self.pair is None or self.pair.is_cut or self.peer is None:
            return
        if not (self.pair.is_deaf and self is self.pair.ends[1]):
            self.peer.write(data)

    def write(self, data: bytes) -> None:
        if self.transport is None:
            self._early.append(data)
        elif not self.is_closed:
            self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.is_closed = True
        if self.pair is not None:
            self.pair.ended(self)

    def close(self) -> None:
        if self.transport is not None and not self.is_closed:
            self.transport.close()

    def reset(self) -> None:
        if self.transport is None or self.is_closed:
            return
        end = self.transport.get_extra_info("socket")
        if end is not None and end.family != socket.AF_UNIX:
            with contextlib.suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


@contextlib.contextmanager
def network() -> Iterator[asyncio.AbstractEventLoop]:
    """A thread in which proxies run."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="network", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        asyncio.run_coroutine_threadsafe(_finish(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _finish() -> None:
    """Close all sockets: give up connections that are being made, and wait for aborted ones to close."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)


@contextlib.contextmanager
def proxy(loop: asyncio.AbstractEventLoop, upstream: Upstream) -> Iterator[Proxy]:
    """A proxy until the end of the block."""
    link = Proxy(loop, upstream)
    link.start()
    try:
        yield link
    finally:
        link.stop()
