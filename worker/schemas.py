"""The wire contract as documents: JSON Schemas, AsyncAPI, examples and hash vectors, from the project's own types.

`retrieval-worker contract` writes them to ``docs/contract/``; ``--check`` compares. Everything here is a pure
function of the types, so that the same code always gives the same bytes.

A new task is one line in `TASKS`, one in `_RULES` if its fields depend on each other, and its examples.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import inspect
import json
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from worker import errors
from worker.contract import (
    MAX_K,
    SCHEMA_VERSION,
    FailedQuery,
    Job,
    JobError,
    Part,
    RankedChunk,
    Result,
    RetrieveTopK,
    Stage,
    TopK,
    TopKBatch,
    Trace,
)
from worker.core.canonical import canonical_json, canonical_sha256
from worker.core.hashing import HASH_VERSION, hash_chunk
from worker.model import DIMENSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic_core import core_schema

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_FORMAT = "application/schema+json;version=draft-2020-12"


# --- what there is ------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskContract:
    """A task that a backend may call.

    Attributes:
        name: Celery's name of the task.
        queue: the Redis list that it is pushed to.
        job: type of its only argument.
        result: type of its answer, or a union of types.
    """

    name: str
    queue: str
    job: type[Job]
    result: Any


TASKS = (TaskContract("retrieve_top_k", "retrieval", RetrieveTopK, TopK | TopKBatch),)

_RULES: dict[type[Part], tuple[Schema, ...]] = {
    Job: ({"not": {"required": ["principal", "principal_token"]}},),
    RetrieveTopK: (
        {"oneOf": [{"required": ["query_embedding"]}, {"required": ["query_embeddings"]}]},
        {"not": {"required": ["query_embeddings", "run"]}},
    ),
}
"""What a type's validators ask of several fields at once, for it and its subclasses."""


# --- Celery's envelope --------------------------------------------------------------------------


class Headers(Result):
    """Celery's headers, task protocol 2. Other headers may be there.

    Attributes:
        task: name of the task.
        id: a new id (a UUID) for every job; its answer stands under it.
        expires: after this time (ISO 8601, with an offset) nobody waits for the answer any more.
        eta: not before this time (ISO 8601, with an offset).
        timelimit: refused, except for the nulls that Celery sends.
        compression: refused.
    """

    task: Annotated[str, Field(json_schema_extra={"enum": [task.name for task in TASKS]})]
    id: Annotated[str, Field(min_length=1)]
    expires: str | None = None
    eta: str | None = None
    timelimit: list[None] | None = None
    compression: None = None


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
        delivery_tag: a new id (a UUID) for every push: the worker keeps unacknowledged messages under it.
        delivery_info: where the message goes.
        body_encoding: `base64` if the body is base64 of the JSON text; null or absent if it is the text.
        correlation_id: the task id again.
    """

    delivery_tag: Annotated[str, Field(min_length=1)]
    delivery_info: DeliveryInfo
    body_encoding: Literal["base64"] | None = None
    correlation_id: str | None = None


def body_schema(job: Schema) -> Schema:
    """Schema of a decoded body, for a job's schema."""
    return {
        "type": "array",
        "description": "Positional arguments (the job object alone), keyword arguments (none), and Celery's own.",
        "prefixItems": [
            {"type": "array", "prefixItems": [job], "minItems": 1, "maxItems": 1},
            {"type": "object", "maxProperties": 0},
            {"type": "object", "description": "callbacks, errbacks, chain and chord: each null, or absent."},
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
        name: _summary(kind).partition("\n\n")[0]
        for name, kind in sorted(found.items())
        if issubclass(kind, errors.RetrievalError) and kind is not errors.RetrievalError
    }


def _summary(kind: type) -> str:
    """A class's docstring up to its sections, as Markdown."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:")[0].strip().replace("``", "`")


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


# --- JSON Schemas -------------------------------------------------------------------------------


class Generator(GenerateJsonSchema):
    """Pydantic's generator, with the contract's nullability, cross-field rules and docstrings."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """A title that only repeats the field's name says nothing."""
        del schema
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        """One type as an object schema."""
        kind = schema["cls"]
        made = super().model_schema(schema)
        made["description"] = _summary(kind)
        properties = made.get("properties", {})
        _describe(properties, kind)
        if issubclass(kind, Part):
            made["properties"] = {
                name: value if name in kind.nullable else without_null(value) for name, value in properties.items()
            }
            rules = [rule for base in kind.__mro__ for rule in _RULES.get(base, ())]
            made |= {"allOf": rules} if rules else {}
        return made


def without_null(schema: Schema) -> Schema:
    """A property's schema without ``null`` as an alternative or as the default.

    >>> without_null({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None})
    {'type': 'string'}
    """
    rest = {key: value for key, value in schema.items() if key != "anyOf" and (key, value) != ("default", None)}
    if "anyOf" not in schema:
        return rest
    alternatives = [alternative for alternative in schema["anyOf"] if alternative != {"type": "null"}]
    return {**alternatives[0], **rest} if len(alternatives) == 1 else {"anyOf": alternatives, **rest}


_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)


