"""GET from hosts that are named in settings, bounded in where it leads and in what it brings."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import httpx

from worker.adapters.providers.addresses import is_allowed
from worker.adapters.providers.bodies import ACCEPTED, Refused, read_body

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    Resolve = Callable[[str, int], Sequence[str]]

MAX_REDIRECTS = 3
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Rules:
    """What a GET may do.

    Attributes:
        hosts: where it may lead, in lower case.
        private: hosts, addresses and networks that are allowed although they are private.
        headers: sent to the first URL's origin only.
        max_bytes: of the body, packed and unpacked.
    """

    hosts: frozenset[str]
    private: frozenset[str]
    headers: Mapping[str, str]
    max_bytes: int


class Fetcher:
    """GETs. Every address of a host is checked, and the connection goes to a checked one.

    So a name server that answers otherwise the second time changes nothing. Proxies of the environment are not used:
    they would look names up themselves. There is no time limit but the caller's.

    Args:
        resolve: the addresses of a host and port; see `worker.adapters.providers.addresses.resolve`.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        # Of our own: `asyncio.run` would wait for threads of its own, and a name server may take its time.
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="resolve")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made when first wanted: reading all authorities is most of what a new process would do."""
        return httpx.create_ssl_context()

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def get(self, url: str, rules: Rules) -> bytes:
        """The body of an answer with status 200; redirects are followed within the rules.

        Raises:
            Refused: a rule forbids it, or the status is another.
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
                raise Refused("redirected to a scheme that is not allowed")
        raise Refused(f"redirected more than {MAX_REDIRECTS} times")

    @contextlib.asynccontextmanager
    async def _answer(self, url: httpx.URL, headers: Mapping[str, str], rules: Rules) -> AsyncIterator[httpx.Response]:
        addresses = await self._checked(url, rules)
        # A transport, not a client: no proxies, cookies, logs, and no time limits, which are per read and no help here.
        async with httpx.AsyncHTTPTransport(verify=self._tls) as transport:
            answer = await _first(transport, [_request(url, address, headers) for address in addresses])
            try:
                yield answer
            finally:
                await answer.aclose()

    async def _checked(self, url: httpx.URL, rules: Rules) -> Sequence[str]:
        host, port = _host(url), _port(url)
        if host not in rules.hosts:
            raise Refused("led to a host that is not allowed")
        if not 0 < port < 1 << 16:
            raise Refused("led to a port that is none")
        loop = asyncio.get_running_loop()
        addresses = await loop.run_in_executor(self._threads, self._resolve, host, port)
        if not all(is_allowed(host, address, rules.private) for address in addresses):
            raise Refused("led to a private address")
        return addresses


def _request(url: httpx.URL, address: str, headers: Mapping[str, str]) -> httpx.Request:
    """To the address; the host stays in `Host`, and in TLS, where the certificate is checked against it."""
    sent = httpx.Headers({"Accept": "application/json", "User-Agent": "retrieval-worker"})
    sent.update(headers)
    sent.update({"Host": url.netloc.decode("ascii"), **ACCEPTED})
    return httpx.Request("GET", url.copy_with(host=address), headers=sent, extensions={"sni_hostname": _host(url)})


async def _first(transport: httpx.AsyncHTTPTransport, requests: Sequence[httpx.Request]) -> httpx.Response:
    """The answer of the first address that takes a connection."""
    for request in requests[:-1]:
        with contextlib.suppress(httpx.ConnectError):
            return await transport.handle_async_request(request)
    return await transport.handle_async_request(requests[-1])


async def _body(answer: httpx.Response, most: int) -> bytes:
    if answer.status_code != httpx.codes.OK:
        raise Refused(f"answered HTTP {answer.status_code}")
    return await read_body(answer, most)


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _port(url: httpx.URL) -> int:
    return url.port or _PORTS[url.scheme]


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, _host(url), _port(url)
