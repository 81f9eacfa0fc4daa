from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.errors import InvalidJob
from retrieval_client.json_values import join_path
from worker.core.shape import Bounds, check_shape

SMALL = Bounds(max_string=20, max_list=800, max_keys=5, max_depth=8)
"""So that a case shows what it exceeds."""


def refusal(value: Any, bounds: Bounds = SMALL) -> str:
    with pytest.raises(InvalidJob) as caught:
        check_shape(value, bounds)
    return str(caught.value)


def nested(levels: int, *, inside: Any = 0, kind: type = list) -> Any:
    value = inside
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -0.0,
        10**400,
        "x" * 20,
        "\U0001f600\ufffd\x01",
        [0.5] * 800,
        [[1], {"a": []}],
        dict.fromkeys("abcde"),
        nested(8),
        nested(8, kind=dict),
        [True, 1, 0.5, None, "x"],
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_plain_json_within_its_bounds_passes(value: Any) -> None:
    """Any type of JSON, up to each bound itself, is let through."""
    check_shape(value, SMALL)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("x" * 21, "expected at most 20 characters, got 21"),
        ({"a": ["x" * 21]}, "a[0]: expected at most 20 characters, got 21"),
        ({"x" * 21: 1}, f"{'x' * 21}: expected at most 20 characters, got 21"),
        ({"a": [0] * 801}, "a: expected at most 800 items, got 801"),
        ({"a": dict.fromkeys("abcdef")}, "a: expected at most 5 fields, got 6"),
        ({"a": ["b\0"]}, "a[0]: expected text without U+0000"),
        ({"b\0": 1}, "<key>: expected text without U+0000"),
        ({"a": "\ud800"}, "a: expected text without lone surrogates"),
        ({"a": ["\udfff\ud800"]}, "a[0]: expected text without lone surrogates"),
        ({"\udfff": 1}, "<key>: expected text without lone surrogates"),
        ([0.5, math.nan], "[1]: expected a finite number"),
        ({"a": [1, 2, -math.inf]}, "a[2]: expected a finite number"),
        ([math.inf, -math.inf], "[0]: expected a finite number"),
        ({"a": math.inf}, "a: expected a finite number"),
        ({"a": {1: 2}}, "a: expected field names that are strings"),
    ],
    ids=lambda value: ascii(value)[-30:],
)
def test_each_bound_is_named_with_its_path(value: Any, sentence: str) -> None:
    """One sentence: where, what was expected, and how much came; never what it said."""
    assert refusal(value) == sentence


@pytest.mark.parametrize(
    "value",
    [b"x", (1,), {1}, decimal.Decimal(1), dt.date(2026, 1, 1), object()],
    ids=lambda value: type(value).__name__,
)
def test_what_a_serializer_made_of_tagged_objects_is_no_json(value: Any) -> None:
    """Types that JSON has not are refused wherever they stand."""
    assert refusal({"a": [value]}) == "a[0]: expected plain JSON"


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("levels", [9, 200, 20_000])
def test_deep_nesting_is_refused_without_recursion(levels: int, kind: type) -> None:
    """Neither the check nor its message grows with the depth of what came."""
    sentence = refusal(nested(levels, kind=kind))
    assert sentence.endswith("expected at most 8 levels of nesting")
    assert len(sentence) < 150


def test_the_path_of_a_deep_place_is_shortened() -> None:
    """A sentence stays readable where the path would fill a page."""
    deep = nested(199, inside=[[]])
    sentence = refusal(deep, replace(SMALL, max_depth=200))
    assert sentence == "[0]" * 26 + "[0…: expected at most 200 levels of nesting"


def test_a_large_sum_of_finite_numbers_is_no_infinity() -> None:
    """Numbers whose sum overflows are finite each: the quick check must not refuse them."""
    check_shape([1e308, 1e308, 10**400], SMALL)


def test_the_first_problem_in_document_order_is_named() -> None:
    """The same job always gets the same sentence."""
    assert refusal({"a": ["x", "b\0"], "c": "d\0"}).startswith("a[1]: ")
    assert refusal({"c": "d\0", "a": ["x", "b\0"]}).startswith("c: ")


@pytest.mark.parametrize(
    ("parent", "part", "path"),
    [
        ("", "k", "k"),
        ("", 0, "[0]"),
        ("filters.pages", 3, "filters.pages[3]"),
        ("filters", "metadata", "filters.metadata"),
        ("filters.metadata", "x-y.z_1", "filters.metadata.x-y.z_1"),
        ("a", "", "a.<key>"),
        ("a", "two words", "a.<key>"),
        ("a", "b\n", "a.<key>"),
        ("a", "é", "a.<key>"),
        ("a", "x" * 65, "a.<key>"),
        ("a", "'; DROP TABLE x; --", "a.<key>"),
    ],
)
def test_a_path_repeats_plain_names_only(parent: str, part: str | int, path: str) -> None:
    """A key that is free text is not repeated."""
    assert join_path(parent, part) == path


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=30)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text(st.characters(), max_size=25), inner, max_size=8)
    ),
    max_leaves=40,
)


@given(anything)
def test_any_json_is_passed_or_refused(value: Any) -> None:
    """Any decoded JSON ends in silence or in one `InvalidJob`."""
    with contextlib.suppress(InvalidJob):
        check_shape(value, replace(SMALL, max_depth=4))


@given(anything, st.sampled_from(["canary-4711\0", "canary-4711\ud800", "canary-4711" * 3]))
def test_a_refusal_never_repeats_a_string(value: Any, planted: str) -> None:
    """The value that is wrong is described, not shown."""
    assert "canary" not in refusal({"a": [planted, value]})
