"""The ledger's balance."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.jobs import Question
from chaos.ledger import Ledger, Verdict, audit

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
    ledger.differs("a", b"other")
    assert not audit(ledger.entries(), set()).clean


def test_failures_are_counted_by_class_and_are_not_lost() -> None:
    ledger = filled("ab")
    ledger.answered("a", 2.0, Verdict.FAILED, ["Unavailable"], b"")
    ledger.answered("b", 2.0, Verdict.DEAD, ["DeadLettered"], b"")
    balance = audit(ledger.entries(), set())
    assert not balance.lost
    assert balance.failures == {"Unavailable": 1, "DeadLettered": 1}


def test_a_healthy_job_that_is_given_up_is_a_fault_of_its_own() -> None:
    """By its answer, or by the dead letter that Redis keeps, whatever was answered later."""
    ledger = filled("abc")
    ledger.answered("a", 2.0, Verdict.DEAD, ["DeadLettered"], b"")
    ledger.answered("b", 2.0, Verdict.RIGHT, [], b"")
    after_five_deaths = audit(ledger.entries(), set(), {"a", "b", "c"}, {"a", "b"})
    assert (after_five_deaths.dead, after_five_deaths.given_up) == (("b", "c"), 1)
    balance = audit(ledger.entries(), set(), {"b", "c", "another"})
    assert balance.dead == ("a", "b", "c")
    assert not balance.lost
    assert not balance.clean


def test_a_job_that_nobody_revoked_is_counted() -> None:
    ledger = filled("ab")
    ledger.answered("a", 2.0, Verdict.WRONG, ["REVOKED"], b"")
    ledger.answered("b", 2.0, Verdict.RIGHT, [], b"")
    ledger.differs("b", b"other")
    balance = audit(ledger.entries(), set())
    assert (balance.revoked, balance.twice, len(balance.wrong)) == (1, 1, 2)
    assert not balance.clean
