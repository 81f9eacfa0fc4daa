from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core.calibration import SPREAD, Goal, Quality, quality, questions, recall_against
from worker.model import Candidate, Chunk

recalls = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def candidate(name: str, similarity: float) -> Candidate:
    return Candidate(Chunk(name, "d", "text", None, None, None, {}, "sha256:0", 1), similarity)


EXACT = [candidate("a", 0.9), candidate("b", 0.8), candidate("c", 0.7), candidate("d", 0.7)]


@pytest.mark.parametrize(
    ("found", "share"),
    [
        (EXACT, 1.0),
        (EXACT[::-1], 1.0),
        (EXACT[:3], 0.75),
        ([*EXACT[:3], candidate("e", 0.7)], 1.0),
        ([*EXACT[:3], candidate("e", 0.69)], 0.75),
        ([*EXACT, candidate("e", 0.7)], 1.0),
        ([], 0.0),
    ],
)
def test_recall_is_what_was_found_of_the_exact_answer(found: list[Candidate], share: float) -> None:
    """By id, in any order; a chunk as near as the last one is as good as that, and none counts twice."""
    assert recall_against(found, EXACT) == share


def test_where_nothing_is_to_be_found_nothing_is_missing() -> None:
    """A caller who sees nothing loses nothing."""
    assert recall_against([], []) == 1.0


@given(recalls)
def test_quality_is_the_mean_and_the_worst(values: list[float]) -> None:
    """Within what was measured, and the same in any order."""
    found = quality(values, ["index"] * len(values))
    assert found.worst == min(values)
    assert min(values) <= found.mean <= max(values) or found.mean == pytest.approx(values[0])
    assert found == quality(values[::-1], ["index"] * len(values))


@pytest.mark.parametrize(
    ("mean", "worst", "enough"), [(0.995, 0.8, True), (0.9949, 1.0, False), (1.0, 0.79, False), (0.9, 0.1, False)]
)
def test_a_goal_is_reached_by_both(mean: float, worst: float, enough: bool) -> None:
    """A good mean can hide a query that found nothing."""
    assert Quality(mean, worst, 1.0).reaches(Goal()) is enough


def chunks(count: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 768)).astype(np.float32) * np.float32(3)


def test_questions_are_near_their_chunks_and_none_is_one() -> None:
    """Of unit length, each nearer to its own chunk than to any other, whatever the chunks' lengths."""
    stored = chunks(50)
    asked = np.array(questions(stored, np.random.default_rng(1)))
    unit = stored / np.linalg.norm(stored, axis=1, keepdims=True)
    assert asked.dtype == np.float32
    assert np.linalg.norm(asked, axis=1) == pytest.approx(1, abs=1e-6)
    similarity = asked @ unit.T
    assert (similarity.argmax(axis=1) == np.arange(50)).all()
    # Moved at a right angle by SPREAD at most (in 768 dimensions, nearly).
    assert similarity.diagonal().min() > 1 / np.hypot(1, SPREAD) - 0.05
    assert (similarity.diagonal() < 1).all()


def test_questions_follow_from_the_chunks_and_the_seed() -> None:
    """So that a calibration can be made again."""
    first, again, other = (np.array(questions(chunks(9), np.random.default_rng(seed))) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_single_chunk_is_its_own_question() -> None:
    """There is no way to move it."""
    (asked,) = questions(chunks(1), np.random.default_rng(1))
    assert asked @ chunks(1)[0] == pytest.approx(np.linalg.norm(chunks(1)), rel=1e-5)
