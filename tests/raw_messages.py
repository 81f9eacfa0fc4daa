"""Messages as a backend without Celery pushes them."""

from __future__ import annotations

import json
import uuid
from typing import Any


def raw_message(job: dict[str, Any], task: str = "retrieve_top_k", task_id: str | None = None) -> str:
    """Encode a job as the message that a backend without Celery pushes: ``LPUSH retrieval <message>``."""
    task_id = task_id or str(uuid.uuid4())
    return json.dumps(
        {
            "body": json.dumps([[job], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"lang": "any", "task": task, "id": task_id, "root_id": task_id, "parent_id": None},
            "properties": {
                "correlation_id": task_id,
                "delivery_mode": 2,
                "delivery_tag": str(uuid.uuid4()),
                "delivery_info": {"exchange": "", "routing_key": "retrieval"},
                "body_encoding": None,
            },
        }
    )
