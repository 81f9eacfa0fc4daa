"""JSON codec for Celery messages.

Decoding: plain JSON only (kombu's own decoder would build dates, decimals and bytes from tagged objects).
Encoding: orjson; a result's serialised bytes are embedded unchanged.
"""

from __future__ import annotations

import gc
import json
from typing import TYPE_CHECKING, Any

import orjson
from kombu import compression
from kombu.serialization import register
from kombu.utils.json import dumps as kombu_dumps

if TYPE_CHECKING:
    from collections.abc import Callable

_FLAGS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


class JobResult:
    """Return value of a task: serialised once, shown in logs and events only as a summary."""

    __slots__ = ("_json", "_summary")

    def __init__(self, value: dict[str, Any], summary: str) -> None:
        self._json = _as_json(value)
        self._summary = summary

    def __repr__(self) -> str:
        return self._summary

    @property
    def fragment(self) -> orjson.Fragment:
        """JSON to be embedded unchanged in a larger document."""
        return orjson.Fragment(self._json)

    def __json__(self) -> Any:
        """Return plain data for kombu's own encoder, where that is in use (an eager call, a test)."""
        return json.loads(self._json)  # orjson would make a float of an integer beyond 64 bits


def _as_json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:
        # An integer beyond 64 bits, such as the requested k.
        return json.dumps(value, ensure_ascii=False).encode()


UNDECODABLE = (
    "the body could not be decoded as JSON "
    "(malformed, invalid UTF-8, nested too deeply, or an integer with too many digits)"
)
"""Error message for a body that can't be decoded."""


def dumps(value: Any) -> bytes:
    """Serialise a message or a result."""
    try:
        return orjson.dumps(value, default=_default, option=_FLAGS)
    except TypeError:
        # Celery's own control messages may contain types that only kombu's encoder knows, or integers beyond 64 bits.
        return str(kombu_dumps(value)).encode()


def _default(value: Any) -> Any:
    if isinstance(value, JobResult):
        return value.fragment
    raise TypeError


def parse(data: bytes | str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Decode JSON in linear time.

    The garbage collector is off meanwhile: it would traverse all lists and objects repeatedly while more are created,
    four times the time for a message that consists of them. JSON has no cycles to collect.

    `pairs` makes an object of its names and values, default a dictionary.

    Raises:
        ValueError: it isn't JSON, or an integer has more digits than Python reads (`sys.set_int_max_str_digits`).
        RecursionError: it is nested too deeply.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return json.loads(data, object_pairs_hook=pairs)
    finally:
        if collects:
            gc.enable()


def loads(data: bytes | str) -> Any:
    """Decode a message body.

    Raises:
        ValueError: it isn't JSON, or can't be read.
    """
    raw = bytes(data) if isinstance(data, memoryview | bytearray) else data
    try:
        return parse(raw)
    except (ValueError, RecursionError):
        raise ValueError("the message is not JSON") from None


def install() -> None:
    """Register this codec as the process's JSON, in place of kombu's, and refuse compressed messages.

    kombu decompresses a message by its header before any check is possible: 408 kB became 1.7 GB.
    """
    register("json", dumps, loads, content_type="application/json", content_encoding="utf-8")
    for content_type in compression.encoders():
        compression.register(compression.get_encoder(content_type)[0], _refuse, content_type)


def _refuse(_: bytes) -> bytes:
    raise ValueError("compressed messages are refused")
