"""What is checked of a message before Celery takes it for a job, where the transport has not done so already.

The reliable transport delivers only what `queue.transport.inspection` lets through. Stock kombu delivers anything, and
whatever has another shape than Celery expects ends the worker's main process, or the job without a result.
"""

from __future__ import annotations

import logging
from typing import Any

from celery.worker.strategy import default

from worker.errors import InvalidJob
from worker.queue.request import safe
from worker.queue.transport.inspection import check_content, check_limits
from worker.queue.transport.qos import Message

logger = logging.getLogger("worker.admission")


def admit(task: Any, app: Any, consumer: Any) -> Any:
    """What the consumer does with a message of one of our tasks."""
    handle = default(task, app, consumer)

    def check_and_handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        problem = None if isinstance(message, Message) else _problem(message)
        if problem is None:
            return handle(message, body, ack, reject, callbacks)
        logger.error("message refused: invalid job", extra=safe(message))
        task.backend.owe(message.headers["id"], problem, lambda: ack(logger, consumer.connection_errors))
        return None

    return check_and_handle


def _problem(message: Any) -> InvalidJob | None:
    try:
        check_limits(message.headers)
        try:
            payload = message.payload
        except Exception:  # noqa: BLE001 -- of any decoder
            payload = None
        check_content(payload, callbacks=False)
    except InvalidJob as problem:
        return problem
    return None
