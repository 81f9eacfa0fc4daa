from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import TYPE_CHECKING, Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.canonical import canonical_json, canonical_sha256

if TYPE_CHECKING:
    import random

safe_integers = st.integers(-(2**53) + 1, 2**53 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | safe_integers | st.floats(allow_nan=False, allow_infinity=False) | texts
json_data = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5), max_leaves=20
)

# RFC 8785, appendix B: IEEE 754 bits and the number as it is written.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "written"), NUMBERS.items())
def test_numbers_are_written_as_in_appendix_b(bits: str, written: str) -> None:
    """The RFC's own table of doubles."""
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number).decode() == written


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_nan_and_infinities_have_no_form(bits: str) -> None:
    """Appendix B: NaN and Infinity are errors."""
    with pytest.raises(ValueError, match="canonical form"):
        canonical_json(struct.unpack(">d", bytes.fromhex(bits)))


def test_the_example_of_section_3_2_2() -> None:
    """The RFC's own document: literals, numbers and escapes."""
    document = r"""{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
      "literals": [null, true, false]
    }"""
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_json(json.loads(document)).decode() == expected


def test_the_example_of_section_3_2_3() -> None:
    """The RFC's own keys: sorted by UTF-16 code units, not by code point."""
    document = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert list(json.loads(canonical_json(document)).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


@given(json_data)
def test_it_agrees_with_another_implementation(value: Any) -> None:
    """The `rfc8785` package writes the same bytes for any JSON within its domain."""
    assert canonical_json(value) == rfc8785.dumps(value)


@given(json_data)
def test_it_is_json_of_the_same_value(value: Any) -> None:
    """Nothing is lost: reading it back gives an equal value."""
    assert json.loads(canonical_json(value), parse_int=float) == value


@given(st.dictionaries(texts, scalars, min_size=2), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], chance: random.Random) -> None:
    """Equal objects have one hash, however their sender ordered them."""
    items = list(value.items())
    chance.shuffle(items)
    assert canonical_sha256(dict(items)) == canonical_sha256(value)


@pytest.mark.parametrize(
    ("integer", "double"), [(1, 1.0), (0, -0.0), (-7, -7.0), (2**53, 2.0**53), (-(2**53), -(2.0**53))]
)
def test_an_integer_and_the_same_double_are_one_number(integer: int, double: float) -> None:
    """JSON has one kind of number: 1 and 1.0 are written alike."""
    assert canonical_json(integer) == canonical_json(double)


@pytest.mark.parametrize(
    "integer", [2**53 + 1, -(2**53) - 1, 2**60, 10**400], ids=["least", "negative", "even", "no double"]
)
def test_an_integer_beyond_2_53_has_no_form(integer: int) -> None:
    """RFC 8785 would write it as its neighbour, so that the digest of one job would be that of another."""
    with pytest.raises(ValueError, match=r"^expected an integer of at most 2\^53"):
        canonical_json({"n": [2**53, integer]})


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["a\udc00"]], ids=ascii)
def test_a_lone_surrogate_has_no_form(value: Any) -> None:
    """A lone surrogate can't be written as UTF-8."""
    with pytest.raises(ValueError, match="surrogate"):
        canonical_json(value)


@pytest.mark.parametrize(
    "value", [{1, 2}, b"x", object(), 1j, {1: 2}, {None: 1}], ids=lambda value: type(value).__name__
)
def test_what_is_no_json_is_a_type_error(value: Any) -> None:
    """Neither a set, nor bytes, nor keys that are no strings have a form."""
    with pytest.raises(TypeError, match="not JSON"):
        canonical_json(value)


def test_the_deepest_job_that_settings_allow_has_a_form() -> None:
    """200 levels, six times as many as a job may have, are within Python's recursion."""
    value: Any = math.pi
    for _ in range(100):
        value = {"a": [value]}
    assert canonical_json(value).startswith(b'{"a":[{"a":[')


def test_the_digest_is_sha256_of_the_form() -> None:
    """`args_sha256` of the contract, as a backend computes it."""
    assert canonical_sha256({"b": 1, "a": "é"}) == hashlib.sha256('{"a":"é","b":1}'.encode()).hexdigest()
