"""HTTP requests to the servers that settings name, bounded in time, bytes, redirects and addresses."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import os
import random
import socket
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from retrieval_client.errors import SettingsError, Unavailable
from worker.adapters.providers.addresses import is_allowed
from worker.core.prompting.costs import MOST_TOKENS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from worker.settings.providers import RemoteSettings, ServerSettings

    Resolve = Callable[[str, int], Sequence[str]]

T = TypeVar("T")

ELSEWHERE = "nothing is sent elsewhere; set the URL that it redirects to, if you trust it"
MAX_REDIRECTS = 3
MAX_BYTES = 20_000_000
"""Most bytes of a provider's response, compressed and decompressed: twice 32 embeddings of 16,000 numbers as JSON."""
REMOTE_BYTES = 1_000_000
"""Most bytes of a remote source's response: twenty times the longest five results that are kept."""
RETRIES = 2
"""Retries after 429, 5xx and lost connections, within the time of the call; the queue retries the job after them."""
_PORTS = {"http": 80, "https": 443}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0

# Another encoding than gzip is refused, because only this one is decompressed within a limit.
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "retrieval-worker"}


class UnusableResponse(Exception):
    """No response that can be used; the message names no URL and quotes nothing."""


class Server:
    """A server of a provider. No redirect is followed: it would take the prompt, and maybe the key, elsewhere.

    Args:
        name: its name in errors.
        url: the URL that paths are appended to.
        settings: key and limits.
    """

    def __init__(self, name: str, url: str, settings: ServerSettings) -> None:
        self._name, self._url, self._settings = name, url, settings
        key = settings.api_key.get_secret_value() if settings.api_key else None
        self._client = httpx.AsyncClient(
            timeout=None,  # noqa: S113 -- `within` limits the whole; time limits of a client are for one read
            headers={**_HEADERS, **({"Authorization": f"Bearer {key}"} if key else {})},
            follow_redirects=False,
        )

    def post(self, path: str, body: Mapping[str, Any], seconds: float = math.inf) -> Any:
        """Post JSON and return the JSON of the response; see `exchange` and `read`."""
        return self.read(self.exchange(path, body, seconds))

    def exchange(self, path: str, body: Mapping[str, Any], seconds: float = math.inf) -> httpx.Response:
        """Post JSON and return the response, whatever its status.

        Args:
            path: appended to the URL; empty: the URL itself.
            body: the request.
            seconds: time limit of the whole, where it is below that of the settings.

        Raises:
            Unavailable: no response in time, or a broken or too long one.
        """
        patience = min(seconds, self._settings.timeout_seconds)
        try:
            with worded_failures():
                url = f"{self._url.rstrip('/')}/{path}" if path else self._url
                request = self._client.build_request("POST", url, json=body)
                return within(patience, lambda: self._try(request, patience))
        except UnusableResponse as error:
            raise Unavailable(f"{self._name} {error}") from None

    async def _try(self, request: httpx.Request, patience: float) -> httpx.Response:
        """Send a request until a server that is not busy answers, or the retries are used up."""
        for retry in range(RETRIES):
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**retry) * random.uniform(0.5, 1.0)  # noqa: S311 -- no secret
            with contextlib.suppress(httpx.TransportError):
                response = await self._send(request)
                with contextlib.suppress(KeyError, ValueError):
                    pause = float(response.headers["Retry-After"])
                # A server that asks for more time than the call has is not waited for: the queue has its own pauses.
                if not _is_busy(response) or not pause < patience:
                    return response
            await asyncio.sleep(pause)
        return await self._send(request)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        return await _read(await self._client.send(request, stream=True), MAX_BYTES)

    def read(self, response: httpx.Response) -> Any:
        """Return the JSON of a response.

        Raises:
            Unavailable: the server is busy or broken.
            SettingsError: it refused the request: the key, the model or a field is unknown; or it redirects.
            ValueError, RecursionError: not JSON; see `reading`.
        """
        status = f"(HTTP {response.status_code})"
        if _is_busy(response):
            raise Unavailable(f"{self._name} failed {status}")
        if response.is_redirect:
            raise SettingsError(f"{self._name} redirects {status}: {ELSEWHERE}")
        if not response.is_success:
            raise SettingsError(f"{self._name} refused the request {status}")
        return response.json()

    @contextlib.contextmanager
    def reading(self, expected: str) -> Iterator[None]:
        """Raise `Unavailable` where the block fails to find in a response what it expects."""
        try:
            yield
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError):
            raise Unavailable(f"{self._name} answered something else than {expected}") from None


def _is_busy(response: httpx.Response) -> bool:
    return response.status_code == httpx.codes.TOO_MANY_REQUESTS or response.is_server_error


def field_of(reply: Any, *path: str) -> Any:
    """Return a field of a reply; None if it is missing."""
    for name in path:
        reply = reply.get(name) if isinstance(reply, dict) else None
    return reply


def counted(reply: Any, *path: str) -> int | None:
    """Return a count of a reply; None if it is missing or invalid."""
    count = field_of(reply, *path)
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS else None


