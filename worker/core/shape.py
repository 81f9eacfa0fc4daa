"""Bounds of untrusted JSON: depth, lengths, and strings that can be stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from retrieval_client.errors import InvalidJob
from retrieval_client.json_values import join_path


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that `check_shape` enforces.

    Attributes:
        max_string: most characters of a string.
        max_list: most items of a list.
        max_keys: most fields of an object.
        max_depth: most levels of nested objects and lists.
    """

    max_string: int = 1_000_000
    max_list: int = 10_000
    max_keys: int = 1_000
    max_depth: int = 32


MAX_MESSAGE, MAX_VALUES = 12_582_912, 500_000
"""Most bytes of a message, and most of its values: commas, colons and opening brackets, braces twice."""

MAX_ID = 512
"""Most characters of a claim, of a task id and of a header."""


def same_json(decoded: Any, other_decoded: Any) -> bool:
    """Return whether two decoded values are the same JSON: 1.0 is 1, and true is neither.

    >>> same_json({"a": [1.0, True]}, {"a": [1, True]}), same_json([True], [1])
    (True, False)
    """
    if isinstance(decoded, dict) and isinstance(other_decoded, dict):
        return decoded.keys() == other_decoded.keys() and all(
            same_json(member, other_decoded[key]) for key, member in decoded.items()
        )
    if isinstance(decoded, list) and isinstance(other_decoded, list):
        return len(decoded) == len(other_decoded) and all(map(same_json, decoded, other_decoded))
    return isinstance(decoded, bool) is isinstance(other_decoded, bool) and bool(decoded == other_decoded)


def check_shape(value: Any, bounds: Bounds) -> None:
    """Check decoded JSON against the bounds, without recursion.

    Raises:
        InvalidJob: at the first place, in document order of the objects and lists, that is too deep, too
            long, not JSON (NaN, an infinity, a type of the serializer's own), or text that Postgres can't
            store (U+0000, a lone surrogate).
    """
    stack: list[tuple[Any, str, int]] = [(value, "", 1)]
    while stack:
        item, path, depth = stack.pop()
        if isinstance(item, str):
            _check_string(item, path, bounds)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise InvalidJob("expected a finite number", path)
        elif isinstance(item, list):
            _check_nesting(depth, path, bounds)
            if len(item) > bounds.max_list:
                raise InvalidJob(f"expected at most {bounds.max_list} items, got {len(item)}", path)
            if not _all_finite_numbers(item):
                stack += [(member, join_path(path, i), depth + 1) for i, member in reversed([*enumerate(item)])]
        elif isinstance(item, dict):
            _check_nesting(depth, path, bounds)
            _check_keys(item, path, bounds)
            stack += [(member, join_path(path, key), depth + 1) for key, member in reversed(item.items())]
        elif not (item is None or isinstance(item, bool | int)):
            raise InvalidJob("expected plain JSON", path)


def _all_finite_numbers(items: list[Any]) -> bool:
    """Return whether a list needs no walk: an embedding is checked here at C speed."""
    if not {*map(type, items)} <= {int, float}:
        return False
    try:
        return math.isfinite(math.fsum(items))
    except (OverflowError, ValueError):
        return False


def _check_nesting(depth: int, path: str, bounds: Bounds) -> None:
    if depth > bounds.max_depth:
        raise InvalidJob(f"expected at most {bounds.max_depth} levels of nesting", _shorten(path))


def _check_keys(item: dict[Any, Any], path: str, bounds: Bounds) -> None:
    if len(item) > bounds.max_keys:
        raise InvalidJob(f"expected at most {bounds.max_keys} fields, got {len(item)}", path)
    for key in item:
        if not isinstance(key, str):
            raise InvalidJob("expected field names that are strings", path)
        _check_string(key, join_path(path, key), bounds)


def _check_string(text: str, path: str, bounds: Bounds) -> None:
    if len(text) > bounds.max_string:
        raise InvalidJob(f"expected at most {bounds.max_string} characters, got {len(text)}", path)
    if "\x00" in text:
        raise InvalidJob("expected text without U+0000", path)
    if not is_storable(text):
        raise InvalidJob("expected text without lone surrogates", path)


def is_storable(text: str) -> bool:
    """Return whether text can be encoded as UTF-8, that is, has no lone surrogate."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _shorten(path: str, limit: int = 80) -> str:
    return path if len(path) <= limit else path[:limit] + "…"
