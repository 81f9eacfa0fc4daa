"""Parallel search: the legs of a job, each search on its own connection, all within one deadline.

Then the same for the scores of what other legs listed.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from retrieval_client.errors import RetrievalError, TimedOut
from worker.adapters.postgres.chunk_scores import scores_of
from worker.adapters.postgres.search import SearchResult, search
from worker.core.time_budget import OPTIONAL_SHARE
from worker.core.trace import milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from worker.adapters.postgres.chunk_scores import ChunkScore, GivenChunks
    from worker.adapters.postgres.database import Reader
    from worker.adapters.postgres.search import Search
    from worker.model import Principal

    # Result of a read, and its duration in milliseconds.
    Outcome = tuple["Result | RetrievalError", float]

Result = TypeVar("Result")


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
class ScoredChunks:
    """Scores of one search beyond those of the chunks that it found; chunks are given by corpus and id.

    Attributes:
        unlisted: chunk → score, of what only other legs found.
        coverage: chunk → `ChunkScore.coverage`, of what any leg found.
        usual: usual deviation of the scores; None where none is known.
    """

    unlisted: Mapping[tuple[str, str], float]
    coverage: Mapping[tuple[str, str], float]
    usual: float | None


@dataclass(frozen=True, slots=True)
class LegResult:
    """Result of a leg.

    Attributes:
        name: its name.
        results: result of each of its searches; None if it failed, which only an optional leg may.
        error: its error, if it failed.
        duration_ms: duration of its slowest search, see `milliseconds`.
        scored: by search, what it knows of what any leg found; empty if it was not scored.
    """

    name: str
    results: Sequence[SearchResult] | None
    error: RetrievalError | None
    duration_ms: float
    scored: Sequence[ScoredChunks] = ()


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
        reads = [
            (partial(self._search, caller, leg_search), self._share(leg.optional, deadline_seconds))
            for leg in legs
            for leg_search in leg.searches
        ]
        outcomes = iter(self._in_parallel(reads))
        return [_together(leg, [*islice(outcomes, len(leg.searches))]) for leg in legs]

    def score(
        self, caller: Principal, requests: Sequence[tuple[GivenChunks, bool]], deadline_seconds: float
    ) -> list[Mapping[str, ChunkScore] | RetrievalError]:
        """Score chunks in parallel, the first ones in this thread.

        Args:
            caller: the caller.
            requests: the chunks of one leg and corpus each, and whether the leg is optional.
            deadline_seconds: deadline of all.

        Returns:
            The scores of each, see `scores_of`; an error only for an optional leg.

        Raises:
            TimedOut, RetrievalError: as `run`.
        """
        reads = [
            (partial(scores_of, self._database, caller, chunks), self._share(optional, deadline_seconds))
            for chunks, optional in requests
        ]
        outcomes = [outcome for outcome, _ in self._in_parallel(reads)]
        for (_, optional), outcome in zip(requests, outcomes, strict=True):
            if isinstance(outcome, RetrievalError) and not optional:
                raise outcome
        return outcomes

    @staticmethod
    def _share(optional: bool, deadline_seconds: float) -> float:
        return deadline_seconds * (OPTIONAL_SHARE if optional else 1)

    def _search(self, caller: Principal, leg_search: Search, seconds: float) -> SearchResult:
        (search_result,) = search(self._database, caller, [leg_search], seconds)
        return search_result

    def _in_parallel(self, reads: Sequence[tuple[Callable[[float], Result], float]]) -> list[Outcome[Result]]:
        """Run reads, each given the time left until its own deadline in seconds; the first one in this thread."""
        if not reads:
            return []
        started = self._clock()
        first_read, *rest = ((reader, started + seconds) for reader, seconds in reads)
        submissions = [(self._threads.submit(self._run, reader, end), end) for reader, end in rest]
        return [*chain([self._run(*first_read)], (self._wait(*submission) for submission in submissions))]

    def _run(self, reader: Callable[[float], Result], end: float) -> Outcome[Result]:
        started = self._clock()
        try:
            result = reader(end - started)
        except RetrievalError as error:
            return error, milliseconds(self._clock() - started)
        return result, milliseconds(self._clock() - started)

    def _wait(self, future: Future[Outcome[Result]], end: float) -> Outcome[Result]:
        try:
            return future.result(max(0.0, end - self._clock()))
        except LateError:
            # Postgres cancels its statement at the same deadline, so the thread is free again soon.
            future.cancel()
            return TimedOut("a search did not answer before the deadline"), 0.0

    def close(self) -> None:
        """Stop the threads once they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _together(leg: Leg, outcomes: Sequence[Outcome[SearchResult]]) -> LegResult:
    """Combine a leg's searches: it takes as long as the slowest, and fails if one does."""
    search_results = [outcome for outcome, _ in outcomes if isinstance(outcome, SearchResult)]
    error = next((outcome for outcome, _ in outcomes if isinstance(outcome, RetrievalError)), None)
    if error is not None and not leg.optional:
        raise error
    duration = max((took for _, took in outcomes), default=0.0)
    return LegResult(leg.name, search_results if error is None else None, error, duration)
