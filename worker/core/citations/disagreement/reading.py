"""A sentence read into its frame, the words that it shares with a sentence like it, and what may differ in these."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.disagreement.values import (
    CURRENCIES,
    DATE,
    NUMBER,
    NUMBER_WORDS,
    Value,
    find_unit,
    may_be_a_value,
    read_date,
    read_number,
)
from worker.core.text.normal_forms import normal_form
from worker.core.text.sentences import words_in
from worker.core.text.terms import stem
from worker.core.text.unicode_data import known
from worker.core.text.words import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Hashable

    from worker.core.text.spans import Span
from worker.core.citations.disagreement.values import Unit

# --- data ---------------------------------------------------------------------------------------

_DENYING = words_in(
    "no not never none nobody nothing cannot nicht nie niemals niemand nichts kein keine keinen keinem keiner "
    "pas jamais aucun aucune nunca jamás ningún ninguna"
)
_DENYING_FOR = words_in("without with unless if neither either nor or ohne mit sans avec sin con")
_DENIALS = dict.fromkeys(_DENYING, "") | dict(zip(_DENYING_FOR[::2], _DENYING_FOR[1::2], strict=True))
"""Words of English, German, French and Spanish that deny, and what a sentence that does not has in their place."""
_DENYING_PREFIX = re.compile("^(?:un|in|im|ir|il)(?=[a-z]{4})")

_UNFRAMED = frozenset(
    words_in("a an the any some all every everyone everybody everything anyone anybody anything am is are was were be")
    + words_in("been do does did have has had will would shall should can could may might must")
    + words_in("ein eine einen einem einer ne")
)
"""No part of a frame: a sentence with and without them says the same, or denies the same."""

_PRONOUNS = words_in("he her his i it its my our she that their these they this those we you your")
"""A sentence that begins with one of these speaks of something that stands elsewhere."""

_NAMED = words_in("channel chapter figure item line no number page part room section step table track version")
"""A number after one of these is part of a name."""

# --- words --------------------------------------------------------------------------------------

_TOKEN = re.compile(
    rf"""
    (?P<name>(?:https?://|www\.|(?<!\w)/)[^\s<>"']++ | (?<![\w.])v?+\d++(?>(?:\.\d++){{2,}})(?!\w) | \bv\d[\w.]*+)
    | (?P<date>{DATE})
    | (?P<number>{NUMBER})
    | (?P<word>
        [A-Za-z](?>(?:\w|[\u00ad\u0300-\u036f])*)(?>(?:['’]\w++)*)(?>(?:-\d\w*+|-[A-Za-z]++)*)  # HT-2207
      | [^\W\d_](?>(?:[^\W\d_]|[\u00ad\u0300-\u036f])*)(?>(?:['’]\w++)*)  # of other scripts, up to a digit
      )
    | (?P<sign>dB\([A-Z]\) | °\s?[CFK](?!\w) | [℃℉%‰°{CURRENCIES}])
    """,
    re.VERBOSE,
)
_CLITIC = re.compile(r"^n'|'(?:s|ll|re|ve|d|m)?$")
_GAPS = frozenset({"", " ", "-", "\u00a0", "\u2009", "\u202f"})
"""Between a number and its unit."""


_REMEMBERED = 40
"""Characters of the longest words whose weight is remembered: a language has few thousands, and uses them again."""
_AROUND = "\"'()[].,;:!?"


class Word(NamedTuple):
    """A word by itself: its plain form, what a frame has of it, and whether it denies."""

    norm: str
    lemma: str = ""
    denies: bool = False


def read_word(text: str) -> Word:
    """Read one word.

    >>> read_word("needs"), read_word("can't").denies, read_word("unsafe")
    (Word(norm='needs', lemma='need', denies=False), True, Word(norm='unsafe', lemma='saf', denies=True))
    """
    norm = normal_form("NFKC", text).replace("’", "'").replace("\u00ad", "").casefold()
    if norm in _DENIALS:
        return Word(norm, stem(_DENIALS[norm]), denies=True)
    if norm.endswith("n't"):
        return Word(norm, denies=True)
    norm = _CLITIC.sub("", norm)
    if norm in _UNFRAMED:
        return Word(norm)
    base = _DENYING_PREFIX.sub("", norm)
    return Word(norm, stem(base), base != norm)


def weigh(text: str) -> int:
    """Return a sum over the content words of a piece of text: sentences of one frame weigh the same."""
    return _weigh(text) if len(text) <= _REMEMBERED else _weigh.__wrapped__(text)


@lru_cache(maxsize=8192)
def _weigh(text: str) -> int:
    bare = text.strip(_AROUND)
    if bare.isascii() and bare.isalpha():  # as most are, and this is cheap
        words = [bare]
    else:
        words = [match[0] for match in _TOKEN.finditer(known(text)) if match["word"]]
    return sum(hash(word.lemma) for word in map(read_word, words) if _is_content(word))


def _is_content(word: Word) -> bool:
    return len(word.lemma) > 1 and STOP_WORDS.isdisjoint((word.lemma, word.norm)) and not may_be_a_value(word.norm)


# --- sentences ----------------------------------------------------------------------------------

_MIN_COMMON, _MIN_COMMON_STATED, _MIN_COMMON_BOUND = 3, 2, 5
_CLOSING = "\"'”’»)] "


class Sentence(NamedTuple):
    """A sentence, read.

    Attributes:
        frame: stems in order, ``#`` for a number, ``@`` for a date, without articles, auxiliaries and denials.
        values: the numbers and dates, in the frame's order.
        denials: the words that deny, and where they stand.
        content: how many words of the frame are no function words, and no part of any value.
        enough: content words, equal values and equal parts of differing ones (unit, month, year) that it has in common
            with a sentence like it: 2, of a heading or a table's cell 3, with a pronoun in front 5.
    """

    frame: tuple[str, ...]
    values: tuple[Value, ...]
    denials: tuple[tuple[str, Span], ...]
    content: int
    enough: int

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Equal for sentences of one frame that say the same."""
        return *(value.key for value in self.values), self.denied

    @property
    def denied(self) -> bool:
        """Whether it denies: twice is not at all."""
        return len(self.denials) % 2 == 1


def read_sentence(text: str) -> Sentence:
    """Read one sentence, as `split_sentences` finds it.

    >>> read_sentence("The ribbon does not need 48 V.").frame
    ('ribbon', 'need', '#')
    """
    return _Reader(known(text)).sentence()


class _Reader:
    """Reads the tokens of a sentence from left to right; token ``i`` past the end is empty."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [*_TOKEN.finditer(text)]
        self.words = [read_word(token[0]) if token["word"] else Word("") for token in self.tokens]
        self.frame: list[str] = []
        self.values: list[Value] = []
        self.denials: list[tuple[str, Span]] = []
        self.content = 0

    def sentence(self) -> Sentence:
        """Read them all."""
        i = 0
        while i < len(self.tokens):
            i = self._value(i) or self._word(i)
        first_word = next((word.norm for word in self.words if word.norm), "")
        is_statement = self.text.rstrip(_CLOSING).endswith((".", "!", "?", "…", "。"))
        enough = _MIN_COMMON_BOUND if first_word in _PRONOUNS else _MIN_COMMON_STATED if is_statement else _MIN_COMMON
        return Sentence(tuple(self.frame), tuple(self.values), tuple(self.denials), self.content, enough)

    def _word(self, i: int) -> int:
        token, word = self.tokens[i], self.words[i]
        if token["name"]:  # an address, a path, a version: it names something else if anything in it differs
            self.frame.append(token[0])
        following = self.words[i + 1].norm if i + 1 < len(self.words) else ""
        if word.norm == "no" and self._kind(i + 1) == "number":
            word = Word("no", "no")
        if word.denies and (word.norm, following) != ("not", "only"):
            self.denials.append((word.norm, token.span()))
        if word.lemma:
            self.frame.append(word.lemma)
            self.content += _is_content(word)
        return i + 1

    def _value(self, i: int) -> int | None:
        """Take a date or a number; where the next token is, or None."""
        token = self.tokens[i]
        money = token[0] in CURRENCIES and self._kind(i + 1) == "number" and self._gap(i + 1) in _GAPS
        at = i + money
        kind, words = self._kind(at), self.words[at].norm
        if kind == "date":
            self.values.append(Value(token.span(), readings=read_date(token[0])))
            self.frame.append("@")
            return i + 1
        if kind != "number" and words not in NUMBER_WORDS:
            return None
        number = self.tokens[at]
        amount = read_number(number[0]) if kind == "number" else NUMBER_WORDS[words]
        unit, next_token = (find_unit(token[0]), at + 1) if money else self._unit(at + 1)
        start, end = (i, i) if money else (at + 1, next_token - 1)
        unit_span = (self.tokens[start].start(), self.tokens[end].end()) if unit else None
        self.values.append(Value(number.span(), amount, unit, unit_span, not unit and self._is_name(at)))
        self.frame.append("#")
        return next_token

    def _unit(self, i: int) -> tuple[Unit | None, int]:
        """The unit that token ``i`` begins, and what follows: ``dB``, ``-hour``, ``cm/s``, ``cm per second``."""
        unit = self._plain_unit(i) if self._gap(i) in _GAPS else None
        if unit is None:
            return None, i
        per = i + 1 < len(self.words) and self.words[i + 1].norm == "per"
        below = self._plain_unit(i + 1 + per) if per or self._gap(i + 1) == "/" else None
        return (unit.per(below), i + 2 + per) if below else (unit, i + 1)

    def _plain_unit(self, i: int) -> Unit | None:
        return find_unit(normal_form("NFKC", self.tokens[i][0]).replace(" ", "")) if i < len(self.tokens) else None

    def _is_name(self, i: int) -> bool:
        """Return whether a number without a unit is part of a name: ``channel 18``, ``Calder 32``."""
        if not i or not self.words[i - 1].norm or (self._gap(i) or "").strip(" .-"):
            return False
        lead, text = self.words[i - 1], self.tokens[i - 1][0]
        proper = i > 1 and text[0].isupper() and not text.endswith(("s'", "s’", "'s", "’s"))
        return lead.norm.removesuffix("s") in _NAMED or (proper and _is_content(lead))

    def _kind(self, i: int) -> str | None:
        return self.tokens[i].lastgroup if i < len(self.tokens) else None

    def _gap(self, i: int) -> str | None:
        """Return what stands before a token and after the one before it; None past the end."""
        return self.text[self.tokens[i - 1].end() : self.tokens[i].start()] if i < len(self.tokens) else None
