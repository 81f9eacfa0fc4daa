"""Shapes of messages that are expensive to inspect: those found by fuzzing, and similar ones."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


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