def _describe(properties: dict[str, Schema], kind: type[Any]) -> None:
    """Add what the ``Attributes:`` sections of a type and its bases say, where nothing is said yet."""
    for base in kind.__mro__:
        section = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")[2]
        for field, text in _ATTRIBUTE.findall(section):
            alias = kind.model_fields[field].alias if field in kind.model_fields else None
            if (name := alias or field) in properties:
                properties[name].setdefault("description", " ".join(text.replace("``", "`").split()))


def schemas() -> dict[str, Schema]:
    """Every JSON Schema by the stem of its file's name."""
    made: dict[str, Schema] = {}
    for task in TASKS:
        made[f"{task.name}.job"] = _schema(task.job, "validation", f"Job of {task.name}")
        made[f"{task.name}.result"] = _schema(task.result, "serialization", f"Result of {task.name}")
    for name, kind in ENVELOPES.items():
        made[name] = _schema(kind, "serialization", kind.__name__)
    return made


def _schema(kind: Any, mode: Literal["validation", "serialization"], title: str) -> Schema:
    made = TypeAdapter(kind).json_schema(schema_generator=Generator, mode=mode)
    return {**_plain(made), "$schema": DIALECT, "title": title}


def _plain(value: Any) -> Any:
    """One spelling for what releases of pydantic write differently, so that `--check` holds with each.

    >>> _plain({"additionalProperties": True, "maximum": 2.0})
    {'maximum': 2}
    """
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if (key, item) != ("additionalProperties", True)}
        return {key: _plain(item) for key, item in kept.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# --- AsyncAPI -----------------------------------------------------------------------------------


def asyncapi() -> Schema:
    """The AsyncAPI 3.0 document, told from the worker's side: it receives jobs and replies with records."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "retrieval-worker",
            "version": str(SCHEMA_VERSION),
            "description": "Celery task protocol 2 as JSON over Redis. A backend in any language pushes a message to a "
            "queue and reads the record under its task id. JSON Schemas stand beside this file, one example of every "
            "object in `examples/`. What a JSON Schema can't say: integers are written without a fraction "
            "(12, not 12.0), and no string holds U+0000 or a lone surrogate.",
        },
        "defaultContentType": "application/json",
        "servers": {
            "broker": _server("The Redis database with the queues."),
            "results": _server("The Redis database with the answers; may be the broker's."),
        },
        "channels": {**{queue: _queue_channel(queue) for queue in _queues()}, "answer": _answer_channel()},
        "operations": {task.name: _operation(task) for task in TASKS},
        "components": {"messages": _messages()},
    }


def _queues() -> list[str]:
    return sorted({task.queue for task in TASKS})


def _ref(*parts: str) -> Schema:
    return {"$ref": "#/" + "/".join(parts)}


def _server(description: str) -> Schema:
    return {
        "host": "{host}:{port}",
        "pathname": "/{database}",
        "protocol": "redis",
        "description": f"{description} Over TLS the protocol is `rediss`.",
        "variables": {
            "host": {"default": "localhost"},
            "port": {"default": "6379"},
            "database": {"default": "0"},
        },
    }


def _queue_channel(queue: str) -> Schema:
    names = [f"{task.name}.job" for task in TASKS if task.queue == queue]
    return {
        "address": queue,
        "description": "A Redis list: `LPUSH` one message per job.",
        "servers": [_ref("servers", "broker")],
        "messages": {name: _ref("components", "messages", name) for name in names},
    }


def _answer_channel() -> Schema:
    names = [*(f"{task.name}.success" for task in TASKS), "failure", "retry"]
    return {
        "address": "celery-task-meta-{task_id}",
        "description": "A Redis string that expires; every write is also published on the pub/sub channel of the same "
        "name. To wait: `SUBSCRIBE` first, then `GET` once, then listen. No key: not answered yet, or expired.",
        "servers": [_ref("servers", "results")],
        "parameters": {
            "task_id": {"description": "The job's id, as its sender chose it.", "location": "$message.payload#/task_id"}
        },
        "messages": {name: _ref("components", "messages", name) for name in names},
    }


def _operation(task: TaskContract) -> Schema:
    replies = [f"{task.name}.success", "failure", "retry"]
    return {
        "action": "receive",
        "summary": _summary(task.job),
        "channel": _ref("channels", task.queue),
        "messages": [_ref("channels", task.queue, "messages", f"{task.name}.job")],
        "reply": {
            "channel": _ref("channels", "answer"),
            "messages": [_ref("channels", "answer", "messages", name) for name in replies],
        },
    }


def _messages() -> Schema:
    made = {name: _answer_message(name, _summary(kind), {"$ref": f"./{name}.json"}) for name, kind in ENVELOPES.items()}
    del made["message"]  # each task has its own
    for task in TASKS:
        made[f"{task.name}.job"] = _job_message(task)
        answer = {"allOf": [{"$ref": "./success.json"}], "properties": {"result": _file(task, "result")}}
        made[f"{task.name}.success"] = _answer_message(f"{task.name}.success", _summary(Success), answer)
    del made["success"]
    return made


def _file(task: TaskContract, what: str) -> Schema:
    return {"$ref": f"./{task.name}.{what}.json"}


def _job_message(task: TaskContract) -> Schema:
    narrowed = {
        "headers": {"properties": {"task": {"const": task.name}}},
        "properties": {"properties": {"delivery_info": {"properties": {"routing_key": {"const": task.queue}}}}},
        "body": {"contentMediaType": "application/json", "contentSchema": body_schema(_file(task, "job"))},
    }
    return {
        "name": f"{task.name}.job",
        "summary": _summary(task.job),
        "correlationId": {"location": "$message.payload#/headers/id"},
        "payload": _payload({"allOf": [{"$ref": "./message.json"}], "properties": narrowed}),
    }


def _answer_message(name: str, summary: str, schema: Schema) -> Schema:
    return {
        "name": name,
        "summary": summary,
        "correlationId": {"location": "$message.payload#/task_id"},
        "payload": _payload(schema),
    }


def _payload(schema: Schema) -> Schema:
    return {"schemaFormat": SCHEMA_FORMAT, "schema": schema}


# --- examples -----------------------------------------------------------------------------------

EXAMPLE_ID = "5e4bf4fd-8d1b-4112-adfa-a311fa875e92"
EXAMPLE_KEY = "an example's key, which is no secret at all"
_DELIVERY_TAG = "26e0d561-588b-405a-8455-1e2a4cebec93"
_ANSWERED_AT = "2026-01-31T12:00:00.250000+00:00"
_YEAR_2100 = 4_102_444_800
_QUERY: Schema = {"k": 12, "principal": {"roles": ["editor"], "tenant_id": "t1", "user_id": "u1"}}


def example_embedding(shift: int = 0) -> str:
    """A fixed vector as base64 of 768 little-endian float32; every component is an exact multiple of 1/8."""
    values = ((i + shift) % 17 / 8 - 1 for i in range(DIMENSIONS))
    return base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *values)).decode()


def examples() -> dict[str, tuple[str, Any]]:
    """Every example by the stem of its file's name: the schema it is of, and the object."""
    job, result = "retrieve_top_k.job", "retrieve_top_k.result"
    return {
        job: (job, _filtered_job()),
        f"{job}.batch": (job, {**_QUERY, "query_embeddings": [example_embedding(), _zeros()]}),
        f"{job}.run": (job, {**_QUERY, "query_embedding": example_embedding(), "run": _run()}),
        f"{job}.token": (job, _signed({"query_embedding": example_embedding()}, "retrieve_top_k")),
        result: (result, _dump(_answer())),
        f"{result}.empty": (result, _dump(_empty_answer())),
        f"{result}.batch": (result, _dump(_batch_answer())),
        "message": ("message", _message(_filtered_job())),
        "success": ("success", _record("SUCCESS", _dump(_answer()))),
        "failure": ("failure", _record("FAILURE", _error("InvalidJob", "filters.pages[0]: expected an integer"))),
        "retry": ("retry", {**_record("RETRY", _error("Unavailable", "Postgres is away")), "date_done": None}),
    }


def _filtered_job() -> Schema:
    filters = {"ext_allow": [".pdf"], "metadata": {"language": "en"}, "pages": [3, 4], "path_contains": ["reports/"]}
    return {**_QUERY, "filters": filters, "max_distance": 0.8, "query_embedding": example_embedding()}


def _zeros() -> str:
    """No direction: the query that fails in the batch."""
    return base64.b64encode(bytes(4 * DIMENSIONS)).decode()


def _run() -> Schema:
    return {"subject_id": "song-1", "run_id": "r1", "step": "verse-1"}


def _signed(job: Schema, task: str) -> Schema:
    """A job with its token: a JWT (HS256), written out so that no library's version changes a byte."""
    claims = {**_QUERY["principal"], "exp": _YEAR_2100, "aud": "retrieval-worker", "task": task, "jti": EXAMPLE_ID}
    parts = ({"alg": "HS256", "kid": "example", "typ": "JWT"}, {**claims, "args_sha256": canonical_sha256(job)})
    signed = ".".join(_base64url(canonical_json(part)) for part in parts)
    signature = hmac.digest(EXAMPLE_KEY.encode(), signed.encode(), hashlib.sha256)
    return {**job, "principal_token": f"{signed}.{_base64url(signature)}"}


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _answer() -> TopK:
    first = "Channel 18 carried a steady 50 Hz hum at −61 dBu."
    second = "Moving the module to slot 19 moved the hum with it."
    box = {"x": 72, "y": 96, "width": 451, "height": 56}
    return TopK(
        schema_version=SCHEMA_VERSION,
        status="short",
        short_reason="max_distance",
        k_requested=12,
        k=12,
        corpus="documents",
        chunks=[
            _chunk(1, first, 0.25, page=3, section="Faults", coordinates=box, metadata={"language": "en"}),
            _chunk(2, second, 0.625, page=None, section=None, coordinates=None, metadata={}),
        ],
        trace=_trace(Stage(stage="search", duration_ms=3.25, counts={"fetched": 100, "found": 12}), searched=True),
    )


def _chunk(rank: int, text: str, distance: float, **fields: Any) -> RankedChunk:
    return RankedChunk(
        rank=rank,
        chunk_id=f"report-2023-00{rank}",
        document_id="report-2023",
        text=text,
        chunk_hash=hash_chunk(text),
        hash_version=HASH_VERSION,
        distance=distance,
        similarity_score=1 - distance,
        **fields,
    )


def _empty_answer() -> TopK:
    """For a caller who may see nothing; more than 15 were asked for."""
    trace = _trace(Stage(stage="search", duration_ms=1.5, counts={"fetched": 0, "found": 0}), searched=True)
    changes = {"status": "empty", "short_reason": "visible_rows", "chunks": [], "k_requested": 50, "k": MAX_K}
    return _answer().model_copy(update={**changes, "trace": trace})


def _batch_answer() -> TopKBatch:
    path = "query_embeddings[1]"
    message = f"{path}: expected a vector with a direction, got only zeros"
    failed = FailedQuery(error=JobError(type="InvalidJob", path=path, message=message))
    return TopKBatch(
        schema_version=SCHEMA_VERSION,
        results=[_answer(), failed],
        trace=_trace(Stage(stage="batch", duration_ms=6.5, counts={"queries": 2, "failed": 1}), searched=False),
    )


def _trace(stage: Stage, *, searched: bool) -> Trace:
    search = {"method": "index", "corpus_rows": 50_000, "ef_search": 100} if searched else {}
    return Trace(stages=[stage], search=search, models={}, worker_version="0.1.0")


def _dump(result: Result) -> Schema:
    return result.model_dump(mode="json")


def _message(job: Schema) -> Schema:
    properties = {
        "body_encoding": None,
        "correlation_id": EXAMPLE_ID,
        "delivery_info": {"exchange": "", "routing_key": "retrieval"},
        "delivery_tag": _DELIVERY_TAG,
    }
    return {
        "body": json.dumps([[job], {}, {}], sort_keys=True),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"id": EXAMPLE_ID, "task": "retrieve_top_k"},
        "properties": properties,
    }


