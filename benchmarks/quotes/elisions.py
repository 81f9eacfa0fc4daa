"""Passages with words left out, and marks where they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.quotes.passages import SPACED_NUMBER
from benchmarks.quotes.words import WORDS

if TYPE_CHECKING:
    import random

MARKS: list[str] = WORDS["marks"]


def elided_passage(rng: random.Random, text: str, cuts: int) -> str | None:
    """The text with words left out at this many places; four words or more stay in each part."""
    words = text.split()
    if len(words) < 4 * (cuts + 1) + 2 * cuts or SPACED_NUMBER.search(text):
        return None
    parts, rest = [], words
    for left in range(cuts, 0, -1):
        keep = rng.randint(4, max(4, len(rest) - 6 * left + 2))
        drop = rng.randint(1, max(1, len(rest) - keep - 4 - 6 * (left - 1)))
        parts.append(" ".join(rest[:keep]))
        rest = rest[keep + drop :]
    parts.append(" ".join(rest))
    # A dash is no word, and a date is one.
    if any(sum(any(map(str.isalnum, word)) for word in part.split()) < 4 for part in parts):
        return None
    return "".join(part + (rng.choice(MARKS) if i < cuts else "") for i, part in enumerate(parts))
