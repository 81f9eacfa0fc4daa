"""Passages of chunks, and the quotes that rules make of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

CHUNKS_OF_A_JOB = 15
FEWEST_WORDS, MOST_WORDS = 5, 30
SPACED_NUMBER = re.compile(r"\d+(?:\s\d{3})+\b|\d\S*\s×\s\d\S*|−\s\d\S*")


@dataclass(frozen=True)
class Source:
    """A passage to make a quote of.

    Attributes:
        passage: the words.
        text: the chunk it stands in.
        others: other chunks of the corpus.
    """

    passage: str
    text: str
    others: tuple[str, ...]


@dataclass(frozen=True)
class GeneratedQuote:
    """A quote; ``text`` where the rule changed the chunk instead, or as well; ``stands_in`` if in another chunk."""

    quote: str
    text: str | None = None
    stands_in: str | None = None


Rule = Callable[[random.Random, Source], GeneratedQuote | None]


def passage_of(rng: random.Random, text: str) -> str | None:
    """Some words of a text, as they stand there; no cut inside 1 250, 1.5 × 10⁻⁶ or − 84."""
    words = list(re.finditer(r"\S+", text))
    if len(words) < FEWEST_WORDS:
        return None
    length = rng.randint(FEWEST_WORDS, min(MOST_WORDS, len(words)))
    first = rng.randint(0, len(words) - length)
    start, end = words[first].start(), words[first + length - 1].end()
    inside = any(
        match.start() < place < match.end() for match in SPACED_NUMBER.finditer(text) for place in (start, end)
    )
    return None if inside else text[start:end]


def make(rng: random.Random, rule: Rule, texts: list[str]) -> tuple[Source, GeneratedQuote] | None:
    """A quote by a rule, of the first passage where it applies."""
    for _ in range(400):
        text = rng.choice(texts)
        passage = passage_of(rng, text)
        if not passage:
            continue
        others = tuple(other for other in rng.sample(texts, min(CHUNKS_OF_A_JOB, len(texts))) if other != text)
        source = Source(passage, text, others)
        if made := rule(rng, source):
            return source, made
    return None
