"""Degradation codes: the parts that an answer was made without, in one fixed order."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTEXTUAL, HYDE, RERANKER, LANGUAGE_MODEL = "contextual", "hyde", "reranker", "language_model"
EMBEDDER_LANGUAGE = "embedder_language"
_FIRST = (CONTEXTUAL, HYDE, RERANKER, LANGUAGE_MODEL, EMBEDDER_LANGUAGE)


def remote(name: str) -> str:
    """Return the code of a remote source.

    >>> remote("papers")
    'remote:papers'
    """
    return f"remote:{name}"


def ordered(codes: Iterable[str]) -> list[str]:
    """Return the codes as an answer lists them: each once, remote sources last, by code point.

    >>> ordered(["remote:b", "language_model", "remote:a", "contextual", "remote:b"])
    ['contextual', 'language_model', 'remote:a', 'remote:b']
    """
    places = {code: place for place, code in enumerate(_FIRST)}
    return sorted({*codes}, key=lambda code: (places.get(code, len(places)), code))
