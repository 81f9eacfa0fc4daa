"""Nearest passages: found where most is alike, in time linear in both texts."""

from __future__ import annotations

import random
import time

import pytest

from worker.inspector.view.nearest import SEARCHED, nearest_difference, nearest_passage


def test_a_changed_passage_is_found_among_others() -> None:
    """One word of it differs; it is found wherever it stands, whole words at both ends."""
    words = [f"word{i}" for i in range(300)]
    rng = random.Random(34)
    for _ in range(50):
        start = rng.randrange(280)
        quoted = [*words[start : start + 8], "changed", *words[start + 9 : start + 14]]
        span = nearest_passage(" ".join(quoted), " ".join(words))
        assert span is not None
        passage = " ".join(words)[slice(*span)].split()
        assert {*quoted} - {"changed"} <= {*passage}
        assert {*passage} <= {*words}


@pytest.mark.parametrize(("quote", "text"), [("", "x y z"), ("ab", "a b"), ("abc", ""), ("ξξξ", "no such letters")])
def test_nothing_alike_has_no_passage(quote: str, text: str) -> None:
    """Nor has a quote that is too short to compare."""
    assert nearest_difference(quote, text) == ()


def test_a_long_text_takes_no_longer_than_a_part_of_it() -> None:
    """Only its beginning is looked at, and repetitions cost nothing."""
    started = time.process_time()
    assert nearest_passage("a b c d " * 50_000, "a b c " * SEARCHED)
    assert time.process_time() - started < 5
