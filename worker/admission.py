"""What is checked of a message before Celery takes it for a job."""

from __future__ import annotations

import logging
from types import NoneType
from typing import Any

from celery.worker.strategy import default

from worker.errors import InvalidJob
from worker.quiet import safe

logger = logging.getLogger("worker.admission")


def admit(task: Any, app: Any, consumer: Any) -> Any:
    """What the consumer does with a message of one of our tasks.

    Celery reads a message's body and headers in the worker's main process, and whatever has another shape than
    it expects ends that process, or the job without a result. Such a message is answered here as an `InvalidJob`.
    """
    handle = default(task, app, consumer)

    def check_and_handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        problem = _problem(message)
        if problem is None:
            return handle(message, body, ack, reject, callbacks)
        logger.error("message refused: invalid job", extra=safe(message))
        task.backend.mark_as_failure(message.headers["id"], problem)
        ack(logger, consumer.connection_errors)
        return None

    return check_and_handle


def _problem(message: Any) -> InvalidJob | None:
    limits = message.headers.get("timelimit")
    if limits and not (isinstance(limits, list) and len(limits) == 2 and not any(limits)):  # noqa: PLR2004 -- hard and soft
        return InvalidJob("expected no such header", "timelimit")
    if message.headers.get("compression"):
        return InvalidJob("expected no such header", "compression")
    try:
        payload = message.payload
    except Exception:  # noqa: BLE001 -- of any decoder
        payload = None
    if not (isinstance(payload, list) and [*map(type, payload)] in ([list, dict, dict], [list, dict, NoneType])):
        return InvalidJob("the body could not be decoded as JSON of [[job], {}, {}]")
    _, kwargs, embed = payload
    if "self" in kwargs:  # Celery's own call of the task would fail on it
        return InvalidJob("expected the job object as the only positional argument, and no keyword arguments")
    if not _only_signatures(embed or {}):
        return InvalidJob("expected signatures as callbacks, errbacks, chain and chord")
    return None


def _only_signatures(embed: dict[str, Any]) -> bool:
    lists = [embed.get(name) or [] for name in ("callbacks", "errbacks", "chain")]
    return isinstance(embed.get("chord"), dict | NoneType) and all(
        isinstance(some, list) and all(isinstance(signature, dict) for signature in some) for some in lists
    )
