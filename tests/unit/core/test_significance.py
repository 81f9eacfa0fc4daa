from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.core import significance
from workbench.core.significance import difference, estimate, estimates, randomisation_p

values = st.lists(st.integers(0, 8).map(lambda eighths: eighths / 8), min_size=1, max_size=40)


@given(values)
def test_an_interval_holds_its_mean_and_stays_within_the_values(sample: list[float]) -> None:
    """The same values give the same interval."""
    found = estimate(sample)
    assert min(sample) <= found.low <= found.mean + 1e-12
    assert found.mean - 1e-12 <= found.high <= max(sample)
    assert found.queries == len(sample)
    assert estimate(sample) == found


def test_an_interval_is_as_wide_as_the_normal_one_of_many_values() -> None:
    """About 1.96 standard errors to each side of the mean, which is what percentiles tend to."""
    sample = np.random.default_rng(1).random(400)
    found = estimate(sample.tolist())
    error = sample.std() / len(sample) ** 0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.05)


def test_measures_are_drawn_together_and_alone_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measure's draws depend neither on the measures beside it nor on how many numbers are drawn at a time."""
    samples = {"a": [0.1, 0.7, 0.4, 0.9], "b": [1.0, 0.0, 1.0, 0.5]}
    together = estimates(samples)
    monkeypatch.setattr(significance, "_BLOCK", 1000)
    assert together == {name: estimate(sample) for name, sample in samples.items()}


@pytest.mark.parametrize("samples", [{}, {"a": []}, {"a": [1.0], "b": [1.0, 0.5]}])
def test_there_is_no_interval_of_nothing(samples: dict[str, list[float]]) -> None:
    """Nor of measures of different queries."""
    with pytest.raises(ValueError, match="as many values"):
        estimates(samples)


@given(st.lists(st.integers(-8, 8).map(lambda eighths: eighths / 8), max_size=9))
def test_few_pairs_are_tried_in_every_way(changes: list[float]) -> None:
    """The share of all assignments of signs that are as far from 0: exact, by the definition."""
    sums = [
        abs(sum(sign * change for sign, change in zip(signs, changes, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(changes))
    ]
    assert randomisation_p(changes) == pytest.approx(np.mean([one >= abs(sum(changes)) for one in sums]))


def test_many_pairs_are_drawn_and_agree_with_the_t_test() -> None:
    """Two-sided, between the bounds, the same each time; Student's t gives nearly the same for normal differences."""
    changes = (np.random.default_rng(3).normal(0.02, 0.1, 120)).tolist()
    p = randomisation_p(changes)
    assert randomisation_p(changes) == randomisation_p([-change for change in changes]) == p
    assert p == pytest.approx(0.0944, abs=0.01)  # scipy.stats.ttest_1samp
    assert randomisation_p([1.0] * 200) == 1 / (significance.RESAMPLES + 1)


def test_equal_systems_seldom_differ() -> None:
    """Of 200 pairs of systems between which chance decides, about one in twenty looks better or worse."""
    generator = np.random.default_rng(5)
    found = [
        difference(*generator.integers(0, 2, (2, 60)).astype(float).tolist()).verdict in {"better", "worse"}
        for _ in range(200)
    ]
    assert 2 <= sum(found) <= 20


@pytest.mark.parametrize(
    ("first", "second", "verdict", "counts"),
    [
        ([0.0] * 8, [1.0] * 8, "better", (8, 0)),
        ([1.0] * 8, [0.0] * 8, "worse", (0, 8)),
        ([0.5] * 8, [0.5] * 8, "same", (0, 0)),
        ([0.0, 1.0] * 4, [1.0, 0.0] * 4, "undecided", (4, 4)),
        ([0.0], [1.0], "undecided", (1, 0)),
    ],
)
def test_a_sign_is_said_where_it_is_shown(
    first: list[float], second: list[float], verdict: str, counts: tuple[int, int]
) -> None:
    """One query alone shows nothing, though its interval is a point."""
    found = difference(first, second)
    assert (found.verdict, (found.better, found.worse)) == (verdict, counts)


def test_pairs_are_of_the_same_queries() -> None:
    """Lists of different lengths are no pairs."""
    with pytest.raises(ValueError, match="zip"):
        difference([1.0], [1.0, 0.0])
