"""Records of jobs' outcomes: their form, which is Celery's, and how they are stored: in one step, and never twice.

Nothing here knows Celery's backend, so that whoever ends a job can store its outcome.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from celery.states import READY_STATES

from retrieval_client.errors import ON_THE_WIRE, DeadLettered, InvalidJob, RetrievalError
from worker.queue import codec
from worker.queue.lua import Script

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import redis

REVOKED = DeadLettered("the job was revoked")

_STORE = Script("store")
# Where the queues are, an answered job makes room: a full Redis takes a script that begins with a removal.
_STORE_BESIDE_QUEUES = Script("store", "redis.call('DEL', 'retrieval-worker.nothing')\n")


class Record(NamedTuple):
    """Record of a job's state: its id, and its JSON."""

    task_id: str
    value: bytes


def record_key(task_id: str) -> str:
    """Return the key of a job's record."""
    return f"celery-task-meta-{task_id}"


def compose(
    task_id: str,
    state: str,
    result: Any,
    headers: Mapping[str, Any] | None = None,
    *,
    replaceable: bool = False,
) -> Record:
    """Compose a record as Celery does, without the stack trace, which stays in the worker's log.

    The job's headers name its group and its parent. A record is replaceable if a job of that id may end otherwise
    still: anybody may have written the id on a message that is refused. It begins otherwise than a final one.
    """
    headers = headers or {}
    if isinstance(result, RetrievalError):
        result = {"exc_type": type(result).__name__, "exc_message": result.args, "exc_module": ON_THE_WIRE}
    begin = {"result": result, "status": state} if replaceable else {"status": state, "result": result}
    ids = {"group_id": headers.get("group"), "parent_id": headers.get("parent_id")}
    value = {
        **begin,
        "traceback": None,
        "children": [],
        "date_done": datetime.now(UTC).isoformat() if state in READY_STATES else None,
        **{name: value for name, value in ids.items() if value},
        "task_id": task_id,
    }
    return Record(task_id, codec.dumps(value))


def refusal(task_id: str, error: RetrievalError) -> Record:
    """Return the record of a refused message, which the job of that id may replace if it is malformed."""
    return compose(task_id, "FAILURE", error, replaceable=isinstance(error, InvalidJob))


class RecordStore:
    """Stores records in the results' Redis, each for some seconds."""

    def __init__(self, client: redis.Redis, seconds: int, *, is_on_broker: bool) -> None:
        self._client = client
        self._seconds = seconds
        self._store = _STORE_BESIDE_QUEUES if is_on_broker else _STORE

    def put(self, records: Sequence[Record]) -> set[str]:
        """Store and publish records, in one step, but those of jobs that have a final one; return the ids of these.

        Raises:
            redis.RedisError: some could not be stored; others may be.
        """
        if not records:
            return set()
        names = [record_key(record.task_id) for record in records]
        values = [record.value for record in records]
        refused = self._store.run(self._client.execute_command, names, self._seconds, *values)
        return {records[number - 1].task_id for number in refused}

    def get(self, task_id: str) -> dict[str, Any] | None:
        """Return a job's record, if it has one."""
        value: Any = self._client.get(record_key(task_id))
        record: dict[str, Any] | None = value and codec.parse(value)
        return record

    def disconnect(self) -> None:
        """Close the connections; the next command opens another one."""
        self._client.connection_pool.disconnect()
