"""RFC 8785 (JSON Canonicalization Scheme): one spelling for equal JSON, so that it can be hashed."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

_LARGEST_EXACT = 2**53
"""Largest integer up to which every integer is a double; RFC 8785 writes numbers as doubles, so that it would write two
greater ones alike."""

_FIXED_BELOW = 21
"""Exponent below which ECMAScript writes numbers without an exponent (up to 1e21)."""

_FIXED_ABOVE = -6
"""Exponent above which ECMAScript writes numbers without an exponent (from 1e-6 on)."""


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
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        if abs(value) > _LARGEST_EXACT:
            raise ValueError("expected an integer of at most 2^53: a greater one has no canonical form")
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        # Keys are ordered by their UTF-16 code units (RFC 8785, 3.2.3), not by code point.
        keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_write(key)}:{_write(value[key])}" for key in keys) + "}"
    raise TypeError(f"not JSON: {type(value).__name__}")


def _number(value: float) -> str:
    """Format a double as ECMAScript's Number::toString does (shortest digits, as Python's repr)."""
    if not math.isfinite(value):
        raise ValueError("NaN and infinities have no canonical form")
    if value == 0:
        return "0"
    sign, digits, exponent = _parts(value)
    if 0 < exponent <= _FIXED_BELOW:
        whole, part = digits[:exponent].ljust(exponent, "0"), digits[exponent:]
        return sign + whole + ("." + part if part else "")
    if _FIXED_ABOVE < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{exponent - 1:+d}"


def _parts(value: float) -> tuple[str, str, int]:
    """Return sign, shortest digits and exponent n of ``0.digits × 10**n``."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    point = len(whole) if whole != "0" else len(part.lstrip("0")) - len(part)
    return "-" if value < 0 else "", digits.rstrip("0"), point + int(exponent or 0)
