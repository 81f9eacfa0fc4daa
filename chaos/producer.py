"""Puts jobs on the queue as a backend without Celery does, and tells the ledger what Redis said to each."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

import redis

from chaos.jobs import QUEUE
from chaos.servers import connect

if TYPE_CHECKING:
    from chaos.jobs import Questions
    from chaos.ledger import Ledger

AGAIN_SECONDS = 0.05
CONNECTION_ERRORS = (redis.ConnectionError, redis.TimeoutError, OSError)


class Producer:
    """A thread that submits jobs until Redis has acknowledged so many.

    Args:
        port: of Redis; past the proxy, so that what is unsure is Redis' doing.
        questions: the jobs.
        jobs: how many are to be acknowledged.
        ledger: is told of each.
        most_open: so many jobs may wait for their answer at once.
        per_second: so many jobs a second, where room is; default as many as there is room for.
    """

    def __init__(
        self,
        port: int,
        questions: Questions,
        jobs: int,
        ledger: Ledger,
        most_open: int,
        per_second: float = 0.0,
    ) -> None:
        self._client = connect(port)
        self._questions = questions
        self._jobs = jobs
        self._ledger = ledger
        self._most_open = most_open
        self._pause = 1 / per_second if per_second else 0.0
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
        """Whether all are submitted."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Submit no more."""
        self._stopped.set()
        self._thread.join()

    def _produce(self) -> None:
        number = 0
        try:
            while self.acknowledged < self._jobs and not self._stopped.is_set():
                if self._ledger.wait_for_room(self._most_open, 0.2):
                    self._submit(number)
                    number += 1
                    if self._pause:
                        self._stopped.wait(self._pause)
        except BaseException as error:  # noqa: BLE001 -- raised again by whoever waits for this thread
            self.error = error

    def _submit(self, number: int) -> None:
        """Once, unless Redis refused it in so many words: then it is not there, and may be sent again."""
        question = self._questions[number]
        message = question.message
        while not self._stopped.is_set():
            try:
                self._client.lpush(QUEUE, message)
            except CONNECTION_ERRORS as error:
                # Loading its file, or not listening yet, Redis took nothing; whatever else happened, it may have.
                if isinstance(error, redis.exceptions.BusyLoadingError) or "refused" in str(error):
                    self._refused()
                    continue
                self._ledger.submitted(question, None)
                return
            except redis.ResponseError:
                self._refused()
                continue
            self._ledger.submitted(question, time.monotonic())
            self.acknowledged += 1
            return

    def _refused(self) -> None:
        self._ledger.refused += 1
        self._stopped.wait(AGAIN_SECONDS)
