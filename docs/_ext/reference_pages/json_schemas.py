"""JSON Schemas in words: the type of a value, its bounds, its default."""

from __future__ import annotations

import json
from typing import Any

Schema = dict[str, Any]


def type_in_words(schema: Schema) -> str:
    """Type and bounds of a value.

    >>> type_in_words({"type": "integer", "minimum": 1, "maximum": 50})
    'integer, 1 to 50'
    >>> type_in_words({"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/RunRef"}}, {"type": "null"}]})
    'list of RunRef, or null'
    """
    alternatives: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    if alternatives:
        return ", or ".join(dict.fromkeys(type_in_words(part) for part in alternatives))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return f"`{_as_written(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{_as_written(value)}`" for value in schema["enum"])
    words = ", ".join(part for part in (_kind(schema), _bounds(schema)) if part)
    return words or "any JSON"


def _kind(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return ", ".join(kind)
    if kind == "array":
        return f"list of {type_in_words(schema.get('items', {}))}"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"map of {type_in_words(values)}" if isinstance(values, dict) else "object"
    if kind == "string" and schema.get("format") == "password":
        return "secret string"
    return str(kind or "")


def _bounds(schema: Schema) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    said = []
    if least is not None and most is not None:
        said.append(f"{_number(least)} to {_number(most)}")
    elif least is not None:
        said.append(f"at least {_number(least)}")
    elif most is not None:
        said.append(f"{f'above {_number(above)}, ' if above is not None else ''}at most {_number(most)}")
    elif above is not None:
        said.append(f"above {_number(above)}")
    if below is not None:
        said.append(f"below {_number(below)}")
    for unit, few, many in (("characters", "minLength", "maxLength"), ("items", "minItems", "maxItems")):
        said += _counted(unit, schema.get(few), schema.get(many))
    said += _counted("entries", schema.get("minProperties"), schema.get("maxProperties"))
    return ", ".join(said)


def _counted(unit: str, few: int | None, many: int | None) -> list[str]:
    if few is not None and few == many:
        return [f"{few:,} {unit}"]
    if many is not None:
        return [f"{f'{few:,} to' if few else 'at most'} {many:,} {unit}"]
    return [f"at least {few:,} {unit}"] if few else []


def _number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else str(value)


def default_in_words(schema: Schema) -> str:
    """The default as a literal; empty where there is none, or none that says anything.

    >>> default_in_words({"default": 30}), default_in_words({"default": None}), default_in_words({})
    ('`30`', '', '')
    """
    default = schema.get("default")
    return "" if default is None or default == "" else f"`{_as_written(default)}`"


def _as_written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parts_of(schema: Schema) -> list[str]:
    """Names of the types that a schema refers to, in their order, each once."""
    found: list[str] = []
    if isinstance(schema.get("$ref"), str):
        found.append(schema["$ref"].rpartition("/")[2])
    for value in schema.values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                found += parts_of(inner)
    return list(dict.fromkeys(found))
