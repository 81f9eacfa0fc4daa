"""TypeScript types of all objects, from their JSON Schemas: ``types.ts``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from retrieval_client.contract.registry import TASKS, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from workbench.schemas.rules import Schema

_HEAD = """\
// Types of jobs, answers, messages and records, written by `retrieval-worker contract` from the JSON Schemas beside
// this file. Those say more: limits of values.
"""
_ENVELOPES = {"message": "TaskMessage", "success": "SuccessRecord", "failure": "FailureRecord", "retry": "RetryRecord"}
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_JSON = """\
/** Any JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
"""
_ANY = "<any>"
"""A value of any type: `Json` in what a backend sends, `unknown` in what it reads."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LONGEST = 120


def document(schemas: Mapping[str, Schema]) -> str:
    """Return the file's text.

    Args:
        schemas: every schema, by its file's stem.

    Raises:
        ValueError: two schemas have different types of one name, or one has a form that is not known.
    """
    declarations = {"Json": _JSON}
    for name, text in (pair for stem, schema in schemas.items() for pair in _types_of(stem, schema)):
        if declarations.setdefault(name, text) != text:
            raise ValueError(f"{name}: two types of this name")
    return "\n".join([_HEAD, *(declarations[name] for name in sorted(declarations)), _tasks()])


def _types_of(stem: str, schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield the types of one schema, by name: its parts and, unless it only chooses among them, itself."""
    any_type = "Json" if stem.endswith(".job") else "unknown"
    for name, definition in schema.get("$defs", {}).items():
        yield name, _declared(name, definition).replace(_ANY, any_type)
    if "properties" in schema:
        task = next((task for task in TASKS if stem in {f"{task.name}.job", f"{task.name}.result"}), None)
        kind: Any = None if task is None else task.job if stem.endswith(".job") else task.answer
        name = _ENVELOPES[stem] if kind is None else kind.__name__
        yield name, _declared(name, schema).replace(_ANY, any_type)


def _tasks() -> str:
    """Return the type that ties jobs to their tasks, queues and answers."""
    described = _described("Each task: the queue to push its job to, and what answers it.", "")
    return f"{described}export interface Tasks {{\n" + "".join(map(_line_of, TASKS)) + "}\n"


def _line_of(task: Task) -> str:
    answers = " | ".join(kind.__name__ for kind in getattr(task.answer, "__args__", (task.answer,)))
    return f'  {task.name}: {{ queue: "{task.queue}"; job: {task.job.__name__}; answer: {answers} }};\n'


def _declared(name: str, schema: Schema) -> str:
    """Return the declaration of a type.

    >>> print(_declared("Page", {"type": "object", "properties": {"n": {"type": "integer"}}}), end="")
    export interface Page {
      n?: number;
    }
    """
    described = _described(schema.get("description", ""), "")
    if "properties" in schema:
        return f"{described}export interface {name} {{\n{_fields(schema, '  ')}}}\n"
    return f"{described}export type {name} = {type_of(schema)};\n"


def _fields(schema: Schema, indent: str) -> str:
    required = {*schema.get("required", ())}
    lines = []
    for name, property_schema in schema["properties"].items():
        key = name if _NAME.fullmatch(name) else json.dumps(name)
        mark = "" if name in required else "?"
        lines += [
            _described(property_schema.get("description", ""), indent),
            f"{indent}{key}{mark}: {type_of(property_schema, indent)};\n",
        ]
    return "".join(lines)


def type_of(schema: Schema, indent: str = "") -> str:
    """Return the type of a value.

    >>> type_of({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"const": "all"}]})
    'number[] | "all"'
    >>> type_of({"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"$ref": "#/$defs/Rank"}})
    '{ [key in "a" | "b"]?: Rank }'

    Raises:
        ValueError: the schema has a form that is not known.
    """
    for key, formatter in _FORMS.items():
        if key in schema:
            return formatter(schema, indent)
    if not schema.keys() - {"description", "default", "title"}:
        return _ANY
    raise ValueError(f"a schema of an unknown form: {schema}")


def _literals(schema: Schema, indent: str) -> str:
    del indent
    return _union(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))


def _choice(schema: Schema, indent: str) -> str:
    return _union(type_of(alternative, indent) for alternative in schema["anyOf" if "anyOf" in schema else "oneOf"])


def _tuple(schema: Schema, indent: str) -> str:
    return f"[{', '.join(type_of(element_schema, indent) for element_schema in schema['prefixItems'])}]"


def _typed(schema: Schema, indent: str) -> str:
    kind = schema["type"]
    return _PLAIN[kind] if kind in _PLAIN else _GROWN[kind](schema, indent)


def _list(schema: Schema, indent: str) -> str:
    item = type_of(schema.get("items", {}), indent)
    return f"({item})[]" if " | " in item else f"{item}[]"


def _object(schema: Schema, indent: str) -> str:
    if "properties" in schema:
        return f"{{\n{_fields(schema, indent + '  ')}{indent}}}"
    values = schema.get("additionalProperties", {})
    value = type_of(values if isinstance(values, dict) else {}, indent)
    names = schema.get("propertyNames", {})
    return f"{{ [key in {type_of(names)}]?: {value} }}" if "enum" in names else f"{{ [key: string]: {value} }}"


_FORMS: dict[str, Callable[[Schema, str], str]] = {
    "$ref": lambda schema, _: str(schema["$ref"]).removeprefix("#/$defs/"),
    "const": _literals,
    "enum": _literals,
    "anyOf": _choice,
    "oneOf": _choice,
    "prefixItems": _tuple,
    "type": _typed,
    "additionalProperties": _object,
}
"""How a schema with one of these keys is written; the first that it has decides."""
_GROWN = {"array": _list, "object": _object}


def _union(types: Iterator[str]) -> str:
    return " | ".join(dict.fromkeys(types))


def _described(description: str, indent: str) -> str:
    """Return a comment, or nothing.

    >>> print(_described("One line.", "  "), end="")
      /** One line. */
    """
    if not description:
        return ""
    text = description.replace("*/", "* /")
    if "\n" not in text and len(text) + len(indent) + len("/**  */") <= _LONGEST:
        return f"{indent}/** {text} */\n"
    lines = [line for paragraph in text.split("\n") for line in _wrapped(paragraph, _LONGEST - len(indent) - 3)]
    return "".join([f"{indent}/**\n", *(f"{indent} * {line}".rstrip() + "\n" for line in lines), f"{indent} */\n"])


def _wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines; unlike those of `textwrap`, words are parted at spaces only.

    >>> _wrapped("one two three", 8)
    ['one two', 'three']
    """
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines
