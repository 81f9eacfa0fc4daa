"""Fields and numbers of JSON, as the contract names and reads them."""

from __future__ import annotations

import re
from typing import Any

LARGEST_EXACT = 2**53
"""Largest integer up to which every integer is a double."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}")


def join_path(parent: str, key: str | int) -> str:
    """Return a field's path for an error message; a key that is not a plain name is replaced.

    >>> join_path("filters.pages", 0), join_path("", "k"), join_path("a", "some text")
    ('filters.pages[0]', 'k', 'a.<key>')
    """
    if isinstance(key, int):
        return f"{parent}[{key}]"
    name = key if _PLAIN_KEY.fullmatch(key) else "<key>"
    return f"{parent}.{name}" if parent else name


def as_integer(value: Any) -> Any:
    """Return a number without a fraction as an integer, however it is written; anything else unchanged.

    >>> as_integer(10.0), as_integer(-0.0), as_integer(0.5), as_integer("10")
    (10, 0, 0.5, '10')
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


def path_of_large(value: Any, path: str = "") -> str:
    """Return the path of the first integer beyond 2^53, which other readers may round; ``""`` without one.

    >>> path_of_large({"k": 12, "filters": {"metadata": {"n": [1, 2**53 + 1]}}}), path_of_large([2.0**60])
    ('filters.metadata.n[1]', '')
    """
    if isinstance(value, int):
        return path if abs(value) > LARGEST_EXACT else ""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    paths = (path_of_large(item, join_path(path, key)) for key, item in items)
    return next(filter(None, paths), "")
