"""Bodies of HTTP responses, read and decompressed as they arrive, so that memory stays within the limit."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

ACCEPTED = {"Accept-Encoding": "gzip"}
"""Header of requests; another encoding is refused, because only this one is decompressed within a limit."""

ELSEWHERE = "nothing is sent elsewhere; set the URL that it redirects to, if you trust it"


class UnusableResponse(Exception):
    """A response that can't be used; the message names no URL and quotes nothing."""


class Answer(Protocol):
    """The parts of a response that are read here; each release of httpx has its own class."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by name, in any case."""

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """Iterate over the body as it arrives."""


async def read_body(answer: Answer, byte_limit: int) -> bytes:
    """Read a body of at most ``byte_limit`` bytes, compressed and decompressed.

    Raises:
        Refused: it is longer, damaged, or in another encoding than requested.
    """
    encoding = answer.headers.get("Content-Encoding", "identity").lower()
    if encoding not in {"identity", "gzip"}:
        raise UnusableResponse("answered in an encoding that was not requested")
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    received, body = 0, bytearray()
    async for block in answer.aiter_raw():
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
