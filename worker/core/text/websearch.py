"""Search-box input made safe for ``websearch_to_tsquery``: each term in quotation marks, where no sign means anything.

Without them Postgres interprets every sign for "and", "or" and "not", reads ``--word`` as a word negated twice, and
excludes only the first part of a compound.
"""

from __future__ import annotations

import re

from worker.core.text.unicode_data import known, normalize, restored, unknown

_TERM = re.compile(r'-*+"[^"]*"|[^\s"]++')
_WORD = re.compile("[\\w\U00040000-\U0008ffff]")
"""Characters of words, and stand-ins of those that `unicode_data` does not know."""

_ALTERNATIVE = "or"


def searchable(text: str, most: int) -> str:
    """Return the beginning of a text as terms in quotation marks, ``or`` and single hyphens before what is excluded.

    Linear in ``most``. Text is taken in Unicode's compatibility form, in which wide signs are those of ASCII.

    Args:
        text: any text.
        most: most characters to use; a word that would be cut in two is dropped.

    >>> searchable('"bass drum" -snare or hi-hat', 100), searchable('--fast (!x) & ----- -"" "-"', 100)
    ('"bass drum" -"snare" or "hi-hat"', '"--fast" "(!x)"')
    >>> searchable("hi-hats and drums", 13), searchable("hi-hats", 4)
    ('"hi-hats" "and"', '"hi-h"')
    """
    start = beginning(text, most)
    plain = normalize("NFKC", known(start))
    if plain.count('"') % 2:
        plain += '"'
    terms = [_quoted(term[0]) for term in _TERM.finditer(plain)]
    return restored(" ".join(filter(None, terms)), unknown(start))


def _quoted(term: str) -> str:
    """Return a term in quotation marks, with the hyphen that excludes it; nothing if it has no word."""
    if term.lower() == _ALTERNATIVE:
        return _ALTERNATIVE
    is_excluded = term.startswith("-") and not term.startswith("--")
    words = term.replace('"', "").removeprefix("-" if is_excluded else "")
    return f'{"-" * is_excluded}"{words}"' if _WORD.search(words) else ""


def beginning(text: str, most: int) -> str:
    """Return the first ``most`` characters of a text without a word that would be cut in two.

    >>> beginning("hi-hats -and drums", 14), beginning("hi-hats", 4)
    ('hi-hats -and', 'hi-h')
    """
    start = text[:most]
    if len(text) <= most or text[most].isspace():
        return start
    return " ".join(start.rsplit(maxsplit=1)[:1])
