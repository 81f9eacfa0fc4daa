"""Soft time limit that interrupts only a job's own code.

A timer's signal may arrive while the process stores the job's outcome, which would cause a second one. So it is raised
only inside `Interruptible`. Outside it is ignored; the hard time limit still applies.
"""

from __future__ import annotations

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
