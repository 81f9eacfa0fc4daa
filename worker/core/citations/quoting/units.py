"""Units: those that letter case alone tells apart, and those that stand beside a number with a space or none.

A quote with ``MW`` does not say what a chunk with ``mW`` says. The units are data, read from ``units.toml``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import letters_as_latin
from worker.core.citations.tables import read_tables
from worker.core.text.normal_forms import normal_form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.core.citations.tables import Table


def _told_apart(table: Table) -> dict[str, str]:
    """Return how each unit is written, and what it is; also in capitals, where those are another one's."""
    units = {**table.texts("others")}
    for unit in table.words("milli_and_mega"):
        units |= {f"m{unit}": f"milli-{unit}", f"M{unit}": f"mega-{unit}"}
    for unit in table.words("mega_in_capitals"):
        units[f"M{unit.upper()}"] = f"mega-{unit}"
    bits, octets = table.words("bits"), table.words("bytes")
    for prefix in table.words("data_prefixes"):
        units |= {f"{prefix}{unit}": f"{prefix.upper()} bits" for unit in bits}
        units |= {f"{prefix}{unit}": f"{prefix.upper()} bytes" for unit in octets}
    table.close()
    return units


def _beside_numbers(table: Table) -> tuple[str, str]:
    """Return patterns of the units after a number, and of the currencies before one."""

    def any_of(words: Sequence[str]) -> str:
        return "|".join(map(re.escape, words))

    units = (
        f"(?:{any_of(table.words('prefixes'))})?(?:{any_of(table.words('prefixed'))})",
        any_of(table.words("alone")),
        f"(?:{any_of(table.words('levels'))})[A-Za-z]{{0,2}}",
        f"(?:{any_of(table.words('cyrillic_prefixes'))})?(?:{any_of(table.words('cyrillic'))})",
    )
    currencies = any_of(table.words("currencies"))
    table.close()
    return "|".join(units), currencies


_TABLES = read_tables(__package__, "units.toml")
_UNITS = _told_apart(_TABLES.table("told_apart_by_case"))
AFTER_NUMBERS, CURRENCIES = _beside_numbers(_TABLES.table("beside_numbers"))
"""Patterns of what stands beside a number; alternatives, not grouped."""
_TABLES.close()


def is_other_unit(one: str, other: str) -> bool:
    """Return whether two words, equal but for letter case, are two units.

    >>> is_other_unit("mW", "MW"), is_other_unit("kHz", "KHZ"), is_other_unit("Mb", "MB"), is_other_unit("mw", "MW")
    (True, False, True, False)
    """
    unit, other_unit = _unit(one), _unit(other)
    return bool(unit and other_unit and unit != other_unit)


def _unit(text: str) -> str:
    """Return the unit that a word is, whatever is hidden in it or only looks like its letters."""
    letters = text if text.isascii() else letters_as_latin(normal_form("NFKC", text))
    return _UNITS.get("".join(filter(str.isalpha, letters)), "")
