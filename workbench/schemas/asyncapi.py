"""The AsyncAPI document: servers, channels, messages, and the operation of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieval_client.contract.base import SCHEMA_VERSION
from retrieval_client.contract.registry import TASKS, Task
from workbench.schemas.docstrings import class_summary
from workbench.schemas.envelopes import ENVELOPES, Success, body_schema

if TYPE_CHECKING:
    from workbench.schemas.rules import Schema

SCHEMA_FORMAT = "application/schema+json;version=draft-2020-12"


def document() -> Schema:
    """Return the AsyncAPI 3.0 document from the worker's side: it receives jobs and replies with records."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "retrieval-worker",
            "version": str(SCHEMA_VERSION),
            "description": "Celery task protocol 2 as JSON over Redis. A backend in any language pushes a message to a "
            "queue and reads the record under its task id. JSON Schemas are beside this file, an example of every "
            "object in `examples/`. The description of a job's schema has its rules beyond the types of its fields.",
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


def _ref(*segments: str) -> Schema:
    return {"$ref": "#/" + "/".join(segments)}


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
            "task_id": {"description": "The job's id, chosen by its sender.", "location": "$message.payload#/task_id"}
        },
        "messages": {name: _ref("components", "messages", name) for name in names},
    }


def _operation(task: Task) -> Schema:
    replies = [f"{task.name}.success", "failure", "retry"]
    return {
        "action": "receive",
        "summary": class_summary(task.job),
        "channel": _ref("channels", task.queue),
        "messages": [_ref("channels", task.queue, "messages", f"{task.name}.job")],
        "reply": {
            "channel": _ref("channels", "answer"),
            "messages": [_ref("channels", "answer", "messages", name) for name in replies],
        },
    }


def _messages() -> Schema:
    messages = {
        name: _answer_message(name, class_summary(kind), {"$ref": f"./{name}.json"}) for name, kind in ENVELOPES.items()
    }
    del messages["message"]  # each task has its own
    for task in TASKS:
        messages[f"{task.name}.job"] = _job_message(task)
        answer = {"allOf": [{"$ref": "./success.json"}], "properties": {"result": _file(task, "result")}}
        messages[f"{task.name}.success"] = _answer_message(f"{task.name}.success", class_summary(Success), answer)
    del messages["success"]
    return messages


def _file(task: Task, kind: str) -> Schema:
    return {"$ref": f"./{task.name}.{kind}.json"}


def _job_message(task: Task) -> Schema:
    narrowed = {
        "headers": {"properties": {"task": {"const": task.name}}},
        "properties": {"properties": {"delivery_info": {"properties": {"routing_key": {"const": task.queue}}}}},
        "body": {"contentMediaType": "application/json", "contentSchema": body_schema(_file(task, "job"))},
    }
    return {
        "name": f"{task.name}.job",
        "summary": class_summary(task.job),
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
