"""The ledger's balance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.faults import Happened
from chaos.jobs import Question
from chaos.ledger import Ledger, Verdict, audit
from chaos.plan import Fault, Kind
from chaos.run import back_from_workers

if TYPE_CHECKING:
    from collections.abc import Iterable


def filled(names: Iterable[str], unsure: Iterable[str] = ()) -> Ledger:
    ledger = Ledger()
    for name in names:
        ledger.submitted(Question(name, "retrieve_top_k", {}, None), 1.0)
    for name in unsure:
        ledger.submitted(Question(name, "retrieve_top_k", {}, None), None)
    return ledger


def test_a_job_without_answer_is_lost_or_stuck() -> None:
    """Lost where Redis does not hold it either."""
    ledger = filled("abc")
    ledger.answered("a", 2.0, Verdict.RIGHT, [], b"")
    balance = audit(ledger.entries(), {"b"})
    assert balance.lost == ("c",)
    assert balance.stuck == ("b",)
    assert not balance.clean


def test_an_unsure_job_may_be_answered_or_not() -> None:
    ledger = filled("a", unsure="xy")
    ledger.answered("a", 2.0, Verdict.RIGHT, [], b"")
    ledger.answered("x", 2.0, Verdict.RIGHT, [], b"")
    balance = audit(ledger.entries(), set())
    assert balance.clean
    assert (balance.submitted, balance.unsure, balance.unsure_done) == (1, 2, 1)


def test_a_wrong_answer_to_an_unsure_job_is_wrong_too() -> None:
    ledger = filled("", unsure="x")
    ledger.answered("x", 2.0, Verdict.WRONG, ["foreign"], b"")
    balance = audit(ledger.entries(), set())
    assert not balance.clean
    assert balance.foreign == 1
    assert balance.wrong == (("x", "foreign"),)


def test_a_second_result_that_differs_is_wrong() -> None:
    ledger = filled("a")
    ledger.answered("a", 2.0, Verdict.RIGHT, [], b"")
    ledger.differs("a")
    assert not audit(ledger.entries(), set()).clean


def test_failures_are_counted_by_class_and_are_not_lost() -> None:
    ledger = filled("ab")
    ledger.answered("a", 2.0, Verdict.FAILED, ["Unavailable"], b"")
    ledger.answered("b", 2.0, Verdict.DEAD, ["DeadLettered"], b"")
    balance = audit(ledger.entries(), set())
    assert balance.clean
    assert balance.failures == {"Unavailable": 1, "DeadLettered": 1}


def fault(kind: Kind, began: float, held: str = "", ended: float | None = None) -> Happened:
    return Happened(Fault(0, kind, 0.0, 0, "redis"), began, began if ended is None else ended, {*held})


def test_a_job_held_by_two_killed_workers_counts_for_the_second() -> None:
    first, second = fault(Kind.WORKER_KILL, 1.0, "ab"), fault(Kind.MAIN_KILL, 5.0, "b")
    back_from_workers([first, second], {"a": 3.0, "b": 9.0})
    assert (first.back, second.back) == (2.0, 4.0)


def test_time_while_something_else_was_away_is_not_a_workers() -> None:
    """Redis was away from 2 to 4; a job that was never answered has no time at all."""
    killed, away = fault(Kind.WORKER_KILL, 1.0, "a"), fault(Kind.REDIS_KILL, 2.0, ended=4.0)
    lost = fault(Kind.WORKER_KILL, 10.0, "b")
    back_from_workers([killed, away, lost], {"a": 5.0})
    assert killed.back == 2.0
    assert lost.back is None
