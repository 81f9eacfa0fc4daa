"""Tables of words and units that stand beside the code as TOML: read once, and checked as they are read.

A file that is broken fails with a sentence that names the file and the line or the key. Words are separated by white
space, so that a table reads as text.
"""

from __future__ import annotations

import pkgutil
import tomllib
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class BrokenTableError(ValueError):
    """A table that stands beside the code is missing, is no TOML, or has another form than the code reads."""


class Table:
    """A table of a data file. Every value is asked for by its key and its type; what nobody asks for is a mistake.

    Args:
        place: the file and the key, for messages.
        values: what TOML has there.
    """

    def __init__(self, place: str, values: dict[str, Any]) -> None:
        self._place = place
        self._values = values
        self._read: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str, default: str | None = None) -> str:
        """Return a text, with the white space that it has in the file."""
        value = self._value(key, default)
        if not isinstance(value, str) or (not value.strip() and value != default):
            raise self.error(key, "expected a text that is not empty")
        return value

    def words(self, key: str, default: str | None = None) -> list[str]:
        """Return the words of a text, in their order."""
        return self.text(key, default).split()

    def groups(self, key: str, default: str | None = None) -> list[str]:
        """Return what semicolons separate in a text, without the white space around each."""
        return [group.strip() for group in self.text(key, default).split(";")]

    def numbers(self, key: str) -> dict[str, int]:
        """Return a table of whole numbers by word."""
        table = self._table(key)
        for word, number in table.items():
            if not isinstance(number, int) or isinstance(number, bool):
                raise self.error(f"{key}.{word}", "expected a whole number")
        return table

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of texts by word; a text may be empty."""
        table = self._table(key)
        for word, text in table.items():
            if not isinstance(text, str):
                raise self.error(f"{key}.{word}", "expected a text")
        return table

    def fraction(self, key: str, default: str) -> Fraction:
        """Return a number exactly: ``1/100``, ``273.15``."""
        text = self.text(key, default)
        try:
            return Fraction(text)
        except (ValueError, ZeroDivisionError):
            raise self.error(key, "expected a number or a fraction") from None

    def factors(self) -> Iterator[tuple[Fraction, list[str]]]:
        """Return what this table has: words by a number, which is exact."""
        for key in self._values:
            try:
                number = Fraction(key)
            except (ValueError, ZeroDivisionError):
                raise self.error(key, "expected a number or a fraction as the key") from None
            yield number, self.words(key)

    def table(self, key: str) -> Table:
        """Return a table in this one."""
        return Table(f"{self._place}: {key}", self._table(key))

    def names(self) -> list[str]:
        """Return the keys that were not read yet."""
        return [key for key in self._values if key not in self._read]

    def rows(self, key: str) -> Iterator[Table]:
        """Return the tables of an array of tables."""
        values = self._value(key, None)
        if not isinstance(values, list) or not all(isinstance(row, dict) for row in values):
            raise self.error(key, "expected an array of tables")
        for i, row in enumerate(values):
            yield Table(f"{self._place}: {key}[{i}]", row)

    def close(self) -> None:
        """Check that every key was read.

        Raises:
            BrokenTableError: one was not: it is misspelt, or the code no longer reads it.
        """
        for key in self.names():
            raise self.error(key, "this key is not known")

    def error(self, key: str, expected: str) -> BrokenTableError:
        """Return the error that names the file and a key."""
        return BrokenTableError(f"{self._place}: {key}: {expected}")

    def _value(self, key: str, default: str | None) -> Any:
        self._read.add(key)
        if key not in self._values and default is None:
            raise self.error(key, "this key is missing")
        return self._values.get(key, default)

    def _table(self, key: str) -> dict[str, Any]:
        value = self._value(key, None)
        if not isinstance(value, dict) or not value:
            raise self.error(key, "expected a table that is not empty")
        return value


def read_tables(package: str | None, name: str) -> Table:
    """Return the tables of a file that stands beside a module.

    Through the package's loader, as `importlib.resources` does, but without its imports (`tempfile`, `shutil`), which
    take a tenth as long as all of `worker.core.citations.quoting`.

    Args:
        package: the package that the file is in.
        name: the file's name.

    Raises:
        BrokenTableError: there is no such file, or it is no TOML; the message has the line.
    """
    place = f"{(package or '').replace('.', '/')}/{name}"
    try:
        content = pkgutil.get_data(package or "", name)
    except OSError:
        content = None
    if content is None:
        raise BrokenTableError(f"{place}: there is no such file")
    return parse_tables(place, content)


def parse_tables(place: str, content: bytes) -> Table:
    """Return the tables of a file's content.

    >>> parse_tables("units.toml", b"units = 5").text("units")
    Traceback (most recent call last):
    worker.core.citations.tables.BrokenTableError: units.toml: units: expected a text that is not empty

    Raises:
        BrokenTableError: it is no TOML, or no UTF-8.
    """
    try:
        return Table(place, tomllib.loads(content.decode()))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BrokenTableError(f"{place}: line {line}: expected UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BrokenTableError(f"{place}: {error}") from None
