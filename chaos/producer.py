"""Queues jobs as a backend without Celery does, and records Redis' reply to each in the ledger."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

import redis

from chaos.jobs import QUEUE

if TYPE_CHECKING:
    from chaos.jobs import Question, Questions
    from chaos.ledger import Ledger
    from chaos.servers import RedisServer

AGAIN_SECONDS = 0.05
HELD_BACK_SECONDS = 0.02
CONNECTION_ERRORS = (redis.ConnectionError, redis.TimeoutError, OSError)


class Producer:
    """A thread that submits jobs until Redis has acknowledged them all, as far as it is allowed to.

    Args:
        server: the broker; past the proxy, so that what is unsure is Redis' doing.
        questions: the jobs.
        jobs: how many are to be acknowledged.
        ledger: records each.
        most_open: most jobs that may wait for their answer at once.
        per_second: jobs a second, within ``most_open``; default as fast as ``most_open`` allows.
    """

    def __init__(
        self,
        server: RedisServer,
        questions: Questions,
        jobs: int,
        ledger: Ledger,
        most_open: int,
        per_second: float = 0.0,
    ) -> None:
        self._client = server.client(user="producer")
        self._questions = questions
        self._jobs = jobs
        self._ledger = ledger
        self._most_open = most_open
        self._pause = 1 / per_second if per_second else 0.0
        self._allowed = jobs
        self._number = 0
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="producer", daemon=True)
        self.acknowledged = 0
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    @property
    def is_done(self) -> bool:
        """True if all jobs are submitted."""
        return not self._thread.is_alive()

    def allow(self, count: int, per_second: float = 0.0) -> None:
        """Allow ``count`` further jobs, evenly if a pace is given."""
        self._pause = 1 / per_second if per_second else 0.0
        self._allowed = min(self._jobs, self.acknowledged + count)

    @property
    def is_held_back(self) -> bool:
        """True if all allowed jobs are submitted."""
        return self.acknowledged >= self._allowed or self.is_done

    def burst(self, count: int) -> None:
        """Submit ``count`` jobs at once, allowed or not, as far as there are jobs left."""
        with self._turn:
            count = min(count, self._jobs - self.acknowledged)
            self.acknowledged += self._submit([self._questions[self._number + place] for place in range(count)])
            self._number += count
            self._allowed = max(self._allowed, self.acknowledged)

    def send(self, questions: list[Question]) -> None:
        """Submit jobs beside those of the run, at once."""
        with self._turn:
            self._submit(questions)

    def stop(self) -> None:
        """Stop submitting."""
        self._stopped.set()
        self._thread.join()

    def _produce(self) -> None:
        try:
            while self.acknowledged < self._jobs and not self._stopped.is_set():
                if self.acknowledged >= self._allowed:
                    self._stopped.wait(HELD_BACK_SECONDS)
                elif self._ledger.wait_for_room(self._most_open, 0.2):
                    self._submit_next()
                    if self._pause:
                        self._stopped.wait(self._pause)
        except BaseException as error:  # noqa: BLE001 -- raised again in the thread that waits for this one
            self.error = error

    def _submit_next(self) -> None:
        with self._turn:
            self.acknowledged += self._submit([self._questions[self._number]])
            self._number += 1

    def _submit(self, questions: list[Question]) -> int:
        """Submit jobs once, unless Redis refused them explicitly: then they were not queued, and are sent again.

        Returns:
            how many were acknowledged: all or none.
        """
        messages = [question.message for question in questions]
        for question in questions:
            self._ledger.history.invoke(question)
        while messages and not self._stopped.is_set():
            try:
                self._client.lpush(QUEUE, *messages)
            except CONNECTION_ERRORS as error:
                # Loading its file, or not listening yet, Redis took nothing; whatever else happened, it may have.
                if isinstance(error, redis.exceptions.BusyLoadingError) or "refused" in str(error):
                    self._refused()
                    continue
                self._note(questions, None)
                return 0
            except redis.ResponseError:
                self._refused()
                continue
            self._note(questions, time.monotonic())
            return len(questions)
        for question in questions:
            self._ledger.history.sent(question.task_id, "refused", is_known=True)
        return 0

    def _note(self, questions: list[Question], at: float | None) -> None:
        for question in questions:
            self._ledger.submitted(question, at)

    def _refused(self) -> None:
        self._ledger.refused += 1
        self._stopped.wait(AGAIN_SECONDS)
