"""Outcomes that the worker's main process has to store, because no pool process can.

These are hard time limits, revocations, expiries, and refusals before a job runs. The outcome is stored first, and the
message acknowledged afterwards. The result backend's Redis may be unavailable for long, so nothing is stored in the
event loop, which has other jobs to serve and heartbeats to send.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Failure: TypeAlias = tuple[str, Exception]
    """Task id, and the error for its caller."""

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_AT_ONCE = 256

logger = logging.getLogger("worker.owed")


class UnstoredOutcomes:
    """Failures to be stored by a background thread, with retries until they are stored.

    Pending failures are lost with this process; their messages are unacknowledged then, and are redelivered.

    Args:
        store: stores failures in one attempt, or raises; called in the thread.
    """

    def __init__(self, store: Callable[[Sequence[Failure]], object]) -> None:
        self._store = store
        self._owed: deque[tuple[Failure, Callable[[], object]]] = deque()
        self._changed = threading.Condition()
        self._is_away = False
        self._thread: threading.Thread | None = None

    def add(self, task_id: str, error: Exception, stored: Callable[[], object]) -> None:
        """Add a failure to be stored.

        Args:
            task_id: id of the job.
            error: the error for the job's caller.
            stored: called in the thread, once it is stored.
        """
        with self._changed:
            self._owed.append(((task_id, error), stored))
            self._wake()

    @property
    def is_away(self) -> bool:
        """True if the last attempt to store failed; the thread notices when that changes."""
        return self._is_away

    def note_away(self) -> None:
        """Mark the result backend's Redis as unavailable; the thread checks when it is back."""
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
        pauses = threading.Event()  # never set
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._owed or self._is_away)
                some = [self._owed[number] for number in range(min(len(self._owed), _AT_ONCE))]
            try:
                if some and self._is_away:  # an attempt that costs the same, however much is owed
                    self._store([])
                self._store([failure for failure, _ in some])
            except Exception as error:  # noqa: BLE001 -- after any error the outcomes are still owed
                self._is_away = True
                logger.warning("outcomes not stored yet", extra={"error": type(error).__name__, "owed": len(some)})
                pauses.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                continue
            self._is_away, pause = False, _FIRST_PAUSE_SECONDS
            for _, stored in some:
                self._owed.popleft()
                stored()
