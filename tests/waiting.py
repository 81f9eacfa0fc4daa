"""Waiting for what nobody announces: polled, and bounded so far off that only a fault gets there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A time limit here decides when a broken test ends, never whether a slow machine passes.
PATIENCE = 180.0


def wait_for(condition: Callable[[], object], tell: Callable[[], str] = lambda: "", seconds: float = PATIENCE) -> None:
    """Poll a condition until it holds.

    Args:
        condition: what should come true.
        tell: what may say why it did not.
        seconds: how long at most.

    Raises:
        AssertionError: It did not come true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not come true in {seconds:g} s {tell()}"
        time.sleep(0.02)
