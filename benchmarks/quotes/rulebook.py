"""All rules, by what their quotes deserve."""

from __future__ import annotations

from benchmarks.quotes import honest
from benchmarks.quotes.altered_joins import JOINS
from benchmarks.quotes.altered_numbers import NUMBERS
from benchmarks.quotes.altered_words import CHANGED_WORDS

HONEST = honest.HONEST
ALTERED = NUMBERS | CHANGED_WORDS | JOINS
"""Quotes that must not be found in the chunk they name."""
