"""Vectors of one model and of two."""

from __future__ import annotations

import numpy as np
import pytest

from worker.core.text.fingerprint import unrelated

MADE = np.random.default_rng(7).standard_normal((8, 384)).astype(np.float32)
OTHER = np.random.default_rng(8).standard_normal((8, 384)).astype(np.float32)


@pytest.mark.parametrize("rows", [4, 8])
def test_two_models_are_told_apart(rows: int) -> None:
    """Four rows are enough."""
    assert unrelated(MADE[:rows], OTHER[:rows])
    assert not unrelated(MADE[:rows], MADE[:rows] + 0.2 * OTHER[:rows])


@pytest.mark.parametrize("rows", [4, 8])
def test_half_of_another_model_is_found(rows: int) -> None:
    """A table that is being embedded again holds vectors of both."""
    stored = np.vstack([MADE[: rows // 2], OTHER[rows // 2 : rows]])
    assert unrelated(MADE[:rows], stored)
    one = np.vstack([MADE[: rows - 1], OTHER[rows - 1 : rows]])
    assert not unrelated(MADE[:rows], one)


def test_another_layout_of_the_text_is_no_other_model() -> None:
    """A cosine of 0.4 is enough if the own row is the nearest."""
    assert not unrelated(MADE, MADE + 2.2 * OTHER)


def test_rows_that_resemble_each_other_are_no_other_model() -> None:
    """Then no own row is the nearest, but all are near."""
    alike = MADE[:1] + 0.1 * OTHER
    assert not unrelated(alike, np.roll(alike, 1, axis=0))


def test_a_common_direction_does_not_hide_another_model() -> None:
    """Some models put all texts into a narrow cone."""
    assert unrelated(MADE + 0.8 * MADE[:1], OTHER + 0.5 * MADE[:1])


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_few_rows_tell_nothing(rows: int) -> None:
    """Nothing is refused."""
    assert not unrelated(MADE[:rows], OTHER[:rows])
