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

_LONGEST_ID = 64
_NO_JOB = b"[[null], {}, {}]"

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

    def __init__(self, message: Any, *args: Any, body: Any = None, **kwargs: Any) -> None:
        if not _is_task_body(message.payload):
            # Celery would fail on it here, and its sender hear nothing; so the task refuses it.
            message.body = body = _NO_JOB
            message._decoded_cache = None  # noqa: SLF001 -- kombu has no other way to say that the body changed
        super().__init__(message, *args, body=body, **kwargs)
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


def _is_task_body(body: Any) -> bool:
    """Whether a decoded body is (arguments, keyword arguments, options)."""
    shapes = (list, dict, dict | None)
    return len(body) == len(shapes) and all(isinstance(part, shape) for part, shape in zip(body, shapes, strict=True))


class QuietConsumer(Consumer):
    """A consumer that names what is wrong with a message without printing it."""

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """A body that can't be decoded at all."""
        logger.error("message refused: undecodable", extra=_safe(message, exc))
        message.ack()

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Not a task message."""
        del body
        logger.error("message refused: not a task message", extra=_safe(message))
        message.reject_log_error(logger, self.connection_errors)

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task that this worker does not have."""
        del body, exc
        logger.error("message refused: unknown task", extra=_safe(message))
        message.reject_log_error(logger, self.connection_errors)

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        """A task message whose envelope is wrong."""
        del body
        logger.error("message refused: invalid envelope", extra=_safe(message, exc))
        message.reject_log_error(logger, self.connection_errors)


def _safe(message: Any, exc: Exception | None = None) -> dict[str, Any]:
    """What may be logged of a message: its id if it is one, its size, the kind of error."""
    headers = message.headers if isinstance(message.headers, dict) else {}
    task_id = str(headers.get("id", ""))
    return {
        "task_id": task_id if len(task_id) <= _LONGEST_ID and task_id.replace("-", "").isalnum() else "",
        "bytes": len(message.body or b""),
        "error": type(exc).__name__ if exc else "",
    }
