"""Sleeping jobs, for faults that need a job to run at that moment: submitted, and followed by their diary."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from chaos.jobs import Questions
    from chaos.producer import Producer

LOOK_SECONDS = 0.05


class Sleepers:
    """Sends jobs that sleep, beside those of a run.

    Args:
        questions: makes them.
        producer: submits them.
        diary: where they write down that they began and ended.
    """

    def __init__(self, questions: Questions, producer: Producer, diary: Path) -> None:
        self._questions = questions
        self._producer = producer
        self._diary = diary
        self._numbers = itertools.count()

    def send(self, count: int, seconds: int, *, stubborn: bool = False) -> set[str]:
        """Submit this many jobs that sleep this many seconds; return their ids."""
        questions = [self._questions.sleeper(next(self._numbers), seconds, stubborn=stubborn) for _ in range(count)]
        self._producer.send(questions)
        return {question.task_id for question in questions}

    def wait_until_all_sleep(self, processes: Collection[int], ids: set[str], seconds: float) -> bool:
        """Wait until each of these processes runs one of these jobs."""
        return self._wait(lambda: {*processes} <= {*self.running(ids).values()}, seconds)

    def wait_for_begin(self, ids: set[str], seconds: float) -> bool:
        """Wait until all of them have begun."""
        return self._wait(lambda: ids <= read_diary(self._diary, "began").keys(), seconds)

    def wait_for_end(self, ids: set[str], seconds: float) -> bool:
        """Wait until all of them have slept."""
        return self._wait(lambda: ids <= read_diary(self._diary, "ended").keys(), seconds)

    def running(self, ids: set[str]) -> dict[str, int]:
        """Return the process of each job that has begun and not ended."""
        ended = read_diary(self._diary, "ended")
        return {i: pid for i, pid in read_diary(self._diary, "began").items() if i in ids and ended.get(i) != pid}

    def began_often(self, times: int) -> set[str]:
        """Return the jobs that have begun at least this often."""
        counts = Counter(task_id for task_id, _ in _lines(self._diary, "began"))
        return {task_id for task_id, count in counts.items() if count >= times}

    def _wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_SECONDS)
        return True


def read_diary(diary: Path, event: str) -> dict[str, int]:
    """Return the process in which each job last began, or ended."""
    return dict(_lines(diary, event))


def _lines(diary: Path, event: str) -> Iterator[tuple[str, int]]:
    lines = (line.split() for line in diary.read_text().splitlines()) if diary.exists() else ()
    return ((task_id, int(pid)) for line_event, task_id, pid in lines if line_event == event)
