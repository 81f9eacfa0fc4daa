"""Jobs that sleep, for faults that need a job to run just then: submitted, and followed by what they write down."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        """Submit so many that sleep so long; their ids."""
        some = [self._questions.sleeper(next(self._numbers), seconds, stubborn=stubborn) for _ in range(count)]
        self._producer.send(some)
        return {one.task_id for one in some}

    def wait_begun(self, ids: set[str], seconds: float, least: int = 1) -> dict[str, int]:
        """Wait until so many of them have begun; the process of each that has."""
        return self._wait("began", ids, seconds, least)

    def wait_ended(self, ids: set[str], seconds: float) -> dict[str, int]:
        """Wait until all of them have slept."""
        return self._wait("ended", ids, seconds, len(ids))

    def _wait(self, what: str, ids: set[str], seconds: float, least: int) -> dict[str, int]:
        deadline = time.monotonic() + seconds
        while True:
            found = {i: pid for i, pid in read_diary(self._diary, what).items() if i in ids}
            if len(found) >= least or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_SECONDS)


def read_diary(diary: Path, what: str) -> dict[str, int]:
    """The process of each job that began, or ended."""
    lines = (line.split() for line in diary.read_text().splitlines()) if diary.exists() else ()
    return {task_id: int(pid) for said, task_id, pid in lines if said == what}
