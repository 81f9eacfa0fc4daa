from __future__ import annotations

import base64
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from retrieval_client.errors import InvalidJob
from worker.core.ranking.vectors import decode

LARGEST = float(np.finfo(np.float32).max)
finite32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
vectors32 = hnp.arrays(np.float32, 768, elements=finite32)


def encode(numbers: Any) -> str:
    return base64.b64encode(np.asarray(numbers, dtype="<f4").tobytes()).decode()


def with_item(item: Any, position: int = 5) -> list[Any]:
    values: list[Any] = [0.25] * 768
    values[position] = item
    return values


def refusal(value: Any) -> InvalidJob:
    with pytest.raises(InvalidJob) as caught:
        decode(value)
    return caught.value


@given(vectors32)
def test_a_list_and_its_base64_are_the_same_query(vector: np.ndarray) -> None:
    """768 numbers as a list, or as base64 of little-endian float32, decode to the same bits."""
    assume(vector.any())
    assert decode(vector.tolist()).tobytes() == decode(encode(vector)).tobytes()


@given(vectors32)
def test_a_decoded_query_is_a_float32_vector_of_unit_length(vector: np.ndarray) -> None:
    """A query of any length leaves with length 1, as 768 float32."""
    assume(vector.any())
    decoded = decode(vector.tolist())
    assert (decoded.shape, decoded.dtype) == ((768,), np.dtype(np.float32))
    assert math.isclose(math.fsum(x * x for x in decoded.tolist()), 1.0, abs_tol=1e-6)


@given(hnp.arrays(np.int16, 768))
def test_scaling_a_query_does_not_change_it(numbers: np.ndarray) -> None:
    """A power of two more or less, up to the end of float32 and far below its start, gives the same bits."""
    assume(numbers.any())
    vector = numbers / 2.0**15
    expected = decode(vector.tolist())
    for exponent in (-900, -530, -520, -515, -500, -149, -20, 20, 127):
        assert decode((vector * 2.0**exponent).tolist()).tobytes() == expected.tobytes()


@pytest.mark.parametrize("tiny", [1e-30, 1e-45, 5e-324])
def test_tiny_numbers_have_a_direction(tiny: float) -> None:
    """Numbers whose squares are zero even in float64 are scaled, not refused."""
    assert decode([tiny] * 768).tolist() == decode([1.0] * 768).tolist()


def test_the_largest_float32_is_accepted() -> None:
    """The bound itself is within it, in both signs and as an integer."""
    assert decode([LARGEST, -LARGEST, int(LARGEST)] * 256)[1] < 0


def test_minus_zero_is_a_number() -> None:
    """-0 among the numbers counts as zero."""
    assert decode([-0.0] * 767 + [2]).tolist() == [0.0] * 767 + [1.0]


@pytest.mark.parametrize(
    "value", [[], [1.0], [1.0] * 767, [1.0] * 769, [[1.0] * 768]], ids=["0", "1", "767", "769", "nested"]
)
def test_a_list_of_another_length_is_refused_with_its_length(value: list[Any]) -> None:
    """The sentence says that 768 were expected and how many came."""
    assert str(refusal(value)) == f"query_embedding: expected exactly 768 finite numbers, got {len(value)}"


@pytest.mark.parametrize(
    "item", [True, None, "0.5", [0.5], {"x": 0.5}], ids=["bool", "null", "string", "list", "object"]
)
def test_an_item_of_another_type_is_named(item: Any) -> None:
    """An item that is no number is refused at its index; a boolean is none."""
    assert str(refusal(with_item(item, 7))) == "query_embedding[7]: expected a number"


@pytest.mark.parametrize(
    "item",
    [math.nan, math.inf, -math.inf, 1e39, -1e39, 1e308, 10**39, 10**400, LARGEST * (1 + 1e-7)],
    ids=["nan", "inf", "-inf", "1e39", "-1e39", "1e308", "int39", "int400", "just-over"],
)
def test_a_number_outside_float32_is_named(item: float) -> None:
    """A number that float32 can't hold as finite is refused at its index, wherever else the largest one is."""
    error = refusal(with_item(item))
    assert error.path == "query_embedding[5]"
    assert "within float32's range" in error.message


@pytest.mark.parametrize("value", [[0] * 768, [0.0, -0.0] * 384, encode([0.0] * 768)], ids=["ints", "floats", "base64"])
def test_a_vector_of_zeros_has_no_direction(value: Any) -> None:
    """A norm of zero can't be scaled to unit length, and is refused."""
    assert "direction" in refusal(value).message


@pytest.mark.parametrize("value", [None, True, 1, 1.5, {}, {"0": 1.0}], ids=repr)
def test_neither_a_list_nor_a_string_is_refused(value: Any) -> None:
    """Only the two forms of the contract are read."""
    assert refusal(value).path == "query_embedding"


GOOD = encode([0.5] * 768)


@pytest.mark.parametrize(
    "text",
    [
        "",
        GOOD[:-4],
        GOOD + "AAAA",
        "-" + GOOD[1:],
        "é" + GOOD[1:],
        " " + GOOD[1:],
        GOOD[:-1] + "\n",
        GOOD[:-1] + "=",
        GOOD[:-2] + "==",
        "=" + GOOD[1:],
        "=" * 4096,
    ],
    ids=["empty", "short", "long", "urlsafe", "unicode", "space", "newline", "pad1", "pad2", "pad-first", "pads"],
)
def test_what_is_not_base64_of_768_float32_is_refused(text: str) -> None:
    """Length, alphabet and padding all have to fit."""
    error = refusal(text)
    assert "base64" in error.message
    assert error.path == "query_embedding"


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7F800001, 0xFFC00001, 0x7F800000, 0xFF800000], ids=hex)
def test_nan_and_infinities_inside_base64_are_named(bits: int) -> None:
    """Every bit pattern that is no finite number is refused at its index, quietly."""
    raw = bytearray(np.full(768, 0.5, dtype="<f4").tobytes())
    raw[20:24] = struct.pack("<I", bits)
    assert refusal(base64.b64encode(raw).decode()).path == "query_embedding[5]"


@given(st.floats(min_value=1e39) | st.text(min_size=3, alphabet="XYZ"), st.integers(0, 767))
def test_a_refusal_never_repeats_what_was_sent(item: Any, position: int) -> None:
    """The sentence names the place, not the value."""
    error = refusal(with_item(item, position))
    assert error.path == f"query_embedding[{position}]"
    assert str(item) not in error.expected


def test_the_path_is_the_one_given() -> None:
    """An entry of a batch is named as that entry."""
    with pytest.raises(InvalidJob, match=r"^query_embeddings\[3\]: expected exactly 768"):
        decode([], "query_embeddings[3]")
