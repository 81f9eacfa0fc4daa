"""Poison jobs: imported into a worker (``celery worker --include chaos.crashing``), it kills the process that runs one.

A process that is killed from within is what a fault in a C library or the kernel's out-of-memory killer looks like.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from celery import signals

from chaos.jobs import DIARY

POISON = "chaos-0-"
"""Prefix of the ids of poison jobs, which have seed 0."""


@signals.task_prerun.connect(weak=False)
def die(task_id: str = "", **_: Any) -> None:
    """Append the job's id to the diary, then `kill -9` this process."""
    if task_id.startswith(POISON):
        diary = os.open(Path(os.environ[DIARY]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(diary, f"{task_id}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
