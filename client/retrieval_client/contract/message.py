"""Messages and records as they stand in Redis, written and read without Celery: task protocol 2 (docs/backends.md)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retrieval_client.contract.registry import Task

_RECORD = "celery-task-meta-"
ENDED = {"SUCCESS", "FAILURE", "REVOKED"}


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a job in the results' Redis.

    Attributes:
        state: Celery's state.
        result: the answer, of a failure its class and message, of a running job its progress.
    """

    state: str
    result: Any

    @property
    def ended(self) -> bool:
        """True if the state is final."""
        return self.state in ENDED


def record_key(task_id: str) -> str:
    """Return the key of a job's record, which is also the channel that publishes it."""
    return _RECORD + task_id


def task_id_of(channel: bytes) -> str:
    """Return the task id of a record's channel."""
    return channel.decode(errors="replace").removeprefix(_RECORD)


def control_channel(database: int) -> str:
    """Return the channel of remote control, on which workers with queues in this database listen."""
    return f"/{database}.celery.pidbox"


def compose_revoke(task_id: str) -> str:
    """Return the message by which workers are asked not to run a job."""
    revoke = {"method": "revoke", "arguments": {"task_id": task_id}, "destination": None}
    return _envelope(revoke, {}, {"delivery_info": {"exchange": "celery.pidbox", "routing_key": ""}})


def compose(task: Task, task_id: str, job: Mapping[str, Any], expires: str | None) -> str:
    """Return the message that asks for a job.

    Args:
        task: the task.
        task_id: the id of the job.
        job: the job, as JSON.
        expires: after this time (ISO 8601, with an offset) no client waits for the answer; None: it never expires.
    """
    headers = {
        "lang": "py",
        "task": task.name,
        "id": task_id,
        "root_id": task_id,
        "parent_id": None,
        "group": None,
        "retries": 0,
        "eta": None,
        "expires": expires,
        # Shown by Flower and `inspect`, where nothing of a job may be seen.
        "argsrepr": "(job)",
        "kwargsrepr": "{}",
    }
    properties = {
        "correlation_id": task_id,
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": task.queue},
        "priority": 0,
    }
    return _envelope([[job], {}, {}], headers, properties)


def _envelope(body: Any, headers: Mapping[str, Any], properties: Mapping[str, Any]) -> str:
    """Return a message as kombu reads it."""
    return json.dumps(
        {
            "body": json.dumps(body),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": headers,
            "properties": {**properties, "delivery_tag": str(uuid.uuid4())},
        }
    )


def read_record(stored: bytes | str | None) -> Record:
    """Read a record; where there is none, the job is pending.

    Raises:
        ValueError: it is no record.
    """
    if stored is None:
        return Record("PENDING", None)
    record = json.loads(stored)
    if not isinstance(record, dict) or not isinstance(record.get("status"), str):
        raise ValueError("expected an object with a status")  # noqa: TRY004 -- as json raises
    return Record(record["status"], record.get("result"))
