from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.ranking.measures import (
    duplicate_rate,
    mean,
    measured,
    names_of,
    ndcg,
    precision,
    recall,
    reciprocal_rank,
)

rankings = st.permutations("abcdefgh")
judgements = st.dictionaries(st.sampled_from("abcdefghxyz"), st.integers(0, 3).map(float), min_size=1)


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "share"),
    [
        ("abc", "ac", 1, 0.5),
        ("abc", "ac", 2, 0.5),
        ("abc", "ac", 3, 1.0),
        ("abc", "ax", 9, 0.5),
        ("abc", "xy", 3, 0.0),
        ("", "a", 5, 0.0),
        ("abc", "", 3, None),
    ],
)
def test_recall_is_the_share_that_was_found(ranked: str, relevant: str, k: int, share: float | None) -> None:
    """Of everything relevant, also of what was in no list."""
    assert recall(ranked, set(relevant), k) == share


@pytest.mark.parametrize(
    ("ranked", "relevant", "k", "share"),
    [("abc", "ac", 1, 1.0), ("abc", "ac", 2, 0.5), ("a", "ab", 4, 0.25), ("abc", "xy", 3, 0.0), ("abc", "", 3, None)],
)
def test_precision_is_a_share_of_k(ranked: str, relevant: str, k: int, share: float | None) -> None:
    """Of k, and not of what was found: a short list is no better for being short."""
    assert precision(ranked, set(relevant), k) == share


@pytest.mark.parametrize(
    ("ranked", "relevant", "value"),
    [("abc", "a", 1.0), ("abc", "cb", 0.5), ("abc", "x", 0.0), ("", "x", 0.0), ("abc", "", None)],
)
def test_the_reciprocal_rank_is_that_of_the_first_relevant_one(ranked: str, relevant: str, value: float | None) -> None:
    """Nothing further down counts."""
    assert reciprocal_rank(ranked, set(relevant)) == value


def test_all_measures_of_one_ranking() -> None:
    """Grades below the threshold are gains of nDCG, and not relevant to the others."""
    found = measured("bca", {"a": 3, "b": 1}, [1, 3], relevant_from=2)
    assert found == {
        "recall@1": 0.0,
        "recall@3": 1.0,
        "precision@1": 0.0,
        "precision@3": 1 / 3,
        "ndcg@1": 1 / 3,
        "ndcg@3": ndcg("bca", {"a": 3, "b": 1}, 3),
        "mrr": 1 / 3,
    }
    assert tuple(found) == names_of([1, 3])


def test_a_query_without_anything_relevant_has_no_measures() -> None:
    """It would count against every system alike."""
    assert measured("abc", {"a": 0}, [3]) is None
    assert measured("abc", {"a": 1}, [3], relevant_from=2) is None


@given(rankings, judgements, st.integers(1, 10), st.integers(1, 3))
def test_all_measures_are_shares(ranked: list[str], gains: dict[str, float], k: int, threshold: int) -> None:
    """Between 0 and 1; and what grows with k does."""
    found = measured(ranked, gains, [k, k + 1], threshold)
    if found is None:
        assert all(gain < threshold for gain in gains.values())
        return
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in found.values())
    assert found[f"recall@{k}"] <= found[f"recall@{k + 1}"]
    assert k * found[f"precision@{k}"] <= (k + 1) * found[f"precision@{k + 1}"] + 1e-12


def test_ndcg_is_the_papers_formula() -> None:
    """Graded gains, each divided by log2(1 + rank), over the same of the best order there could be."""
    gains = {"a": 3.0, "b": 2.0, "c": 1.0, "x": 1.0}
    found = 1 / math.log2(2) + 0 / math.log2(3) + 3 / math.log2(4)
    ideal = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert ndcg("cza", gains, 3) == pytest.approx(found / ideal, rel=1e-15)


def test_the_ideal_is_cut_at_k_too() -> None:
    """A list of one can't hold both of two: it is perfect with the better one."""
    assert ndcg("ab", {"a": 2.0, "b": 1.0}, 1) == 1.0


@pytest.mark.parametrize("gains", [{}, {"a": 0.0}])
def test_without_a_gain_there_is_nothing_to_measure(gains: dict[str, float]) -> None:
    """A query that nothing answers says nothing of the order."""
    assert ndcg("abc", gains, 3) is None


@given(rankings, judgements, st.integers(1, 10))
def test_measures_are_shares(ranked: list[str], gains: dict[str, float], k: int) -> None:
    """Between 0 and 1, and 1 for the ideal order."""
    best = sorted(gains, key=lambda item: -gains[item])
    for value in (ndcg(ranked, gains, k), recall(ranked, gains, k)):
        assert value is None or 0.0 <= value <= 1.0 + 1e-12
    if any(gains.values()):
        assert ndcg(best, gains, k) == 1.0


@given(rankings, judgements, st.integers(0, 6), st.integers(1, 8))
def test_a_better_one_further_up_is_never_worse(ranked: list[str], gains: dict[str, float], place: int, k: int) -> None:
    """Swapping two neighbours so that the higher gain comes first does not lower nDCG."""
    better = list(ranked)
    better[place : place + 2] = sorted(ranked[place : place + 2], key=lambda item: -gains.get(item, 0.0))
    assert (ndcg(better, gains, k) or 0.0) >= (ndcg(ranked, gains, k) or 0.0) - 1e-12


def test_a_mean_leaves_out_what_is_not_defined() -> None:
    """And is not defined where nothing is; the order of its values is nothing to it."""
    assert mean([None, 0.25, None, 0.75]) == 0.5
    assert mean([]) is None
    assert mean([1e16, 1.0, -1e16]) == mean([1.0, 1e16, -1e16]) == 1 / 3


@pytest.mark.parametrize(("found", "distinct", "rate"), [(6, 5, 1 / 6), (4, 4, 0.0), (4, 2, 0.5), (0, 0, 0.0)])
def test_the_duplicate_rate_is_a_share_of_all_hits(found: int, distinct: int, rate: float) -> None:
    """Nothing found, nothing twice."""
    assert duplicate_rate(found, distinct) == rate
