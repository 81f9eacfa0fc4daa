"""The words that reading a sentence takes notice of: data, read from ``vocabulary.toml``, which says more."""

from __future__ import annotations

from worker.core.citations.tables import read_tables

_TABLES = read_tables(__package__, "vocabulary.toml")


def _words(key: str) -> frozenset[str]:
    return frozenset(_TABLES.words(key))


def _bases() -> dict[str, str]:
    bases = {}
    for group in _TABLES.groups("bases"):
        past, _, base = group.partition(" ")
        if not base or " " in base:
            raise _TABLES.error("bases", f"expected a past form and its base between semicolons, got {group!r}")
        bases[past] = base
    return bases


AUXILIARIES = _words("auxiliaries")
DROPPED = AUXILIARIES | _words("colouring")
"""Never part of a skeleton: with and without them a sentence says the same, or negates the same."""
FUNCTION_WORDS = _words("function_words")
"""Part of a skeleton, and in every text: they don't make two sentences alike."""
PRONOUNS = _words("pronouns")
CLAUSE_WORDS = _words("clause_words")
CLAUSE_SIGNS = _words("clause_signs")
CONNECTORS = _words("connectors")
BEGINNINGS = _words("beginnings")
"""After these a single capital is no initial."""

NEGATED = {
    **dict.fromkeys(_TABLES.words("negating"), ""),
    **_TABLES.texts("negated"),
    **{word: word[2:] for word in _TABLES.words("negating_prefixed")},
}
"""Words that negate, and what each says of a skeleton once its negation is taken out of it; "" is nothing."""
INDEFINITE = {word: lemma for lemma, words in _TABLES.texts("indefinite").items() for word in words.split()}
BASES = _bases()
"""Past forms that no ending betrays, and their bases: "did not come", "came"."""
CLITICS = tuple(_TABLES.words("clitics"))
"""Short forms of other words at the end of a word, in the order in which they are looked for."""

CARDINALS = _TABLES.numbers("cardinals")
MULTIPLIERS = _TABLES.numbers("multipliers")
SHORT_MULTIPLIERS = _TABLES.numbers("short_multipliers")
"""Written right after a number."""
MONEY_MULTIPLIERS = SHORT_MULTIPLIERS | _TABLES.numbers("money_multipliers")
"""The same, after an amount of money."""
ORDINALS = _TABLES.numbers("ordinals")
MONTHS = _TABLES.numbers("months")
MONTHS_AND_WORDS = _words("months_and_words")
"""Months that are no date by themselves."""
WEEKDAYS = {name: n for day, n in _TABLES.numbers("weekdays").items() for name in (day, day + "s")}
DATE_LEADS = _words("date_leads")
"""Before a month or a year that stands alone."""
YEAR_LEADS = _words("year_leads")
NAMED = _words("named")
"""A number after one of these is part of a name."""

ABBREVIATIONS = _words("abbreviations")
"""A full stop after these ends no sentence."""
BEFORE_NUMBERS = _words("before_numbers")
"""Abbreviations before a number, words elsewhere."""

ORDINAL_SUFFIXES = _words("ordinal_suffixes")
_TABLES.close()

NUMBER_WORDS = frozenset({*CARDINALS, *MULTIPLIERS, *ORDINALS, "half"})
SPECIAL = frozenset({*NUMBER_WORDS, *MONTHS, *WEEKDAYS, *CLAUSE_WORDS, *CONNECTORS, "no"})
"""Perhaps part of a number or a date, or what joins two: read with what stands around it."""
