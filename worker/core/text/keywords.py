"""Keywords of the text that a user is working on, for the contextual leg of a hybrid retrieval.

Every extractor takes linear time for any text: patterns begin with a fixed text, their remainder can't contain that
text again, and they never backtrack (possessive quantifiers).
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from worker.core.text.words import STOP_WORDS, WORD, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 10
"""Most keywords of one text: more would outweigh the query that they are added to."""

_SOUND = re.compile(r'sound\("(\w++)"\)', re.ASCII)
_NOTE = re.compile(r'note\("([^"]++)"\)')
_CALL = re.compile(r"\.(\w++)\(", re.ASCII)
_SCALE = re.compile(r'(?:scale|mode)\("(\w++)"\)', re.ASCII)

# The two slashes of an address are none.
_COMMENT = re.compile(r"(?<!:)//.*")

# "isn't" becomes "is", "track's" becomes "track"; "can't" and "won't" leave the fragments in `_EMPTY`.
_CONTRACTION = re.compile(r"(?:n?['’]t|['’](?:s|d|m|re|ve|ll))\b")
_EMPTY = STOP_WORDS | {"ca", "wo", "sha"}


def strudel(code: str) -> list[str]:
    """Extract from a Strudel pattern its sounds, then notes, functions, scales and modes; each once.

    >>> strudel('sound("bd").fast(2).stack(note("c e g").slow(4))')
    ['bd', 'c', 'e', 'g', 'fast', 'stack', 'slow']
    """
    notes = (note for content in _captured(_NOTE, code) for note in content.split())
    return _first_unique(chain(_captured(_SOUND, code), notes, _captured(_CALL, code), _captured(_SCALE, code)))


def words(text: str) -> list[str]:
    """Extract from prose its most frequent words, folded; ties in order of first occurrence.

    Function words and words of one character are skipped.

    >>> words("The kick hits; the kick's tail doesn't. A tail like this is long.")
    ['kick', 'tail', 'hits', 'like', 'long']
    """
    tokens = WORD.findall(_CONTRACTION.sub("", folded(text)))
    counts = Counter(word for word in tokens if len(word) > 1 and word not in _EMPTY)
    return [word for word, _ in counts.most_common(MOST)]


def auto(text: str) -> list[str]:
    """Extract the keywords of a Strudel pattern; of a text that has none, its words outside of comments.

    >>> auto('sound("bd")'), auto("the ribbon came in cold"), auto("// nothing yet")
    (['bd'], ['ribbon', 'came', 'cold'], [])
    """
    return strudel(text) or words(_COMMENT.sub("", text))


def _captured(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    return (match[1] for match in pattern.finditer(text))


def _first_unique(keywords: Iterable[str]) -> list[str]:
    """Return the first ten distinct items; searching stops there."""
    unique: dict[str, None] = {}
    for word in keywords:
        unique.setdefault(word)
        if len(unique) == MOST:
            break
    return list(unique)
