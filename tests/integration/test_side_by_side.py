"""A small round of the comparison, end to end: real servers, real processes."""

import psutil
from benchmarks.side_by_side import figures, report
from benchmarks.side_by_side.__main__ import Order, play

SIDES = (figures.BARE, figures.LISTS, figures.ONE, figures.SIXTEEN)


def test_a_round_of_the_sides_that_need_no_other_environment():
    """Each answers every query, all find the same, costs are counted, a table is made, and nothing is left running."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    outcome = play(
        Order(
            rows=3000,
            seed=20,
            queries=16,
            rounds=2,
            count=32,
            calls=2,
            wanted=SIDES,
            curves=False,
            ef_search=None,
            postgres=18,
            keep=None,
        )
    )
    assert outcome.problems == []
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before
    assert tuple(outcome.sides) == SIDES
    for one in outcome.sides.values():
        assert len(one.rates) == 2
        assert len(one.latencies) == 4
        assert min(one.recalls) > 0.8
        assert min(one.costs["worker_ms"]) > 0
        assert min(one.costs["postgres_ms"]) > 0
    # A job's embedding goes through Redis: 4 kB as base64. The bare loop has no Redis.
    assert outcome.sides[figures.ONE].cost("redis_in_kb") > 4
    assert outcome.sides[figures.BARE].cost("redis_in_kb") < 1
    goals = figures.goals(outcome.sides)
    section = report.document(outcome.about, outcome.sides, goals, outcome.left_out)
    assert all(report.TITLES[name] in section for name in SIDES)
