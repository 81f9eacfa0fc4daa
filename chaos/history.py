"""History of a run, for `chaos.check`, which says what its lines mean."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from chaos.jobs import Question


class History:
    """Writes the lines of a history; without a file it writes nothing."""

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._lock = threading.Lock()

    def invoke(self, question: Question) -> None:
        """A job is about to be sent."""
        if self._file is not None:
            question_text = json.dumps([question.task, question.job], sort_keys=True).encode()
            self._write("invoke", "producer", id=question.task_id, question=hashlib.sha256(question_text).hexdigest())

    def sent(self, task_id: str, error: str, *, is_known: bool) -> None:
        """A job is certainly not in the queue, or that is unknown."""
        self._write("fail" if is_known else "info", "producer", id=task_id, error=error)

    def outcome(self, task_id: str, digest: bytes, *, wrong: str = "", failure: str = "") -> None:
        """An outcome was seen."""
        fields = {"error": failure} if failure else {}
        fields |= {"wrong": wrong} if wrong else {}
        self._write("fail" if failure else "ok", "results", id=task_id, answer=digest.hex(), **fields)

    def fault(self, fault: str, event: str) -> None:
        """A fault begins or ends."""
        self._write("info", "nemesis", fault=fault, event=event)

    def _write(self, kind: str, process: str, **fields: str) -> None:
        if self._file is not None:
            with self._lock:
                at = round(time.monotonic(), 4)
                self._file.write(json.dumps({"type": kind, "process": process, "time": at, **fields}) + "\n")
