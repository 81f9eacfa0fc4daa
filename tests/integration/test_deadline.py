"""Requests end when their time is over, or with the job that made them."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.alarms import TimeIsUp, alarm

from worker.adapters.providers.http_client import within


def test_what_a_request_brings_comes_back() -> None:
    """Its value, or its own error."""

    async def answers() -> int:
        return 7

    async def fails() -> int:
        raise KeyError("no")

    assert within(10, answers) == 7
    with pytest.raises(KeyError):
        within(10, fails)


def test_a_request_is_left_when_its_time_is_over() -> None:
    """And is cancelled there."""
    cancelled = threading.Event()
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.05, lambda: _endless(cancelled))
    assert time.monotonic() - started < 10
    assert cancelled.wait(180)


def test_a_job_that_is_interrupted_leaves_no_request_behind() -> None:
    """The job gets its error, and the request is cancelled, not waited for."""
    cancelled = threading.Event()
    with alarm(), pytest.raises(TimeIsUp):
        within(60, lambda: _endless(cancelled))
    assert cancelled.wait(180)


async def _endless(cancelled: threading.Event) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.set()
