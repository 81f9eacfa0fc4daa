"""A sentence read into what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.core.citations.disagreement.claims import MIN_COMMON, MIN_COMMON_BOUND, MIN_COMMON_STATED, Sentence, Value
from worker.core.citations.disagreement.dates import find_date
from worker.core.citations.disagreement.quantities import find_quantity
from worker.core.citations.disagreement.tokens import Tokens
from worker.core.citations.disagreement.vocabulary import AUXILIARIES, CLAUSE_SIGNS, CLAUSE_WORDS, CONNECTORS, PRONOUNS

if TYPE_CHECKING:
    from worker.core.text.spans import Span

_IN_A_ROW = frozenset({"@", "and", "or", "to"})
_CLOSING = "\"'”’»)] "


def read_sentence(text: str) -> Sentence:
    """Read one sentence.

    >>> read_sentence("The ribbon does not need 48 V.").skeleton
    ('ribbon', 'need', '#')

    Args:
        text: a sentence, as `split_sentences` finds it.
    """
    return _Reader(text).sentence()


class _Reader:
    """Reads the tokens of a sentence from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.ended = text.rstrip(_CLOSING).endswith((".", "!", "?", "…", "。"))
        self.skeleton: list[str] = []
        self.values: list[Value] = []
        self.negations: list[tuple[int, Span]] = []
        self.clause = self.content = 0
        self.naming = False  # the last number was part of a name, and only connectors have followed

    def sentence(self) -> Sentence:
        """Read them all."""
        tokens, i = self.tokens, 0
        while i < tokens.length:
            word = tokens.words[i]
            if word.plain:
                self._add(word.lemma, word.content)
                self.naming = False
                i += 1
            else:
                i = (tokens.kinds[i] != "sign" and self._value(i)) or self._word_or_sign(i)
        return Sentence(
            tuple(self.skeleton),
            tuple(self.values),
            tuple(self.negations),
            self.clause + 1,
            self.content,
            any(word.weighs for word in tokens.words),
            self._enough(),
        )

    def _enough(self) -> int:
        kinds, norms = self.tokens.kinds, self.tokens.norms
        if "word" in kinds and norms[kinds.index("word")] in PRONOUNS:
            return MIN_COMMON_BOUND
        return MIN_COMMON_STATED if self.ended or not AUXILIARIES.isdisjoint(norms) else MIN_COMMON

    def _add(self, lemma: str, content: bool) -> None:
        if lemma:
            self.skeleton.append(lemma)
            self.content += content

    def _word_or_sign(self, i: int) -> int:
        """Take a word or a sign; where the next token is."""
        word, after = self.tokens.words[i], i + 1
        self.naming = self.naming and word.norm in CONNECTORS
        if word.norm in CLAUSE_SIGNS or word.norm in CLAUSE_WORDS:
            self.clause += 1
        lemma, negates = word.lemma, word.negates
        if word.norm == "no":
            lemma, negates, after = self._no(i)
        elif word.norm == "not" and self.tokens.norms[i + 1] == "only":
            negates = False
        if negates:
            self.negations.append((self.clause, (self.tokens.starts[i], self.tokens.ends[i])))
        self._add(lemma, word.content)
        return after

    def _no(self, i: int) -> tuple[str, bool, int]:
        """``no one``, ``no longer``, ``no. 5``, or plain no: what it leaves, whether it negates, what follows."""
        following = self.tokens.norms[i + 1]
        if following == "one":
            return "person", True, i + 2
        if following == "longer":
            return "", True, i + 2
        if self.tokens.kinds[i + 1] == "number":
            return "number", False, i + 1
        return "", True, i + 1

    def _value(self, i: int) -> int | None:
        """Take a date or a number; where the next token is, or None."""
        after_date = bool(self.values) and self.values[-1].kind == "date" and self.skeleton[-1] in _IN_A_ROW
        found = find_date(self.tokens, i, after_date=after_date)
        found = found or find_quantity(self.tokens, i, after_name=self.naming)
        if found is None:
            return None
        value, after = found
        self.values.append(value)
        self.skeleton.append("@" if value.kind == "date" else "#")
        self.naming = value.names
        return after
