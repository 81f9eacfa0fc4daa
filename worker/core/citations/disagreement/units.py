"""Units of measurement, by symbol and by word, with exact factors: data, read from ``units.toml``, which says more."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.tables import read_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from worker.core.citations.tables import Table


class Unit(NamedTuple):
    """A unit of measurement: ``(number + offset) × factor`` of the dimension's base."""

    dimension: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


UNSCALED = Unit("")[1:]
CLOCK, HOUR = Unit("time of day"), 3600

_SHORT = 2
"""Letters of the longest name in small letters that is no word."""

_Named = tuple[str, Unit]


def _single(tables: Table) -> Iterator[tuple[list[str], list[str], Unit]]:
    """Symbols, words and unit of those that take no prefix."""
    for row in tables.rows("single"):
        unit = Unit(row.text("dimension"), row.fraction("factor", "1"), row.fraction("offset", "0"))
        yield row.words("symbols", ""), row.words("words", ""), unit
        row.close()


def _prefixed(tables: Table) -> tuple[list[_Named], list[_Named]]:
    """Symbols and words of units that take prefixes, with all of these."""
    of_symbols, of_words = tables.numbers("symbol_prefixes"), tables.numbers("word_prefixes")
    symbols, words = [], []
    dimensions = tables.table("prefixed")
    for dimension in dimensions.names():
        table = dimensions.table(dimension)
        for symbol in table.words("symbols", ""):
            symbols += [(p + symbol, Unit(dimension, Fraction(10) ** n)) for p, n in {"": 0, **of_symbols}.items()]
        for word in table.words("words", ""):
            for prefix, n in {"": 0, **of_words}.items():
                words += [(prefix + word + plural, Unit(dimension, Fraction(10) ** n)) for plural in ("", "s")]
        table.close()
    return symbols, words


def _factors(tables: Table) -> tuple[list[_Named], list[_Named]]:
    """Symbols and words of the other units."""
    symbols, words = [], []
    dimensions = tables.table("factors")
    for dimension in dimensions.names():
        for factor, names in dimensions.table(dimension).factors():
            unit = Unit(dimension, factor)
            symbols += [(name, unit) for name in names]
            spoken = [name for name in names if name.isalpha() and name.islower() and len(name) > _SHORT]
            words += [(name + plural, unit) for name in spoken for plural in ("", "s")]
    return symbols, words


def _unit_tables(tables: Table) -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Units by symbol (letter case counts) and by word (in lower case)."""
    symbols: dict[str, Unit] = {}
    words: dict[str, Unit] = {}
    for short, long, unit in _single(tables):
        symbols |= dict.fromkeys(short, unit)
        words |= dict.fromkeys(long, unit)
    for more_symbols, more_words in (_prefixed(tables), _factors(tables)):
        symbols.update(more_symbols)
        words.update(more_words)
    return symbols, words


_TABLES = read_tables(__package__, "units.toml")
CURRENCIES = frozenset(_TABLES.words("currencies"))
SYMBOLS, UNIT_WORDS = _unit_tables(_TABLES)
_TABLES.close()
