"""The soft time limit, which ends a job's own code and nothing else.

The main process signals it by a clock of its own, and Celery raises it wherever the pool's process is at that moment:
also while it stores the job's outcome, or sends its retry, which would then end as a second outcome. Here it is raised
only inside `Interruptible`. Outside it is ignored: the hard time limit still stands.
"""

from __future__ import annotations

import signal

from billiard.pool import SIG_SOFT_TIMEOUT
from celery.exceptions import SoftTimeLimitExceeded


class Interruptible:
    """Around a job's own code: in it `SoftTimeLimitExceeded` may be raised, at any place and at most once."""

    _is_on = False

    def __enter__(self) -> None:
        Interruptible._is_on = True

    def __exit__(self, *_: object) -> None:
        Interruptible._is_on = False

    @classmethod
    def on_signal(cls, *_: object) -> None:
        """Raise it, once: what handles it is not the job's own code any more."""
        if cls._is_on:
            cls._is_on = False
            raise SoftTimeLimitExceeded


def install() -> None:
    """Have this pool process handle the main one's signal."""
    signal.signal(SIG_SOFT_TIMEOUT, Interruptible.on_signal)
