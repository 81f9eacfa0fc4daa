"""The oracle sees every way in which an answer can be wrong."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from chaos.corpus import TENANTS, Corpus
from chaos.jobs import ID, Questions
from chaos.ledger import Verdict
from chaos.oracle import Oracle
from chaos.watcher import digest, judge

if TYPE_CHECKING:
    from collections.abc import Callable

ORACLE = Oracle(Corpus(rows=400), queries=20)
QUESTION = Questions(1, ORACLE)[7]  # a search
REPLAY = Questions(1, ORACLE)[1]
BAD = Questions(1, ORACLE)[0]


def right(question: Any) -> dict[str, Any]:
    """The record of a right answer."""
    expected = question.expected
    chunks = [{"chunk_id": r.chunk_id, "text": r.text, "chunk_hash": r.chunk_hash} for r in expected.chunks]
    for chunk, distance in zip(chunks, expected.distances or [], strict=False):
        chunk["distance"] = distance
    pins = [{"chunk_hash": pin, "verdict": "missing"} for pin in expected.missing]
    return {"status": "SUCCESS", "result": {"chunks": chunks, "pins": pins, "trace": {"total_ms": 1}}}


def foreign(answer: dict[str, Any]) -> None:
    row = next(row for row in ORACLE.corpus.chunks if not row.visible_to(QUESTION.expected.user))
    answer["chunks"][-1] |= {"chunk_id": row.chunk_id, "text": row.text, "chunk_hash": row.chunk_hash}


def swapped(answer: dict[str, Any]) -> None:
    answer["chunks"][0], answer["chunks"][1] = answer["chunks"][1], answer["chunks"][0]


def shortened(answer: dict[str, Any]) -> None:
    del answer["chunks"][-1]


def reworded(answer: dict[str, Any]) -> None:
    answer["chunks"][0]["text"] += "."


def rehashed(answer: dict[str, Any]) -> None:
    answer["chunks"][0]["chunk_hash"] = "sha256:" + 64 * "0"


def moved(answer: dict[str, Any]) -> None:
    answer["chunks"][0]["distance"] += 1e-4


def invented(answer: dict[str, Any]) -> None:
    answer["chunks"][0]["chunk_id"] = "c999999"


@pytest.mark.parametrize("question", [QUESTION, REPLAY])
def test_a_right_answer_is_right(question: Any) -> None:
    assert judge(ORACLE, question, right(question)) == (Verdict.RIGHT, [])


@pytest.mark.parametrize("change", [foreign, swapped, shortened, reworded, rehashed, moved, invented])
def test_a_wrong_answer_is_wrong(change: Callable[[dict[str, Any]], None]) -> None:
    record = right(QUESTION)
    change(record["result"])
    verdict, reasons = judge(ORACLE, QUESTION, record)
    assert verdict is Verdict.WRONG
    assert ("foreign" in reasons) == (change in {foreign, invented})


def test_a_pin_of_another_caller_must_be_missing() -> None:
    record = right(REPLAY)
    assert REPLAY.expected.missing
    record["result"]["pins"].pop()
    assert judge(ORACLE, REPLAY, record)[0] is Verdict.WRONG


def test_a_wrong_job_must_fail() -> None:
    """As `InvalidJob`, and nothing else; a right job must not fail so."""
    failed = {"status": "FAILURE", "result": {"exc_type": "InvalidJob", "exc_message": ["k: expected a number"]}}
    assert judge(ORACLE, BAD, failed)[0] is Verdict.RIGHT
    assert judge(ORACLE, QUESTION, failed)[0] is Verdict.WRONG
    assert judge(ORACLE, BAD, right(QUESTION))[0] is Verdict.WRONG


def test_failures_that_say_so_are_told_apart() -> None:
    record = {"status": "FAILURE", "result": {"exc_type": "Unavailable", "exc_message": ["Postgres is away"]}}
    assert judge(ORACLE, QUESTION, record)[0] is Verdict.FAILED
    record["result"]["exc_type"] = "DeadLettered"
    assert judge(ORACLE, QUESTION, record)[0] is Verdict.DEAD
    record["result"]["exc_type"] = "InternalError"
    assert judge(ORACLE, QUESTION, record)[0] is Verdict.WRONG


def test_only_traces_may_differ_between_results() -> None:
    first, second = right(QUESTION), copy.deepcopy(right(QUESTION))
    second["result"]["trace"]["total_ms"] = 2
    assert digest(first) == digest(second)
    reworded(second["result"])
    assert digest(first) != digest(second)


def test_visibility_is_that_of_the_policies() -> None:
    """Owners see their rows, tenants those of the tenant, a stranger only public ones; no caller sees all."""
    for user in TENANTS:
        seen = [row for row in ORACLE.corpus.chunks if row.visible_to(user)]
        assert 0 < len(seen) < len(ORACLE.corpus.chunks)
        assert {row for row in ORACLE.corpus.chunks if row.owner == user} <= {*seen}
    assert {row.visibility for row in ORACLE.corpus.chunks if row.visible_to("nobody-else")} == {"public"}


def test_ids_are_found_in_what_redis_holds() -> None:
    assert ID.findall(QUESTION.message)[0].decode() == QUESTION.task_id
