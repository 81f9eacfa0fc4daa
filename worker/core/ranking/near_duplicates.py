"""Near duplicates: texts whose words and numbers are the same, in order, whatever their case, punctuation and spacing.

Texts that differ in any word, number or sign between words are not: each may be the one that a reader needs. To choose
between texts on one subject is maximal marginal relevance's task (`worker.core.ranking.diversity.marginal_order`).
"""

from __future__ import annotations

import re

from worker.core.text.words import WORD, folded

Words = tuple[str, ...]

_DASHES, _QUOTES, _INVISIBLE = "‐‑‒–—―−", "’‘‛", "\u00ad\u200b\u2060\ufeff"
_GLYPHS = str.maketrans(
    dict.fromkeys(_DASHES, "-") | dict.fromkeys(_QUOTES, "'") | dict.fromkeys(_INVISIBLE, "") | {"…": "..."}
)
_NUMBER = re.compile(r"\d")
_STOPS = ".,;:"
_BEFORE, _AFTER = "\"'“”„«»([{¿¡", "\"'“”„«»)]}!?" + _STOPS + "。，、；：！？"
_ALONE = "-•·" + _BEFORE + _AFTER


class NearDuplicates:
    """Texts seen so far, in an order in which the first of several near duplicates counts. Time is linear.

    Near duplicates have the same letters and digits, so words are compared only of texts that have.
    """

    def __init__(self) -> None:
        self._alone: dict[str, str | None] = {}
        self._words: set[Words] = set()

    def is_new(self, text: str) -> bool:
        """Return whether no text seen before is a near duplicate of a text, and remember it if so.

        >>> seen = NearDuplicates()
        >>> [seen.is_new(text) for text in ("Store it dry.", "Store it, DRY!", "Store it cold.")]
        [True, False, True]
        """
        signs = "".join(WORD.findall(folded(text)))
        if signs not in self._alone:
            self._alone[signs] = text
            return True
        alone = self._alone[signs]
        if alone is not None:
            self._words.add(words_of(alone))
            self._alone[signs] = None
        words = words_of(text)
        is_new = words not in self._words
        self._words.add(words)
        return is_new


def words_of(text: str) -> Words:
    """Return the words and numbers of a text: folded, in order, without the punctuation around them.

    Punctuation inside them stays, and so does what may belong to a number or to code: signs, brackets, ``!`` in front.

    >>> words_of("“Keep it (always) at −40 °C”, she said – it's x[1] > 5%.")
    ('keep', 'it', 'always', 'at', '-40', '°c', 'she', 'said', "it's", 'x[1]', '>', '5%')
    """
    return tuple(filter(None, map(_bare, folded(text).translate(_GLYPHS).split())))


def _bare(word: str) -> str:
    if _NUMBER.search(word):
        return word.rstrip(_STOPS)
    return word.lstrip(_BEFORE).rstrip(_AFTER) if word.strip(_ALONE) else ""
