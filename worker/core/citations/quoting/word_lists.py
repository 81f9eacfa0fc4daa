"""The words that quoting takes notice of, by language: data, read once from ``word_lists.toml``."""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain

from worker.core.citations.tables import Table, read_tables
from worker.core.text.normal_forms import normal_form

# Of Hebrew, Arabic and Indian words: to a regular expression they are no letters.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0e31-\u0e3a\u0e47-\u0e4e"
_WORD = re.compile(rf"(?:[^\W\d_]|'(?=\w)|[{_MARKS}])+")
MONTH = "May"
"""With a capital it is a month, and limits nothing."""


def words_of(text: str) -> list[str]:
    """The words of a text, letter case aside, but for the month of May, which limits nothing.

    >>> words_of("In May it’s NOT so")
    ['in', "it's", 'not', 'so']
    """
    words = _WORD.findall(normal_form("NFC", text.replace("’", "'")))
    return [word.casefold() for word in words if word != MONTH]


@dataclass(frozen=True)
class Language:
    """The words of one language, letter case aside.

    Attributes:
        name: its name in English.
        denials: what denies; denying: what denies or limits.
        counting: what counts.
        shared: what denies, limits or counts, and is a common word of another language.
        ordinary: shared words of other languages that are ordinary ones in it.
        letters: words of one letter.
        parts, joints: of what number words are made that are written together.
        pronouns: personal, possessive, demonstrative and relative ones; none that denies, limits or counts.
        articles: definite and indefinite ones.
        particles: what may stand beside a name: of.
        endings: groups of endings of one word; forms: groups of other forms of one word.
    """

    name: str
    denials: frozenset[str]
    denying: frozenset[str]
    counting: frozenset[str]
    shared: frozenset[str]
    ordinary: frozenset[str]
    letters: frozenset[str]
    parts: frozenset[str]
    joints: frozenset[str]
    pronouns: frozenset[str]
    articles: frozenset[str]
    particles: frozenset[str]
    endings: tuple[frozenset[str], ...]
    forms: tuple[frozenset[str], ...]

    @functools.cached_property
    def common(self) -> frozenset[str]:
        """Words that are in every text of it."""
        return self.pronouns | self.articles | self.particles

    def is_written_together(self, word: str) -> bool:
        """Return whether a word is two or more parts of numbers, as einundzwanzig is."""
        if len(word) > _LONGEST_NUMBER:
            return False
        # For each place in the word: how many pieces end there at most, and whether one of them is no joint.
        found: list[tuple[int, bool] | None] = [(0, False), *[None] * len(word)]
        for start in range(len(word)):
            if (before := found[start]) is None:
                continue
            for piece in self.pieces.get(word[start], ()):
                if word.startswith(piece, start):
                    stop = start + len(piece)
                    here = (before[0] + 1, before[1] or piece in self.parts)
                    found[stop] = max(found[stop] or here, here)
        whole = found[-1]
        return whole is not None and whole[0] > 1 and whole[1]

    @functools.cached_property
    def pieces(self) -> dict[str, tuple[str, ...]]:
        """Parts of numbers and their joints, by their first letter."""
        every = sorted(self.parts | self.joints)
        return {first: tuple(piece for piece in every if piece[0] == first) for first in {piece[0] for piece in every}}


_LONGEST_NUMBER = 60
"""Letters of the longest number word; thousands are written apart."""


