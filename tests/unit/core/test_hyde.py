from __future__ import annotations

import random
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from worker.core.ranking.hyde import pooled

numbers = st.floats(-1e6, 1e6).filter(lambda number: number == 0 or abs(number) > 1e-6)
vectors = st.lists(numbers, min_size=4, max_size=4).filter(any).map(np.array)
lists = st.lists(vectors, min_size=1, max_size=6)


def test_directions_are_averaged_not_lengths() -> None:
    """A long embedding counts no more than a short one: (1, 0), (0, 1), (0, 1) add up to (1, 2)."""
    found = pooled([np.array([9.0, 0.0]), np.array([0.0, 0.1]), np.array([0.0, 1e-30])])
    assert found == pytest.approx(np.array([1.0, 2.0]) / 5**0.5, rel=1e-7)
    assert found.dtype == np.float32


def test_the_query_counts_as_one_more_document() -> None:
    """As in the paper; or not at all."""
    documents, query = [np.array([1.0, 0.0]), np.array([1.0, 0.0])], np.array([0.0, 5.0])
    assert pooled(documents, query) == pytest.approx(np.array([2.0, 1.0]) / 5**0.5, rel=1e-7)
    assert pooled(documents).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "documents",
    [
        [],
        [np.zeros(3)],
        [np.array([1.0, np.nan])],
        [np.array([1.0, np.inf])],
        [np.array([1.0, 0.0]), np.array([-1.0, 0.0])],
        [np.array([1.0]), np.array([1.0, 0.0])],
        [np.array([])],
    ],
)
def test_what_has_no_mean_direction_is_refused(documents: list[np.ndarray]) -> None:
    """Nothing, zeros, what is not finite, opposites, different shapes."""
    with pytest.raises(ValueError):  # noqa: PT011 -- of shapes numpy speaks
        pooled(documents)


@given(documents=lists, seed=st.integers(0, 99))
def test_the_order_of_the_documents_changes_no_bit(documents: list[np.ndarray], seed: int) -> None:
    """Exact sums: the same bytes in any order; of unit length."""
    try:
        expected = pooled(documents)
    except ValueError:
        assume(False)  # they cancel out
    other = random.Random(seed).sample(documents, len(documents))
    assert pooled(other).tobytes() == expected.tobytes()
    assert float(np.linalg.norm(expected.astype(np.float64))) == pytest.approx(1.0, abs=1e-6)


def test_what_cancels_out_leaves_what_is_small() -> None:
    """1 + 1e-17 - 1 is 0 from left to right; the exact sum is 1e-17 in any order."""
    documents = [np.array([1.0, 0.0]), np.array([1e-17, 1.0]), np.array([-1.0, 0.0])]
    for other in permutations(documents):
        assert pooled(other).tolist() == [float(np.float32(1e-17)), 1.0]


@given(document=vectors, copies=st.integers(1, 5))
def test_one_document_is_its_own_mean(document: np.ndarray, copies: int) -> None:
    """However often it comes."""
    unit = document / np.linalg.norm(document)
    assert pooled([document] * copies) == pytest.approx(unit, abs=1e-6)
