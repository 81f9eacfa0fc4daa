"""The page of log events: found in the worker's source with their fields, each with one sentence of its own."""

from __future__ import annotations

import ast
import functools
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import worker
from reference_pages.markdown import definitions, prose

if TYPE_CHECKING:
    from collections.abc import Iterator

SENTENCES = Path(__file__).with_suffix(".toml")
"""Event = one sentence: what happened, and what the worker does about it."""

_LEVELS = {"debug", "info", "warning", "error", "critical"}
_LOGGERS = {"log", "logger"}
_JOB_FIELDS = ("task", "task_id", "duration_ms", "run_id")


@dataclass(slots=True)
class Event:
    """An event of the log.

    Attributes:
        name: the value of ``event``.
        levels: as it may be logged.
        fields: further fields of the line, in the order of the source.
    """

    name: str
    levels: dict[str, None] = field(default_factory=dict)
    fields: dict[str, None] = field(default_factory=dict)


def page() -> str:
    """All events, by name."""
    said = sentences()
    return definitions(
        (
            event.name,
            [
                prose(said[event.name]),
                f"Level {' or '.join(sorted(event.levels))}"
                + (f"; fields {', '.join(f'`{name}`' for name in event.fields)}." if event.fields else "."),
            ],
        )
        for event in sorted(events(), key=lambda event: event.name)
    )


def sentences() -> dict[str, str]:
    """The sentence of each event."""
    return tomllib.loads(SENTENCES.read_text(encoding="utf-8"))


@functools.cache
def events(root: Path = Path(worker.__file__).parent) -> list[Event]:
    """Every event of the worker's source."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))]
    made = {name: fields for tree in trees for name, fields in _made_fields(tree)}
    found: dict[str, Event] = {}
    for tree in trees:
        for name, level, fields in _logged(tree, made):
            event = found.setdefault(name, Event(name))
            event.levels |= dict.fromkeys(level)
            event.fields |= dict.fromkeys(fields)
    return [*found.values()]


def _made_fields(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Functions that return a dictionary of fields, for ``extra=``, with the names of the fields."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Dict):
                    yield function.name, _keys(node.value)


def _keys(node: ast.Dict) -> list[str]:
    return [str(key.value) for key in node.keys if isinstance(key, ast.Constant)]


def _logged(tree: ast.Module, made: dict[str, list[str]]) -> Iterator[tuple[str, list[str], list[str]]]:
    """Events with their levels and fields, of one module.

    Besides calls of a logger there are two helpers: ``_log(event, …, level=…)`` writes a job's one line,
    ``_warn(event=count)`` the edge cases of a replay.
    """
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        keywords = {one.arg: one.value for one in call.keywords if one.arg is not None}
        first = call.args[0] if call.args else None
        name = str(first.value) if isinstance(first, ast.Constant) else ""
        if _is_of_logger(call.func) and name:
            assert isinstance(call.func, ast.Attribute)  # noqa: S101 -- for the type checker
            yield name, [call.func.attr], _fields(keywords, made)
        elif isinstance(call.func, ast.Name) and call.func.id == "_log" and name:
            level = keywords.pop("level", None)
            levels = (
                [str(level.value)] if isinstance(level, ast.Constant) else ["info", *(["warning"] if level else [])]
            )
            yield name, levels, [*_JOB_FIELDS, *keywords]
        elif isinstance(call.func, ast.Name) and call.func.id == "_warn":
            for event in keywords:
                yield event, ["warning"], ["count"]


def _is_of_logger(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _LEVELS
        and isinstance(function.value, ast.Name)
        and function.value.id in _LOGGERS
    )


def _fields(keywords: dict[str, ast.expr], made: dict[str, list[str]]) -> list[str]:
    extra = keywords.pop("extra", None)
    fields = [*keywords]
    if isinstance(extra, ast.Dict):
        fields += _keys(extra)
    elif isinstance(extra, ast.Call) and isinstance(extra.func, ast.Name):
        fields += made[extra.func.id]
    return fields
