"""The words that quoting takes notice of, by language: data, read once from ``word_lists.toml``."""

from __future__ import annotations

TOLD_APART_BY_CASE = frozenset(map(frozenset[str], [("us", "US")]))
