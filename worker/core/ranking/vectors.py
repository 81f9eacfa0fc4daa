"""Query embeddings: decoded from a job into a unit vector that Postgres can compare."""

from __future__ import annotations

import binascii
import math
from typing import Any

import numpy as np
import pybase64
from numpy.typing import NDArray

from retrieval_client.errors import InvalidJob
from worker.model import DIMENSIONS

Vector = NDArray[np.float32]

_LARGEST = float(np.finfo(np.float32).max)
# From this sum of squares on, the largest square keeps all its bits in float64, and so do those that affect the sum.
# Every float32 but zero has a larger square: 2^-298 or more.
_SQUARES_KEEP = 2.0**-590
_FEW = 12


def decode(value: Any, path: str = "query_embedding", dimensions: int = DIMENSIONS) -> Vector:
    """Decode a job's embedding into a float32 vector of unit length, shape (dimensions,).

    Args:
        value: a JSON list of numbers, or base64 of little-endian float32.
        path: the field's name for error messages.
        dimensions: number of dimensions of the corpus.

    Scaled in float64, so that the direction survives values of 1e-30 or 1e20 (in float32 it would not).

    Raises:
        InvalidJob: not as many finite numbers within float32's range, or all of them zero.
    """
    if isinstance(value, str):
        numbers = _from_base64(value, path, dimensions)
    elif isinstance(value, list):
        numbers = _from_list(value, path, dimensions)
    else:
        raise InvalidJob(f"{_expected(dimensions)}, as a list or as base64 of little-endian float32", path)
    return _to_unit_length(numbers, path)


def _expected(dimensions: int) -> str:
    return f"expected exactly {dimensions} finite numbers"


def _from_base64(text: str, path: str, dimensions: int) -> NDArray[np.float64]:
    length = 4 * math.ceil(4 * dimensions / 3)
    if len(text) != length:
        raise InvalidJob(
            f"expected base64 of {dimensions} little-endian float32 ({length} characters), got {len(text)} characters",
            path,
        )
    try:
        raw = pybase64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidJob(f"expected base64 of {dimensions} little-endian float32", path) from None
    if len(raw) != 4 * dimensions:
        raise InvalidJob(f"expected base64 of {4 * dimensions} bytes, got {len(raw)} bytes", path)
    with np.errstate(invalid="ignore"):  # a signalling NaN is refused below, with its position
        return np.frombuffer(raw, dtype="<f4").astype(np.float64)


def _from_list(values: list[Any], path: str, dimensions: int) -> NDArray[np.float64]:
    if len(values) != dimensions:
        raise InvalidJob(f"{_expected(dimensions)}, got {len(values)}", path)
    # One pass in C over the types: an int or a float, and no bool (which is an int to Python).
    if not {*map(type, values)} <= {int, float}:
        wrong = next(i for i, item in enumerate(values) if type(item) not in (int, float))
        raise InvalidJob("expected a number", f"{path}[{wrong}]")
    try:
        numbers = np.array(values, dtype=np.float64)
    except OverflowError:
        wrong = next(i for i, item in enumerate(values) if abs(item) > _LARGEST)
        raise InvalidJob("expected a number within float32's range", f"{path}[{wrong}]") from None
    _check_range(numbers, path)
    return numbers


def _to_unit_length(numbers: NDArray[np.float64], path: str) -> Vector:
    squares = _sum_of_squares(numbers)
    if not _SQUARES_KEEP <= squares < math.inf:  # also true for NaN
        numbers = _to_scale(numbers, path)
        squares = _sum_of_squares(numbers)
    unit: Vector = (numbers / math.sqrt(squares)).astype(np.float32)
    return unit


def _to_scale(numbers: NDArray[np.float64], path: str) -> NDArray[np.float64]:
    """Scale numbers whose squares are out of range by a power of two, which changes no bit of the result.

    Raises:
        InvalidJob: all are zero, or one is not finite within float32's range.
    """
    _check_range(numbers, path)
    largest = np.abs(numbers).max()
    if largest == 0:
        raise InvalidJob("expected a vector with a direction, got only zeros", path)
    return np.ldexp(numbers, -math.frexp(largest)[1])


def _check_range(numbers: NDArray[np.float64], path: str) -> None:
    fits = np.abs(numbers) <= _LARGEST  # not so for NaN
    if not fits.all():
        wrong = int(np.flatnonzero(~fits)[0])
        raise InvalidJob("expected a finite number within float32's range", f"{path}[{wrong}]")


def _sum_of_squares(numbers: NDArray[np.float64]) -> float:
    """Sum in a fixed order, half onto half, so the last bit does not depend on the CPU or BLAS; fsum is exact."""
    squares = numbers * numbers
    while squares.size > _FEW and squares.size % 2 == 0:
        half = squares.size // 2
        squares = squares[:half] + squares[half:]
    return math.fsum(squares.tolist())
