from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.errors import InvalidJob
from workbench.core.trec import falling, qrels_lines, read_qrels, read_run, run_lines, word

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
scores = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.dictionaries(ids, st.lists(st.tuples(ids, scores), max_size=6, unique_by=lambda pair: pair[0]), max_size=4))
def test_a_run_that_was_written_is_read_in_its_order(
    rankings: dict[str, list[tuple[str, float | None]]],
) -> None:
    """Order is by score alone, in float32 as trec_eval keeps it, for any ids and scores."""
    lines = [*run_lines(rankings, "some tag")]
    assert all(len(line.split()) == 6 for line in lines)
    expected = {word(query): [word(item) for item, _ in ranked] for query, ranked in rankings.items() if ranked}
    assert read_run(lines) == expected


@given(st.lists(st.none() | st.floats(-1e30, 1e30), max_size=8))
def test_scores_fall_strictly_in_float32(given_scores: list[float | None]) -> None:
    """And in whatever has more digits."""
    fallen = [float(f"{score:.9g}") for score in falling(given_scores)]
    assert all(np.float32(first) > np.float32(second) for first, second in pairwise(fallen))


def test_scores_that_fall_are_kept() -> None:
    """To float32; equal ones become the next below, and so does one that is unknown."""
    assert falling([0.75, 0.5, 0.25]) == [0.75, 0.5, 0.25]
    assert falling([0.5, 0.5, None, 0.25])[2:] == pytest.approx([0.5, 0.25])
    assert falling([None, None])[0] == 0.0


@given(ids, ids)
def test_two_ids_are_two_words(one: str, other: str) -> None:
    """Each without white space."""
    assert (word(one) == word(other)) is (one == other)
    assert word(one).split() == [word(one)]


@given(st.dictionaries(ids, st.dictionaries(ids, st.integers(0, 9), min_size=1, max_size=4), max_size=4))
def test_judgements_that_were_written_are_read(grades: dict[str, dict[str, int]]) -> None:
    """With every grade."""
    expected = {word(query): {word(item): grade for item, grade in judged.items()} for query, judged in grades.items()}
    assert read_qrels(qrels_lines(grades)) == expected


def test_ties_of_another_programs_run_are_ordered_by_id() -> None:
    """The rank column means nothing, as for trec_eval."""
    lines = ["q Q0 b 1 1.0 x", "", "q Q0 a 2 1.0 x", "q Q0 c 3 2 x", "r\tQ0\tz\t1\t-1e-3\tx"]
    assert read_run(lines) == {"q": ["c", "a", "b"], "r": ["z"]}


def test_a_negative_grade_is_not_relevant() -> None:
    """As trec_eval counts it."""
    assert read_qrels(["q 0 a -1"]) == {"q": {"a": 0}}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q Q0 b 1 0.5", r"line 2: expected 6 fields \(query Q0 id rank score tag\), got 5"),
        ("q Q0 b 1 high x", "line 2: score: expected a finite number"),
        ("q Q0 b 1 nan x", "line 2: score: expected a finite number"),
        ("q Q0 a 1 0.1 x", "line 2: id: expected each id once for a query"),
    ],
)
def test_a_wrong_line_of_a_run_is_named(line: str, said: str) -> None:
    """Number, field and what was expected."""
    with pytest.raises(InvalidJob, match=f"^{said}$"):
        read_run(["q Q0 a 1 0.5 x", line])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q 0 b", r"line 2: expected 4 fields \(query 0 id grade\), got 3"),
        ("q 0 b 1.5", "line 2: grade: expected an integer of at most 1000000"),
        ("q 0 b 9999999", "line 2: grade: expected an integer of at most 1000000"),
        ("q 0 a 1", "line 2: id: expected each id once for a query"),
    ],
)
def test_a_wrong_line_of_judgements_is_named(line: str, said: str) -> None:
    """Number, field and what was expected."""
    with pytest.raises(InvalidJob, match=f"^{said}$"):
        read_qrels(["q 0 a 1", line])
