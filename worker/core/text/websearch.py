"""What a user types into a search box, made safe for ``websearch_to_tsquery``.

Postgres reads every sign for "and", "or" and "not" that it comes upon, gives up at 33 negations in a row (a line of
hyphens in Markdown is enough), and takes ``--word`` for a word negated twice.
"""

from __future__ import annotations

import re

# A hyphen stays between the parts of a word, and before a word or a phrase, where it excludes.
_SIGNS = re.compile(r'[!&|()]|(?<=[^\w\s])-|-(?![\w"])')
_PHRASE = re.compile(r'-?"([^"]*)"')
_WORD = re.compile(r"\w")


def searchable(text: str, most: int) -> str:
    """The beginning of a text with no signs but those that mean something: quotes around words, single hyphens.

    Linear in ``most``.

    Args:
        text: anything.
        most: how many characters of it count; a word that would be cut in two does not.

    >>> searchable('"bass drum" -snare hi-hat', 100), searchable('--fast (!x) & ----- -"" "-"', 100).split()
    ('"bass drum" -snare hi-hat', ['fast', 'x'])
    >>> searchable("hi-hats and drums", 13), searchable("hi-hats", 4)
    ('hi-hats and', 'hi-h')
    """
    plain = _SIGNS.sub(" ", _beginning(text, most))
    return _PHRASE.sub(lambda phrase: phrase[0] if _WORD.search(phrase[1]) else " ", plain)


def _beginning(text: str, most: int) -> str:
    start = text[:most]
    if len(text) <= most or text[most].isspace():
        return start
    return " ".join(start.rsplit(maxsplit=1)[:1])
