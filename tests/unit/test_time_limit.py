"""The soft time limit, by its signal."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from worker.queue import time_limit

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """As in a pool process."""
    before = signal.signal(signal.SIGALRM, time_limit.Interruptible.on_signal)
    yield
    signal.signal(signal.SIGALRM, before)


def test_it_is_raised_in_the_job_s_own_code_once() -> None:
    """Its handler is no longer the job's own code: a second signal raises nothing there."""
    with pytest.raises(SoftTimeLimitExceeded), time_limit.Interruptible():  # noqa: PT012 -- what comes after it is the point
        try:
            signal.raise_signal(signal.SIGALRM)
        finally:
            signal.raise_signal(signal.SIGALRM)


def test_it_is_ignored_elsewhere() -> None:
    """Before a job's own code, after it, and after it was raised in it."""
    signal.raise_signal(signal.SIGALRM)
    with time_limit.Interruptible():
        pass
    signal.raise_signal(signal.SIGALRM)
