from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.ranking.temporal import UNDATED, blended, recency, reordered

DAY = 86_400.0
dates = st.floats(allow_nan=False)
clocks = st.floats(-1e12, 1e12)
half_lives = st.floats(1e-3, 1e12)
relevances = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("age", "expected"), [(0, 1.0), (30, 0.5), (60, 0.25), (15, 0.707106781187), (300, 0.000976562500), (-400, 1.0)]
)
def test_a_half_life_halves(age: float, expected: float) -> None:
    """Half after each half-life of thirty days; the future is now."""
    assert recency(1e9 - age * DAY, 1e9, 30 * DAY) == expected


def test_what_has_no_date_is_neither_new_nor_old() -> None:
    """Neutral: exactly as a date of one half-life ago."""
    assert recency(None, 1e9, DAY) == recency(1e9 - DAY, 1e9, DAY) == UNDATED == 0.5


def test_infinite_dates_are_the_ends_of_the_scale() -> None:
    """Postgres has dates of -infinity and infinity."""
    assert recency(math.inf, 0.0, 1.0) == 1.0
    assert recency(-math.inf, 0.0, 1.0) == 1e-12


@pytest.mark.parametrize(
    ("date", "now", "half_life"),
    [(math.nan, 0.0, 1.0), (0.0, math.nan, 1.0), (0.0, math.inf, 1.0), (0.0, 0.0, 0.0), (0.0, 0.0, math.nan)],
)
def test_what_is_no_time_is_refused(date: float, now: float, half_life: float) -> None:
    """NaN would leave the list without a total order."""
    with pytest.raises(ValueError, match=r"expected|not a number"):
        recency(date, now, half_life)


@given(one=dates, other=dates, now=clocks, half_life=half_lives)
def test_newer_is_never_less_recent(one: float, other: float, now: float, half_life: float) -> None:
    """In (0, 1] for any date, and falling with age."""
    older, newer = (recency(date, now, half_life) for date in sorted((one, other)))
    assert 0 < older <= newer <= 1


# --- with relevance -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "expected"),
    # Relevance 3, 2, 1 becomes 1, 0.5, 0.
    [(0.0, [1.0, 0.5, 0.0]), (1.0, [0.25, 1.0, 0.5]), (0.2, [0.85, 0.6, 0.1])],
)
def test_the_weight_says_how_much_recency_counts(weight: float, expected: list[float]) -> None:
    """A weighted mean of relevance among these, from 0 to 1, and recency."""
    assert blended([3.0, 2.0, 1.0], [0.25, 1.0, 0.5], weight) == expected


@pytest.mark.parametrize("weight", [-0.1, 1.1, math.nan])
def test_a_weight_is_a_share(weight: float) -> None:
    """From 0 to 1."""
    with pytest.raises(ValueError, match="weight"):
        blended([1.0], [1.0], weight)


def test_equal_scores_keep_the_order_that_was() -> None:
    """The incoming order is total, so the outgoing one is."""
    assert reordered(["a", "b", "c", "d"], [0.5, 0.75, 0.5, 0.75]) == ["b", "d", "a", "c"]


@given(st.lists(st.tuples(relevances, st.floats(0, 1)), max_size=20), st.floats(0, 1))
def test_newer_and_as_relevant_is_never_behind(pairs: list[tuple[float, float]], weight: float) -> None:
    """Nothing is lost, scores stay in [0, 1], and who is better in both is first unless the scores are equal."""
    scores = blended([pair[0] for pair in pairs], [pair[1] for pair in pairs], weight)
    assert all(0 <= score <= 1 for score in scores)
    ranked = reordered(range(len(pairs)), scores)
    assert sorted(ranked) == list(range(len(pairs)))
    for i, one in enumerate(pairs):
        for j, other in enumerate(pairs):
            if one[0] >= other[0] and one[1] >= other[1]:
                assert scores[i] >= scores[j]


@given(st.lists(relevances, max_size=20))
def test_no_weight_changes_no_order(relevance: list[float]) -> None:
    """Of a list that was ranked by relevance."""
    ranked = sorted(relevance, reverse=True)
    assert reordered(ranked, blended(ranked, [0.5] * len(ranked), 0.0)) == ranked
