"""How long a fault was felt: until all that was open is answered, and the rate is back."""

from __future__ import annotations

import pytest

from chaos.jobs import Question
from chaos.ledger import Entry
from chaos.plan import Fault, Kind
from chaos.recovery import Traffic, measure, met_work, too_idle
from chaos.scene import FaultRecord


def entry(name: str, submitted: float, done: float | None) -> Entry:
    return Entry(Question(name, "retrieve_top_k", {}, None), submitted, done)


def fault(kind: Kind, began: float, ended: float | None = None, held: str = "", found: str = "") -> FaultRecord:
    return FaultRecord(Fault(0, kind, 0.0, 0, "redis"), began, began if ended is None else ended, {*held}, {*found})


def steady(first: float, last: float, answered: float = 0.05) -> list[Entry]:
    """Ten jobs a second, each answered soon."""
    times = [first + place / 10 for place in range(round((last - first) * 10))]
    return [entry(f"{at:.1f}", at, at + answered) for at in times]


def test_recovery_is_not_the_first_answer() -> None:
    """Of two open jobs the second is answered five seconds after the fault."""
    blackhole = fault(Kind.BLACKHOLE, 10.0, 12.0, found="ab")
    entries = [*steady(0.0, 10.0), entry("a", 9.9, 12.1), entry("b", 9.9, 17.0), *steady(12.0, 30.0)]
    measure([blackhole], entries)
    assert blackhole.back == pytest.approx(5.0)


def test_recovery_is_not_before_the_rate_is_back() -> None:
    """Open jobs are answered at once, but none of the new ones for four seconds: the rate recovers only then."""
    blackhole = fault(Kind.BLACKHOLE, 10.0, 12.0, found="a")
    slow = [entry(f"slow {place}", 12.0 + place / 10, 16.5) for place in range(40)]
    measure([blackhole], [*steady(0.0, 10.0), entry("a", 9.9, 12.1), *slow, *steady(16.0, 30.0)])
    assert blackhole.back == pytest.approx(3.95, abs=0.2)


def test_where_few_jobs_come_few_answers_are_enough() -> None:
    """The rate is that of before, or all that there was to answer."""
    traffic = Traffic(
        [0.1 * place for place in range(100)] + [20.0], [0.1 * place + 0.05 for place in range(100)] + [20.1]
    )
    assert traffic.rate_is_back(10.0, 20.0) == 20.0


def test_what_was_never_answered_has_no_recovery() -> None:
    killed = fault(Kind.REDIS_KILL, 10.0, 12.0, found="a")
    measure([killed], [*steady(0.0, 10.0), entry("a", 9.9, None), *steady(12.0, 20.0)])
    assert killed.back is None


def test_a_job_held_by_two_killed_workers_counts_for_the_second() -> None:
    first, second = fault(Kind.WORKER_KILL, 1.0, held="ab"), fault(Kind.MAIN_KILL, 5.0, held="b")
    measure([first, second], [entry("a", 0.0, 3.0), entry("b", 0.0, 9.0)])
    assert (first.back, second.back) == (2.0, 4.0)


def test_time_while_something_else_was_away_is_not_a_workers() -> None:
    """Redis was away from 2 to 4; a job that was never answered has no time at all."""
    killed, away = fault(Kind.WORKER_KILL, 1.0, held="a"), fault(Kind.REDIS_KILL, 2.0, ended=4.0)
    lost = fault(Kind.WORKER_KILL, 10.0, held="b")
    measure([killed, away, lost], [entry("a", 0.0, 5.0)])
    assert killed.back == 2.0
    assert lost.back is None


def test_a_job_that_waits_for_a_dead_worker_is_not_another_faults() -> None:
    killed, away = fault(Kind.WORKER_KILL, 1.0, held="a"), fault(Kind.POSTGRES_KILL, 2.0, ended=4.0, found="ab")
    measure([killed, away], [entry("a", 0.0, 13.0), entry("b", 0.0, 4.5)])
    assert away.back == pytest.approx(0.5)


def test_a_run_whose_faults_met_no_work_shows_too_little() -> None:
    """One of twenty is allowed, two are not."""
    idle, busy = fault(Kind.RESET, 1.0), fault(Kind.RESET, 1.0, found="a")
    assert met_work([idle, busy]) == 1
    assert not too_idle([idle, *[busy] * 19])
    assert too_idle([idle, idle, *[busy] * 18])
    assert not too_idle([])
