"""Limits of every value of a job, in any field: bounds of untrusted JSON, by the default settings.

`worker.core.shape` checks them; `bounded` adds them to the schema of a job's type.
"""

from __future__ import annotations

from typing import Any

from workbench.schemas.rules import CLAIMS, SHIPPED, Schema
from worker.core.shape import MAX_ID

_LARGEST = 1.7976931348623157e308  # of a double
_NO_NUL = r"^[^\x00]*$"
_SAID_ALREADY = ("enum", "const", "$ref")
_ANNOTATIONS = {"description", "default", "title"}

TEXT: Schema = {"type": "string", "pattern": _NO_NUL, "maxLength": SHIPPED.max_string}
"""Schema of any string, also of field names that the sender chooses."""

JSON: Schema = {
    "description": "Any JSON; numbers are finite.",
    "anyOf": [
        {"type": ["null", "boolean", "integer", "string", "array", "object"]},
        {"minimum": -_LARGEST, "maximum": _LARGEST},
    ],
    **{key: value for key, value in TEXT.items() if key != "type"},
    "items": {"$ref": "#/$defs/Json"},
    "maxItems": SHIPPED.max_list,
    "additionalProperties": {"$ref": "#/$defs/Json"},
    "propertyNames": TEXT,
    "maxProperties": SHIPPED.max_keys,
}
"""Schema of a value whose type the sender chooses."""

_SHORT: Schema = {**TEXT, "maxLength": MAX_ID}

CLAIM: Schema = {
    "description": "A claim that the worker's default settings map; null counts as absent.",
    "anyOf": [
        {"type": ["null", "boolean", "integer"]},
        _SHORT,
        {"type": "array", "items": _SHORT, "maxItems": SHIPPED.max_keys},
    ],
}


def bounded_job(schema: Schema) -> Schema:
    """Add the bounds of all its values to a job's schema."""
    bounded_schema = bounded(schema)
    principal = {
        **bounded_schema["properties"]["principal"],
        "properties": {name: {"$ref": "#/$defs/Claim"} for name in CLAIMS},
    }
    definitions = {name: bounded(definition) for name, definition in schema.get("$defs", {}).items()}
    return {
        **bounded_schema,
        "properties": {**bounded_schema["properties"], "principal": principal},
        "$defs": {**definitions, "Claim": CLAIM, "Json": JSON},
    }


def bounded(schema: Schema) -> Schema:
    """Add the missing bounds to the schema of a value.

    >>> bounded({"description": "a name", "type": "string", "maxLength": 512})["maxLength"]
    512
    >>> bounded({"default": None})
    {'$ref': '#/$defs/Json', 'default': None}
    """
    if schema.keys() <= _ANNOTATIONS:
        return {"$ref": "#/$defs/Json", **schema}
    if any(key in schema for key in _SAID_ALREADY):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [bounded(alternative) for alternative in schema["anyOf"]]}
    kind: Any = schema.get("type")
    return {"string": _text, "array": _list, "object": _object}.get(kind, dict)(schema)


def _text(schema: Schema) -> Schema:
    if "pattern" in schema:
        # In Python's expressions `$` also matches before a newline at the end.
        return {**schema, "not": {"pattern": r"\n"}}
    return {**TEXT, **schema}


def _list(schema: Schema) -> Schema:
    return {"maxItems": SHIPPED.max_list, **schema, "items": bounded(schema.get("items", {}))}


def _object(schema: Schema) -> Schema:
    """Bound each of our fields by its schema; bound the sender's own fields and their names alike."""
    if "properties" in schema:
        return {**schema, "properties": {name: bounded(subschema) for name, subschema in schema["properties"].items()}}
    rest = {key: keyword_value for key, keyword_value in schema.items() if key != "patternProperties"}
    names, values = schema.get("propertyNames", {}), schema.get("additionalProperties", {})
    for pattern, subschema in schema.get("patternProperties", {}).items():  # pydantic's form of a dict: there is one
        names, values = {"pattern": pattern}, subschema
    return {
        "maxProperties": SHIPPED.max_keys,
        **rest,
        "propertyNames": bounded({"type": "string", **names}),
        "additionalProperties": bounded(values),
    }
