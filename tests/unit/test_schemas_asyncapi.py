"""The AsyncAPI document: whole, and of every task."""

from __future__ import annotations

from typing import Any

from retrieval_client.contract.registry import TASKS
from workbench import schemas
from workbench.schemas import asyncapi

ASYNCAPI = asyncapi.document()


def references(value: Any) -> list[str]:
    """Every ``$ref`` in a document."""
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for part in value.values() for found in references(part)]
    return [found for part in value for found in references(part)] if isinstance(value, list) else []


def resolve(pointer: str) -> Any:
    """Return the target of a pointer into the document, through references."""
    place: Any = ASYNCAPI
    for part in pointer.removeprefix("#/").split("/"):
        place = place[part]
    return resolve(place["$ref"]) if set(place) == {"$ref"} else place


def test_asyncapi_references_lead_somewhere():
    """Every reference is to a part of the document or to a file beside it."""
    written = schemas.files()
    found = references(ASYNCAPI)
    assert found
    for reference in found:
        if reference.startswith("#/"):
            assert resolve(reference)
        else:
            assert reference.removeprefix("./") in written


def test_asyncapi_has_every_task():
    """Each task is an operation: received on its queue, replied to under its id with an answer or an error."""
    assert ASYNCAPI["asyncapi"] == "3.0.0"
    for task in TASKS:
        operation = ASYNCAPI["operations"][task.name]
        assert operation["action"] == "receive"
        assert resolve(operation["channel"]["$ref"])["address"] == task.queue
        assert resolve(operation["reply"]["channel"]["$ref"])["address"] == "celery-task-meta-{task_id}"
        replies = [resolve(message["$ref"])["name"] for message in operation["reply"]["messages"]]
        assert replies == [f"{task.name}.success", "failure", "retry"]


def test_asyncapi_operations_use_their_channels_messages():
    """An operation's messages are named through its channel, as AsyncAPI 3 wants it."""
    for operation in ASYNCAPI["operations"].values():
        for side in (operation, operation["reply"]):
            assert all(message["$ref"].startswith(side["channel"]["$ref"] + "/") for message in side["messages"])
