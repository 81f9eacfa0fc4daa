"""Messages as a backend without Celery pushes them."""

from __future__ import annotations

import json
import uuid
from typing import Any

from chaos.jobs import envelope


def raw_message(job: dict[str, Any], task: str = "retrieve_top_k", task_id: str | None = None) -> str:
    """Encode a job as the message that a backend without Celery pushes: ``LPUSH retrieval <message>``."""
    body = json.dumps([[job], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    return envelope(task_id or str(uuid.uuid4()), task, body).decode()
