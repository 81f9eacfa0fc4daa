"""Words and signs by themselves, whatever stands around them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.disagreement.units import SYMBOLS, UNIT_WORDS
from worker.core.citations.disagreement.vocabulary import (
    AUXILIARIES,
    BASES,
    CLITICS,
    DROPPED,
    FUNCTION_WORDS,
    INDEFINITE,
    NEGATED,
    ORDINAL_SUFFIXES,
    SPECIAL,
)
from worker.core.text.normal_forms import normal_form
from worker.core.text.terms import stem

if TYPE_CHECKING:
    from collections.abc import Callable


class Word(NamedTuple):
    """A word or a sign by itself, whatever stands around it.

    Attributes:
        norm: its plain form.
        lemma: what a skeleton has of it, perhaps nothing.
        content: whether that is no function word.
        negates: whether it negates, or may.
        plain: whether it is nothing but its lemma, and no part of a number or a date.
        weighs: whether it is a content word and counts in looking for suspects (`WEIGHTLESS`).
    """

    norm: str
    lemma: str = ""
    content: bool = False
    negates: bool = False
    plain: bool = False
    weighs: bool = False


PREFIX_LENGTH = 3
"""So many letters a word needs to weigh, and so many of them weigh, when suspects are looked for."""


def _read_word(raw: str) -> Word:
    norm = raw if raw.isascii() else normal_form("NFKC", raw).replace("’", "'").replace("\u00ad", "")
    norm = norm.casefold()
    if "." in norm:  # a.m., p.m.
        norm = "".join(filter(str.isalpha, norm))
    if norm in NEGATED:
        base = NEGATED[norm]
        return Word(norm, stem(base), bool(base) and base not in FUNCTION_WORDS, negates=True)
    if norm.endswith("n't"):
        return Word(norm, negates=True)
    if "'" in norm:
        for clitic in CLITICS:
            norm = norm.removesuffix(clitic)
    plain = norm not in SPECIAL
    if norm in DROPPED:
        return Word(norm, plain=plain)
    base = INDEFINITE.get(norm) or BASES.get(norm, norm)
    content = base not in FUNCTION_WORDS and len(base) > 1
    weighs = content and len(base) >= PREFIX_LENGTH and _has_weight(norm)
    return Word(norm, stem(base), content, norm == "no", plain, weighs)


def _has_weight(norm: str) -> bool:
    """Return whether a word weighs in the search for suspects: that sees a Latin word as its runs of ASCII letters."""
    runs = [norm] if norm.isascii() else _ASCII_LETTERS.findall(norm)
    return not runs or any(len(run) >= PREFIX_LENGTH and run not in WEIGHTLESS for run in runs)


_ASCII_LETTERS = re.compile("[a-z]+")


def _read_name(raw: str) -> Word:
    """An address, a path, a version: it names something else if anything in it differs."""
    return Word(raw, raw.casefold(), content=True, plain=True)  # it may be all digits, so it does not weigh


def _read_sign(raw: str) -> Word:
    return Word(raw, "and" if raw == "&" else "")


_READERS: dict[str, Callable[[str], Word]] = {"word": _read_word, "name": _read_name, "sign": _read_sign}


def read_word(kind: str, raw: str) -> Word:
    """Return the word of a token of a kind; of a number and the like its text."""
    return _read_again(kind, raw) if len(raw) <= _REMEMBERED else _READERS.get(kind, Word)(raw)


_REMEMBERED = 40
"""Characters of the longest words that are remembered: a language has few thousands, and uses them again."""


@lru_cache(maxsize=8192)
def _read_again(kind: str, raw: str) -> Word:
    return _READERS.get(kind, Word)(raw)


def _weightless() -> frozenset[str]:
    """Words that may stand in a number, a date, a unit or a negation, or are another verb's form; in every form."""
    words = {*DROPPED, *NEGATED, *NEGATED.values(), *INDEFINITE, *INDEFINITE.values(), *BASES, *BASES.values()}
    words |= {*SPECIAL, *ORDINAL_SUFFIXES, *UNIT_WORDS, "number", "percent"} | {symbol.lower() for symbol in SYMBOLS}
    words |= {word.split("'")[0].removesuffix("t") for word in AUXILIARIES}
    endings = ("", "e", "s", "es", "ed")
    return frozenset(words | {stem + end for stem in map(stem, words) for end in (*endings, stem[-1:] + "ed")})


WEIGHTLESS = _weightless()
