"""Bodies of HTTP answers, read and unpacked as they come in, so that no more than was allowed is ever held."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

ACCEPTED = {"Accept-Encoding": "gzip"}
"""The header that a request sends: another encoding is refused, because only this one is unpacked within a limit."""

ELSEWHERE = "nothing is sent elsewhere; set the URL that it redirects to, if you trust it"


class Refused(Exception):
    """Why an answer is of no use; its text names no URL and quotes nothing."""


class Answer(Protocol):
    """What this needs of an answer; releases of httpx have each a class of their own."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, in any case."""

    def aiter_raw(self) -> AsyncIterator[bytes]:
        """The body as it comes in."""


async def read_body(answer: Answer, most: int) -> bytes:
    """Read a body that is at most so many bytes long, packed and unpacked.

    Raises:
        Refused: it is longer, damaged, or packed otherwise than was asked for.
    """
    encoding = answer.headers.get("Content-Encoding", "identity").lower()
    if encoding not in {"identity", "gzip"}:
        raise Refused("answered in an encoding that was not asked for")
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16) if encoding == "gzip" else None
    received, body = 0, bytearray()
    async for part in answer.aiter_raw():
        received += len(part)
        try:
            body += unzip.decompress(part, most + 1 - len(body)) if unzip else part
        except zlib.error:
            raise Refused("answered damaged gzip") from None
        if max(received, len(body)) > most:
            raise Refused(f"answered more than {most} bytes")
    if unzip and received and not unzip.eof:
        raise Refused("broke off")
    return bytes(body)
