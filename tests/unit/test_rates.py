"""Rates of the queues: what arrives and ends a minute, between looks."""

from __future__ import annotations

from worker.queue.rates import WINDOW_SECONDS, RateMeter, Sample


def sample(at: float, held: int, ended: int, owner: str = "a", dead: int = 0) -> Sample:
    return Sample(at, {"q": held}, {"q": dead}, {owner: ("q", ended)})


def test_one_look_has_no_rates() -> None:
    """Nor have looks that are too close to tell."""
    meter = RateMeter()
    assert meter.add(sample(0, 5, 100)) == {}
    assert meter.add(sample(0.5, 9, 100)) == {}
    assert meter.add(sample(2, 9, 100)) == {}


def test_what_ended_and_what_is_there_more_arrived() -> None:
    """A minute, over all looks."""
    meter = RateMeter()
    meter.add(sample(0, 5, 100))
    meter.add(sample(30, 8, 110))
    rate = meter.add(sample(60, 2, 130))["q"]
    assert (rate.arriving, rate.ending, rate.seconds) == (27, 30, 60)


def test_a_dead_letter_ended_and_a_deleted_one_did_not_arrive() -> None:
    meter = RateMeter()
    meter.add(sample(0, 1, 0, dead=4))
    rate = meter.add(sample(60, 0, 0, dead=5))["q"]
    assert (rate.arriving, rate.ending) == (0, 1)
    rate = meter.add(sample(120, 0, 0, dead=0))["q"]
    assert (rate.arriving, rate.ending) == (0, 0.5)


def test_a_worker_that_began_meanwhile_counts_and_one_that_ended_takes_nothing_back() -> None:
    meter = RateMeter()
    meter.add(sample(0, 0, 50, owner="a"))
    rate = meter.add(sample(60, 0, 3, owner="b"))["q"]
    assert (rate.arriving, rate.ending) == (3, 3)


def test_only_the_last_minutes_count() -> None:
    """A burst of long ago is in no rate; the memory of it is bounded."""
    meter = RateMeter()
    meter.add(sample(0, 0, 0))
    meter.add(sample(10, 0, 1000))
    for at in range(20, 1000, 10):
        rate = meter.add(sample(at, 0, 1000))["q"]
    assert rate.ending == 0
    assert rate.seconds <= WINDOW_SECONDS + 10


def test_a_clock_that_went_back_begins_again() -> None:
    """Redis was started on another machine."""
    meter = RateMeter()
    meter.add(sample(1000, 0, 5))
    meter.add(sample(1010, 0, 6))
    assert meter.add(sample(10, 0, 0)) == {}
