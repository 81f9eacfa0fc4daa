"""What every value of a job is held to, whatever its field: bounds of untrusted JSON, as the worker is shipped.

`worker.core.shape` is what checks it; `bounded` writes it into the schema that a job's type has.
"""

from __future__ import annotations

from typing import Any

from worker.cli.schemas.rules import CLAIMS, SHIPPED, Schema

_LARGEST = 1.7976931348623157e308  # of a double
_NO_NUL = r"^[^\x00]*$"
_SAID_ALREADY = ("enum", "const", "$ref")
_ANNOTATIONS = {"description", "default", "title"}

TEXT: Schema = {"type": "string", "pattern": _NO_NUL, "maxLength": SHIPPED.max_string}
"""Any string: also the names of fields that the sender chooses."""

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
"""What is said of a value whose type is the sender's own matter."""

_SHORT: Schema = {**TEXT, "maxLength": SHIPPED.max_id}

CLAIM: Schema = {
    "description": "A claim that the worker's settings map, as shipped; null is as if it were not there.",
    "anyOf": [
        {"type": ["null", "boolean", "integer"]},
        _SHORT,
        {"type": "array", "items": _SHORT, "maxItems": SHIPPED.max_keys},
    ],
}


def bounded_job(schema: Schema) -> Schema:
    """A job's schema with the bounds of everything in it."""
    made = bounded(schema)
    principal = {**made["properties"]["principal"], "properties": {name: {"$ref": "#/$defs/Claim"} for name in CLAIMS}}
    parts = {name: bounded(part) for name, part in schema.get("$defs", {}).items()}
    return {
        **made,
        "properties": {**made["properties"], "principal": principal},
        "$defs": {**parts, "Claim": CLAIM, "Json": JSON},
    }


def bounded(schema: Schema) -> Schema:
    """A schema of some value with the bounds that are not said yet.

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
        return {**schema, "anyOf": [bounded(part) for part in schema["anyOf"]]}
    kind: Any = schema.get("type")
    return {"string": _text, "array": _list, "object": _object}.get(kind, dict)(schema)


def _text(schema: Schema) -> Schema:
    if "pattern" in schema:
        # In Python's expressions `$` also stands before a line's end.
        return {**schema, "not": {"pattern": r"\n"}}
    return {**TEXT, **schema}


def _list(schema: Schema) -> Schema:
    return {"maxItems": SHIPPED.max_list, **schema, "items": bounded(schema.get("items", {}))}


def _object(schema: Schema) -> Schema:
    """Fields of ours each by its own; of the sender's own all alike, and their names."""
    if "properties" in schema:
        return {**schema, "properties": {name: bounded(part) for name, part in schema["properties"].items()}}
    rest = {key: part for key, part in schema.items() if key != "patternProperties"}
    names, values = schema.get("propertyNames", {}), schema.get("additionalProperties", {})
    for pattern, part in schema.get("patternProperties", {}).items():  # how pydantic says it of a dict: there is one
        names, values = {"pattern": pattern}, part
    return {
        "maxProperties": SHIPPED.max_keys,
        **rest,
        "propertyNames": bounded({"type": "string", **names}),
        "additionalProperties": bounded(values),
    }
