"""Write the tables of `worker/core/text/unicode_data.py`: python3.11 -m tests.unicode_tables."""

from __future__ import annotations

import sys
import textwrap
import unicodedata
from itertools import groupby

CODES = (*range(0x40000), *range(0xE0000, 0xF0000))
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def runs() -> str:
    """Return the lengths of the runs of assigned and of unassigned code points."""
    return " ".join(_to_base_36(len([*codes])) for _, codes in groupby(CODES, key=_is_unassigned))


def numerals() -> str:
    """Return the letters that are numbers too."""
    return " ".join(f"{code:x}" for code in CODES if chr(code).isnumeric() and chr(code).isalpha())


def _is_unassigned(code: int) -> bool:
    return unicodedata.category(chr(code)) == "Cn"


def _to_base_36(number: int) -> str:
    rest, digit = divmod(number, 36)
    return (_to_base_36(rest) if rest else "") + _DIGITS[digit]


def main() -> None:
    """Write both tables, and of which version of Unicode they are."""
    tables = (textwrap.fill(table, 118) for table in (runs(), numerals()))
    sys.stdout.write("\n\n".join([unicodedata.unidata_version, *tables]) + "\n")


if __name__ == "__main__":
    main()
