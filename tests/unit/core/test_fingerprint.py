from __future__ import annotations

import numpy as np

from worker.core.text import lexical
from worker.core.text.fingerprint import TEXTS, agree, cosines


def test_one_model_agrees_with_itself_at_any_padding_and_precision() -> None:
    """Zeros at the end, and the rounding of fewer bits, are no other model."""
    vectors = lexical.embed(TEXTS, 384)
    padded = np.pad(vectors, ((0, 0), (0, 384)))
    rounded = (np.round(padded * 127) / 127).astype(np.float32)
    assert agree(vectors, padded)
    assert agree(rounded, vectors)


def test_another_model_does_not_agree() -> None:
    """Each text is compared: two of three are not enough."""
    vectors = lexical.embed(TEXTS, 384)
    assert not agree(vectors, vectors[::-1])
    assert not agree(vectors, np.stack([vectors[0], vectors[1], vectors[1]]))


def test_a_vector_of_zeros_is_like_none() -> None:
    """Its cosine is 0, and nothing is divided by it."""
    assert cosines(np.zeros((1, 2), dtype="f4"), np.ones((1, 2), dtype="f4")).tolist() == [0.0]
