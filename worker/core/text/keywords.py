"""Keywords of what a user is working on: they widen the second search of a hybrid retrieval.

Every extractor takes time in proportion to the text, whatever the text: patterns begin with a fixed text, what they
then take can't hold that text again, and nothing that was taken is given back (possessive quantifiers).
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from worker.core.text.words import STOP_WORDS, WORD, folded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MOST = 10
"""Keywords of one text at most: more of them would drown the query that they are added to."""

_SOUND = re.compile(r'sound\("(\w++)"\)', re.ASCII)
_NOTE = re.compile(r'note\("([^"]++)"\)')
_CALL = re.compile(r"\.(\w++)\(", re.ASCII)
_SCALE = re.compile(r'(?:scale|mode)\("(\w++)"\)', re.ASCII)

# "isn't" is "is", "track's" is "track"; of "can't" and "won't" something is left.
_CONTRACTION = re.compile(r"(?:n?['’]t|['’](?:s|d|m|re|ve|ll))\b")
_EMPTY = STOP_WORDS | {"ca", "wo", "sha"}


def strudel(code: str) -> list[str]:
    """Of a Strudel pattern: its sounds, then its notes, its functions, its scales and modes; each once.

    >>> strudel('sound("bd").fast(2).stack(note("c e g").slow(4))')
    ['bd', 'c', 'e', 'g', 'fast', 'stack', 'slow']
    """
    notes = (note for content in _captured(_NOTE, code) for note in content.split())
    return _first_unique(chain(_captured(_SOUND, code), notes, _captured(_CALL, code), _captured(_SCALE, code)))


def words(text: str) -> list[str]:
    """Of prose: its most frequent words, folded; equally frequent ones in the order in which they first come.

    Function words and words of one character are none.

    >>> words("The kick hits; the kick's tail doesn't. A tail like this is long.")
    ['kick', 'tail', 'hits', 'like', 'long']
    """
    found = WORD.findall(_CONTRACTION.sub("", folded(text)))
    counts = Counter(word for word in found if len(word) > 1 and word not in _EMPTY)
    return [word for word, _ in counts.most_common(MOST)]


EXTRACTORS: Mapping[str, Callable[[str], list[str]]] = {"strudel": strudel, "words": words}
"""The extractors by their name in settings: a text in, at most ten keywords out, each once."""


def _captured(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (match[1] for match in pattern.finditer(text))


def _first_unique(found: Iterable[str]) -> list[str]:
    """The first ten that differ; nothing is looked for after them."""
    unique: dict[str, None] = {}
    for word in found:
        unique.setdefault(word)
        if len(unique) == MOST:
            break
    return list(unique)