def _record(status: str, result: Schema) -> Schema:
    return {
        "status": status,
        "result": result,
        "traceback": None,
        "children": [],
        "date_done": _ANSWERED_AT,
        "task_id": EXAMPLE_ID,
    }


def _error(exc_type: str, sentence: str) -> Schema:
    return {"exc_type": exc_type, "exc_message": [sentence], "exc_module": errors.__name__}


# --- hash vectors -------------------------------------------------------------------------------

WHITE_SPACE = (
    *range(0x0009, 0x000E),
    *range(0x001C, 0x0021),
    0x0085,
    0x00A0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
)
"""The 29 code points that version 1 takes for white space, whatever a later Unicode says."""

_KEPT = {
    0x200B: "zero width space",
    0x200D: "zero width joiner",
    0x2060: "word joiner",
    0xFEFF: "byte order mark",
    0x180E: "Mongolian vowel separator",
    0x0001: "a control character",
    0x001B: "escape, next to the white space from U+001C",
}

_TEXTS = {
    "empty": "",
    "one word": "hum",
    "letter case is kept": "Hum",
    "runs become one space, ends are stripped": "  two\r\n\r\n\twords \n",
    "already in normal form": "two words",
    "composed (NFC) is not decomposed": "caf\u00e9",
    "decomposed (NFD) is not composed": "cafe\u0301",
    "compatibility forms are kept": "\ufb01 \uff21 \u00b2",
    "emoji beyond the basic plane": "\U0001f600 \U0001f3b5",
    "emoji joined by U+200D, with U+FE0F": "\U0001f469\u200d\U0001f680 \u2764\ufe0f",
    "right to left, Hebrew": "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "right to left, Arabic with marks": "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627\u200f \u0628\u0643",
    "no spaces between words": "\u97f3\u697d\u3092\u8074\u304f",
    "the highest code point": "\U0010ffff",
}

