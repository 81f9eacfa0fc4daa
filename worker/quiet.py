"""Celery's request and consumer, made to say nothing of what a job holds.

Stock Celery puts a producer's `argsrepr` into events and logs, prints arguments to `inspect active`, and logs
the body of whatever it can't run. Here all of these see the names of a job's fields only.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.worker.consumer import Consumer
from celery.worker.request import Request

from worker.contract import Job
from worker.errors import InvalidJob

_LONGEST_ID = 64

logger = logging.getLogger("worker.quiet")


def _known_fields(cls: type[Job]) -> set[str]:
    return set(cls.model_fields).union(*(_known_fields(child) for child in cls.__subclasses__()))


def summarise(args: Any) -> str:
    """A job's arguments as the names of the fields it has, of those that the contract knows.

    >>> summarise([{"query_embedding": [0.1], "k": 12, "secret text": 1}])
    '(k, query_embedding, +1)'
    """
    job = args[0] if isinstance(args, list | tuple) and args else None
    if not isinstance(job, dict):
        return "(no job)"
    known = sorted(_known_fields(Job) & job.keys())
    unknown = len(job) - len(known)
    return f"({', '.join([*known, f'+{unknown}'] if unknown else known)})"


class QuietRequest(Request):
    """A request that shows field names in place of arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._argsrepr = self._request_dict["argsrepr"] = summarise(self._args)
        self._kwargsrepr = self._request_dict["kwargsrepr"] = "{}"
        # A shadow name is a producer's free text, shown in logs and events.
        self.name = self._type
        # A sender's own time limits are refused by the task; until then they must not act.
        self.time_limits = (None, None)
        self._request_dict["shadow"] = None

    def info(self, safe: bool = True) -> dict[str, Any]:
        """What `inspect active` and its like show, whatever they ask for."""
        del safe
        return {**super().info(safe=True)}


class QuietConsumer(Consumer):
    """A consumer that names what is wrong with a message without printing it."""

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """A body that can't be decoded at all."""
        logger.error("message refused: undecodable", extra=safe(message, exc))
        headers = message.headers if isinstance(message.headers, dict) else {}
        if isinstance(headers.get("id"), str) and headers.get("task") in self.app.tasks:
            problem = InvalidJob("the body could not be decoded as JSON (and must not be compressed)")
            self.app.backend.mark_as_failure(headers["id"], problem)
        message.ack()

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Not a task message."""
        del body
        logger.error("message refused: not a task message", extra=safe(message))
        message.reject_log_error(logger, self.connection_errors)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task that this worker does not have."""
        del body, exc
        logger.error("message refused: unknown task", extra=safe(message))
        message.reject_log_error(logger, self.connection_errors)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task message whose envelope is wrong."""
        del body
        logger.error("message refused: invalid envelope", extra=safe(message, exc))
        message.reject_log_error(logger, self.connection_errors)


def safe(message: Any, exc: Exception | None = None) -> dict[str, Any]:
    """What may be logged of a message: its id if it is one, its size, the kind of error."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    task_id = str(headers.get("id", ""))
    return {
        "task_id": task_id if len(task_id) <= _LONGEST_ID and task_id.replace("-", "").isalnum() else "",
        "bytes": len(message.body or b""),
        "error": type(exc).__name__ if exc else "",
    }
