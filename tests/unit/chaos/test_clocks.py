"""A wrong clock: only the time of day is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from chaos.clocks import library, skewed

SCRIPT = """
import time
started = time.monotonic()
time.sleep(0.05)
print(time.time(), time.monotonic() - started)
"""


@pytest.mark.skipif(library() is None, reason="libfaketime is not installed")
@pytest.mark.parametrize("skew", [1200.0, -1200.0])
def test_only_the_time_of_day_is_wrong(skew: float) -> None:
    """Sleeping works, and takes as long as it should."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | skewed(skew, library()),
        capture_output=True,
        text=True,
        check=True,
    )
    now, slept = map(float, done.stdout.split())
    assert now - time.time() == pytest.approx(skew, abs=60)
    assert 0.05 <= slept < 30


def test_a_right_clock_is_left_alone() -> None:
    assert skewed(0.0, library()) == {}
