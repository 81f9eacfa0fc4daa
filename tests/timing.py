"""The time that code takes, for tests of how it grows with what it is given."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

ArgumentT = TypeVar("ArgumentT")


def seconds(function: Callable[[ArgumentT], object], argument: ArgumentT) -> float:
    """Of this process alone; the least of three. The collector would go through what all other tests have left."""
    times = []
    gc.disable()
    try:
        for _ in range(3):
            start = time.process_time()
            function(argument)
            times.append(time.process_time() - start)
    finally:
        gc.enable()
    return min(times)