@dataclass(frozen=True)
class WordLists:
    """All languages.

    Attributes:
        languages: in the order of the data.
        denying, counting: the words of all languages.
        inside: what denies, limits or counts wherever it stands, and phrases; None of a text: it has none of these.
        attached: in scripts without spaces, a ``prefix`` or an ``ending`` that denies, or a ``whole`` word that has one
            in it.
        leading: there, a ``denial`` of what follows, with what may stand after it; other matches say nothing.
        units: there, a ``unit`` after a number.
        told_apart_by_case: pairs of words.
        notes: what an editor says of a quote.
    """

    languages: tuple[Language, ...]
    denying: frozenset[str]
    counting: frozenset[str]
    inside: re.Pattern[str]
    attached: re.Pattern[str]
    leading: re.Pattern[str]
    units: re.Pattern[str]
    told_apart_by_case: frozenset[frozenset[str]]
    notes: frozenset[str]

    def languages_of(self, text: str) -> tuple[Language, ...]:
        """The languages that a text is in, by its common words; those of any text in the first place.

        >>> [language.name for language in word_lists().languages_of("The pump of the mill is his.")]
        ['English']
        """
        words, found = self._common_words_of(text)
        most = max(found.values(), default=0)
        least = max(_FEWEST, len(words) * _SHARE, most * _OF_THE_MOST)
        return tuple(language for i, language in enumerate(self.languages) if found[i] >= least)

    def shared_of(self, text: str) -> frozenset[str]:
        """The shared words that deny, limit or count in a text.

        Those of every language, but for words that are ordinary in a language of which the text has at least two common
        words, the word itself aside, and more than of those in which it denies.

        >>> sorted({"ei", "of", "to"} & word_lists().shared_of("Pumppu ei saa olla auki."))
        ['ei', 'of', 'to']
        >>> sorted({"ei", "of", "to"} & word_lists().shared_of("The pump of the mill is open."))
        ['ei']
        """
        words, found = self._common_words_of(text)
        times = Counter(words)

        def most(word: str, languages: list[int]) -> int:
            own = times.get(word, 0)
            if not own:
                return max(map(found.__getitem__, languages), default=-1)
            return max((found[i] - own * (word in self.languages[i].common) for i in languages), default=-1)

        return frozenset(
            word
            for word, (denying, ordinary) in self._shared.items()
            if most(word, ordinary) <= max(1, most(word, denying))
        )

    def letters_of(self, text: str) -> frozenset[str]:
        """The words of one letter in a text: those of the languages of which it has most common words, or of all."""
        _, found = self._common_words_of(text)
        most = max(found.values(), default=0)
        spoken = [
            language for i, language in enumerate(self.languages) if most < _FEWEST or found[i] >= most * _OF_THE_MOST
        ]
        return frozenset().union(*(language.letters for language in spoken))

    def _common_words_of(self, text: str) -> tuple[list[str], Counter[int]]:
        """The words that tell a text's language, and how many are common ones of each language."""
        words = words_of(text[:_ENOUGH])
        return words, Counter(i for word in words for i in self._common.get(word, ()))

    @functools.cached_property
    def _shared(self) -> dict[str, tuple[list[int], list[int]]]:
        """For each shared word, in which languages it denies, limits or counts, and in which it is an ordinary one.

        Also for those that are common words of another language only.
        """
        languages = list(enumerate(self.languages))
        limiting = self.denying | self.counting
        words = {word for language in self.languages for word in language.shared | (language.common & limiting)}
        return {
            word: (
                [i for i, language in languages if word in language.shared | language.denying | language.counting],
                [i for i, language in languages if word in language.ordinary | language.common],
            )
            for word in words
        }

    @functools.cached_property
    def _common(self) -> dict[str, list[int]]:
        common: dict[str, list[int]] = {}
        for i, language in enumerate(self.languages):
            for word in language.common:
                common.setdefault(word, []).append(i)
        return common


_ENOUGH = 4_000
"""Characters of a text that tell its language."""
_FEWEST = 3
"""Common words of a text of a language."""
_SHARE, _OF_THE_MOST = 0.05, 0.6
"""The share of common words in a text of a language; and how many it has at least of the language that has most."""


# A line that ends, a space before a Latin word or a number, emphasis.
_BEFORE_DENIED = r"(?>(?:[^\S\n]*+\n[^\S\n]*+|[ \u00a0](?=[A-Za-z\d]))?)[*_`]{0,3}+"


# A verb and its denial: 能不能, 有没有. They ask, and deny nothing.
_ASKED = r"(?P<verb>[一-鿿])\s*+[不没沒]\s*+(?P=verb)"


