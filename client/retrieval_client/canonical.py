"""RFC 8785 (JSON Canonicalization Scheme): one spelling for equal JSON, so that it can be hashed."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

_LARGEST_EXACT = 2**53
"""Largest integer up to which every integer is a double; RFC 8785 writes numbers as doubles, so that it would write two
greater ones alike."""

_FIXED_FROM, _FIXED_BELOW = -6, 21
"""Powers of ten from and below which ECMAScript writes numbers without an exponent."""

_quoted = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would make an encoder for each string


def canonical_json(value: Any) -> bytes:
    """Serialise plain JSON data canonically.

    >>> canonical_json({"b": 1.0, "a": [True, None, "é", 1e21]}).decode()
    '{"a":[true,null,"é",1e+21],"b":1}'

    Raises:
        ValueError: NaN, an infinity, a lone surrogate, or an integer beyond 2^53.
        TypeError: not JSON data.
    """
    try:
        return _write(value).encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate has no canonical form") from None


def canonical_sha256(value: Any) -> str:
    """Return the hex SHA-256 of the canonical form."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _write(value: Any) -> str:
    if isinstance(value, float):  # first, because an embedding has hundreds
        return _number(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        if abs(value) > _LARGEST_EXACT:
            raise ValueError("expected an integer of at most 2^53: a greater one has no canonical form")
        return str(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        # Keys are ordered by their UTF-16 code units (RFC 8785, 3.2.3), not by code point.
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_write(key)}:{_write(value[key])}" for key in keys) + "}"
    raise TypeError(f"not JSON: {type(value).__name__}")


def _number(value: float) -> str:
    """Format a double as ECMAScript's Number::toString does: Python's digits, which are the shortest, too."""
    if not math.isfinite(value):
        raise ValueError("NaN and infinities have no canonical form")
    text = repr(value).removesuffix(".0")
    mantissa, _, exponent = text.partition("e")
    if not exponent:  # from 1e-4 to 1e16 both write it alike
        return text if value else "0"
    sign, digits, power = "-" if value < 0 else "", mantissa.lstrip("-").replace(".", ""), int(exponent)
    if 0 < power < _FIXED_BELOW:  # a whole number: it has at most 17 digits
        return sign + digits.ljust(power + 1, "0")
    if _FIXED_FROM <= power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return f"{mantissa}e{power:+d}"
