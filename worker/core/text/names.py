"""Names in a question: words in its middle that begin with a capital, such as `Lyra` in "the torque of the Lyra".

Where a language writes all nouns so, as German does, a capital tells nothing: the texts show it.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from worker.core.text.terms import search_terms

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

MOST = 16
"""Names of a question that are looked for."""

NOUNS = 0.25
"""Share of the words within sentences that begin with a capital from which a text writes its nouns so."""

TELLING = 30
"""Fewest words that tell."""

_WITHIN = re.compile(r"(?<=[\w,;] )[^\W\d_]\w*+")
"""A word that follows a word or a comma."""
_SHORT = 4
"""Letters of a word that has no other forms; of a longer one, two thirds stand for all its forms."""


def names(question: str) -> list[str]:
    """Return the first names in a question, at most `MOST`, each once; none of one that is all in capitals.

    >>> names("What is the maximum torque of the Lyra by Moritz & Sons?")
    ['Lyra', 'Moritz']
    """
    if question == question.upper():
        return []
    capitals = (word for word in _WITHIN.findall(question) if word[0].isupper() and search_terms(word))
    return list(islice(dict.fromkeys(capitals), MOST))


def writes_nouns_so(texts: Iterable[str]) -> bool:
    """Return whether texts begin their nouns with capitals, too.

    >>> writes_nouns_so(6 * ["Der Motor der Falke hat eine Welle."]), writes_nouns_so(6 * ["The motor of Lyra hums."])
    (True, False)
    """
    words: list[str] = [word for text in texts for word in _WITHIN.findall(text)]
    return len(words) >= TELLING and sum(word[0].isupper() for word in words) > NOUNS * len(words)


def unnamed(asked_names: Iterable[str], text: str) -> list[str]:
    """Return the names that a text has in no form, in their order.

    >>> unnamed(["Lyra", "Norman"], "The Normans drill.")
    ['Lyra']
    """
    terms = {*search_terms(text)}
    return [name for name in asked_names if not all(_has(terms, asked_term) for asked_term in search_terms(name))]


def _has(terms: AbstractSet[str], asked_term: str) -> bool:
    begin = asked_term[: max(_SHORT, 2 * len(asked_term) // 3)]
    return asked_term in terms or (len(asked_term) >= _SHORT and any(term.startswith(begin) for term in terms))
