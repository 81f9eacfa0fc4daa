"""How far a mean over queries may be trusted: bootstrap intervals, and a paired randomisation test.

Both draw from a generator with a fixed seed, so the same values give the same figures.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from worker.core.ranking.measures import mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

RESAMPLES, SEED = 10_000, 20
CONFIDENCE = 0.95
"""Share of resamples inside an interval; 1 less this is the level of the test."""

_BLOCK = 2_000_000
"""Most numbers drawn at a time: memory stays bounded, however many queries there are."""

_EXACT_UP_TO = 13
"""Pairs that differ, up to which all 2^n assignments of signs are tried: fewer than the resamples."""

Verdict = Literal["better", "worse", "undecided", "same"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries, and its interval if other queries of the kind had been drawn.

    Attributes:
        mean: mean of the values.
        low: lower end of the 95 % interval.
        high: upper end.
        queries: number of values.
    """

    mean: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two systems on the same queries: the second less the first.

    Attributes:
        estimate: mean of the differences, with its interval.
        p: two-sided p-value of the randomisation test, 0-1.
        better: number of queries on which the second is better.
        worse: number of queries on which it is worse.
    """

    estimate: Estimate
    p: float
    better: int
    worse: int

    @property
    def verdict(self) -> Verdict:
        """The conclusion: a sign only where both the interval and the test show it."""
        if not self.better and not self.worse:
            return "same"
        if self.p > 1 - CONFIDENCE or self.estimate.low <= 0 <= self.estimate.high:
            return "undecided"
        return "better" if self.estimate.mean > 0 else "worse"


def estimates(values: Mapping[str, Sequence[float]]) -> dict[str, Estimate]:
    """Return the mean of each measure over the same queries, with a percentile bootstrap interval.

    Queries are drawn with replacement, the same ones for every measure; the interval is that of the middle 95 % of the
    means of 10,000 draws. Efron, Tibshirani: "An Introduction to the Bootstrap", 1993, chapter 13.

    Args:
        values: measure → its value for each query, in one order of the queries; finite, one at least.

    Raises:
        ValueError: the measures have different numbers of values, or none.
    """
    samples = {name: np.array(of_queries, dtype=np.float64) for name, of_queries in values.items()}
    sizes = {len(sample) for sample in samples.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError("expected as many values of each measure, and one at least")
    (queries,) = sizes
    means: dict[str, list[NDArray[np.float64]]] = {name: [] for name in samples}
    for drawn in _blocks(queries, queries):
        for name, sample in samples.items():
            means[name].append(sample[drawn].mean(axis=1))
    tails = [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)]
    estimate_of_measure = {}
    for name, sample in samples.items():
        low, high = np.percentile(np.concatenate(means[name]), tails).tolist()
        estimate_of_measure[name] = Estimate(mean(sample.tolist()) or 0.0, low, high, queries)
    return estimate_of_measure


def estimate(values: Sequence[float]) -> Estimate:
    """Return the estimate of one measure; see `estimates`.

    >>> estimate([0.5, 0.5])
    Estimate(mean=0.5, low=0.5, high=0.5, queries=2)
    """
    return estimates({"": values})[""]


def difference(first_values: Sequence[float], second_values: Sequence[float]) -> Difference:
    """Compare two systems by one measure, query by query; positive where the second is better.

    Args:
        first_values: a value for each query, one at least.
        second_values: the other system's, in the same order of the queries.

    Raises:
        ValueError: there are not as many of both, or none.

    >>> difference([0.0] * 6, [1.0] * 6).p
    0.03125
    """
    changes = [new - old for old, new in zip(first_values, second_values, strict=True)]
    return Difference(
        estimate(changes),
        randomisation_p(changes),
        sum(change > 0 for change in changes),
        sum(change < 0 for change in changes),
    )


def randomisation_p(changes: Sequence[float]) -> float:
    """Return the two-sided p-value of Fisher's paired randomisation test, 0-1.

    If the systems were equal, each query's difference might as well have the other sign. The p-value is the share of
    assignments of signs whose sum is at least as far from 0 as that observed: of all assignments for up to 13
    differences, else of 10,000 drawn ones and the observed one. Smucker, Allan, Carterette: "A Comparison of
    Statistical Significance Tests for Information Retrieval Evaluation", CIKM 2007.

    >>> randomisation_p([0.5]), randomisation_p([])
    (1.0, 1.0)
    """
    moved = np.array([change for change in changes if change], dtype=np.float64)
    if not len(moved):
        return 1.0
    observed = abs(math.fsum(moved)) * (1 - 1e-12)  # sums in another order differ in their last digits
    if len(moved) <= _EXACT_UP_TO:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(moved))))
        return float(np.mean(np.abs(signs @ moved) >= observed))
    as_far = sum(
        int(np.count_nonzero(np.abs((2.0 * drawn - 1.0) @ moved) >= observed)) for drawn in _blocks(2, len(moved))
    )
    return (as_far + 1) / (RESAMPLES + 1)


def _blocks(below: int, width: int) -> Iterator[NDArray[np.int64]]:
    """Yield `RESAMPLES` rows of ``width`` integers from 0 to ``below`` - 1, in blocks of at most `_BLOCK` numbers."""
    generator = np.random.default_rng(SEED)
    rows = max(1, _BLOCK // width)
    for start in range(0, RESAMPLES, rows):
        yield generator.integers(0, below, (min(rows, RESAMPLES - start), width))
