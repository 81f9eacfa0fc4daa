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
    message = json.loads(envelope(b""))
    return json.dumps(
        {**message, "body": base64.b64encode(body).decode(), "properties": {"body_encoding": "base64"}}
    ).encode()


UNITS = {
    "headers of tokens": b"eyJ_",
    "tokens": b"eyJhbGciOi.eyJ1c2Vy.c2ln ",
    "one long token": b"eyJhbGciOi.",
    "short named tokens": b'{"principal_token": "abc"},',
    "names": b'"principal_token"',
    "fields in escapes": rb'"principal\u005ftoken": "abc",',
    "backslashes": b"\\",
    "escapes": rb"\u0065",
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
    "ids": b'"id": "',
    "base64": base64.b64encode(bytes(range(48))),
    "tokens in base64": base64.b64encode(b'"principal_token": "eyJhbGciOi.eyJ1c2Vy.c2ln" ..') + b"AAAA",
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
    "argument": lambda raw: encoded(json.dumps([[raw.decode("latin-1")], {}, {}]).encode()),
}
