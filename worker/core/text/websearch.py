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


def searchable(text: str, max_length: int) -> str:
    """Return the beginning of a text as terms in quotation marks, ``or`` and single hyphens before what is excluded.

    Linear in ``max_length``. Text is taken in Unicode's compatibility form, in which wide signs are those of ASCII.

    Args:
        text: any text.
        max_length: most characters to use; a word that would be cut in two is dropped.

    >>> searchable('"bass drum" -snare or hi-hat', 100), searchable('--fast (!x) & ----- -"" "-"', 100)
    ('"bass drum" -"snare" or "hi-hat"', '"--fast" "(!x)"')
    >>> searchable("hi-hats and drums", 13), searchable("hi-hats", 4)
    ('"hi-hats" "and"', '"hi-h"')
    """
    start = beginning(text, max_length)
    return restored(" ".join(filter(None, map(_quoted, _terms(start)))), unknown(start))


def phrases(text: str, max_length: int) -> str | None:
    """Return what the quoted phrases of a text demand, in the form of `searchable`; None without a phrase.

    Of several alternatives, one without a phrase demands any of its terms.

    >>> phrases('"bass drum" loud -"hi hat"', 100), phrases('"bass drum" loud or rim shot', 100)
    ('"bass drum"', '"bass drum" or "rim" or "shot"')
    >>> phrases('bass-drum -"hi hat"', 100)
    """
    start = beginning(text, max_length)
    alternatives: list[list[str]] = [[]]
    for term in _terms(start):
        quoted = _quoted(term)
        if quoted == _ALTERNATIVE:
            alternatives.append([])
        elif quoted and not quoted.startswith("-"):
            alternatives[-1].append(term)
    demanded = [[_quoted(term) for term in terms if term.startswith('"')] for terms in alternatives]
    if not any(demanded):
        return None
    either = [
        " ".join(demanded_terms) or " or ".join(map(_quoted, all_terms))
        for demanded_terms, all_terms in zip(demanded, alternatives, strict=True)
    ]
    return restored(" or ".join(filter(None, either)), unknown(start))


def _terms(text: str) -> list[str]:
    """Return the terms of a text as they were typed; quotation marks that nobody closed are closed at its end."""
    plain = normalize("NFKC", known(text))
    if plain.count('"') % 2:
        plain += '"'
    return _TERM.findall(plain)


def _quoted(term: str) -> str:
    """Return a term in quotation marks, with the hyphen that excludes it; nothing if it has no word."""
    if term.lower() == _ALTERNATIVE:
        return _ALTERNATIVE
    is_excluded = term.startswith("-") and not term.startswith("--")
    words = term.replace('"', "").removeprefix("-" if is_excluded else "")
    return f'{"-" * is_excluded}"{words}"' if _WORD.search(words) else ""


def beginning(text: str, max_length: int) -> str:
    """Return the first ``max_length`` characters of a text without a word that would be cut in two.

    >>> beginning("hi-hats -and drums", 14), beginning("hi-hats", 4)
    ('hi-hats -and', 'hi-h')
    """
    start = text[:max_length]
    if len(text) <= max_length or text[max_length].isspace():
        return start
    return " ".join(start.rsplit(maxsplit=1)[:1])
