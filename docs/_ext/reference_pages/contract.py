"""The pages of the wire contract: one a task, and one of what stands around a job and its answer in Redis."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from reference_pages.json_schemas import Schema, default_in_words, type_in_words
from reference_pages.markdown import definitions, json_block, prose
from retrieval_client.contract.registry import TASKS
from workbench.schemas.envelopes import ENVELOPES
from workbench.schemas.examples import examples
from workbench.schemas.objects import schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TASK_NAMES = tuple(task.name for task in TASKS)
_schemas = functools.cache(schemas)


def maker(name: str) -> Callable[[], str]:
    """Parts of the page of a task."""
    return lambda: task_page(name)


def task_page(name: str) -> str:
    """A task: its queue, the fields of its job and its result, an example of each."""
    task = next(task for task in TASKS if task.name == name)
    made = _schemas()
    job, result = (_object(what, f"{name}.{what}", made[f"{name}.{what}"], "../..") for what in ("job", "result"))
    return "\n\n".join([f"Queue: `{task.queue}`.", *job, *result])


def envelopes() -> str:
    """Celery's message and its records, with the fields that a backend writes and reads."""
    made = _schemas()
    return "\n\n".join(part for name in ENVELOPES for part in _object(name, name, made[name], ".."))


def _object(what: str, name: str, schema: Schema, up: str) -> Iterator[str]:
    """A heading, an example, the fields of the object and of those inside it.

    Args:
        what: the object in one word.
        name: stem of its file's name.
        schema: its JSON Schema.
        up: from the page to the root of the documentation.
    """
    kinds = {kind: part for kind, part in schema.get("$defs", {}).items() if "properties" in part}
    yield f"## {what.capitalize()}"
    yield _described(schema, up)
    yield f"JSON Schema: [{name}.json]({up}/contract/{name}.json). Example:"
    yield json_block(next(value for of, value in examples().values() if of == name))
    if "properties" in schema:
        yield f"### Fields of the {what}"
        yield _fields(schema, what, kinds, up)
    for kind, part in kinds.items():
        yield f"### {kind} ({what})"
        yield _described(part, up)
        yield _fields(part, what, kinds, up)


def _fields(schema: Schema, what: str, kinds: Mapping[str, Schema], up: str) -> str:
    needed = schema.get("required", ())

    def link(kind: re.Match[str]) -> str:
        return f"[{kind[0]}](#{kind[0].lower()}-{what})" if kind[0] in kinds else kind[0]

    def entry(name: str, field: Schema) -> tuple[str, list[str]]:
        default = default_in_words(field)
        kind = re.sub(r"\b[A-Z]\w+\b", link, type_in_words(field))
        said = [kind, "required" if name in needed else "", f"default {default}" if default else ""]
        return name, ["; ".join(part for part in said if part), *filter(None, [_described(field, up)])]

    return definitions(entry(name, field) for name, field in schema["properties"].items())


def _described(schema: Schema, up: str) -> str:
    """Return a schema's description; the pages that it names become links."""
    return prose(schema.get("description", ""), up)
