"""Search-box input made safe for ``websearch_to_tsquery``.

Postgres interprets every sign for "and", "or" and "not", fails at 33 consecutive negations (a line of hyphens in
Markdown is enough), and reads ``--word`` as a word negated twice.
"""

from __future__ import annotations

import re

from worker.core.text.unicode_data import known, restored, unknown

# A hyphen is kept between the parts of a word, and before a word or a phrase, where it excludes.
_SIGNS = re.compile(r'[!&|()]|(?<=[^\w\s])-|-(?![\w"])')
_PHRASE = re.compile(r'-?"([^"]*)"')
_WORD = re.compile(r"\w")


def searchable(text: str, most: int) -> str:
    """Return the beginning of a text with only meaningful signs: quotes around words, single hyphens.

    Linear in ``most``.

    Args:
        text: any text.
        most: most characters to use; a word that would be cut in two is dropped.

    >>> searchable('"bass drum" -snare hi-hat', 100), searchable('--fast (!x) & ----- -"" "-"', 100).split()
    ('"bass drum" -snare hi-hat', ['fast', 'x'])
    >>> searchable("hi-hats and drums", 13), searchable("hi-hats", 4)
    ('hi-hats and', 'hi-h')
    """
    start = beginning(text, most)
    plain = _SIGNS.sub(" ", known(start))
    plain = _PHRASE.sub(lambda phrase: phrase[0] if _WORD.search(phrase[1]) else " ", plain)
    return restored(plain, unknown(start))


def beginning(text: str, most: int) -> str:
    """Return the first ``most`` characters of a text without a word that would be cut in two.

    >>> beginning("hi-hats -and drums", 14), beginning("hi-hats", 4)
    ('hi-hats -and', 'hi-h')
    """
    start = text[:most]
    if len(text) <= most or text[most].isspace():
        return start
    return " ".join(start.rsplit(maxsplit=1)[:1])
