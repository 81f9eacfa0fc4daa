from __future__ import annotations

import math

import pytest

from worker.queue.probes import LastWork, standstills


@pytest.mark.parametrize(
    ("work", "problems"),
    [
        (LastWork(loop=1000, limits=1000, redis=0), ()),
        (LastWork(loop=950, limits=980, redis=0), ()),
        (LastWork(loop=1000, limits=960, redis=0), ("time limits have not been kept for 40 s",)),
        (LastWork(loop=930, limits=1000, redis=900), ("the main loop has not turned for 70 s",)),
        (LastWork(loop=930, limits=1000, redis=math.inf), ()),  # Redis is away, and both wait for it
        (LastWork(loop=800, limits=1000, redis=990), ()),  # it is back, and the loop will be soon
        (
            LastWork(loop=930, limits=930, redis=0),
            ("time limits have not been kept for 70 s", "the main loop has not turned for 70 s"),
        ),
    ],
)
def test_a_worker_is_well_as_long_as_it_turns(work: LastWork, problems: tuple[str, ...]) -> None:
    """Of one that waits for Redis, another start would mend nothing."""
    assert standstills(work, 1000) == problems
