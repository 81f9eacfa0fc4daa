"""Letter case and typeface that carry the meaning: ``5 mW`` and ``5 MW``, ``cp -r`` and ``cp -R``.

A quote that is in capitals from end to end, in small letters, or With Every Word Capitalised, says nothing by the case
of a unit, an option or an identifier: a reader sees as much. In any other quote such a word has the case of the chunk.
"""

from __future__ import annotations

import functools
import itertools
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import INVISIBLE, LONG_DASHES, VANISHING, letters_as_latin
from worker.core.citations.quoting.units import is_other_unit
from worker.core.citations.quoting.word_lists import word_lists
from worker.core.text.normal_forms import normal_form
from worker.core.text.unicode_data import cased, decomposition, is_numeric, name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.core.citations.quoting.forms import Passage
    from worker.core.text.brackets import Span

_LONGEST_UNIT = 4
"""Letters of a word that may be a unit, or the symbol of a quantity, where it stands beside a number."""

_FEWEST_WORDS, _FEWEST_CHANGED = 4, 3
"""So many words in small letters, or capitalised, show a reader that letter case says nothing, if one was changed; or
so many that were."""

_SHORTEST_WORD = 3
"""Letters of a word whose capitals, or whose typeface, show that it is a matter of style."""


@dataclass(frozen=True, slots=True)
class _Word:
    """A word of quote and chunk, as each has it, and where it stands in the folded text of both."""

    start: int
    stop: int
    quoted: str
    own: str

    @property
    def only_capitalised(self) -> bool:
        """Return whether only the first letter is in another case."""
        return self.quoted[1:] == self.own[1:]


class _Words:
    """The words of quote and chunk, each read when it is first asked for."""

    def __init__(self, quote: Passage, chunk: Passage, spans: Sequence[Span]) -> None:
        self._quote, self._chunk, self._spans = quote, chunk, spans
        self._read: dict[int, _Word] = {}

    def __getitem__(self, i: int) -> _Word:
        if i not in self._read:
            span = self._spans[i]
            self._read[i] = _Word(*span, self._quote.core(*span), self._chunk.core(*span))
        return self._read[i]

    def beside(self, i: int) -> list[_Word]:
        """The words before and after one."""
        return [self[j] for j in (i - 1, i + 1) if 0 <= j < len(self._spans)]


def is_meant(quote: Passage, chunk: Passage, cased: Sequence[int], formatted: Sequence[int]) -> bool:
    """Return whether letter case or typeface makes two passages of the same folded text say different things.

    Args:
        quote: the quote.
        chunk: the passage of the chunk.
        cased: where in the folded text letters differ in their case.
        formatted: where they differ in a compatibility form.
    """
    spans = [match.span() for match in _WORD.finditer(quote.form.text)]
    words = _Words(quote, chunk, spans)
    if any(_is_symbol(words, i) for i in _touched(spans, formatted)):
        return True
    changed = {i for i in _touched(spans, cased) if _plain(words[i].quoted) != _plain(words[i].own)}
    telling = {i for i in changed if _tells(words, i, chunk)}
    if not telling:
        return False
    telling -= {i for i in telling if _is_pronoun(words[i], chunk)}
    others = [words[i] for i in changed - telling]
    return not _is_uniform(quote.text, chunk, others, [words[i] for i in telling])


_WORD = re.compile(r"\w+")


def _touched(spans: Sequence[Span], places: Sequence[int]) -> set[int]:
    """Indices of the words that have one of some places, which rise."""
    return {i for i, (start, stop) in enumerate(spans) if places and _has(places, start, stop)}


def _has(places: Sequence[int], start: int, stop: int) -> bool:
    i = bisect_left(places, start)
    return i < len(places) and places[i] < stop


def _plain(text: str) -> str:
    """A word without what is hidden in it, formatted, or only looks like its letters."""
    if text.isascii():
        return text
    return letters_as_latin(normal_form("NFKC", INVISIBLE.sub("", text)))


