"""GET requests to hosts that settings name, with bounds on hosts, redirects and size."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import httpx

from worker.adapters.providers.addresses import is_allowed
from worker.adapters.providers.bodies import ACCEPTED, UnusableResponse, read_body

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    Resolve = Callable[[str, int], Sequence[str]]

MAX_REDIRECTS = 3
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of a GET request.

    Attributes:
        hosts: the allowed hosts, in lower case.
        private: hosts, addresses and networks that are allowed although they are private.
        headers: sent to the first URL's origin only.
        max_bytes: maximum size of the body, compressed and decompressed.
    """

    hosts: frozenset[str]
    private: frozenset[str]
    headers: Mapping[str, str]
    max_bytes: int


class Fetcher:
    """Client of GET requests. It checks every address of a host and connects to a checked one.

    So a name server that changes its answer has no effect. Proxies of the environment are not used: they would resolve
    names themselves. The only time limit is the caller's.

    Args:
        resolve: function that resolves a host and port; see `worker.adapters.providers.addresses.resolve`.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        # Our own pool: `asyncio.run` would wait for its own threads, and a name server may be slow.
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="resolve")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Create the context on first use: loading all certificate authorities is slow."""
        return httpx.create_ssl_context()

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def get(self, url: str, rules: Rules) -> bytes:
        """Return the body of a response with status 200; redirects are followed within the rules.

        Raises:
            Refused: a rule forbids it, or the status is not 200.
            httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ExceptionGroup: it can't be reached or read.
        """
        start = target = httpx.URL(url)
        for _ in range(1 + MAX_REDIRECTS):
            headers = rules.headers if _origin(target) == _origin(start) else {}
            async with self._answer(target, headers, rules) as answer:
                if not answer.has_redirect_location:
                    return await _body(answer, rules.max_bytes)
                target = target.join(answer.headers["Location"])
            if target.scheme not in _PORTS or (start.scheme, target.scheme) == ("https", "http"):
                raise UnusableResponse("redirected to a scheme that is not allowed")
        raise UnusableResponse(f"redirected more than {MAX_REDIRECTS} times")

    @contextlib.asynccontextmanager
    async def _answer(self, url: httpx.URL, headers: Mapping[str, str], rules: Rules) -> AsyncIterator[httpx.Response]:
        addresses = await self._checked(url, rules)
        # A transport, not a client: no proxies, cookies, logs or time limits (those are per read).
        async with httpx.AsyncHTTPTransport(verify=self._tls) as transport:
            answer = await _first(transport, [_request(url, address, headers) for address in addresses])
            try:
                yield answer
            finally:
                await answer.aclose()

    async def _checked(self, url: httpx.URL, rules: Rules) -> Sequence[str]:
        host, port = _host(url), _port(url)
        if host not in rules.hosts:
            raise UnusableResponse("led to a host that is not allowed")
        if not 0 < port < 1 << 16:
            raise UnusableResponse("led to an invalid port")
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._threads, self._resolve, host, port)
        if not all(is_allowed(host, address, rules.private) for address in addresses):
            raise UnusableResponse("led to a private address")
        return addresses


def _request(url: httpx.URL, address: str, headers: Mapping[str, str]) -> httpx.Request:
    """Build a request to the address; `Host` and TLS, which checks the certificate, keep the host's name."""
    fields = httpx.Headers({"Accept": "application/json", "User-Agent": "retrieval-worker"})
    fields.update(headers)
    fields.update({"Host": url.netloc.decode("ascii"), **ACCEPTED})
    return httpx.Request("GET", url.copy_with(host=address), headers=fields, extensions={"sni_hostname": _host(url)})


async def _first(transport: httpx.AsyncHTTPTransport, requests: Sequence[httpx.Request]) -> httpx.Response:
    """Return the response of the first address that accepts a connection."""
    for request in requests[:-1]:
        with contextlib.suppress(httpx.ConnectError):
            return await transport.handle_async_request(request)
    return await transport.handle_async_request(requests[-1])


async def _body(answer: httpx.Response, byte_limit: int) -> bytes:
    if answer.status_code != httpx.codes.OK:
        raise UnusableResponse(f"answered HTTP {answer.status_code}")
    return await read_body(answer, byte_limit)


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _port(url: httpx.URL) -> int:
    return url.port or _PORTS[url.scheme]


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, _host(url), _port(url)
