"""Insertions: words that a writer may put into a quote in brackets, and the words that they may replace.

A pronoun, an article, another inflection of the chunk's own word, a name that the chunk has near by, or an editor's
note (``[sic]``, ``[emphasis added]``). A pronoun, an article and a name stand between the chunk's words or for a
pronoun or an article; a pronoun also for a name. At the edge of a quote they stand for the words that the chunk has
there. Nothing else is an insertion: what denies, limits or counts is in none of these.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from worker.core.citations.quoting.letter_case import are_told_apart, is_abbreviation, is_word_of_one_letter
from worker.core.citations.quoting.limits import counts, denies
from worker.core.citations.quoting.word_lists import MONTH, word_lists, words_of
from worker.core.text.unicode_data import cased, category

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from worker.core.citations.quoting.forms import Prepared
    from worker.core.citations.quoting.word_lists import Language

NEAR = 500
"""Characters of the chunk on either side in which it has the name that is put in."""


def is_note(text: str) -> bool:
    """Return whether words in brackets are said of the quote, not in it.

    >>> is_note("Emphasis  added"), is_note("sic!"), is_note("added")
    (True, True, False)
    """
    return " ".join(text.split()).casefold() in word_lists().notes


def may_stand_between(text: str, replaced: str, chunk: Prepared, place: tuple[int, int]) -> bool:
    """Return whether words may be put in at a place of the chunk.

    Args:
        text: the words in brackets.
        replaced: what the chunk has there, empty where they are only added.
        chunk: the chunk.
        place: start and end of the passage that they are in.
    """
    if is_note(text):
        return not replaced
    if not _is_plain(text):
        return False
    return _Insertion(text, chunk, place).may_replace(replaced)


def may_stand_at_edge(text: str, outside: Sequence[str], chunk: Prepared, place: tuple[int, int]) -> bool:
    """Return whether words may be put in at the beginning or the end of a passage.

    Args:
        text: the words in brackets.
        outside: the chunk's words beyond that edge, the nearest first, up to the next punctuation.
        chunk: the chunk.
        place: start and end of the passage.
    """
    if is_note(text):
        return True
    if not outside:
        return may_stand_between(text, "", chunk, place)
    kind = _Insertion(text, chunk, place)
    nearest = outside[0]
    if kind.changes_case(nearest):
        return False
    if kind.is_function and may_stand_between(text, "", chunk, place) and not kind.limits(nearest):
        return not any(map(kind.limits_strictly, outside[1:]))
    for count in range(1, len(outside) + 1):
        replaced, others = outside[:count], outside[count:]
        # Of one order or the other: the edge may be the beginning or the end.
        ways = (" ".join(replaced), " ".join(reversed(replaced)))
        if any(may_stand_between(text, way, chunk, place) for way in ways):
            return not any(map(kind.limits_strictly, others))
    return False


def words_before(text: str, start: int) -> list[str]:
    """Up to three words before a place, the nearest first; none beyond punctuation or the end of a paragraph."""
    words: list[str] = []
    for word in reversed(_PARAGRAPH.split(text[max(0, start - _BEYOND) : start])[-1].split()):
        if not _ends_plain(word[-1]) or len(words) == _MOST_BEYOND:
            break
        words.append(word[-_SIGNS:] if _NO_SPACES.search(word) else word.lstrip(_OPENING))
        if not _ends_plain(word[0]):
            break
    return words


def words_after(text: str, stop: int) -> list[str]:
    """The same after a place."""
    words: list[str] = []
    for word in _PARAGRAPH.split(text[stop : stop + _BEYOND])[0].split():
        if not _ends_plain(word[0]) or len(words) == _MOST_BEYOND:
            break
        words.append(word[:_SIGNS] if _NO_SPACES.search(word) else word.rstrip(_CLOSING))
        if not _ends_plain(word[-1]):
            break
    return words


def _ends_plain(sign: str) -> bool:
    """Return whether a word that begins or ends so goes on with the next one."""
    return sign not in _OPENING + _CLOSING


_BEYOND, _MOST_BEYOND, _SIGNS = 80, 3, 6
_OPENING, _CLOSING = "([{«“„‘\"'—–-¿¡（「『", ")]}»”’\"'—–-.,;:!?…。，、；：！？）」』؟،؛।"
_PARAGRAPH = re.compile(r"\n\s*\n")
_JOINTS = frozenset("'’.-\u2010\u2011\u00ad\u00b7\u05be\u05f3\u05f4\u200b\u200c\u200d")


def _is_plain(text: str, punctuation: str = "") -> bool:
    """Return whether a text has nothing but words with their marks, and what joins them: no digit, no sign."""
    joints = _JOINTS.union(punctuation)
    return bool(text) and all(c.isalpha() or c.isspace() or c in joints or category(c)[0] == "M" for c in text)


_APOSTROPHES = re.compile("['’]")


def _tokens(text: str) -> list[str]:
    return [token for word in words_of(text) for token in _APOSTROPHES.split(word) if token]


class _Insertion:
    """Words in brackets, and what they are in a chunk of some languages."""

    def __init__(self, text: str, chunk: Prepared, place: tuple[int, int]) -> None:
        self.languages: tuple[Language, ...] = chunk.languages or word_lists().languages
        self._chunk, self._place = chunk, place
        self._words = text.split()
        self.tokens = _tokens(text)

    def may_replace(self, replaced: str) -> bool:
        """Return whether they may stand for these words of the chunk, or be added where there are none."""
        old = _tokens(replaced)
        if self.changes_case(replaced) or any(map(is_abbreviation, _WORD.findall(replaced))):
            return False
        if replaced.strip() and (not _is_plain(replaced, ",;:") or MONTH in replaced.split()):
            return False
        if self.are_function(old):
            return self.is_function or self.is_name()
        if not _is_plain(replaced) or denies(replaced, self.languages) or counts(replaced, self.languages):
            return False
        if self.is_function and self.has_pronoun:
            return self.has_name(replaced.split(), determined=self.is_common(old[0]))
        return self.is_inflection_of(old) or (self.is_name() and self.shares_name_with(old))

    def changes_case(self, replaced: str) -> bool:
        """Return whether a word stands for itself in a case that says something else: N is not n, nor US us."""
        pairs = [
            (word, own)
            for word in self._words
            for own in (one.strip(_OPENING + _CLOSING) for one in replaced.split())
            if word != own and word.casefold() == own.casefold()
        ]
        return any(
            not is_word_of_one_letter(word, self._chunk.text) if len(word) == 1 else are_told_apart(word, own)
            for word, own in pairs
        )

    @property
    def is_function(self) -> bool:
        """Return whether they are pronouns and articles."""
        return bool(self.tokens) and self.are_function(self.tokens)

    @property
    def has_pronoun(self) -> bool:
        return any(token in language.pronouns for token in self.tokens for language in self.languages)

    def are_function(self, tokens: Collection[str]) -> bool:
        """Return whether all of some words are pronouns and articles of one language.

        None is that denies, limits or counts in another one that the text may as well be in.
        """
        if any(token in self._chunk.shared_words for token in tokens):
            return False
        if not self._chunk.languages and any(denies(token) or counts(token) for token in tokens):
            return False
        return any(
            all(token in language.pronouns | language.articles for token in tokens) for language in self.languages
        )

    def is_common(self, token: str) -> bool:
        return any(token in language.common for language in self.languages)

    def limits(self, word: str) -> bool:
        """Return whether a word denies, limits or counts, and is no pronoun or article."""
        return not self.are_function(_tokens(word) or [word]) and (
            denies(word, self.languages) or counts(word, self.languages)
        )

    def limits_strictly(self, word: str) -> bool:
        """Return whether a word denies or counts."""
        tokens = _tokens(word)
        denied = any(token in language.denials for token in tokens for language in self.languages)
        return denied or (not self.are_function(tokens or [word]) and counts(word, self.languages))

    def is_name(self) -> bool:
        """Return whether they are a name that the chunk has near by, perhaps with an article before it."""
        name = list(itertools.dropwhile(lambda word: all(map(self.is_common, _tokens(word) or [word])), self._words))
        if not name or denies(" ".join(name), self.languages) or counts(" ".join(name), self.languages):
            return False
        return self.has_name(name, determined=len(name) < len(self._words))

    def has_name(self, name: Sequence[str], determined: bool) -> bool:
        """Return whether the chunk has a name near by; with an article, one in small letters too."""
        wanted = [token for word in name for token in _tokens(word)]
        while wanted and self.is_common(wanted[0]):
            wanted.pop(0)
        if wanted and wanted[-1] == "s":
            wanted.pop()
        start, stop = max(0, self._place[0] - NEAR), self._place[1] + NEAR
        near = self._chunk.text[start:stop]
        if _NO_SPACES.search("".join(wanted)):
            return len("".join(wanted)) > 1 and "".join(wanted) in near
        return bool(wanted) and any(
            self._is_name_there(near, place, determined, any(word[0].isupper() for word in name))
            for place in _places_of(wanted, near, self.languages)
        )

    def _is_name_there(self, text: str, words: Sequence[re.Match[str]], determined: bool, capital: bool) -> bool:
        """Return whether words of the chunk are a name: capitalised, or with an article before them.

        A capital at the beginning of a sentence says nothing, unless the brackets have it too.
        """
        if any(
            word[0][0].isupper() and (capital or not _BEGINS.search(text[: word.start()][-_AROUND:])) for word in words
        ):
            return True
        if not any(c.isupper() or c.islower() for c in cased(words[0][0])):
            return True
        if not any(language.articles for language in self.languages):
            return len(words[0][0]) > _SHORTEST_NAME
        before = _tokens(text[max(0, words[0].start() - _AROUND) : words[0].start()])
        return determined and bool(before) and self.is_common(before[-1])

    def is_inflection_of(self, old: Sequence[str]) -> bool:
        """Return whether they are other words for word forms of the same ones."""
        return len(old) == len(self.tokens) and all(
            one == other or _is_inflection(one, other, self.languages)
            for one, other in zip(self.tokens, old, strict=True)
        )

    def shares_name_with(self, old: Sequence[str]) -> bool:
        """Return whether a name is longer or shorter than the chunk's, and no other."""
        mine = {token for token in self.tokens if not self.is_common(token)}
        theirs = {token for token in old if not self.is_common(token)}
        return bool(mine and theirs) and (mine <= theirs or theirs <= mine)


