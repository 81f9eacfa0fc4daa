"""The work that quotes may take: counted, shared out, and the same each time."""

from __future__ import annotations

import pytest

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.budget import BudgetSpentError, SearchBudget, spend
from worker.core.citations.quoting.findings import QuotedChunk

UNITS = "5 MW " * 1_000
HARD = {
    "marks": (" ".join(f"one two three {mark}" for mark in ["…", "...", "[...]", "(…)"] * 10), "one two four … " * 60),
    "brackets": (" ".join(f"one two three [w{i}] …" for i in range(40)), "a [w1] b [w2] … c " * 40),
    "units": ("5 mW " * 200, UNITS),
    "repeated parts": (" … ".join(["a b a b a b a b"] * 20 + ["q r s t u v"]), "a b " * 1_000),
}


def verdicts(quotes: list[str], chunks: list[QuotedChunk], steps: int) -> list[str]:
    budget = SearchBudget(steps, len(quotes))
    return [check_quote(quote, "own", chunks, budget).verdict for quote in quotes]


@pytest.mark.parametrize("name", HARD)
def test_a_hard_quote_is_not_checked_beyond_the_budget(name: str) -> None:
    """Never judged by half: with enough steps it is not found, with fewer it is not checked, each time again."""
    quote, text = HARD[name]
    chunks = [QuotedChunk.of(f"{i}", f"{text}{i}") for i in range(3)]
    assert verdicts([quote], chunks, 10**9) == ["not_found"]
    assert [verdicts([quote], chunks, 1_000) for _ in range(2)] == [["not_checked"]] * 2


def test_an_easy_quote_is_checked_whatever_stands_beside_it() -> None:
    """Each has its share, so hard ones before and after it take nothing away."""
    quote, text = HARD["units"]
    chunks = [QuotedChunk.of("own", "The gain is 3.5 dB. " + text), QuotedChunk.of("other", text)]
    quotes = [quote, "The gain is 3.5 dB", quote, "the GAIN is 3.5 dB", quote]
    assert verdicts(quotes, chunks, 50_000) == ["not_checked", "verbatim", "not_checked", "normalised", "not_checked"]


def test_what_easy_quotes_leave_is_for_the_others() -> None:
    """A share is of what is left, not of what there was."""
    budget = SearchBudget(100, 4)
    for _ in range(3):
        with budget.share():
            spend(10)
    with budget.share():
        spend(70)
    with pytest.raises(BudgetSpentError), budget.share():
        spend(1)


def test_without_a_budget_nothing_is_counted() -> None:
    """A quote is searched for to the end."""
    spend(10**12)
    assert check_quote("5 mW " * 200, "own", [QuotedChunk.of("own", UNITS)]).verdict == "not_found"
