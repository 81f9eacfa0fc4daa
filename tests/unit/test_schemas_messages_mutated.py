"""The message's schema says which headers and bodies the worker takes: every field with every kind of value."""

from __future__ import annotations

import copy
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from retrieval_client.contract.registry import TASKS
from workbench.schemas import examples, objects
from workbench.schemas.envelopes import UNSAID_OF_MESSAGES, Headers, body_schema
from worker.queue.broker.inspection import Refusal, Rules, inspect

from .mutated_jobs import JUNK, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE = examples.examples()["message"][1]
SCHEMA = jsonschema.Draft202012Validator(objects.schemas()["message"])
BODY = jsonschema.Draft202012Validator(body_schema({"type": "object"}))
RULES = Rules(tasks=tuple(task.name for task in TASKS))
NOW = datetime(2026, 1, 1, tzinfo=UTC)

OF_HEADERS = [
    *("2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00:00+00:00", "2026-01-31T12:00:00.250Z", "0001-01-01"),
    *([None], [None, None], [None] * 3, [0, 0], [5, None], [False, False], {"": None}),
    *(
        "retrieve_top_k",
        "run_pipeline",
        "verify_runs",
        "celery.ping",
        "application/x-gzip",
        "x" * 511,
        "é" * 512,
        "a\x7f",
    ),
]
VALUES = [*(value for value in JUNK if value == value), *OF_HEADERS]  # noqa: PLR0124 -- NaN is no JSON
NAMES = sorted({*Headers.model_fields, "root_id", "shadow", "argsrepr", "clock", "surprise", "stamped_headers"})

SENTENCES = {
    "time": r"^headers\.(eta|expires): expected a time as ISO 8601",
    "printable": r"^headers\.\w+: expected (1 to|at most) 512 printable characters",
    "size": r"expected a message of at most|expected at most \d+ values",
}
"""Errors of the worker that `UNSAID_OF_MESSAGES` names."""

STRICTER = {
    "content-encoding": [None, "UTF-8", "utf8", "binary"],
    "properties.delivery_tag": [None, 5, ""],
    "properties.delivery_info": [None, {}],
    "properties.body_encoding": ["utf-8"],
    "properties.correlation_id": [5],
}
"""What the schema asks of a sender because kombu's own workers need it, or to have one spelling; this one does not."""


def with_header(name: str, value: Any) -> dict[str, Any]:
    return {**MESSAGE, "headers": {**MESSAGE["headers"], name: value}}


def refusal(text: str) -> str | None:
    """Return the worker's error for a message; an expired one is valid."""
    found = inspect(text.encode(), RULES, NOW)
    return found.error.message if isinstance(found, Refusal) and found.reason != "expired" else None


def differently(messages: Iterator[dict[str, Any]]) -> str:
    """Return the cases that schema and worker judge differently without a documented reason."""
    found = []
    for message in messages:
        text = as_text(message)
        valid, said = SCHEMA.is_valid(json.loads(text)), refusal(text)
        in_words = valid and said is not None and any(re.search(words, said) for words in SENTENCES.values())
        if valid != (said is None) and not in_words:
            found.append(f"{text[-400:]}: {valid}, {said}")
    return "\n".join(found)


@pytest.mark.parametrize("name", NAMES)
def test_headers_are_judged_alike(name):
    """The schema takes any header's value exactly where the worker does."""
    assert not differently(with_header(name, value) for value in VALUES)


@pytest.mark.parametrize("place", ["", "headers", "properties"])
def test_missing_and_wrong_parts_are_judged_alike(place):
    """A message without one of its parts, or with rubbish in its place, is judged alike, but for the stricter ones."""
    whole = MESSAGE[place] if place else MESSAGE
    for name in whole:
        path = f"{place}.{name}".removeprefix(".")
        for value in [..., *([] if place == "headers" or path in {*STRICTER, "headers", "body"} else VALUES)]:
            message = copy.deepcopy(MESSAGE)
            part = message[place] if place else message
            if value is ...:
                del part[name]
            else:
                part[name] = value
            if path not in STRICTER and path != "properties":
                assert not differently(iter([message]))


@pytest.mark.parametrize("value", VALUES)
def test_priorities_are_judged_alike(value):
    """No queue has a priority but 0, which is a number like any other."""
    assert not differently(iter([{**MESSAGE, "properties": {**MESSAGE["properties"], "priority": value}}]))


@pytest.mark.parametrize(("path", "value"), [(path, value) for path, values in STRICTER.items() for value in values])
def test_what_the_schema_asks_beyond_the_worker(path, value):
    """Where the schema is the stricter of the two, it is by name."""
    message = copy.deepcopy(MESSAGE)
    *parents, name = path.split(".")
    part = message[parents[0]] if parents else message
    part[name] = value
    assert not SCHEMA.is_valid(message)
    assert refusal(as_text(message)) is None


def bodies() -> Iterator[Any]:
    """Decoded bodies, each part of them as it should be or anything else."""
    for value in VALUES:
        yield from (value, [value], [[value], {}, {}], [value, {}, {}], [[{}], value, {}], [[{}], {}, value])
        yield from ([[{}], {}, {name: value}] for name in ("callbacks", "errbacks", "chain", "chord", "surprise"))
    yield from ([], [[{}]], [[{}], {}], [[{}], {}, {}, {}], [[], {}, {}], [[{}, {}], {}, {}], [[{}], {}, None])


def test_bodies_are_judged_alike():
    """Arguments, keywords and further tasks: the schema takes the bodies that the worker takes."""
    found = []
    for body in bodies():
        text = as_text(body)
        said = refusal(json.dumps({**MESSAGE, "body": text})) or of_arguments(json.loads(text))
        if BODY.is_valid(json.loads(text)) != (said is None):
            found.append(f"{text[:200]}: {said}")
    assert not found


def of_arguments(body: Any) -> str | None:
    """Return the task's error for delivered arguments."""
    arguments, keywords, _ = body
    whole = len(arguments) == 1 and isinstance(arguments[0], dict) and not keywords
    return None if whole else "expected the job object as the only positional argument, and no keyword arguments"


def test_what_is_said_in_words_stands_in_the_schema():
    """Each rule that the schema can't say is a sentence of its description."""
    assert UNSAID_OF_MESSAGES.keys() == SENTENCES.keys()
    description = objects.schemas()["message"]["description"]
    assert all(sentence in description for sentence in UNSAID_OF_MESSAGES.values())