_AROUND = 12
_SHORTEST_NAME = 3
_BEGINS = re.compile(r"(?:\A|[.!?:…。\n])[\s\"'“„«(\[*_-]*\Z")
_NO_SPACES = re.compile("[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_](?:[^\W_]|[\u0300-\u036f])*")


def _places_of(wanted: Sequence[str], text: str, languages: Sequence[Language]) -> Iterator[Sequence[re.Match[str]]]:
    """Yield the places where words stand one after the other, inflected or not."""
    words = list(_WORD.finditer(text))
    folded = [word[0].casefold() for word in words]
    for i in range(len(words) - len(wanted) + 1):
        if all(
            one == other or _is_inflection(one, other, languages)
            for one, other in zip(wanted, folded[i : i + len(wanted)], strict=True)
        ):
            yield words[i : i + len(wanted)]


_SHORTEST_STEM = 3


def _is_inflection(one: str, other: str, languages: Sequence[Language]) -> bool:
    """Return whether two words are forms of one word.

    >>> english = [language for language in word_lists().languages if language.name == "English"]
    >>> [_is_inflection(*pair.split(), english) for pair in ("walks walked", "is was", "harmful harmless", "car care")]
    [True, True, False, False]
    """
    stem = len(_common_prefix(one, other))
    for language in languages:
        if any(one in group and other in group for group in language.forms):
            return True
        for endings in language.endings if stem >= _SHORTEST_STEM else ():
            if any(one[i:] in endings and other[i:] in endings for i in range(_SHORTEST_STEM, stem + 1)):
                return True
    return False


def _common_prefix(one: str, other: str) -> str:
    return "".join(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
