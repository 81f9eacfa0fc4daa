"""Parallel search: the legs of a job, each search on its own connection, all within one deadline."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from retrieval_client.errors import RetrievalError, TimedOut
from worker.adapters.postgres.search import SearchResult, search
from worker.core.time_budget import OPTIONAL_SHARE
from worker.core.trace import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from worker.adapters.postgres.database import Reader
    from worker.adapters.postgres.search import Search
    from worker.model import Principal

    # Result of a search, and its duration in milliseconds.
    Outcome = tuple[SearchResult | RetrievalError, float]


@dataclass(frozen=True, slots=True)
class Leg:
    """Leg to run.

    Attributes:
        name: its name in the answer.
        searches: one per corpus, in the job's order.
        optional: True: the job continues if the leg fails; the leg gets only a share of the deadline.
    """

    name: str
    searches: Sequence[Search]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class LegResult:
    """Result of a leg.

    Attributes:
        name: its name.
        found: result of each of its searches; None if it failed, which only an optional leg may.
        error: its error, if it failed.
        duration_ms: duration of its slowest search, see `milliseconds`.
    """

    name: str
    found: Sequence[SearchResult] | None
    error: RetrievalError | None
    duration_ms: float


class ParallelSearch:
    """Runner of legs.

    Args:
        database: the database to search.
        at_once: most searches in parallel; no more than the pool has connections.
        clock: for durations and the deadline, in seconds; no result depends on it except that of a late leg.
    """

    def __init__(self, database: Reader, at_once: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._database = database
        # One search runs in the caller's own thread.
        self._threads = ThreadPoolExecutor(max_workers=max(1, at_once - 1), thread_name_prefix="leg")
        self._clock = clock

    def run(self, caller: Principal, legs: Sequence[Leg], deadline_seconds: float) -> list[LegResult]:
        """Run all searches of all legs in parallel, the first one in this thread.

        Optional legs have an earlier deadline, so that an answer without them is still in time.

        Raises:
            TimedOut: a required leg did not answer before the deadline.
            RetrievalError: a required leg failed; see `Database.read`.
        """
        now = self._clock()
        ends = [now + deadline_seconds * (OPTIONAL_SHARE if leg.optional else 1) for leg in legs]
        first, *rest = ((one, end) for leg, end in zip(legs, ends, strict=True) for one in leg.searches)
        others = [(self._threads.submit(self._run, caller, *one), one[1]) for one in rest]
        outcomes = chain([self._run(caller, *first)], (self._wait(*other) for other in others))
        return [_together(leg, [*islice(outcomes, len(leg.searches))]) for leg in legs]

    def _run(self, caller: Principal, one: Search, end: float) -> Outcome:
        started = self._clock()
        try:
            (found,) = search(self._database, caller, [one], end - started)
        except RetrievalError as error:
            return error, milliseconds(self._clock() - started)
        return found, milliseconds(self._clock() - started)

    def _wait(self, future: Future[Outcome], end: float) -> Outcome:
        try:
            return future.result(max(0.0, end - self._clock()))
        except LateError:
            # Postgres cancels its statement at the same deadline, so the thread is free again soon.
            future.cancel()
            return TimedOut("a search did not answer before the deadline"), 0.0

    def close(self) -> None:
        """Stop the threads once they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _together(leg: Leg, outcomes: Sequence[Outcome]) -> LegResult:
    """Combine a leg's searches: it takes as long as the slowest, and fails if one does."""
    found = [one for one, _ in outcomes if isinstance(one, SearchResult)]
    error = next((one for one, _ in outcomes if isinstance(one, RetrievalError)), None)
    if error is not None and not leg.optional:
        raise error
    duration = max((took for _, took in outcomes), default=0.0)
    return LegResult(leg.name, found if error is None else None, error, duration)
