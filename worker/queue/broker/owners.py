"""Owners of claimed messages, and how long one is believed to be alive.

An owner is one connection that claims from a queue. The main process renews its key in Redis every few seconds. An
owner whose key has expired counts as dead: what it held is requeued. A job may run twice, but is not lost.
"""

from __future__ import annotations

from worker.adapters import logs

log = logs.logger("worker.broker")

BEAT_SECONDS = 2.0
AGAIN_SECONDS = 0.5
"""Pause before a failed renewal is retried: it fails within 1.5 s, so three fit into `LIFE_SECONDS`."""

LIFE_SECONDS = 8
"""Lifetime of an owner's key. An owner that is frozen or can't reach Redis for longer counts as dead: its jobs run
twice, and none is lost."""

STOPPING_BEAT_SECONDS, STOPPING_LIFE_SECONDS = 1.0, 5
"""The same once the worker was asked to stop: a supervisor that waits no longer kills it, and its jobs run elsewhere
that much sooner."""

FORGET_SECONDS = 900.0
"""Time for which a dead owner's list is checked: a command of its last connection may arrive late."""

LOG_SECONDS = 10.0


class RenewalLog:
    """Log of failed renewals: the first of an outage, all so far every `LOG_SECONDS`, and its end."""

    def __init__(self) -> None:
        self._failures = 0
        self._logged = 0.0

    def failed(self, error: Exception, current_time: float) -> None:
        """Count a failure, at a time of any monotonic clock in seconds."""
        self._failures += 1
        if self._failures == 1 or current_time - self._logged >= LOG_SECONDS:
            self._logged = current_time
            log.warning("owner not renewed", error=type(error).__name__, failures=self._failures)

    def renewed(self) -> None:
        """End the outage, if there is one."""
        if self._failures:
            log.info("owner renewed again", failures=self._failures)
            self._failures = 0
