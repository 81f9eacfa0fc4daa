"""Recovery time of a fault: until all jobs open then are answered, and answers are as fast as before."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chaos.plan import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chaos.ledger import Entry
    from chaos.scene import FaultRecord

BEFORE_SECONDS = 5.0
"""Seconds before a fault over which the rate of answers is measured."""
WINDOW_SECONDS = 1.0
"""Consecutive seconds that must have the required share of answers for the rate to count as recovered."""
RATE_SHARE = 0.8
MOST_WITHOUT_WORK = 0.05

GOALS: Mapping[Kind, float] = {
    Kind.WORKER_KILL: 10.0,
    Kind.MAIN_KILL: 10.0,
    Kind.STOP_THEN_KILL: 10.0,
    Kind.REDIS_KILL: 4.0,
    Kind.REDIS_RESTART: 4.0,
    Kind.POSTGRES_KILL: 4.0,
    Kind.POSTGRES_RESTART: 4.0,
    Kind.BLACKHOLE: 8.0,
}
"""Seconds that p99 of a kind may take, on a quiet machine."""

_NOT_MEASURED = {Kind.POOL_GROW, Kind.POOL_SHRINK, Kind.WORKER_STOP}


@dataclass(frozen=True)
class Traffic:
    """Times of submissions and of answers, each in order; without the jobs of a dead worker."""

    submitted: list[float]
    answer_times: list[float]

    def answered(self, start: float, end: float) -> int:
        """Return the number of answers in an interval."""
        return bisect_left(self.answer_times, end) - bisect_left(self.answer_times, start)

    def offered(self, start: float, end: float) -> int:
        """Return the number of jobs that could be answered in an interval: those open at its start, and new ones."""
        return bisect_left(self.submitted, end) - bisect_left(self.answer_times, start)

    def rate_is_back(self, began: float, ended: float) -> float | None:
        """Return when answers were as fast as before a fault, or as fast as jobs came; None if never."""
        usual = self.answered(began - BEFORE_SECONDS, began) * WINDOW_SECONDS / BEFORE_SECONDS
        for start in (ended, *self.answer_times[bisect_left(self.answer_times, ended) :]):
            expected = min(usual, self.offered(start, start + WINDOW_SECONDS))
            if self.answered(start, start + WINDOW_SECONDS) >= RATE_SHARE * expected:
                return start
        return None


def measure(fault_records: list[FaultRecord], entries: Iterable[Entry]) -> None:
    """Set the recovery time of each fault.

    A fault of a worker is felt from its beginning, by the jobs that this worker held. A job that comes to another
    worker and is hurt there again counts for that fault; time in which Redis, Postgres or the network was away, or had
    not recovered, is not counted. Every other fault is felt from its end, by all jobs that were open when it began,
    but for those that a dead worker held.
    """
    entries_by_id = {entry.question.task_id: entry for entry in entries}
    done_at = {task_id: entry.answered_at for task_id, entry in entries_by_id.items() if entry.answered_at is not None}
    of_workers = [record for record in fault_records if record.fault.kind.takes_worker]
    by_dead = set().union(*(record.held for record in of_workers))
    free = [entry for task_id, entry in entries_by_id.items() if task_id not in by_dead]
    traffic = Traffic(
        sorted(entry.submitted for entry in free if entry.submitted is not None),
        sorted(entry.answered_at for entry in free if entry.answered_at is not None and entry.submitted is not None),
    )
    of_servers = [
        record
        for record in fault_records
        if not record.fault.kind.takes_worker and record.fault.kind not in _NOT_MEASURED
    ]
    for record in of_servers:
        record.back = _felt(record, record.open - by_dead, record.ended, done_at, traffic, [])
    away = [(record.began, record.ended + (record.back or 0.0)) for record in of_servers]
    hurt_later: set[str] = set()
    for record in reversed(of_workers):
        mine = record.held - hurt_later
        hurt_later |= record.held
        if mine:
            record.back = _felt(record, mine, record.began, done_at, traffic, away)


def _felt(
    record: FaultRecord,
    mine: set[str],
    since: float,
    done_at: Mapping[str, float],
    traffic: Traffic,
    away: list[tuple[float, float]],
) -> float | None:
    rate_back = traffic.rate_is_back(record.began, since)
    if rate_back is None or not mine <= done_at.keys():
        return None
    recovered_at = max([since, rate_back, *(done_at[task_id] for task_id in mine)])
    return recovered_at - since - sum(max(0.0, min(recovered_at, end) - max(since, start)) for start, end in away)


def met_work(fault_records: Iterable[FaultRecord]) -> int:
    """Return the number of faults that began while a job was open."""
    return sum(bool(record.open) for record in fault_records)


def too_idle(fault_records: list[FaultRecord]) -> bool:
    """Return whether too many faults met no work for the run to show anything."""
    return len(fault_records) - met_work(fault_records) > MOST_WITHOUT_WORK * len(fault_records)
