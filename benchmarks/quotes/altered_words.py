"""Rules whose quotes have other words, or are cut inside a word."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from benchmarks.quotes.passages import GeneratedQuote, Source
from benchmarks.quotes.rules import Rules, edit, some, swap
from benchmarks.quotes.words import WORDS

if TYPE_CHECKING:
    import random

CHANGED_WORDS = Rules()
altered = CHANGED_WORDS.add("not_found")

# Of scripts with spaces between words: without a dictionary it is unknown where a Thai word ends.
LETTERS = "[A-Za-z\u00c0-\u024f\u0370-\u052f\u0590-\u06ff]"


@altered
@edit
def modal_changed(rng: random.Random, text: str) -> str:
    """May is must, should is will."""
    return swap(rng, text, WORDS["modals"])


@altered
@edit
def modal_lost(rng: random.Random, text: str) -> str:
    """A may, must or should is gone."""
    return some(rng, r"(?<=\s)(?:may|must|should|can|could|will|would|likely|roughly|about|only) ", text, lambda _: "")


@altered
@edit
def not_added(rng: random.Random, text: str) -> str:
    """There is a not that was not there."""
    verbs = r"\b(?:is|was|are|were|may|must|should|can|will|did|does|do|has|have|had)\b(?! not)"
    return some(rng, verbs, text, lambda m: f"{m[0]} not")


@altered
@edit
def not_lost(rng: random.Random, text: str) -> str:
    """A not, no or never is gone."""
    return some(rng, r"(?<=\s)(?:not|no|never|nobody|without) ", text, lambda _: "")


@altered
@edit
def synonym(rng: random.Random, text: str) -> str:
    """A word is another one that means about the same."""
    return swap(rng, text, WORDS["synonyms"])


@altered
@edit
def words_swapped(rng: random.Random, text: str) -> str:
    """Two neighbouring words change places."""
    words = text.split()
    i = rng.randrange(len(words) - 1)
    words[i : i + 2] = words[i + 1], words[i]
    return " ".join(words)


@altered
@edit
def name_swapped(rng: random.Random, text: str) -> str:
    """Another person or place."""
    names = WORDS["names"]
    pattern = "|".join([*names, r"(?<=\s)[A-Z][a-z]{3,}(?=\s)"])
    return some(rng, pattern, text, lambda m: rng.choice([name for name in names if name != m[0]]))


@altered
@edit
def word_lost(rng: random.Random, text: str) -> str:
    """A word inside is gone, without a mark."""
    words = text.split()
    del words[rng.randrange(1, len(words) - 1)]
    return " ".join(words)


@altered
@edit
def word_added(rng: random.Random, text: str) -> str:
    """There is a word more."""
    words = text.split()
    words.insert(rng.randrange(1, len(words)), rng.choice(WORDS["added"]))
    return " ".join(words)


@altered
@edit
def letter_changed(rng: random.Random, text: str) -> str:
    """One letter is another: a reader's eye passes over it."""
    return some(rng, r"[a-z]", text, lambda m: rng.choice("abcdefghijklmnopqrstuvwxyz".replace(m[0], "")))


@altered
@edit
def accent_lost(rng: random.Random, text: str) -> str:
    """An accented letter without its accent, a plain one with it."""
    bare = some(rng, r"[äöüéğńşά]", text, lambda m: unicodedata.normalize("NFD", m[0])[0])
    return bare if bare != text else some(rng, "[aeou]", text, lambda m: unicodedata.normalize("NFC", m[0] + "\u0301"))


@altered
@edit
def space_lost(rng: random.Random, text: str) -> str:
    """Two words are one: not able is notable."""
    return some(rng, r"(?<=[^\W\d]) (?=[^\W\d])", text, lambda _: rng.choice(["", "-", "\u00ad", "\u200b", "-\n"]))


@altered
@edit
def space_added(rng: random.Random, text: str) -> str:
    """One word is two: resign is re sign."""
    return some(rng, r"(?<=[a-z]{2})(?=[a-z]{2})", text, lambda _: rng.choice([" ", "\n", "\u00a0", "- ", " - "]))


@altered
@edit
def hyphen_added(rng: random.Random, text: str) -> str:
    """Resign is re-sign."""
    return some(rng, r"(?<=[a-z]{2})(?=[a-z]{2})", text, lambda _: rng.choice("-‐–—"))


@altered
@edit
def hyphen_lost(rng: random.Random, text: str) -> str:
    """Well-known is wellknown or well known, 10–12 is 1012."""
    return some(rng, r"(?<=\w)[-–−](?=\w)", text, lambda _: rng.choice(["", " ", "\u00ad", "\n"]))


@altered
@edit
def punctuation_changed(rng: random.Random, text: str) -> str:
    """A comma is a full stop, or gone: two clauses are joined otherwise."""
    return some(rng, r"[,;:.](?=\s)", text, lambda m: rng.choice([c for c in ["", ".", "!", "?", " and"] if c != m[0]]))


@altered
def cut_in_word(rng: random.Random, source: Source) -> GeneratedQuote | None:
    """The passage begins or ends inside a word."""
    head, tail = re.match(rf"{LETTERS}{{3,}}", source.passage), re.search(rf"{LETTERS}{{3,}}\Z", source.passage)
    if head and rng.random() < 0.5:
        quote = source.passage[rng.randint(1, 2) :]
    elif tail:
        quote = source.passage[: -rng.randint(1, 2)]
    else:
        return None
    return GeneratedQuote(quote) if not re.search(rf"(?<!\w){re.escape(quote)}(?!\w)", source.text) else None
