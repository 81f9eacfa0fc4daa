"""Types of the envelopes of jobs and answers in Redis: Celery's message and its result records."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field

from retrieval_client import errors
from retrieval_client.contract.base import Result
from retrieval_client.contract.registry import TASKS
from workbench.schemas.docstrings import class_summary
from worker.queue.broker.inspection import LONGEST_OUTAGE_SECONDS, Rules

if TYPE_CHECKING:
    from workbench.schemas.rules import Schema

# --- Celery's message ---------------------------------------------------------------------------


_RULES = Rules()
_PRINTABLE: Schema = {"not": {"pattern": r"[\x00-\x1f\x7f]"}}
_Id = Annotated[str, Field(min_length=1, max_length=_RULES.max_id, json_schema_extra=_PRINTABLE)]
_Count = Annotated[int, Field(ge=0, lt=2**31)]

RULES_OF_MESSAGES = {
    "time": "An `eta` or `expires` that is no ISO 8601 time.",
    "printable": "An id with a character beyond ASCII that can't be printed, e.g. U+200B.",
    "size": f"A message of more than {_RULES.max_bytes} bytes, or of {_RULES.max_values} commas, colons and opening "
    "brackets, or an integer of more than 4300 digits.",
}
"""What the message's schema takes and the worker refuses: name → sentence."""


_SENT = ConfigDict(json_schema_serialization_defaults_required=False)
"""A backend may leave out what has a default."""


class Headers(Result):
    """Celery's headers, task protocol 2. Other headers are allowed.

    Attributes:
        task: name of the task.
        id: a new id (a UUID) for every job; the key of its answer.
        expires: after this time (ISO 8601, with an offset) no client waits for the answer.
        eta: not before this time (ISO 8601, with an offset).
        timelimit: refused, except for the nulls that Celery sends.
        compression: refused.
        ignore_result: true: there is no record.
        group: whose turn the job takes, if it is not its caller's; Celery sends the id of a group.
        retries: Celery's own count.
        outage_seconds: seconds for which the worker has postponed the job during outages.
    """

    model_config = _SENT

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
    """Destination of the message. Without it, a message can't be requeued.

    Attributes:
        exchange: the default exchange.
        routing_key: name of the queue, which is the Redis list.
    """

    exchange: Literal[""]
    routing_key: Annotated[str, Field(json_schema_extra={"enum": sorted({task.queue for task in TASKS})})]


class Properties(Result):
    """Kombu's properties. Other properties are allowed.

    Attributes:
        delivery_tag: a new id (a UUID) for every push, which makes it a message of its own.
        delivery_info: destination of the message.
        body_encoding: `base64` if the body is base64 of the JSON text; null or absent if it is the text.
        correlation_id: the task id again.
        priority: refused, except 0.
    """

    model_config = _SENT

    delivery_tag: Annotated[str, Field(min_length=1)]
    delivery_info: DeliveryInfo
    body_encoding: Literal["base64"] | None = None
    correlation_id: str | None = None
    priority: Literal[0] | None = None


def body_schema(job: Schema) -> Schema:
    """Return the schema of a decoded body, for a job's schema."""
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
    """Message that a backend pushes (`LPUSH`) to a queue, as JSON: a Celery task message, protocol 2.

    Attributes:
        body: JSON text of `[[job], {}, {}]`.
        content_type: the only accepted one.
        content_encoding: the body's character set.
        headers: the task and its id.
        properties: the delivery.
    """

    body: Annotated[str, Field(json_schema_extra=_BODY)]
    content_type: Annotated[Literal["application/json"], Field(alias="content-type")]
    content_encoding: Annotated[Literal["utf-8"], Field(alias="content-encoding")]
    headers: Headers
    properties: Properties


# --- Celery's result records --------------------------------------------------------------------


def error_types() -> dict[str, str]:
    """Return the values of ``exc_type``, each with its remedy."""
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    return {
        name: class_summary(kind).partition("\n\n")[0]
        for name, kind in sorted(classes.items())
        if issubclass(kind, errors.RetrievalError) and kind is not errors.RetrievalError
    }


class Error(Result):
    """Error of a job.

    Attributes:
        exc_type: class of the error, which determines the remedy.
        exc_message: one readable sentence.
        exc_module: for Python clients; not part of the contract.
    """

    exc_type: Annotated[
        str,
        Field(json_schema_extra={"oneOf": [{"const": n, "description": text} for n, text in error_types().items()]}),
    ]
    exc_message: Annotated[list[str], Field(min_length=1, max_length=1)]
    exc_module: str


class Record(Result):
    """Result record under a task id, as JSON.

    Attributes:
        status: state of the job.
        result: the answer, or the error.
        traceback: always null: stack traces stay in the worker's log.
        children: Celery's own; not part of the contract.
        date_done: time when the job ended (ISO 8601); null before.
        task_id: the id that the sender chose.
    """

    status: str
    result: Any
    traceback: None
    children: list[Any]
    date_done: str | None
    task_id: str


class Success(Record):
    """The job was answered; `result` follows the task's result schema."""

    status: Literal["SUCCESS"]
    date_done: str


class Failure(Record):
    """The job failed and will not be retried."""

    status: Literal["FAILURE"]
    result: Error
    date_done: str


class Retry(Record):
    """Not final: a service was unavailable, and the worker will retry. Keep waiting."""

    status: Literal["RETRY"]
    result: Error
    date_done: None


ENVELOPES: dict[str, type[Result]] = {"message": Message, "success": Success, "failure": Failure, "retry": Retry}