class Fetcher:
    """Client of GET requests. It checks every address of a host and connects to a checked one.

    So a name server that changes its answer has no effect. Proxies of the environment are not used: they would resolve
    names themselves. The only time limit is the caller's.

    Args:
        resolve: function that resolves a host and port; see `worker.adapters.providers.addresses.resolve`.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        # Its own threads: a slow name server must not keep the names of other servers waiting.
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="resolve")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Create the context on first use: loading all certificate authorities is slow."""
        return httpx.create_ssl_context()

    async def get(self, url: str, settings: RemoteSettings) -> bytes:
        """Return the body of a response with status 200; redirects are followed on the same host.

        Raises:
            UnusableResponse: the settings forbid it, the status is not 200, or it can't be reached or read.
        """
        with worded_failures():
            start = target = httpx.URL(url)
            secrets = {name: value.get_secret_value() for name, value in settings.headers.items()}
            for _ in range(1 + MAX_REDIRECTS):
                if target.raw_host != start.raw_host:
                    raise UnusableResponse("led to another host")
                headers = secrets if _origin(target) == _origin(start) else {}
                response = await self._send(target, headers, settings)
                if not response.has_redirect_location:
                    if response.status_code != httpx.codes.OK:
                        raise UnusableResponse(f"answered HTTP {response.status_code}")
                    return response.content
                target = target.join(response.headers["Location"])
                if target.scheme not in _PORTS or (start.scheme, target.scheme) == ("https", "http"):
                    raise UnusableResponse("redirected to a scheme that is not allowed")
        raise UnusableResponse(f"redirected more than {MAX_REDIRECTS} times")

    async def _send(self, url: httpx.URL, headers: Mapping[str, str], settings: RemoteSettings) -> httpx.Response:
        """Send a request to the first address that accepts a connection; each one is checked before."""
        _, host, port = _origin(url)
        if not 0 < port < 1 << 16:
            raise UnusableResponse("led to an invalid port")
        addresses = await asyncio.get_running_loop().run_in_executor(self._threads, self._resolve, host, port)
        if not all(is_allowed(host, address, settings.allow_private) for address in addresses):
            raise UnusableResponse("led to a private address")
        # A transport, not a client: no proxies, cookies, or connections that were checked for another host.
        async with httpx.AsyncHTTPTransport(verify=self._tls) as transport:
            for address in addresses:
                with contextlib.suppress(httpx.ConnectError):
                    response = await transport.handle_async_request(_request(url, address, headers))
                    return await _read(response, REMOTE_BYTES)
        raise UnusableResponse("could not be reached")


def _request(url: httpx.URL, address: str, headers: Mapping[str, str]) -> httpx.Request:
    """Build a request to the address; `Host` and TLS, which checks the certificate, keep the host's name."""
    fields = httpx.Headers(_HEADERS)
    fields.update(headers)
    fields["Host"] = url.netloc.decode("ascii")
    name = {"sni_hostname": url.raw_host.decode("ascii")}
    return httpx.Request("GET", url.copy_with(host=address), headers=fields, extensions=name)


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    """Return scheme, host and port."""
    return url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


@contextlib.contextmanager
def worded_failures() -> Iterator[None]:
    """Raise `UnusableResponse` for all that a request can fail with."""
    try:
        yield
    except socket.gaierror:
        raise UnusableResponse("has no address") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ExceptionGroup) as error:
        raise UnusableResponse(f"failed ({type(error).__name__})") from None


async def _read(response: httpx.Response, byte_limit: int) -> httpx.Response:
    """Read a response whose body has at most ``byte_limit`` bytes, compressed and decompressed, and close it.

    Raises:
        UnusableResponse: it is longer, damaged, or in another encoding than requested.
    """
    try:
        body = await _body(response, byte_limit)
    finally:
        await response.aclose()
    headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
    return httpx.Response(response.status_code, headers=headers, content=body)


async def _body(response: httpx.Response, byte_limit: int) -> bytes:
    """Decompress a body as it arrives, so that memory stays within the limit."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in {"identity", "gzip"}:
        raise UnusableResponse("answered in an encoding that was not requested")
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    received, body = 0, bytearray()
    async for block in response.aiter_raw():
        received += len(block)
        try:
            body += unzip.decompress(block, byte_limit + 1 - len(body)) if unzip else block
        except zlib.error:
            raise UnusableResponse("answered damaged gzip") from None
        if max(received, len(body)) > byte_limit:
            raise UnusableResponse(f"answered more than {byte_limit} bytes")
    if unzip and received and not unzip.eof:
        raise UnusableResponse("broke off")
    return bytes(body)


def within(seconds: float | None, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a request and return its result; cancel it at the deadline, or when the calling thread is interrupted.

    Args:
        seconds: time of the whole, whatever the server does in the meantime; None: the request has limits itself.
        request: function that makes it.

    Raises:
        TimeoutError: no result in time.
    """

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await request()

    future = asyncio.run_coroutine_threadsafe(bounded(), _loop(os.getpid()))
    try:
        return future.result()
    finally:
        future.cancel()  # no effect on a finished request; a job that timed out leaves no request behind


@functools.cache
def _loop(_process: int) -> asyncio.AbstractEventLoop:
    """Return the event loop of a process's requests, in its own thread, so that connections are reused."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="requests", daemon=True).start()
    return loop
