"""Slow jobs: imported into a worker (``celery worker --include chaos.sleeping``), it makes certain jobs sleep.

They wait within the job, where a soft time limit reaches them, and are answered as any other job then. A stubborn one
ignores SIGTERM meanwhile, as a job does that is in a C library. Each writes down when it begins and ends, and where.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.jobs import DIARY, sleep_of
from worker.jobs.top_k import Retrieval

if TYPE_CHECKING:
    from retrieval_client.contract.jobs import RetrieveTopK
    from worker.jobs.context import JobContext

_top_k = Retrieval.top_k


def top_k(self: Retrieval, job: RetrieveTopK, context: JobContext) -> dict[str, Any]:
    """Run `Retrieval.top_k` after a job's sleep."""
    seconds, stubborn = sleep_of(context.task_id)
    if seconds:
        _sleep(context.task_id, seconds, stubborn=stubborn)
    return _top_k(self, job, context)


def _sleep(task_id: str, seconds: int, *, stubborn: bool) -> None:
    usual_handler = signal.signal(signal.SIGTERM, signal.SIG_IGN) if stubborn else None
    _note(f"began {task_id} {os.getpid()}\n")
    try:
        time.sleep(seconds)
    finally:
        if stubborn:
            signal.signal(signal.SIGTERM, usual_handler)
        _note(f"ended {task_id} {os.getpid()}\n")


def _note(line: str) -> None:
    diary = os.open(Path(os.environ[DIARY]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(diary, line.encode())
    finally:
        os.close(diary)


Retrieval.top_k = top_k  # type: ignore[method-assign] # the whole of what this module is for
