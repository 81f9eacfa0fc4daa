from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.prompting.costs import MOST_TOKENS, CostEntry, Price, Tokens, entry, total, written

PRICES = {
    ("openai", "small"): Price(Decimal("0.15"), Decimal("0.60"), Decimal("0.075")),
    ("openai", "embed"): Price(Decimal("0.02")),
    ("local", "free"): Price(Decimal(0)),
}
prices = st.decimals(0, 10**6, places=12)
counts = st.integers(0, 10**9)


def cost(model: str, tokens: Tokens, provider: str = "openai") -> Decimal | None:
    return entry("synthesis", provider, model, tokens, PRICES).cost


def test_a_call_costs_its_tokens() -> None:
    """Per million: 200 new at 0.15, 1,000 cached at 0.075, 300 made at 0.60."""
    assert cost("small", Tokens(1200, 300, cached_input=1000)) == Decimal("0.000285")
    assert cost("embed", Tokens(1_000_000)) == Decimal("0.02")


def test_cached_tokens_without_a_price_of_their_own_cost_as_much() -> None:
    """A table need not know of caches."""
    assert cost("embed", Tokens(10, cached_input=10)) == cost("embed", Tokens(10))


def test_unknown_is_not_free() -> None:
    """Without a price, or a count by the provider, the cost is unknown. A price of 0 is one."""
    assert cost("large", Tokens(1, 1)) is None
    assert cost("small", Tokens(1, 1), provider="other") is None
    assert cost("small", Tokens(None, 1)) is None
    assert cost("small", Tokens(1, None)) is None
    assert cost("embed", Tokens(1, None)) == Decimal("0.00000002")
    assert cost("free", Tokens(5, 5), provider="local") == 0


def test_a_sum_says_what_it_does_not_know() -> None:
    """The known part, and how many calls are not in it."""
    calls = [
        entry("hyde", "openai", "small", Tokens(1_000_000, 0), PRICES),
        entry("rerank", "openai", "large", Tokens(7, None), PRICES),
        entry("embed", "openai", "embed", Tokens(1_000_000), PRICES),
    ]
    found = total(calls)
    assert (found.calls, found.input, found.output, found.known_cost, found.unpriced) == (
        3,
        2_000_007,
        0,
        Decimal("0.17"),
        1,
    )
    assert found.cost is None
    assert total([calls[0], calls[2]]).cost == Decimal("0.17")
    assert total([]).cost == 0


@pytest.mark.parametrize("price", ["-1", "NaN", "Infinity", "1000000000", "0.0000000000001"])
def test_a_price_is_a_plain_amount(price: str) -> None:
    """So that every sum is exact."""
    with pytest.raises(ValueError, match="prices"):
        Price(Decimal(price))


@pytest.mark.parametrize("tokens", [(-1, 0, 0), (0, -1, 0), (1, 1, 2), (None, 1, 1), (MOST_TOKENS + 1, 0, 0)])
def test_counts_that_cannot_be_are_refused(tokens: tuple[int | None, int, int]) -> None:
    """Negative, or more cached than sent."""
    with pytest.raises(ValueError, match="counts"):
        Tokens(*tokens)


@pytest.mark.parametrize(
    ("amount", "text"), [("0", "0"), ("-0.0", "0"), ("1E+3", "1000"), ("1E-12", "0.000000000001"), ("10.50", "10.5")]
)
def test_a_cost_is_written_in_digits(amount: str, text: str) -> None:
    """As a string, so that no reader makes a float of it."""
    assert written(Decimal(amount)) == text


@given(sent=counts, made=counts, share=st.fractions(0, 1), each=st.tuples(prices, prices, prices))
def test_nothing_is_rounded(sent: int, made: int, share: Fraction, each: tuple[Decimal, Decimal, Decimal]) -> None:
    """The exact value, as fractions have it."""
    cached = int(sent * share)
    table = {("p", "m"): Price(*each)}
    found = entry("synthesis", "p", "m", Tokens(sent, made, cached), table).cost
    assert found is not None
    new, out, kept = map(Fraction, each)
    assert Fraction(found) == ((sent - cached) * new + cached * kept + made * out) / 10**6


@given(st.lists(st.tuples(counts, prices), max_size=20), st.integers(0, 99))
def test_the_order_of_calls_changes_no_sum(calls: list[tuple[int, Decimal]], seed: int) -> None:
    """Exact, so associative; spelled alike too."""
    entries: list[CostEntry] = [
        entry("synthesis", "p", "m", Tokens(count), {("p", "m"): Price(price)}) for count, price in calls
    ]
    other = random.Random(seed).sample(entries, len(entries))
    assert total(other) == total(entries)
    assert written(total(other).cost) == written(total(entries).cost)
    assert Fraction(total(entries).known_cost) == sum(count * Fraction(price) for count, price in calls) / 10**6
