"""How the work of a function grows with its input: a ratio, so no machine is too slow for it."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Eight times the input: linear work takes eight times as long, squared work sixty-four times.
LONGER = 8
AT_MOST = 24


def assert_linear(work: Callable[[str], Any], unit: str, length: int) -> None:
    """Do a function's work on a text and on one eight times as long, and compare the processor's time for each.

    Args:
        work: takes the text.
        unit: what the text repeats.
        length: of the shorter text, in characters.
    """
    count = length // len(unit)
    short, long = (_least(work, unit * times) for times in (count, LONGER * count))
    assert long < AT_MOST * short, f"{LONGER} times the text took {long / short:.0f} times as long"


def _least(work: Callable[[str], Any], text: str) -> float:
    """The processor's time of the quicker of two: what else the machine does only ever adds."""
    return min(_seconds(work, text) for _ in range(2))


def _seconds(work: Callable[[str], Any], text: str) -> float:
    gc.disable()  # a collection in the middle looks at all that pytest has
    try:
        start = time.thread_time()
        work(text)
        return time.thread_time() - start
    finally:
        gc.enable()
