"""The watch on the main process' event loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kombu.asynchronous import Hub

from worker.queue.loop_watch import BEAT_SECONDS, LOGGED_SECONDS, LoopWatch

if TYPE_CHECKING:
    import pytest


def test_a_late_beat_is_a_stall(capsys: pytest.CaptureFixture[str]) -> None:
    """Noted from 0.1 s, and logged past one second; what comes in time is neither."""
    now, noted = [100.0], []
    watch = LoopWatch(lambda: now[0], noted.append)
    watch.beat()
    for late in (0.0, 0.01, 0.5, LOGGED_SECONDS + 1, 0.0):
        now[0] += BEAT_SECONDS + late
        watch.beat()
    assert [round(seconds, 2) for seconds in noted] == [0.5, 2.0]
    assert capsys.readouterr().out.count("main loop stalled") == 1


def test_a_callback_that_takes_long_stalls_a_loop() -> None:
    """Kombu's own loop calls no beat meanwhile."""
    hub, noted = Hub(), []
    watch = LoopWatch(time.monotonic, noted.append)
    hub.call_repeatedly(BEAT_SECONDS, watch.beat)
    hub.call_later(2 * BEAT_SECONDS, time.sleep, 1.5)
    deadline = time.monotonic() + 30
    while not any(seconds >= 1 for seconds in noted):
        assert time.monotonic() < deadline
        hub.run_once()
    hub.close()
