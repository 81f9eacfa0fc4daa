"""Test vectors of `hash_chunk`, for implementations in other languages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from retrieval_client.hashing import HASH_VERSION, hash_chunk

if TYPE_CHECKING:
    from workbench.schemas.rules import Schema

WHITE_SPACE = (
    *range(0x0009, 0x000E),
    *range(0x001C, 0x0021),
    0x0085,
    0x00A0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
)
"""The 29 code points that are white space to the worker, in every version of Unicode."""

_NOT_SPACES = {
    0x200B: "zero width space",
    0x200D: "zero width joiner",
    0x2060: "word joiner",
    0xFEFF: "byte order mark",
    0x180E: "Mongolian vowel separator",
    0x0001: "a control character",
    0x001B: "escape, next to the white space from U+001C",
}

_TEXTS = {
    "empty": "",
    "one word": "hum",
    "letter case is kept": "Hum",
    "runs become one space, ends are stripped": "  two\r\n\r\n\twords \n",
    "already in normal form": "two words",
    "composed (NFC) is not decomposed": "caf\u00e9",
    "decomposed (NFD) is not composed": "cafe\u0301",
    "compatibility forms are kept": "\ufb01 \uff21 \u00b2",
    "emoji beyond the basic plane": "\U0001f600 \U0001f3b5",
    "emoji joined by U+200D, with U+FE0F": "\U0001f469\u200d\U0001f680 \u2764\ufe0f",
    "right to left, Hebrew": "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "right to left, Arabic with marks": "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627\u200f \u0628\u0643",
    "no spaces between words": "\u97f3\u697d\u3092\u8074\u304f",
    "the highest code point": "\U0010ffff",
}

_LONG = (("1 MB", "0123456789", 100_000), ("1 MB, white space inside", "abc\u00e9 \n\u3000z", 100_000))

_REFUSED = {
    "U+0000": "a\x00b",
    "U+0000 alone": "\x00",
    "a lone high surrogate": "a\ud800b",
    "a lone low surrogate": "a\udfffb",
    "surrogates in the wrong order": "\ude00\ud83d",
    "a high surrogate at the end": "a\ud83d",
    "U+0000 among white space": " \x00 ",
}


def document() -> Schema:
    """Return the file: the algorithm, vectors with their hashes, and texts without a hash."""
    spaces = [_vector(f"white space U+{c:04X}", f"{chr(c)}a{chr(c)}{chr(c)}b{chr(c)}") for c in WHITE_SPACE]
    not_spaces = [
        _vector(f"not white space: U+{c:04X} {character_name}", f"a{chr(c)}b ")
        for c, character_name in _NOT_SPACES.items()
    ]
    only = _vector("only white space", "".join(map(chr, WHITE_SPACE)))
    return {
        "description": "hash = 'sha256:' + hex SHA-256 over UTF-8 of the text, with every run of the code points in "
        "`white_space` as one space and both ends stripped; nothing else is normalised. A `text` is given, or a rule: "
        "`repeat`, `times` times. A `refused` text is given as JSON source in `json`, because some parsers "
        "refuse it themselves (which is equally valid).",
        "hash_version": HASH_VERSION,
        "white_space": [f"U+{code:04X}" for code in WHITE_SPACE],
        "vectors": [
            *(_vector(name, text) for name, text in _TEXTS.items()),
            only,
            *spaces,
            *not_spaces,
            *_long_vectors(),
        ],
        "refused": [{"name": name, "json": json.dumps(text)} for name, text in _REFUSED.items()],
    }


def _vector(name: str, text: str) -> Schema:
    return {"name": name, "text": text, "hash": hash_chunk(text)}


def _long_vectors() -> list[Schema]:
    return [
        {"name": name, "repeat": unit, "times": times, "hash": hash_chunk(unit * times)} for name, unit, times in _LONG
    ]
