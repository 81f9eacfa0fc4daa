"""For ``celery worker --include``: has certain jobs begin, wait for a sign, and go on or kill their process."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from celery import signals
from celery.exceptions import SoftTimeLimitExceeded

FOLDER = "TEST_FOLDER"
"""The environment variable that names the folder of the signs: ``begun`` has the id of each job that began."""


@signals.task_prerun.connect(weak=False)
def wait(task_id: str = "", **_: Any) -> None:
    """Wait for a file named as the job and its run; its text says what to do then."""
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
    if sign.read_text() == "die":
        os.kill(os.getpid(), signal.SIGKILL)


def _wait_for(sign: Path) -> None:
    """Wait, as C code does: only the hard time limit ends it."""
    while True:
        with contextlib.suppress(SoftTimeLimitExceeded):
            while not sign.exists():
                time.sleep(0.01)
            return
