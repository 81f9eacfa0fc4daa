"""Content hashes of chunks, by which pins identify text.

Version 1: ``sha256:`` and the hex of SHA-256 over UTF-8 of the text with every run of Unicode white space
(the 29 code points of ``str.split()``) as one space, ends stripped. ``retrieval.hash_chunk_v1`` in
``config/schema.sql`` computes the same bytes. Version 1 never changes; a later normaliser gets its own version.
"""

from __future__ import annotations

import hashlib
import re
from itertools import repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

HASH_VERSION = 1
PREFIX = "sha256:"
WRITTEN = re.compile(r"sha256:[0-9a-f]{64}")
"""Form of a hash on the wire."""
ACCEPTED = re.compile(r"(?:sha256:)?[0-9A-Fa-f]{64}")
"""Accepted form of a hash in a job: without the prefix or in capitals too, as other systems write it."""
_DIGITS = 64
_LENGTH = len(PREFIX) + _DIGITS


def canonical_hash(text: str) -> str:
    """Return a hash that matches `ACCEPTED` in the form of `WRITTEN`.

    >>> canonical_hash("AB" * 32) == "sha256:" + "ab" * 32
    True
    """
    return PREFIX + text[-_DIGITS:].lower()


def normalise(text: str) -> str:
    r"""Return version 1's normal form.

    >>> normalise("  two\n\nwords ")
    'two words'
    """
    # Most chunks need no new string.
    if _only_spaces(text) and "  " not in text:
        return text.strip(" ")
    return " ".join(text.split())


_OTHER_ASCII_SPACES = "\n\t\v\f\r\x1c\x1d\x1e\x1f"


def _only_spaces(text: str) -> bool:
    """Return whether U+0020 is the only white space; may be False for other unprintable text as well."""
    if not text.isascii():
        return text.isprintable()  # of all white space only U+0020 is printable
    for space in _OTHER_ASCII_SPACES:  # noqa: SIM110 -- a generator takes longer
        if space in text:
            return False
    return True


NORMALISERS: dict[int, Callable[[str], str]] = {1: normalise}
"""Normaliser of each hash version; old pins are compared by their own version."""


def hash_chunk(text: str, version: int = HASH_VERSION) -> str:
    """Return the hash of a chunk's text.

    >>> hash_chunk("two  words") == hash_chunk("two words")
    True
    >>> hash_chunk("")
    'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

    Raises:
        ValueError: the text holds U+0000 or a lone surrogate, which Postgres can't store.
    """
    if "\x00" in text:
        raise ValueError("text holds U+0000")
    try:
        raw = NORMALISERS[version](text).encode()
    except UnicodeEncodeError:
        raise ValueError("text holds a lone surrogate") from None
    return PREFIX + hashlib.sha256(raw).hexdigest()


def format_hash(digest: bytes) -> str:
    """Return a stored digest (32 bytes) in wire form."""
    return PREFIX + digest.hex()


def parse_hash(text: str) -> bytes:
    """Return the digest (32 bytes) of a hash in wire form.

    Raises:
        ValueError: it isn't ``sha256:`` and 64 lower-case hex digits.
    """
    if not WRITTEN.fullmatch(text):
        raise ValueError("expected sha256: and 64 lower-case hex digits")
    return bytes.fromhex(text.removeprefix(PREFIX))


def parse_hashes(texts: Collection[str]) -> bytes:
    """Return the digests of many hashes, concatenated, 32 bytes each: one value to send, computed in one pass.

    >>> parse_hashes([]) == b"" and parse_hashes([hash_chunk("a"), hash_chunk("b")]).hex()[:6]
    'ca9781'

    Raises:
        ValueError: as `parse_hash`.
    """
    hex_digits = "".join(texts).replace(PREFIX, "")
    lengths = {*map(len, texts)}
    try:
        digests = bytes.fromhex(hex_digits)
    except ValueError:
        digests = b""
    # Compared with the input, because `fromhex` accepts capitals and spaces too.
    if not (lengths <= {_LENGTH} and all(map(str.startswith, texts, repeat(PREFIX))) and digests.hex() == hex_digits):
        raise ValueError("expected sha256: and 64 lower-case hex digits")
    return digests