_LONG = (("1 MB", "0123456789", 100_000), ("1 MB, white space inside", "abc\u00e9 \n\u3000z", 100_000))

_REFUSED = {
    "U+0000": "a\x00b",
    "U+0000 alone": "\x00",
    "a lone high surrogate": "a\ud800b",
    "a lone low surrogate": "a\udfffb",
    "surrogates in the wrong order": "\ude00\ud83d",
    "a high surrogate at the end": "a\ud83d",
    "U+0000 among white space": " \x00 ",
}


def hash_vectors() -> Schema:
    """Test vectors of `hash_chunk`, for implementations in other languages."""
    spaces = [_vector(f"white space U+{c:04X}", f"{chr(c)}a{chr(c)}{chr(c)}b{chr(c)}") for c in WHITE_SPACE]
    kept = [_vector(f"not white space: U+{c:04X} {what}", f"a{chr(c)}b ") for c, what in _KEPT.items()]
    only = _vector("only white space", "".join(map(chr, WHITE_SPACE)))
    return {
        "description": "hash = 'sha256:' + hex SHA-256 over UTF-8 of the text, with every run of the code points in "
        "`white_space` as one space and both ends stripped; nothing else is normalised. A `text` is given, or a rule: "
        "`repeat` as often as `times` says. What is `refused` is given as JSON source in `json`, because some parsers "
        "refuse it themselves (which is as good).",
        "hash_version": HASH_VERSION,
        "white_space": [f"U+{code:04X}" for code in WHITE_SPACE],
        "vectors": [*(_vector(name, text) for name, text in _TEXTS.items()), only, *spaces, *kept, *_long_vectors()],
        "refused": [{"name": name, "json": json.dumps(text)} for name, text in _REFUSED.items()],
    }


