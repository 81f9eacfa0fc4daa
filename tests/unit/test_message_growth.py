"""No message makes what the main process does with it slow: four times the message takes about four times as long."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from worker.errors import InvalidJob
from worker.quiet import summarise
from worker.transport.dead_letters import compose
from worker.transport.inspection import Refusal, Rules, arguments, inspect

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REFUSAL = Refusal("malformed", InvalidJob("expected a string", "body"))
RULES = Rules(tasks=("retrieve_top_k",), dead_bytes=1 << 22)


def envelope(body: bytes) -> bytes:
    """A message with such a body."""
    return json.dumps(
        {
            "body": body.decode("utf-8", "replace"),
            "content-type": "application/json",
            "headers": {"id": "a-1", "task": "retrieve_top_k"},
            "properties": {},
        }
    ).encode()


def encoded(body: bytes) -> bytes:
    """The same in base64."""
    whole = json.loads(envelope(b""))
    return json.dumps(
        {**whole, "body": base64.b64encode(body).decode(), "properties": {"body_encoding": "base64"}}
    ).encode()


UNITS = {
    "headers of tokens": b"eyJ_",
    "headers of tokens, apart": b"eyJ0123456789 ",
    "tokens": b"eyJhbGciOi.eyJ1c2Vy.c2ln ",
    "one long token": b"eyJhbGciOi.",
    "dots": b"eyJ.",
    "short named tokens": b'{"principal_token": "abc"},',
    "names": b'"principal_token"',
    "names and colons": b'"principal_token":',
    "names that open a value": b'"principal_token":"',
    "names in single quotes": b"'principal_token': '",
    "names and backslashes": b'"principal_token' + b"\\" * 40 + b'":' + b"\\" * 40 + b'"',
    "names in escapes": rb"\u0070rincipal\u005ftoken",
    "fields in escapes": rb'"principal\u005ftoken": "abc",',
    "nearly a name": b"principal_toke",
    "backslashes": b"\\",
    "backslashes and p": b"p\\\\\\\\\\\\\\\\",
    "escapes": rb"\u0065",
    "long escapes": b"\\" * 60 + b"u0070",
    "quotes": b'"',
    "escaped quotes": b'\\"',
    "brackets": b"[",
    "closed brackets": b"[],",
    "braces": b'{"a":',
    "objects": b'{"a":{}},',
    "digits": b"7",
    "long numbers": b"7" * 4000 + b",",
    "too long numbers": b"7" * 5000 + b",",
    "zeros": b"0.0,",
    "white space": b" \n\t ",
    "names and white space": b'"principal_token"' + b" " * 500,
    "ids": b'"id": "',
    "base64": base64.b64encode(bytes(range(48))),
    "short runs of base64": b"A" * 63 + b"!",
    "runs of base64": b"ZXlK" * 17 + b"!",
    "hex": b"0123456789abcdef" * 4 + b",",
    "tokens in base64": base64.b64encode(b'"principal_token": "eyJhbGciOi.eyJ1c2Vy.c2ln" ..') + b"AAAA",
    "base64 in lines": base64.b64encode(b"eyJ_" * 14) + b"\\n",
    "no UTF-8": b"\xff\xc3",
    "surrogates": rb"\ud800",
    "many letters": "𝄞ä".encode(),
    "NUL": b"\x00",
}
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "text": lambda raw: b'"' + raw + b'"',
    "body": envelope,
    "base64": encoded,
    "array": lambda raw: envelope(b"[[" + raw.rstrip(b",") + b"], {}, {}]"),
}

SMALL, TIMES, BOUND = 12_000, 16, 60
"""Quadratic time would be 256 times as much; what takes so little is not measured."""


def look(raw: bytes) -> None:
    """All that the main process does with a message's bytes."""
    inspect(raw, RULES, NOW)
    compose(raw, REFUSAL, RULES, NOW)
    summarise(arguments(raw))


def seconds(raw: bytes) -> float:
    """Of this process alone; the best of two."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        look(raw)
        taken.append(time.process_time() - start)
    return min(taken)


@pytest.mark.parametrize("name", UNITS)
@pytest.mark.parametrize("form", FORMS)
def test_time_grows_with_the_message(form: str, name: str) -> None:
    """Whatever a message repeats."""
    unit = UNITS[name]
    small, large = (FORMS[form](unit * (size // len(unit))) for size in (SMALL, SMALL * TIMES))
    assert seconds(large) < BOUND * max(seconds(small), 0.001)