def _is_uniform(quote: str, chunk: Passage, others: Sequence[_Word], telling: Sequence[_Word]) -> bool:
    """Return whether the case of all words was changed, so that a reader takes nothing from that of one.

    Of a chunk in small letters that can't be said: who writes 5 MW for its 5 mw says more than it does. In capitals, a
    reader can't know that 5 MW was 5 mW.
    """
    visible, (start, stop) = INVISIBLE.sub("", quote), chunk.span
    many = len(others) + len(telling) >= _FEWEST_CHANGED
    if _is_upper(visible) or _is_upper(chunk.text[start:stop]):
        style = many or any(len(word.quoted) >= _SHORTEST_WORD for word in others)
        return style and not any(is_other_unit(word.quoted, word.own) for word in telling)
    style = many or (bool(others) and len(visible.split()) >= _FEWEST_WORDS)
    return style and (cased(visible).istitle() or _is_lower(visible))


def _is_upper(text: str) -> bool:
    """Return whether a text is in capitals; not `str.isupper`, to which a lowered i is a small letter."""
    text = cased(text)
    return text.upper() == text != text.lower()


def _is_lower(text: str) -> bool:
    text = cased(text)
    return text.lower() == text != text.upper()


# --- letter case --------------------------------------------------------------------------------


def _tells(words: _Words, i: int, chunk: Passage) -> bool:
    """Return whether the case of a word is part of what it says."""
    word = words[i]
    quoted, own = _plain(word.quoted), _plain(word.own)
    if _are_other_names(quoted, own):
        return True
    start, stop = chunk.form.starts[word.start], chunk.form.ends[word.stop - 1]
    before, after = chunk.text[max(0, start - _AROUND) : start], chunk.text[stop : stop + _AROUND]
    begins = word.only_capitalised and (i == 0 or _ENDED.search(before) is not None)
    if _is_code(own, before, after) or _is_other_i(quoted, own, chunk.text):
        return True
    if _is_listed_abbreviation(words, i) or (not begins and _is_key(words, i, before, after)):
        return True
    # A quote may begin with a word that the chunk has after a number: "Desk measured" of "the Calder 32 desk measured".
    if _is_beside_number(own, before, after) and not (begins and len(own) >= _SHORTEST_WORD):
        return True
    if len(own) == 1:
        is_word = begins and is_word_of_one_letter(INVISIBLE.sub("", word.own), chunk.text)
        return not is_word and not _is_in_capitals(words, i)
    return _are_other_words(quoted, own) and not begins and not _is_in_capitals(words, i)


def are_told_apart(one: str, other: str) -> bool:
    """Return whether two words are equal but for letter case, and this makes two units, names or words of them.

    >>> are_told_apart("MW", "mW"), are_told_apart("US", "us"), are_told_apart("The", "the"), are_told_apart("a", "b")
    (True, True, False, False)
    """
    if one == other or one.casefold() != other.casefold():
        return False
    parts = [_HYPHEN.split(text) for text in (one, other)]
    named = _are_other_names(one, other) or _SIGN_OF_CODE.search(one) is not None
    return named or _are_other_words(one, other) or any(map(_begin_with_capitals, parts))


def is_abbreviation(word: str) -> bool:
    """Return whether a word in capitals is another one in small letters: US, IT."""
    return cased(word).isupper() and len(word) > 1 and _are_other_words(word, word.lower())


def _are_other_names(one: str, other: str) -> bool:
    return is_other_unit(one, other) or _is_identifier(one) or _is_identifier(other)


def _are_other_words(one: str, other: str) -> bool:
    """Return whether letter case makes two words of one, or of a part of it whose others keep theirs: US-led."""
    told_apart = word_lists().told_apart_by_case
    if one.isalpha() or frozenset((one, other)) in told_apart:
        return frozenset((one, other)) in told_apart
    parts = [*zip(_HYPHEN.split(one), _HYPHEN.split(other), strict=False)]
    changed = [part for part in parts if part[0] != part[1]]
    return len(changed) < len(parts) and any(map(told_apart.__contains__, map(frozenset, changed)))


