"""Celery's autoscaler: grows by what waits, and shrinks what was idle for a while."""

from __future__ import annotations

from time import monotonic

from celery.worker import autoscale


class Autoscaler(autoscale.Autoscaler):
    """The autoscaler."""

    _needed = float("-inf")

    @property
    def qty(self) -> int:
        """Number of jobs that run and wait."""
        if self.pool.waiting:
            self._needed = monotonic()
        return int(self.pool.busy + self.pool.waiting)

    def scale_down(self, n: int) -> None:
        """Let processes leave, if all were enough for a while."""
        if monotonic() - self._needed > self.keepalive:
            self._shrink(n)
