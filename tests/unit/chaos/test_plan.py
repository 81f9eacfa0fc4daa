"""The plan of faults: a pure function of its arguments."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from chaos.plan import AIMED, MOST_BURST, SIMPLE, Counts, Kind, plan, share

COUNTS = st.builds(Counts, *[st.integers(0, 12)] * 5, *[st.integers(0, 3)] * 2)


@given(st.integers(0, 2**32), st.integers(1, 10_000), st.integers(1, 8), COUNTS)
def test_equal_arguments_give_an_equal_plan(seed: int, jobs: int, workers: int, counts: Counts) -> None:
    assert plan(seed, jobs, workers, counts) == plan(seed, jobs, workers, counts)


@given(st.integers(0, 2**32), st.integers(1, 10_000), st.integers(1, 8), COUNTS)
def test_every_fault_happens_in_order_while_there_are_jobs(seed: int, jobs: int, workers: int, counts: Counts) -> None:
    """As many of each kind as asked for, each after fewer jobs than there are, on a worker that exists."""
    faults = plan(seed, jobs, workers, counts)
    assert Counter(fault.kind for fault in faults) == Counter(counts.kinds())
    places = [fault.after for fault in faults]
    assert places == sorted(places)
    assert all(0 <= place < jobs for place in places)
    assert {fault.worker for fault in faults} <= set(range(workers))


def test_another_seed_gives_another_plan() -> None:
    counts = Counts(worker_kills=40, redis_kills=6, postgres_kills=6, blackholes=4, freezes=4, others=1)
    assert plan(1, 5000, 3, counts) != plan(2, 5000, 3, counts)


def test_every_kind_can_happen() -> None:
    """No kind is left out of what can be counted."""
    assert set(Counts(2, 1, 1, 1, 2, 1, 1).kinds()) == set(Kind)
    assert len(SIMPLE) == len(set(SIMPLE))


def test_aimed_kinds_can_be_picked_by_name() -> None:
    assert Counts(aimed=2).kinds() == [kind for kind in AIMED for _ in range(2)]
    assert Counts(aimed=2, only="48 MB").kinds() == [Kind.BIG_MESSAGE] * 2


def test_faults_that_are_asked_for_besides_leave_a_plan_as_it_was() -> None:
    """A seed that found a fault once still has its plan."""
    found = plan(423727, 5000, 3, Counts(40, 6, 6, 4, 4, 1))
    assert (len(found), found[0].after, found[0].kind) == (75, 50, Kind.WORKER_KILL)
    assert found[-1].after < 5000


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.floats(0, 30))
def test_jobs_are_held_back_for_the_next_fault(submitted: int, until: int, seconds: float) -> None:
    """No more than its place in the plan allows, and never all of them before it begins."""
    some = share(submitted, until, seconds)
    assert some.trickle + some.burst == max(0, until - submitted)
    assert some.burst <= MOST_BURST
    assert bool(some.burst) == (until > submitted)
    assert some.per_second * (seconds + 1) <= some.trickle
