"""Codes of what an answer was made without, in one order for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTEXTUAL, HYDE, RERANKER, LANGUAGE_MODEL = "contextual", "hyde", "reranker", "language_model"
_FIRST = (CONTEXTUAL, HYDE, RERANKER, LANGUAGE_MODEL)


def remote(name: str) -> str:
    """The code of a remote source.

    >>> remote("papers")
    'remote:papers'
    """
    return f"remote:{name}"


def ordered(codes: Iterable[str]) -> list[str]:
    """Codes as an answer has them: each once, remote sources last, by code point.

    >>> ordered(["remote:b", "language_model", "remote:a", "contextual", "remote:b"])
    ['contextual', 'language_model', 'remote:a', 'remote:b']
    """
    places = {code: place for place, code in enumerate(_FIRST)}
    return sorted({*codes}, key=lambda code: (places.get(code, len(places)), code))
