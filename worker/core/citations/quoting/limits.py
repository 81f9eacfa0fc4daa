"""Words that deny, limit or count, in the languages of the word lists; digits and signs count in every script."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from worker.core.citations.quoting.word_lists import word_lists, words_of
from worker.core.text.unicode_data import is_numeric

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from worker.core.citations.quoting.word_lists import Language


def denies(text: str, languages: Sequence[Language] = (), shared: Collection[str] = ()) -> bool:
    """Return whether a text denies or limits something.

    Args:
        text: the text.
        languages: what it is in: words that are also common ones of other languages count as well.
        shared: such words that count too, whatever its languages.

    >>> denies("can't"), denies("does NOT"), denies("ikke"), denies("不可"), denies("n’est"), denies("the mayor")
    (True, True, True, True, True, False)
    """
    lists = word_lists()
    if lists.inside.search(text):
        return True
    return any(
        word in lists.denying
        or word in shared
        or word.endswith("n't")
        or any(word in language.shared for language in languages)
        for word in _pieces_of(text)
    )


def counts(text: str, languages: Sequence[Language] = ()) -> bool:
    """Return whether a text has a number in it.

    >>> counts("ten dB"), counts("№ 5"), counts("δέκα"), counts("einundzwanzig"), counts("the mayor")
    (True, True, True, True, False)
    """
    if any(map(is_numeric, text)) or word_lists().inside.search(text):
        return True
    return any(_is_number(word) or any(word in language.shared for language in languages) for word in _pieces_of(text))


@functools.lru_cache(maxsize=4096)
def _is_number(word: str) -> bool:
    lists = word_lists()
    return word in lists.counting or any(language.is_written_together(word) for language in lists.languages)


def _pieces_of(text: str) -> Iterator[str]:
    """Words, and the two halves of those with an apostrophe: n'est is n' and est."""
    for word in words_of(text):
        yield word
        before, apostrophe, after = word.partition("'")
        if apostrophe:
            yield before + apostrophe
            yield after
