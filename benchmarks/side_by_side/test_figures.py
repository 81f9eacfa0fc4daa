"""Figures of measured rounds, and which rounds may not be compared."""

import numpy as np
import pytest
from benchmarks.costs import Usage
from benchmarks.side_by_side import figures, report
from benchmarks.side_by_side.figures import BARE, LANGCHAIN, LISTS, NAIVE, ONE, SIXTEEN, Goal, Measured, Spread
from benchmarks.side_by_side.growth import Point, narrowest
from benchmarks.side_by_side.peers import PEERS, VERSIONS
from benchmarks.side_by_side.rounds import recall

IDS = [["c1", "c2"], ["c3", "c4"]]


def side(recalls=(1.0, 1.0), ids=IDS, rates=(100.0,), **further):
    return Measured(recalls=[*recalls], ids=[[*answer] for answer in ids], rates=[*rates], **further)


def test_a_ratio_is_taken_round_by_round():
    """A round in which the machine was busy makes both sides slow, and not their ratio."""
    assert figures.ratio([200.0, 20.0, 100.0], [100.0, 10.0, 40.0]) == Spread(2.0, 2.0, 2.5)


def test_a_ratio_of_sides_with_unequal_rounds_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        figures.ratio([1.0, 2.0], [1.0])


@pytest.mark.parametrize(("share", "value"), [(0.5, 2.0), (0.75, 3.0), (0.99, 4.0), (0.0, 1.0)])
def test_a_percentile_is_one_of_the_values(share, value):
    assert figures.percentile([4.0, 1.0, 3.0, 2.0], share) == value


def test_equal_results_may_be_compared():
    assert figures.differences({BARE: side(), ONE: side(), LANGCHAIN: side(ids=[["c2", "c1"], ["c4", "c3"]])}, 2) == []


@pytest.mark.parametrize(
    ("other_side", "problem"),
    [
        (side(recalls=(0.98, 1.0)), "recall 0.9900 is below 0.995"),
        (side(recalls=(0.9955, 0.9955)), "recall differs by more than 0.004"),
        (side(ids=[["c1", "c2"], ["c3"]]), "1 of 2 answers have not 2 chunks"),
    ],
)
def test_a_peer_with_another_recall_is_not_compared(other_side, problem):
    """Neither where it finds less than the others, nor where it answers short."""
    assert problem in " ".join(figures.differences({BARE: side(), LANGCHAIN: other_side}, 2))


@pytest.mark.parametrize("name", [LISTS, ONE, SIXTEEN, NAIVE])
def test_sides_of_one_table_must_find_the_same_in_the_same_order(name):
    reordered = side(ids=[["c1", "c2"], ["c4", "c3"]])
    assert figures.differences({BARE: side(), name: reordered}, 2) == [
        f"{name}: 1 of 2 answers are not those of {BARE}"
    ]


def test_this_worker_may_find_more_than_the_loop():
    """It searches again where an answer looks lost; nobody else does, and it must then have found more."""
    better = [["c1", "c2"], ["c3", "c5"]]
    floor = side(recalls=(1.0, 0.9955))
    assert figures.differences({BARE: floor, ONE: side(ids=better)}, 2) == []
    assert figures.differences({BARE: floor, NAIVE: side(ids=better)}, 2) != []
    assert figures.differences({BARE: floor, ONE: side(ids=better, recalls=(1.0, 0.9955))}, 2) != []


def test_goals_are_those_of_the_median():
    rates = {ONE: (450.0, 440.0, 500.0), LANGCHAIN: (100.0, 100.0, 100.0)}
    goal = figures.goals({name: side(rates=values) for name, values in rates.items()})[0]
    assert goal.value == Spread(4.5, 4.4, 5.0)
    assert goal.reached


