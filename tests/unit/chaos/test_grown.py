"""Messages grown from hard shapes: a small run, and that it sees what it is made to see."""

from __future__ import annotations

from chaos import grown


def silent(done: int, what: str) -> None:
    """Report no progress."""


def test_no_grown_message_is_over_its_budget() -> None:
    """Nothing raises, no token is kept, and none takes longer than its length allows."""
    found = grown.measure_all(300, 7, silent)
    assert (found.messages, found.wrong) == (300, [])
    assert found.slowest[0] < 10 * grown.MILLISECONDS_A_MEGABYTE  # a busy machine
    assert found.largest[0] < grown.MEGABYTES_A_MESSAGE


def test_a_message_over_its_budget_is_named() -> None:
    """With its seed and number, from which it can be grown again."""
    found = grown.GrowthReport(messages=1, slowest=(51.0, "body: dots, 5 bytes (seed 7, number 3)"))
    assert not found.clean
    assert grown.GrowthReport(messages=1, wrong=["a token was kept"]).clean is False
    assert grown.grow(7, 3) == grown.grow(7, 3)
