"""The legs of a job: searches at the same time, each on a connection of its own, all within one deadline."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from worker.adapters.postgres.search import Found, search
from worker.core.time_budget import OPTIONAL_SHARE
from worker.errors import RetrievalError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from worker.adapters.postgres.database import Reader
    from worker.adapters.postgres.search import Search
    from worker.model import Principal

    # What came of a search, and its milliseconds.
    Outcome = tuple[Found | RetrievalError, float]


@dataclass(frozen=True, slots=True)
class Leg:
    """A leg to run.

    Attributes:
        name: its name in the answer.
        searches: one for each corpus, in the job's order.
        optional: whether the job goes on without it; then it has a share of the deadline only.
    """

    name: str
    searches: Sequence[Search]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class LegFound:
    """What a leg found.

    Attributes:
        found: for each of its searches; None if it failed, which only an optional one may.
        error: why it failed.
        duration_ms: how long the slowest of its searches took.
    """

    found: Sequence[Found] | None
    error: RetrievalError | None
    duration_ms: float


class ParallelSearch:
    """Runs legs.

    Args:
        database: where they search.
        at_once: searches that run at the same time; no more than the pool has connections.
        clock: for durations and the deadline, in seconds; no result depends on it but a leg that is late.
    """

    def __init__(self, database: Reader, at_once: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._database = database
        # One search runs in the caller's own thread.
        self._threads = ThreadPoolExecutor(max_workers=max(1, at_once - 1), thread_name_prefix="leg")
        self._clock = clock

    def run(self, asker: Principal, legs: Sequence[Leg], deadline_seconds: float) -> list[LegFound]:
        """All searches of all legs at once: the first in this thread, the rest beside it.

        What is optional ends earlier, so that an answer without it is still in time.

        Raises:
            TimedOut: a leg that the job can't do without did not answer before the deadline.
            RetrievalError: such a leg failed; see `Database.read`.
        """
        now = self._clock()
        ends = [now + deadline_seconds * (OPTIONAL_SHARE if leg.optional else 1) for leg in legs]
        first, *rest = ((one, end) for leg, end in zip(legs, ends, strict=True) for one in leg.searches)
        others = [(self._threads.submit(self._run, asker, *one), one[1]) for one in rest]
        outcomes = chain([self._run(asker, *first)], (self._wait(*other) for other in others))
        return [_together(leg, [*islice(outcomes, len(leg.searches))]) for leg in legs]

    def _run(self, asker: Principal, one: Search, end: float) -> Outcome:
        started = self._clock()
        try:
            (found,) = search(self._database, asker, [one], end - started)
        except RetrievalError as error:
            return error, (self._clock() - started) * 1000
        return found, (self._clock() - started) * 1000

    def _wait(self, future: Future[Outcome], end: float) -> Outcome:
        try:
            return future.result(max(0.0, end - self._clock()))
        except LateError:
            # Postgres ends its statement at the same deadline, so the thread is free again soon.
            future.cancel()
            return TimedOut("a search did not answer before the deadline"), 0.0

    def close(self) -> None:
        """Let threads end once they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _together(leg: Leg, outcomes: Sequence[Outcome]) -> LegFound:
    """A leg's searches: it took as long as the slowest, and failed if one did."""
    found = [one for one, _ in outcomes if isinstance(one, Found)]
    error = next((one for one, _ in outcomes if isinstance(one, RetrievalError)), None)
    if error is not None and not leg.optional:
        raise error
    return LegFound(found if error is None else None, error, max((took for _, took in outcomes), default=0.0))