def test_a_goal_whose_sides_did_not_take_part_is_neither_reached_nor_missed():
    goals = figures.goals({BARE: side(), LISTS: side()})
    assert {goal.reached for goal in goals} == {None}
    assert {line[2] for line in report.goal_lines(goals)[1]} == {"–"}
    assert {line[3] for line in report.goal_lines(goals)[1]} == {
        "not in this run",
        *(f"`{g.elsewhere}`" for g in goals if g.elsewhere),
    }


def test_processor_time_and_latency_are_counted_above_the_loop():
    worker = side(costs={"worker_ms": [3.0, 2.0, 9.0]}, latencies=[6.0, 5.0, 7.0])
    bare = side(costs={"worker_ms": [1.0, 1.5, 0.5]}, latencies=[4.0, 3.0, 9.0])
    goals = {goal.text: goal for goal in figures.goals({ONE: worker, BARE: bare})}
    cpu = goals["worker CPU above the bare loop, one per job"]
    assert (cpu.value, cpu.reached) == (2.0, False)
    waiting = goals["enqueue → get, p50, less the query's own p50"]
    assert (waiting.value, waiting.reached) == (2.0, True)


def test_curves_bring_goals_of_their_own():
    goals = {goal.text: goal for goal in figures.goals({}, {"ties": Spread(1.2, 1.0, 1.3), "visible_1_rows": 15.0})}
    assert goals["deterministic ties ÷ plain nearest-neighbour query"].reached is False
    assert goals["1 % visible: rows of 15"].reached is True


def test_goal_lines_say_what_was_missed():
    lines = report.goal_lines(
        [Goal("fast", 2.0, True, " ×", Spread(1.5, 1.25, 2.5)), Goal("right", 0.9, True, "", 0.95)]
    )[1]
    assert lines == [["fast", "≥ 2 ×", "1.50 (1.25–2.50) ×", "**missed**"], ["right", "≥ 0.9", "0.950", "reached"]]


def test_usage_is_per_query():
    usage_before, usage_after = Usage(1.0, 2.0, 0.5, 1000, 5000), Usage(1.5, 4.0, 0.6, 11_000, 25_000)
    assert usage_after.per_query(usage_before, 100) == pytest.approx(
        {"worker_ms": 5.0, "postgres_ms": 20.0, "redis_ms": 1.0, "redis_in_kb": 0.1, "redis_out_kb": 0.2}
    )


def test_recall_counts_what_is_as_near_as_the_last():
    """Row 3 ties with row 2 at the cut: either of them is right."""
    distances = np.array([0.1, 0.2, 0.3, 0.3, 0.9])
    assert recall(["c00000000", "c00000001", "c00000003"], distances, 3) == 1.0
    assert recall(["c00000000", "c00000001", "c00000004"], distances, 3) == pytest.approx(2 / 3)
    assert recall(["c00000000", "c00000000", "c00000000"], distances, 3) == pytest.approx(1 / 3)


def test_the_search_width_is_the_lowest_that_is_enough_for_all():
    ours = [Point(40, recall=0.99), Point(100, recall=0.996), Point(200, recall=0.999)]
    theirs = [Point(40, recall=0.996), Point(100, recall=0.994), Point(200, recall=0.998)]
    assert narrowest({"ours": ours}, 40) == 100
    assert narrowest({"theirs": theirs}, 40) == 40
    assert narrowest({"theirs": theirs}, 60) == 200
    assert narrowest({"ours": ours, "theirs": theirs}, 40) == 200


def test_each_number_of_rows_has_results_of_its_own(tmp_path):
    for rows in (1000, 2000):
        report.write(tmp_path, rows, f"of {rows} rows\n")
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts == {"side_by_side_1000.md": "of 1000 rows\n", "side_by_side_2000.md": "of 2000 rows\n"}


def test_versions_of_the_peers_are_pinned():
    pinned = {line.partition("==")[0] for line in VERSIONS.read_text().splitlines() if "==" in line}
    assert {package for peer in PEERS for package in peer.packages} | {"celery", "redis", "hiredis"} <= pinned
