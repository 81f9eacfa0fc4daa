"""Glossary: adds to a query the words that the corpus uses for its terms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from worker.core.text.words import folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# A hyphen counts as a space ("hi-hats", "hi hats"); any other sign belongs to the term ("c++").
_TOKEN = re.compile(r"\w+|[^\w\s-]")


class Glossary:
    """Table of terms, each with the words that are added for it.

    Args:
        table: ``{"hi-hats": ["hi-hat", "percussion"]}``. Of terms that differ only in letter case, hyphens and
            spaces, the first by code point counts; a term without a word or a sign never matches.
    """

    def __init__(self, table: Mapping[str, Sequence[str]]) -> None:
        self._expansions: dict[tuple[str, ...], tuple[str, ...]] = {}
        for term in sorted(table):
            self._expansions.setdefault(_tokens(term), tuple(table[term]))
        self._expansions.pop((), None)
        self._lengths = sorted({len(term) for term in self._expansions}, reverse=True)

    def expand(self, query: str) -> str:
        """Return a query with the words for its terms after it; without a new one, the query itself.

        Terms match whole words in any letter case. Longer ones match first, and no word belongs to two. The words of
        several terms are in the order of the terms in the query, each once; what the query says already is not added.

        >>> glossary = Glossary({"hi-hats": ["hi-hat", "drums"], "hats": ["headgear"], "kick": ["bd", "drums"]})
        >>> glossary.expand("add Hi-Hats under the kick"), glossary.expand("add a pad")
        ('add Hi-Hats under the kick, hi-hat, drums, bd', 'add a pad')
        """
        tokens = _tokens(query)
        terms = dict(self._found(tokens))
        words = dict.fromkeys(word for _, term in sorted(terms.items()) for word in self._expansions[term])
        return ", ".join([query, *(word for word in words if not _holds(tokens, _tokens(word)))])

    def _found(self, tokens: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield position and tokens of each term found, the longest terms first, then the leftmost."""
        free = [True] * len(tokens)
        for length in self._lengths:
            for start in range(len(tokens) - length + 1):
                stop = start + length
                if tokens[start:stop] in self._expansions and all(free[start:stop]):
                    free[start:stop] = [False] * length
                    yield start, tokens[start:stop]


def _tokens(text: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(folded(text)))


def _holds(tokens: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    """Return whether tokens stand in a row somewhere among others; nothing stands everywhere."""
    return any(tokens[i : i + len(phrase)] == phrase for i in range(len(tokens) - len(phrase) + 1))
