"""The JSON Schemas of all objects: jobs, results and envelopes, generated from their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from retrieval_client.contract.base import Part
from retrieval_client.contract.registry import TASKS, Task
from workbench.schemas.docstrings import class_summary, describe_fields
from workbench.schemas.envelopes import ENVELOPES, RULES_OF_MESSAGES
from workbench.schemas.rules import RULES, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import core_schema

_EXACT = 2.0**53
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, Schema]:
    """Return every JSON Schema by its file name's stem."""
    schemas_by_name: dict[str, Schema] = {}
    for task in TASKS:
        schemas_by_name[f"{task.name}.job"] = _job(task)
        schemas_by_name[f"{task.name}.result"] = _schema(task.answer, "serialization", f"Result of {task.name}")
    for name, kind in ENVELOPES.items():
        schemas_by_name[name] = _schema(kind, "serialization", kind.__name__)
    schemas_by_name["message"] = _with_rules(schemas_by_name["message"], _REFUSED, RULES_OF_MESSAGES.values())
    return schemas_by_name


def _job(task: Task) -> Schema:
    """Return a job's schema: the types of its fields, and its rules in words."""
    sentences = (sentence for kind in task.job.__mro__ for sentence in RULES.get(kind, {}).values())
    return _with_rules(_schema(task.job, "validation", f"Job of {task.name}"), _AS_SHIPPED, sentences)


def _with_rules(schema: Schema, heading: str, sentences: Iterable[str]) -> Schema:
    lines = [schema["description"], "", heading, *(f"- {sentence}" for sentence in sentences)]
    return {**schema, "description": "\n".join(lines)}


_REFUSED = "Also refused, though valid by the schema:"
_AS_SHIPPED = (
    "Limits and claims are those of the worker's default settings. Values that depend on its settings and data are not "
    "listed: names of corpora, modes and profiles, columns that filters need, ids of runs and packages. " + _REFUSED
)


def _schema(kind: Any, mode: Literal["validation", "serialization"], title: str) -> Schema:
    schema = TypeAdapter(kind).json_schema(schema_generator=Generator, mode=mode)
    return {**_plain(schema), "$schema": DIALECT, "title": title}


class Generator(GenerateJsonSchema):
    """Pydantic's generator, with the contract's nullability and docstrings."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: a title would only repeat the field's name."""
        del schema
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> Schema:
        """Return one type as an object schema."""
        kind = schema["cls"]
        object_schema = super().model_schema(schema)
        object_schema["description"] = class_summary(kind)
        properties = object_schema.get("properties", {})
        describe_fields(properties, kind)
        if issubclass(kind, Part):
            object_schema["properties"] = {
                name: value if name in kind.nullable else without_null(value) for name, value in properties.items()
            }
        return object_schema

    def dict_schema(self, schema: core_schema.DictSchema) -> Schema:
        """Return a map's schema: every name has the pattern, where pydantic leaves names without it open."""
        map_schema = super().dict_schema(schema)
        for pattern, values in map_schema.pop("patternProperties", {}).items():
            map_schema |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
        return map_schema


def without_null(schema: Schema) -> Schema:
    """Return a property's schema without ``null`` as an alternative or as the default.

    >>> without_null({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None})
    {'type': 'string'}
    """
    rest = {key: value for key, value in schema.items() if key != "anyOf" and (key, value) != ("default", None)}
    if "anyOf" not in schema:
        return rest
    alternatives = [alternative for alternative in schema["anyOf"] if alternative != {"type": "null"}]
    return {**alternatives[0], **rest} if len(alternatives) == 1 else {"anyOf": alternatives, **rest}


def _plain(value: Any) -> Any:
    """Normalise what releases of pydantic write differently, so that `--check` passes with each.

    >>> _plain({"additionalProperties": True, "maximum": 2.0})
    {'maximum': 2}
    """
    if isinstance(value, dict):
        entries = {key: item for key, item in value.items() if (key, item) != ("additionalProperties", True)}
        return {key: _plain(item) for key, item in entries.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else value
