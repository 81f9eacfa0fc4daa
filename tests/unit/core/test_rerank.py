from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.growth import assert_linear

from worker.core.ranking.bm25 import idf, scores

words = st.sampled_from(["ribbon", "tension", "brass", "screw", "hum", "the", "铝"])
sentences = st.lists(words, max_size=8).map(" ".join)


def test_a_score_is_bm25() -> None:
    """By hand: lengths 4, 1 and 2, so the mean is 7/3; ribbon stands in two of three texts, tension in one."""
    texts = ["Ribbon tension and ribbon length", "A ribbon", "Brass screws"]
    ribbon, tension = math.log(1 + 1.5 / 2.5), math.log(1 + 2.5 / 1.5)
    norms = [1.2 * (0.25 + 0.75 * length / (7 / 3)) for length in (4, 1)]
    expected = [
        ribbon * 2 * 2.2 / (2 + norms[0]) + tension * 1 * 2.2 / (1 + norms[0]),
        ribbon * 1 * 2.2 / (1 + norms[1]),
        0.0,
    ]
    assert scores("ribbon tension", texts) == pytest.approx(expected, abs=1e-12)


def test_a_term_that_all_have_still_counts() -> None:
    """Never negative: the more often, the better."""
    assert idf(["hum"], [{"hum"}, {"hum"}]) == {"hum": math.log1p(0.2)}
    low, high = scores("hum", ["hum brass brass", "hum hum brass"])
    assert 0 < low < high


@pytest.mark.parametrize(("query", "texts"), [("", ["ribbon"]), ("the", ["the"]), ("ribbon", [""]), ("ribbon", [])])
def test_nothing_in_common_is_nothing(query: str, texts: list[str]) -> None:
    """No term, no text, no candidates."""
    assert scores(query, texts) == [0.0] * len(texts)


@given(query=sentences, texts=st.lists(sentences, max_size=8), seed=st.integers(0, 99))
def test_scores_come_in_the_candidates_order(query: str, texts: list[str], seed: int) -> None:
    """Shuffled candidates have the same scores to the last bit; none is negative, and only strangers have 0."""
    expected = dict(zip(texts, scores(query, texts), strict=True))
    other = random.Random(seed).sample(texts, len(texts))
    assert scores(query, other) == [expected[text] for text in other]
    for text, score in expected.items():
        shared = {*query.split()} & {*text.split()} - {"the"}
        assert (score > 0) == bool(shared)


@given(query=sentences, texts=st.lists(sentences, max_size=5))
def test_saying_the_query_twice_changes_nothing(query: str, texts: list[str]) -> None:
    """Different terms of the query count, not their number."""
    assert scores(f"{query} {query}", texts) == scores(query, texts)


def test_any_text_takes_linear_time() -> None:
    assert_linear(lambda text: scores("ribbon tension", [text] * 10), "ribbon tension brass ", 10_000)
