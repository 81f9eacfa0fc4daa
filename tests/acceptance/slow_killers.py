"""For ``celery worker --include``: has certain jobs begin, wait for a sign, and go on or kill their process."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import redis
from celery import signals
from celery.exceptions import SoftTimeLimitExceeded
from kombu.asynchronous import get_event_loop

FOLDER = "TEST_FOLDER"
"""The environment variable that names the folder of the signs: ``begun`` has the id of each job that began."""


@signals.task_prerun.connect(weak=False)
def wait(task_id: str = "", **_: Any) -> None:
    """Wait for a file named as the job and its run; its text says what to do then: go on, or what goes wrong."""
    if not task_id.startswith("held-"):
        return
    folder = Path(os.environ[FOLDER])
    begun = os.open(folder / "begun", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(begun, f"{task_id}\n".encode())
    os.close(begun)
    run = (folder / "begun").read_text().split().count(task_id)
    sign = folder / f"{task_id}.{run}"
    if task_id.startswith("held-stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _wait_for(sign)
    told = sign.read_text()
    if told == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if told == "lose the connection":
        for _ in range(20):  # the event loop calls them in any order, and what is behind the first is gone
            get_event_loop().call_soon(_lose_the_connection)


def _lose_the_connection() -> None:
    raise redis.ConnectionError("lost")


def _wait_for(sign: Path) -> None:
    """Wait, as C code does: only the hard time limit ends it."""
    while True:
        with contextlib.suppress(SoftTimeLimitExceeded):
            while not sign.exists():
                time.sleep(0.01)
            return
