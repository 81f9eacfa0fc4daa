"""Outcomes that the worker's main process has to store, because no process of its pool can.

Such are the hard time limit, a revocation, an expiry, and what is refused before it runs. Whoever waits for the job is
told first, and the message is acknowledged after that. The results' Redis may be away for long: so nothing is stored
in the event loop, which has other jobs to serve and its own life to show.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Failure: TypeAlias = tuple[str, Exception]
    """A task's id, and what its caller is told."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 5.0
_AT_ONCE = 256

logger = logging.getLogger("worker.owed")


class OwedOutcomes:
    """Failures that are to be stored, in a thread, for as long as it takes.

    What is owed is lost with this process; its messages are not acknowledged then, and come back.

    Args:
        store: stores failures in one try, or raises; called in the thread.
    """

    def __init__(self, store: Callable[[Sequence[Failure]], object]) -> None:
        self._store = store
        self._owed: deque[tuple[Failure, Callable[[], object]]] = deque()
        self._changed = threading.Condition()
        self._is_away = False
        self._thread: threading.Thread | None = None

    def add(self, task_id: str, error: Exception, stored: Callable[[], object]) -> None:
        """Have a failure stored.

        Args:
            task_id: whose.
            error: what the job's caller is told.
            stored: called in the thread, once it is stored.
        """
        with self._changed:
            self._owed.append(((task_id, error), stored))
            self._wake()

    @property
    def is_away(self) -> bool:
        """Whether nothing could be stored at the last try; the thread finds out when that changes."""
        return self._is_away

    def note_away(self) -> None:
        """Have the thread find out when the results' Redis is back."""
        with self._changed:
            self._is_away = True
            self._wake()

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="owed", daemon=True)
            self._thread.start()
        self._changed.notify()

    def _run(self) -> None:
        pause = _FIRST_PAUSE_SECONDS
        pauses = threading.Event()  # nobody sets it
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._owed or self._is_away)
                some = [self._owed[number] for number in range(min(len(self._owed), _AT_ONCE))]
            try:
                self._store([failure for failure, _ in some])
            except Exception as error:  # noqa: BLE001 -- whatever it is, the outcomes are still owed
                self._is_away = True
                logger.warning("outcomes not stored yet", extra={"error": type(error).__name__, "owed": len(some)})
                pauses.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            self._is_away, pause = False, _FIRST_PAUSE_SECONDS
            for _, stored in some:
                self._owed.popleft()
                stored()
