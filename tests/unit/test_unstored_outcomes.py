"""Outcomes that the main process owes while the results' Redis is away."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

from retrieval_client.errors import TimedOut
from worker.queue.unstored_outcomes import UnstoredOutcomes

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_an_outage_is_asked_about_before_all_that_is_owed_is_sent_again() -> None:
    """However much is owed, an attempt during an outage costs one empty command; all is stored once that succeeds."""
    attempts: list[list[str]] = []
    stored: queue.Queue[str] = queue.Queue()

    def store(failures: Sequence[tuple[str, Exception]]) -> None:
        attempts.append([task_id for task_id, _ in failures])
        if len(attempts) <= 3:
            raise ConnectionError

    owed = UnstoredOutcomes(store)
    owed.add("job-1", TimedOut("late"), lambda: stored.put("job-1"))
    assert stored.get(timeout=180) == "job-1"
    assert attempts == [["job-1"], [], [], [], ["job-1"]]
    owed.add("job-2", TimedOut("late"), lambda: stored.put("job-2"))
    assert stored.get(timeout=180) == "job-2"
    assert attempts[5:] == [["job-2"]]
    assert not owed.is_away
