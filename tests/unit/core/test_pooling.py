from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.errors import SettingsError, Unavailable
from worker.core.text.pooling import fitted, pooled

TOKENS = np.array([[1.0, 2.0], [3.0, -4.0], [5.0, 8.0]], dtype=np.float32)


def test_the_mean_is_over_all_tokens_and_cls_is_the_first() -> None:
    """Of one text, which has no padding."""
    assert pooled(TOKENS, "mean").tolist() == [3.0, 2.0]
    assert pooled(TOKENS, "cls").tolist() == [1.0, 2.0]


@given(st.lists(st.floats(-1e6, 1e6).filter(lambda x: abs(x) > 1e-6), min_size=2, max_size=8), st.integers(8, 64))
def test_a_padded_vector_has_unit_length_and_its_direction(values: list[float], dimensions: int) -> None:
    """Zeros at the end change no cosine."""
    vector = np.array(values)
    found = fitted(vector, "m", dimensions)
    assert found.shape == (dimensions,)
    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)
    assert not found[len(values) :].any()
    assert float(found[: len(values)] @ vector) / np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_more_dimensions_than_the_corpus_has_are_a_matter_of_settings() -> None:
    """Both numbers are named."""
    with pytest.raises(SettingsError, match=r"m gives 3 dimensions, more than 2"):
        fitted(np.ones(3), "m", 2)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_what_has_no_direction_is_no_vector(value: float) -> None:
    """Zeros, and what is not finite."""
    with pytest.raises(Unavailable, match="without a direction"):
        fitted(np.array([value, 0.0]), "m", 4)
