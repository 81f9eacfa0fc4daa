"""The page of settings: each with its type, bounds, default and description, from the settings' own types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices

from reference_pages.json_schemas import Schema, default_in_words, parts_of, type_in_words
from reference_pages.markdown import definitions, prose
from workbench.schemas.docstrings import describe_fields
from workbench.schemas.objects import Generator
from worker.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: its path in the file, or the variable that it is read from.
        kind: type and bounds in words.
        default: as it is written in the file; empty where there is none.
        description: what it does.
        needed: whether there must be a value.
    """

    name: str
    kind: str
    default: str
    description: str
    needed: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the settings file.

    Attributes:
        path: as it is written in the file; empty for what stands before the first table.
        description: what it is about.
        settings: those that are directly in it.
    """

    path: str
    description: str
    settings: tuple[Setting, ...]


def page(model: type[Any] = Settings) -> str:
    """All tables of the settings file, and what they hold."""
    return "\n\n".join(_shown(table) for table in tables(model))


def _shown(table: Table) -> str:
    heading = f"## `[{table.path}]`" if table.path else "## Connections, secrets and trust"
    entries = definitions(
        (setting.name, [_in_words(setting), prose(setting.description)]) for setting in table.settings
    )
    description = prose(table.description) if table.path else ""
    return "\n\n".join(part for part in (heading, description, entries) if part)


def _in_words(setting: Setting) -> str:
    """Type, bounds and default.

    >>> _in_words(Setting("pool.max_size", "integer, 1 to 50", "`10`", "Connections.", False))
    'integer, 1 to 50; default `10`'
    """
    default = f"default {setting.default}" if setting.default else "required" if setting.needed else "no default"
    return f"{setting.kind}; {default}"


def tables(model: type[Any] = Settings) -> Iterator[Table]:
    """Every table of the file, in the order of the types."""
    schema = model.model_json_schema(schema_generator=Generator)
    _describe_variables(schema["properties"], model)
    yield from _tables(schema, schema["$defs"], "", "")


def _describe_variables(properties: dict[str, Schema], model: type[Any]) -> None:
    """Settings that are read from variables of other names have their descriptions under the fields' names."""
    described: dict[str, Schema] = {name: {} for name in model.model_fields}
    describe_fields(described, model)
    for name, field in model.model_fields.items():
        if isinstance(field.validation_alias, AliasChoices):
            properties[str(field.validation_alias.choices[0])] |= described[name]


def _tables(schema: Schema, types: Mapping[str, Schema], path: str, description: str) -> Iterator[Table]:
    settings, inside = [], []
    for name, given in schema["properties"].items():
        full = f"{path}.{name}" if path else name
        parts = parts_of({key: value for key, value in given.items() if key != "default"})
        if parts:
            what = types[parts[0]]
            inside.append((what, f"{full}{_place(given)}", _both(given, what)))
        else:
            settings.append(_setting(full, given, needed=name in schema.get("required", ())))
    yield Table(path, description, tuple(settings))
    for what, full, said in inside:
        yield from _tables(what, types, full, said)


def _place(schema: Schema) -> str:
    """Return the suffix of the path of a table of many: by name, or one after another."""
    kinds = {schema.get("type"), *(part.get("type") for part in schema.get("anyOf", []))}
    return ".NAME" if "object" in kinds else "[]" if "array" in kinds else ""


def _both(field: Schema, kind: Schema) -> str:
    """Return the type's description and, if it is more than a heading, its field's."""
    said = [kind.get("description", ""), field.get("description", "")]
    return "\n\n".join(text for text in said if len(text.split()) > 3)  # noqa: PLR2004 -- fewer words are a heading


def _setting(name: str, schema: Schema, *, needed: bool) -> Setting:
    without_null = {**schema, "anyOf": [part for part in schema.get("anyOf", []) if part.get("type") != "null"]}
    kind = type_in_words(without_null if without_null["anyOf"] else schema)
    return Setting(name, kind, default_in_words(schema), schema.get("description", ""), needed)
