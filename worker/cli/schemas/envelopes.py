"""What stands around a job and an answer in Redis, as types: Celery's message, and its result records."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from worker import errors
from worker.cli.schemas.docstrings import class_summary
from worker.contract import Result
from worker.contract.registry import TASKS
from worker.queue.transport.inspection import LONGEST_OUTAGE_SECONDS, Rules

if TYPE_CHECKING:
    from worker.cli.schemas.rules import Schema

# --- Celery's message ---------------------------------------------------------------------------


_RULES = Rules()
_PRINTABLE: Schema = {"not": {"pattern": r"[\x00-\x1f\x7f]"}}
_Id = Annotated[str, Field(min_length=1, max_length=_RULES.max_id, json_schema_extra=_PRINTABLE)]
_Count = Annotated[int, Field(ge=0, lt=2**31)]

UNSAID_OF_MESSAGES = {
    "time": "An `eta` or `expires` that is no time as ISO 8601.",
    "printable": "An id with a character beyond ASCII that can't be printed, e.g. U+200B.",
    "size": f"A message of more than {_RULES.max_bytes} bytes, or of {_RULES.max_values} commas, colons and opening "
    "brackets, or an integer of more than 4300 digits.",
}
"""What a message is refused for that its schema cannot say: name → sentence."""


class Headers(Result):
    """Celery's headers, task protocol 2. Other headers may be there.

    Attributes:
        task: name of the task.
        id: a new id (a UUID) for every job; its answer stands under it.
        expires: after this time (ISO 8601, with an offset) nobody waits for the answer any more.
        eta: not before this time (ISO 8601, with an offset).
        timelimit: refused, except for the nulls that Celery sends.
        compression: refused.
        ignore_result: true: there is no record.
        retries: Celery's own count.
        outage_seconds: for how long the worker itself has put the job off.
    """

    task: Annotated[str, Field(json_schema_extra={"enum": [task.name for task in TASKS]})]
    id: _Id
    expires: str | None = None
    eta: str | None = None
    timelimit: Annotated[list[None], Field(min_length=2, max_length=2)] | None = None
    compression: None = None
    root_id: _Id | None = None
    parent_id: _Id | None = None
    group: _Id | None = None
    origin: _Id | None = None
    lang: _Id | None = None
    retries: _Count | None = None
    group_index: _Count | None = None
    replaced_task_nesting: _Count | None = None
    ignore_result: bool | None = None
    outage_seconds: Annotated[float, Field(ge=0, le=LONGEST_OUTAGE_SECONDS)] | None = None


class DeliveryInfo(Result):
    """Where the message goes. Without it, a message can't be given back to its queue.

    Attributes:
        exchange: the default exchange.
        routing_key: name of the queue, which is the Redis list.
    """

    exchange: Literal[""]
    routing_key: Annotated[str, Field(json_schema_extra={"enum": sorted({task.queue for task in TASKS})})]


class Properties(Result):
    """Kombu's properties. Other properties may be there.

    Attributes:
        delivery_tag: a new id (a UUID) for every push, which makes it a message of its own.
        delivery_info: where the message goes.
        body_encoding: `base64` if the body is base64 of the JSON text; null or absent if it is the text.
        correlation_id: the task id again.
        priority: refused, except 0.
    """

    delivery_tag: Annotated[str, Field(min_length=1)]
    delivery_info: DeliveryInfo
    body_encoding: Literal["base64"] | None = None
    correlation_id: str | None = None
    priority: Literal[0] | None = None


def body_schema(job: Schema) -> Schema:
    """Schema of a decoded body, for a job's schema."""
    return {
        "type": "array",
        "description": "Positional arguments (the job object alone), keyword arguments (none), and Celery's own.",
        "prefixItems": [
            {"type": "array", "prefixItems": [job], "minItems": 1, "maxItems": 1},
            {"type": "object", "maxProperties": 0},
            {
                "type": ["object", "null"],
                "description": "callbacks, errbacks, chain and chord: each null, empty, or absent.",
                "properties": {
                    **{name: {"type": ["array", "null"], "maxItems": 0} for name in ("callbacks", "errbacks", "chain")},
                    "chord": {"type": ["object", "null"], "maxProperties": 0},
                },
            },
        ],
        "minItems": 3,
        "maxItems": 3,
    }


_BODY: Schema = {"contentMediaType": "application/json", "contentSchema": body_schema({"type": "object"})}


class Message(Result):
    """What a backend pushes (`LPUSH`) to a queue, as JSON: a Celery task message, protocol 2.

    Attributes:
        body: JSON text of `[[job], {}, {}]`.
        content_type: the only one that is accepted.
        content_encoding: the body's character set.
        headers: which task, under which id.
        properties: how it is delivered.
    """

    body: Annotated[str, Field(json_schema_extra=_BODY)]
    content_type: Annotated[Literal["application/json"], Field(alias="content-type")]
    content_encoding: Annotated[Literal["utf-8"], Field(alias="content-encoding")]
    headers: Headers
    properties: Properties


# --- Celery's result records --------------------------------------------------------------------


def error_types() -> dict[str, str]:
    """What can stand in ``exc_type``, and what to do about it."""
    found = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    return {
        name: class_summary(kind).partition("\n\n")[0]
        for name, kind in sorted(found.items())
        if issubclass(kind, errors.RetrievalError) and kind is not errors.RetrievalError
    }


class Error(Result):
    """What went wrong.

    Attributes:
        exc_type: what kind of error, and so what to do about it.
        exc_message: one readable sentence.
        exc_module: for Python clients; no part of the contract.
    """

    exc_type: Annotated[
        str,
        Field(json_schema_extra={"oneOf": [{"const": n, "description": text} for n, text in error_types().items()]}),
    ]
    exc_message: Annotated[list[str], Field(min_length=1, max_length=1)]
    exc_module: str


class Record(Result):
    """What stands, as JSON, under a task id.

    Attributes:
        status: what kind of record this is.
        result: the answer, or what went wrong.
        traceback: always null: stack traces stay in the worker's log.
        children: Celery's own; no part of the contract.
        date_done: when the job ended (ISO 8601), null while it has not.
        task_id: the id that the sender chose.
    """

    status: str
    result: Any
    traceback: None
    children: list[Any]
    date_done: str | None
    task_id: str


class Success(Record):
    """The job was answered; `result` is as the task's result schema says."""

    status: Literal["SUCCESS"]
    date_done: str


class Failure(Record):
    """The job failed and will not be tried again by itself."""

    status: Literal["FAILURE"]
    result: Error
    date_done: str


class Retry(Record):
    """Not the end: something was away, and the worker will try again. Keep waiting."""

    status: Literal["RETRY"]
    result: Error
    date_done: None


ENVELOPES: dict[str, type[Result]] = {"message": Message, "success": Success, "failure": Failure, "retry": Retry}
