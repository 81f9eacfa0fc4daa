"""Words that stand beside labels in brackets, in 28 languages: data of ``label_words.toml``, which says more."""

from __future__ import annotations

from worker.core.citations.tables import read_tables
from worker.core.text.normal_forms import normal_form

_TABLES = read_tables(__package__, "label_words.toml")


def _words(key: str) -> frozenset[str]:
    return frozenset(normal_form("NFC", word).casefold() for word in _TABLES.words(key))


JOINING = _words("joining")
"""Labels before and after these are cited alike. None of them chooses, denies or limits (or, not, but)."""

RANGE = _words("range")
"""Between two labels they mean what a dash means."""

SOURCE = _words("source")
"""A number right after one of these is a label: ``Source 1``."""

PLACE = _words("place")
"""A number right after one of these is a place in a source: ``p. 3``."""

THING = _words("thing")
"""A number right after one of these is its own, with an S as well: ``Fig. S1``, ``line S1``."""

SEVERAL = _words("several")
"""Of these, several numbers may follow: ``Figs. S1 and S2``."""

EXAMPLE = _TABLES.words("example")
"""Before an example; there may be a space after the first full stop, and one more full stop at the end: ``e. g.``"""

NUMERO = _TABLES.words("numero")
"""Between a word for a source and its number: ``Source no. 1``."""

PLACE_AFTER = _TABLES.words("place_after")
"""After a number that is a place in a source: ``3 頁``."""

_TABLES.close()