def _vector(name: str, text: str) -> Schema:
    return {"name": name, "text": text, "hash": hash_chunk(text)}


def _long_vectors() -> list[Schema]:
    return [
        {"name": name, "repeat": part, "times": times, "hash": hash_chunk(part * times)} for name, part, times in _LONG
    ]


# --- files --------------------------------------------------------------------------------------


def files() -> dict[str, bytes]:
    """Every file of the contract: its path below the folder, with slashes, and its bytes."""
    return {
        **{f"{name}.json": as_json(schema) for name, schema in schemas().items()},
        **{f"examples/{name}.json": as_json(value) for name, (_, value) in examples().items()},
        "asyncapi.json": as_json(asyncapi()),
        "hash-vectors.json": as_json(hash_vectors(), ascii_only=True),
    }


def as_json(value: Mapping[str, Any] | Sequence[Any], *, ascii_only: bool = False) -> bytes:
    """JSON with sorted keys, indented, with a newline at its end.

    Args:
        value: plain JSON data.
        ascii_only: escape all else, where an editor could change or hide it.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=ascii_only, allow_nan=False)
    return f"{text}\n".encode()


def write(folder: Path) -> list[Path]:
    """Write every file, and say which."""
    written = []
    for name, content in sorted(files().items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        written.append(path)
    return written


def differing(folder: Path) -> list[str]:
    """Names of the files that are missing or not as the types say."""
    return [
        name
        for name, content in sorted(files().items())
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    ]