def is_word_of_one_letter(letter: str, text: str) -> bool:
    """Return whether a letter is a word in the language of a text (a, I, и); others are variables, marks or names."""
    return letter.casefold() in _letters_of(text)


@functools.lru_cache(maxsize=16)
def _letters_of(text: str) -> frozenset[str]:
    return word_lists().letters_of(text)


def _is_pronoun(word: _Word, chunk: Passage) -> bool:
    """Return whether a word is the English I: at the beginning of a clause, with a verb that has no -s after it."""
    if word.own != "I":
        return False
    start, stop = chunk.form.starts[word.start], chunk.form.ends[word.stop - 1]
    before, after = chunk.text[max(0, start - _CLAUSE) : start], chunk.text[stop : stop + _CLAUSE]
    return _BEFORE_PRONOUN.search(before) is not None and _AFTER_PRONOUN.match(after) is not None


_CLAUSE = 20
_BEFORE_PRONOUN = re.compile(
    r"(?:[,;:.!?—–(“\"\n]\s*|\b(?:and|as|because|before|but|if|or|since|so|than|that|though|until|what|when|where|which|"
    r"while|who|why)\s+)\Z"
)
_AFTER_PRONOUN = re.compile(
    r"['’](?:m|ve|ll|d)\b|\s+(?!(?:and|as|at|by|for|in|of|on|or|over|to)\b)(?:was|[a-z]++(?<!s))\b"
)
_AROUND = 6
_ENDED = re.compile(r"[.!?:;…][\"'’”»)\]]*\s+[\"'‘“«(\[]*\Z")


def _is_identifier(text: str) -> bool:
    """Return whether a word is a name in code, a key or the like: maxRetries, API_KEY, aB3dE9xQ."""
    if text.isascii() and text[1:].islower() and text.isalpha():
        return False  # most words
    inner_capital = any(one.islower() and other.isupper() for one, other in itertools.pairwise(cased(text)))
    several = text[-1:] == "s" and len(text) > _FEWEST_CAPITALS and cased(text[:-1]).isupper()
    return inner_capital or several or "_" in text or _LETTER_AND_DIGIT.search(text) is not None


def _is_key(words: _Words, i: int, before: str, after: str) -> bool:
    """Return whether a word is a key of parts, X-Request-ID or AB-12, or part of a path: /etc/hosts.

    Parts that only begin with capitals may be of a title, if the case of a word beside them was changed too.
    """
    pair = _plain(words[i].quoted), _plain(words[i].own)
    alone = all(_plain(word.quoted) == _plain(word.own) for word in words.beside(i))
    numbered = _NUMBER_AFTER.match(after) or (_NUMBER_BEFORE.search(before) and len(pair[1]) <= _LONGEST_UNIT)
    if numbered and any(sum(map(str.isupper, text)) >= _FEWEST_CAPITALS for text in pair):
        return True
    if before[-1:] == "/" and alone:
        return True
    mixed = [
        parts for parts in map(_HYPHEN.split, pair) if _begin_with_capitals(parts) and not all(map(_is_upper, parts))
    ]
    if any(len(part) > 1 and _is_upper(part) for parts in mixed for part in parts):
        return True
    return bool(mixed) and alone and not any(map(_is_upper, pair))


def _begin_with_capitals(parts: Sequence[str]) -> bool:
    return sum(any(map(str.isupper, part)) for part in parts) >= _FEWEST_CAPITALS


_FEWEST_CAPITALS = 2
_HYPHEN = re.compile(f"[{re.escape(VANISHING)}]\\s*")
_NUMBER_BEFORE, _NUMBER_AFTER = re.compile(rf"\d{_HYPHEN.pattern}\Z"), re.compile(rf"{_HYPHEN.pattern}\d")


def _is_listed_abbreviation(words: _Words, i: int) -> bool:
    """Return whether a short word loses its capitals beside another that keeps them: NO in "DE, NO"; no heading."""
    own = words[i].own
    if not (cased(own).isupper() and 1 < len(own) <= _LONGEST_LISTED) or cased(words[i].quoted).isupper():
        return False
    beside = [word for word in words.beside(i) if cased(word.own).isupper() and word.own.isalpha()]
    return any(1 < len(word.own) <= _LONGEST_LISTED and word.quoted == word.own for word in beside) and all(
        len(word.own) <= _LONGEST_LISTED for word in beside
    )