def _any(words: list[str]) -> str:
    return "|".join(map(re.escape, words))


@functools.cache
def word_lists() -> WordLists:
    """Return the word lists of all languages."""
    return _word_lists(read_tables(__package__, "word_lists.toml"))


def _word_lists(tables: Table) -> WordLists:
    """Return the word lists of a file; the tables besides those of all texts are languages.

    Raises:
        BrokenTableError: a key is missing or unknown, or what it has is no list of words.
    """
    case, of_editors, signs = tables.table("case"), tables.table("notes"), tables.table("numerals")
    pairs, notes, numerals = case.words("pairs"), of_editors.groups("phrases"), re.escape(signs.text("before_units"))
    if len(pairs) % 2:
        raise case.error("pairs", "expected pairs of words")
    of_languages = {name: tables.table(name) for name in tables.names()}
    languages = tuple(_language(name, table) for name, table in of_languages.items())

    def every(key: str) -> list[str]:
        """Return the words of all languages, the longest first."""
        found = {word.replace("_", " ") for table in of_languages.values() for word in table.words(key, "")}
        return sorted(found, key=lambda word: (-len(word), word))

    def pattern(key: str) -> list[str]:
        """Return the patterns of all languages, which must be regular expressions."""
        for table in of_languages.values():
            for one in table.words(key, ""):
                try:
                    re.compile(one)
                except re.error as error:
                    raise table.error(key, f"expected regular expressions: {error}") from None
        return every(key)

    phrases = "|".join(
        re.escape(" ".join(phrase.split())).replace(r"\ ", r"\s+")
        for table in of_languages.values()
        for phrase in table.groups("phrases", "")
        if phrase
    )
    patterns = [*pattern("patterns"), rf"(?<!\w)(?i:{phrases})(?!\w)"]
    found = WordLists(
        languages=languages,
        denying=frozenset(chain.from_iterable(language.denying for language in languages)),
        counting=frozenset(chain.from_iterable(language.counting for language in languages)),
        inside=re.compile("|".join([*map(re.escape, every("inside")), *patterns])),
        attached=re.compile(
            rf"(?P<whole>{_ASKED}|{_any(every('unattached'))})|(?P<prefix>{_any(every('attached_prefixes'))})\s*+"
            rf"|(?<!^)(?P<ending>{_any(every('attached_endings'))})"
        ),
        leading=re.compile(
            rf"{_ASKED}|{_any([*every('no_denials'), *every('unattached')])}"
            rf"|(?P<denial>{_any(every('leading_denials'))}){_BEFORE_DENIED}"
        ),
        units=re.compile(rf"[\d{numerals}][ \u00a0\u3000]?(?P<unit>{_any(every('units'))})"),
        told_apart_by_case=frozenset(map(frozenset[str], zip(pairs[::2], pairs[1::2], strict=True))),
        notes=frozenset(" ".join(note.split()) for note in notes),
    )
    for table in (case, of_editors, signs, *of_languages.values(), tables):
        table.close()
    return found


def _language(name: str, table: Table) -> Language:
    def words(*keys: str) -> frozenset[str]:
        return frozenset(chain.from_iterable(_words(table.text(key, "")) for key in keys))

    return Language(
        name=name,
        denials=words("denials"),
        denying=words("denials", "limits"),
        counting=words("numbers"),
        shared=words("shared"),
        ordinary=words("ordinary"),
        letters=words("letters"),
        parts=words("number_parts"),
        joints=words("number_joints"),
        pronouns=words("pronouns"),
        articles=words("articles"),
        particles=words("particles"),
        endings=tuple(frozenset(map(str.strip, group.split("|"))) for group in table.groups("endings", "")),
        forms=tuple(frozenset(_words(group)) for group in table.groups("forms", "")),
    )


def _words(text: str) -> list[str]:
    return [word.casefold() for word in normal_form("NFC", text).split()]
