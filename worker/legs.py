"""The legs of a job: searches at the same time, each leg on a connection of its own, all within one deadline."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.adapters.search import search
from worker.errors import RetrievalError, TimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from worker.adapters.postgres import Database
    from worker.adapters.search import Found, Search
    from worker.model import Principal


@dataclass(frozen=True, slots=True)
class Leg:
    """A leg to run.

    Attributes:
        name: its name in the answer.
        searches: one for each corpus, in the job's order.
        optional: whether the job goes on without it.
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
        duration_ms: how long it took.
    """

    found: Sequence[Found] | None
    error: RetrievalError | None
    duration_ms: float


class Legs:
    """Runs legs.

    Args:
        database: this process's connections.
        at_once: legs that run at the same time; no more than the pool has connections.
        clock: for durations and the deadline, in seconds; no result depends on it but a leg that is late.
    """

    def __init__(self, database: Database, at_once: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._database = database
        self._threads = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix="leg")
        self._clock = clock

    def run(self, asker: Principal, legs: Sequence[Leg], deadline_seconds: float) -> list[LegFound]:
        """All legs at once: the first in this thread, the rest beside it.

        Raises:
            TimedOut: a leg that the job can't do without did not answer before the deadline.
            RetrievalError: such a leg failed; see `Database.read`.
        """
        end = self._clock() + deadline_seconds
        others = [self._threads.submit(self._run, asker, leg, deadline_seconds) for leg in legs[1:]]
        return [
            self._run(asker, legs[0], deadline_seconds),
            *(self._wait(leg, future, end) for leg, future in zip(legs[1:], others, strict=True)),
        ]

    def _run(self, asker: Principal, leg: Leg, deadline_seconds: float) -> LegFound:
        started = self._clock()
        try:
            found = search(self._database, asker, leg.searches, deadline_seconds)
        except RetrievalError as error:
            return self._failed(leg, error, self._clock() - started)
        return LegFound(found, None, (self._clock() - started) * 1000)

    def _wait(self, leg: Leg, future: Future[LegFound], end: float) -> LegFound:
        try:
            return future.result(max(0.0, end - self._clock()))
        except LateError:
            # Postgres ends its statement at the same deadline, so the thread is free again soon.
            future.cancel()
            return self._failed(leg, TimedOut(f"the {leg.name} leg did not answer before the deadline"), 0.0)

    def _failed(self, leg: Leg, error: RetrievalError, seconds: float) -> LegFound:
        if not leg.optional:
            raise error
        return LegFound(None, error, seconds * 1000)

    def close(self) -> None:
        """Let threads end once they are idle."""
        self._threads.shutdown(wait=False, cancel_futures=True)
