from __future__ import annotations

import pytest

from worker.core.trace import Tracer


def ticking(*seconds: float) -> Tracer:
    return Tracer(iter(seconds).__next__)


def test_stages_are_timed_in_the_order_they_end() -> None:
    """Each stage has its name, its milliseconds by the clock given, and what was counted in it."""
    tracer = ticking(10.0, 10.25, 11.0, 11.0015)
    with tracer.stage("search") as counts:
        counts["found"] = 15
    with tracer.stage("cut"):
        pass
    assert tracer.stages == [
        {"stage": "search", "duration_ms": 200.0, "counts": {"found": 15}},
        {"stage": "cut", "duration_ms": 2.0, "counts": {}},
    ]


def test_a_stage_that_fails_is_recorded_too() -> None:
    """An error passes through, and the stage that raised it stands in the trace."""
    tracer = ticking(0.0, 0.002)
    with pytest.raises(KeyError), tracer.stage("search") as counts:
        counts["fetched"] = len({}["x"])
    assert tracer.stages == [{"stage": "search", "duration_ms": 2.0, "counts": {}}]


def test_a_new_trace_is_empty() -> None:
    """Making one reads no clock."""
    assert ticking().stages == []
