"""Soft time limit that interrupts only a job's own code.

The main process signals it by its own clock, and Celery raises it wherever the pool process is at that moment: also
while it stores the job's outcome or sends its retry, which would cause a second outcome. Here it is raised only inside
`Interruptible`. Outside it is ignored; the hard time limit still applies.
"""

from __future__ import annotations

import signal

from billiard.pool import SIG_SOFT_TIMEOUT
from celery.exceptions import SoftTimeLimitExceeded


class Interruptible:
    """Context manager around a job's own code, in which `SoftTimeLimitExceeded` may be raised, at most once."""

    _is_on = False

    def __enter__(self) -> None:
        Interruptible._is_on = True

    def __exit__(self, *_: object) -> None:
        Interruptible._is_on = False

    @classmethod
    def on_signal(cls, *_: object) -> None:
        """Raise `SoftTimeLimitExceeded` once; the code that handles it is no longer the job's own."""
        if cls._is_on:
            cls._is_on = False
            raise SoftTimeLimitExceeded


def install() -> None:
    """Handle the main process's signal in this pool process."""
    signal.signal(SIG_SOFT_TIMEOUT, Interruptible.on_signal)