_LONGEST_LISTED = 3
_LETTER_AND_DIGIT = re.compile(r"[^\W\d_]\d|\d[^\W\d_]")


def _is_code(word: str, before: str, after: str) -> bool:
    """Return whether a word is an option (``-r``), has a sign beside it (``@Override``, ``Na+``) or is joined."""
    option = _OPTION.search(before)
    if option and option[1] not in LONG_DASHES:
        return True
    if before[-1:] == after[:1] == "%" or (_CHARGE.match(after) and word.isalpha() and len(word) <= _LONGEST_SYMBOL):
        return True
    return before[-1:] in _SIGILS or _JOINED_BEFORE.search(before) is not None or _JOINED_AFTER.match(after) is not None


_SIGN_OF_CODE = re.compile(r"[./\\@#$]\w")
_SIGILS = frozenset("@#$\\<")
_OPTION = re.compile("(?:\\A|[\\s(\\[|`'\"=,])([-\u2010-\u2015\u2212])[-\u2010-\u2015\u2212]?\\Z")
_JOINED_BEFORE = re.compile(r"(?:\w\w\.|\w(?:::?|[(=])|\$\{)\Z")
_JOINED_AFTER = re.compile(r"\.[^\W\d_]{2}|::\w")
_CHARGE, _LONGEST_SYMBOL = re.compile(r"[+⁺⁻](?!\w)"), 2


def _is_beside_number(word: str, before: str, after: str) -> bool:
    """Return whether a short word stands after a number, or beside a unit: 5 ms, 5 mg/L."""
    if len(word) > _LONGEST_UNIT:
        return False
    return is_numeric(before.rstrip()[-1:]) or before[-1:] in _PRODUCTS or after[:1] in _PRODUCTS


_PRODUCTS = frozenset("/·⋅")


def _is_other_i(quoted: str, own: str, text: str) -> bool:
    """Return whether a Turkish word has a dotted i for the small letter of I, or the other way round."""
    if len(quoted) != len(own) or not any({one, other} == {"i", "I"} for one, other in zip(quoted, own, strict=True)):
        return False
    return (text.count("ı") + text.count("İ")) * _TURKISH > len(text)


_TURKISH = 100
"""In Turkish and Azerbaijani more than one letter of so many is an ı or İ; a name in another text makes fewer."""


def _is_in_capitals(words: _Words, i: int) -> bool:
    """Return whether the words beside one are in capitals too, in the quote or in the chunk: a heading."""
    beside = words.beside(i)
    return any(
        all(cased(text).isupper() and len(text) > 1 for text in texts)
        for texts in ([word.quoted for word in beside], [word.own for word in beside])
    )


# --- typeface -----------------------------------------------------------------------------------


def _is_symbol(words: _Words, i: int) -> bool:
    """Return whether a lone letter is in another typeface: ℝ is no R, a bold x no x; words in bold are words."""
    word = words[i]
    if len(word.quoted) >= _SHORTEST_WORD or _typefaces(word.quoted) == _typefaces(word.own):
        return False
    return not any(map(_is_formatted_word, words.beside(i)))


def _is_formatted_word(word: _Word) -> bool:
    return len(word.quoted) >= _SHORTEST_WORD and _typefaces(word.quoted) != _typefaces(word.own)


def _typefaces(text: str) -> list[str]:
    """The typeface of each letter that has one; italics are those of any variable, and a digit is a digit."""
    names = [name(c) for c in text if decomposition(c).startswith("<font>")]
    return [match[0] for name in names if (match := _TYPEFACE.match(name))]


_TYPEFACE = re.compile(
    r"(?:MATHEMATICAL (?!ITALIC )(?:(?!SMALL|CAPITAL|DIGIT)\S+ )*|DOUBLE-STRUCK |SCRIPT |BLACK-LETTER )"
    r"(?=SMALL|CAPITAL)"
)
