"""Rates: jobs that arrive and end a minute, measured between looks at the queues.

Redis keeps no such count. Workers report at each heartbeat how many deliveries they have acknowledged; what arrived is
what ended, plus what is there more than before. A retry that is a new message counts as an end and an arrival.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOW_SECONDS = 300.0
LEAST_SECONDS = 4.0
"""Least time that rates are shown for: workers report every 3 s."""

CLOSE_SECONDS = 1.0
"""Looks closer to each other are one."""


@dataclass(frozen=True, slots=True)
class Sample:
    """State of the queues at one moment.

    Attributes:
        at: Redis' time, in seconds.
        held: messages of each queue that wait, are delayed, or run.
        dead: dead letters of each queue.
        ended: owner → its queue, and the deliveries that it has acknowledged since it began.
    """

    at: float
    held: Mapping[str, int]
    dead: Mapping[str, int]
    ended: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate of a queue.

    Attributes:
        arriving: messages that arrived a minute.
        ending: messages that ended a minute: answered, failed or dead-lettered.
        seconds: time that both were measured over.
    """

    arriving: float
    ending: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Step:
    start: float
    end: float
    arrived: Mapping[str, int]
    ended: Mapping[str, int]


def between(earlier_sample: Sample, later_sample: Sample) -> tuple[dict[str, int], dict[str, int]]:
    """Return what arrived and what ended in each queue between two samples.

    An owner that is new began after the earlier; what an owner that is gone did since is not known. Dead letters that
    were deleted meanwhile are missed.

    >>> earlier = Sample(0, {"q": 3}, {"q": 0}, {"a": ("q", 10)})
    >>> between(earlier, Sample(60, {"q": 5}, {"q": 1}, {"a": ("q", 14), "b": ("q", 2)}))
    ({'q': 9}, {'q': 7})
    """
    ended = {queue: max(later_sample.dead[queue] - earlier_sample.dead.get(queue, 0), 0) for queue in later_sample.held}
    for owner, (queue, count) in later_sample.ended.items():
        if queue in ended:
            ended[queue] += max(count - earlier_sample.ended.get(owner, (queue, 0))[1], 0)
    arrived = {
        queue: later_sample.held[queue] - earlier_sample.held.get(queue, 0) + ended[queue]
        for queue in later_sample.held
    }
    return arrived, ended


@dataclass
class RateMeter:
    """Meter of rates, over the looks of the last minutes."""

    _last: Sample | None = None
    _steps: deque[_Step] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, sample: Sample) -> dict[str, Rate]:
        """Add a look; return the rate of each queue, none before two looks are far enough apart."""
        with self._lock:
            previous = self._last
            if previous is None or sample.at < previous.at:  # Redis began again, with another clock
                self._steps.clear()
                self._last = sample
            elif sample.at - previous.at >= CLOSE_SECONDS:
                self._steps.append(_Step(previous.at, sample.at, *between(previous, sample)))
                self._last = sample
            while len(self._steps) > 1 and self._steps[0].end < sample.at - WINDOW_SECONDS:
                self._steps.popleft()
            return self._rates(sample)

    def _rates(self, sample: Sample) -> dict[str, Rate]:
        seconds = self._steps[-1].end - self._steps[0].start if self._steps else 0.0
        if seconds < LEAST_SECONDS:
            return {}
        rates = {}
        for queue in sample.held:
            # A worker's report may come after the look that saw its job gone: the next look sets it right.
            arrived = max(sum(step.arrived.get(queue, 0) for step in self._steps), 0)
            ended = sum(step.ended.get(queue, 0) for step in self._steps)
            rates[queue] = Rate(60 * arrived / seconds, 60 * ended / seconds, seconds)
        return rates
